#include "backend/cuda/nccl_session.h"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "backend/cuda/kernel.h"
#include "backend/cuda/nccl.h"
#include "backend/cuda/tuning.h"

namespace trireme::cuda {
namespace {

constexpr std::chrono::microseconds kPollInterval{20};

ncclComm_t connect_along(Group& group) {
  ncclUniqueId id{};
  if (group.rank() == 0) {
    check_nccl(nccl().unique_id(&id), "making an id");
  }
  const std::vector<std::byte> ids = gathered(group, std::as_bytes(std::span(&id, 1)));
  std::memcpy(&id, ids.data(), sizeof id);  // that of the group's first rank
  ncclComm_t ranks = nullptr;
  check_nccl(nccl().init_rank(&ranks, group.size(), id, group.rank()),
             fmt::format("connecting {} ranks", group.size()));
  return ranks;
}

}  // namespace

NcclSession::NcclSession(Device& device, Communicator& communicator)
    : all_(communicator.all().split(0, communicator.rank())), done_(device.make_event()) {
  tokens_.resize(all_.size());
  for (const std::string& name : communicator.axes()) {
    if (Group& group = communicator.along(name); group.size() > 1) {
      axes_[name] = {.ranks = connect_along(group), .stream = device.make_stream()};
    }
  }
}

NcclSession::~NcclSession() {
  NcclSession::abort();
}

/// Aborts all together: the library frees memory, which also waits for the kernels of the other communicators.
void NcclSession::abort() noexcept {
  std::vector<std::thread> aborting;
  for (auto& [name, axis] : axes_) {
    if (ncclComm_t ranks = std::exchange(axis.ranks, nullptr); ranks != nullptr) {
      aborting.emplace_back([ranks] { (void)nccl().abort(ranks); });
    }
  }
  for (std::thread& thread : aborting) {
    thread.join();
  }
}

/// A dead rank cannot send the token for the end of its step, so `comm` reports it.
void NcclSession::wait(Stream& compute) {
  compute.record(*done_);
  receive_tokens();
  wait_for_device();
  send_tokens();
  for (Pending& token : received_) {
    token.wait();
  }
  received_.clear();
}

void NcclSession::receive_tokens() {
  for (Rank rank = 0; rank < all_.size(); ++rank) {
    if (rank != all_.rank()) {
      received_.push_back(
          all_.start_receive(std::span(tokens_).subspan(rank, 1), DType::U8, rank, 0));
    }
  }
}

void NcclSession::send_tokens() {
  constexpr std::byte kToken{};
  std::vector<Pending> sent;
  for (Rank rank = 0; rank < all_.size(); ++rank) {
    if (rank != all_.rank()) {
      sent.push_back(all_.start_send(std::span(&kToken, 1), DType::U8, rank, 0));
    }
  }
  for (Pending& token : sent) {
    token.wait();
  }
}

void NcclSession::wait_for_device() {
  while (!done_->done()) {
    std::erase_if(received_, [](Pending& token) {
      const bool done = token.done();
      if (done) {
        token.wait();  // throws if the rank has failed
      }
      return done;
    });
    require_no_errors();
    std::this_thread::sleep_for(kPollInterval);
  }
}

void NcclSession::require_no_errors() {
  for (const auto& [name, axis] : axes_) {
    ncclResult_t status = ncclSuccess;
    check_nccl(nccl().async_error(axis.ranks, &status), "reading errors");
    check_nccl(status, "exchanging along " + name);
  }
}

std::shared_ptr<CudaSession> connect_nccl(Device& device, Communicator& communicator,
                                          const RanksFacts& facts) {
  if (!facts.own_gpus) {
    // NCCL refuses ranks of one host that share a GPU. As hosts of their own they exchange by its network.
    (void)setenv("NCCL_HOSTID",  // NOLINT(concurrency-mt-unsafe): before NCCL starts threads
                 fmt::format("trireme-{}", communicator.rank()).c_str(), 1);
  }
  if (!times_algorithms()) {  // a fixed summation order, independent of NCCL's choice in this run
    (void)setenv("NCCL_ALGO", "Ring", 0);     // NOLINT(concurrency-mt-unsafe): see above
    (void)setenv("NCCL_PROTO", "Simple", 0);  // NOLINT(concurrency-mt-unsafe): see above
  }
  return std::make_shared<NcclSession>(device, communicator);
}

}  // namespace trireme::cuda
