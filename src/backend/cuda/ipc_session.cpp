#include "backend/cuda/ipc_session.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

#include <fmt/format.h>

#include "trireme/error.h"

namespace trireme::cuda {
namespace {

using Problem = std::array<char, 160>;

std::string problem_of(Rank rank, const std::function<void()>& action) {
  try {
    action();
    return "";
  } catch (const Error& error) {
    return fmt::format("rank {}: {}", rank, error.what());
  }
}

/// The first of all ranks that is not "".
std::string first_of_all(Group& all, const std::string& mine) {
  Problem text{};
  std::ranges::copy(mine.substr(0, text.size() - 1), text.begin());
  const std::vector<std::byte> bytes = gathered(all, std::as_bytes(std::span(text)));
  for (std::size_t at = 0; at < bytes.size(); at += text.size()) {
    std::memcpy(text.data(), &bytes[at], text.size());
    if (text.front() != '\0') {
      return text.data();
    }
  }
  return "";
}

}  // namespace

IpcAxis::Turn IpcAxis::begin(Bytes source) {
  const std::int64_t number = next_++;
  const std::int64_t finished = unfinished_.empty() ? number : *unfinished_.begin();
  unfinished_.insert(number);
  const auto& memory = lent_[number] = pool_.acquire(source);
  return {.number = number, .memory = memory.get(), .finished = finished};
}

void IpcAxis::end(const Turn& turn, std::span<const IpcMessage> messages) {
  unfinished_.erase(turn.number);
  release_below(std::ranges::min(messages, {}, &IpcMessage::finished).finished);
}

void IpcAxis::release_all() {
  release_below(next_);
}

void IpcAxis::release_below(std::int64_t number) {
  const auto end = lent_.lower_bound(number);
  for (auto it = lent_.begin(); it != end; ++it) {
    pool_.release(std::move(it->second));
  }
  lent_.erase(lent_.begin(), end);
}

IpcSession::IpcSession(Communicator& communicator)
    : all_(communicator.all().split(0, communicator.rank())) {
  for (const std::string& name : communicator.axes()) {
    axes_.try_emplace(name, communicator.along(name), pool_);
  }
}

std::string IpcSession::try_out() {
  IpcName name;
  std::string problem = problem_of(all_.rank(), [&] {
    std::unique_ptr<IpcMemory> memory = pool_.acquire({});
    name = memory->name();
    pool_.release(std::move(memory));
  });
  const std::vector<std::byte> names = gathered(all_, std::as_bytes(std::span(&name, 1)));
  if (std::string first = first_of_all(all_, problem); !first.empty()) {
    return first;
  }
  problem = problem_of(all_.rank(), [&] {
    for (Rank rank = 0; rank < all_.size(); ++rank) {
      if (rank != all_.rank()) {
        const std::size_t place = rank;
        std::memcpy(&name, &names[place * sizeof name], sizeof name);
        (void)opened_.find(all_.world_ranks()[place], name);
      }
    }
  });
  return first_of_all(all_, problem);
}

const std::byte* IpcSession::source_of(const IpcAxis& axis, std::size_t rank,
                                       const IpcAxis::Turn& turn, const IpcMessage& message) {
  const bool own = axis.group().rank() == static_cast<Rank>(rank);
  return own ? turn.memory->data() : opened_.find(axis.group().world_ranks()[rank], message.source);
}

/// Afterwards no rank reads another's memory, which each may then free.
void IpcSession::wait(Stream& compute) {
  compute.synchronize();
  all_.barrier();
  for (auto& [name, axis] : axes_) {
    axis.release_all();
  }
}

std::shared_ptr<CudaSession> connect_ipc(Communicator& communicator) {
  auto session = std::make_shared<IpcSession>(communicator);
  const std::string problem = session->try_out();
  if (!problem.empty()) {
    throw Error(ErrorKind::System,
                fmt::format("cudaIpc does not work here: {}; use --gpu-exchange host", problem));
  }
  return session;
}

}  // namespace trireme::cuda
