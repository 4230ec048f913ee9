#include "backend/cuda/exchange.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <utility>

#include <unistd.h>

#include "backend/cuda/exchange_choice.h"
#include "backend/cuda/ipc_session.h"
#include "backend/cuda/kernel.h"
#include "backend/cuda/nccl.h"
#include "backend/cuda/session.h"
#include "runtime/host_exchange.h"
#include "trireme/files.h"

namespace trireme::cuda {
namespace {

using DeviceId = std::array<char, sizeof(cudaUUID_t)>;
using HostId = std::array<char, 128>;

/// The facts that ranks exchange before they decide.
struct RankFacts {
  DeviceId device{};
  HostId host{};
  bool has_nccl = false;
};

DeviceId current_device() {
  int number = 0;
  cudaDeviceProp properties{};
  check(cudaGetDevice(&number), "reading the device's number");
  check(cudaGetDeviceProperties(&properties, number), "reading the device's properties");
  DeviceId id{};
  std::ranges::copy(properties.uuid.bytes, id.begin());
  return id;
}

/// Its name, and what it drew when it started: containers have names of their own.
HostId this_host() {
  HostId id{};
  (void)gethostname(id.data(), id.size() / 2);
  const std::string boot = read_file("/proc/sys/kernel/random/boot_id");
  std::ranges::copy(boot.substr(0, id.size() / 2), id.begin() + id.size() / 2);
  return id;
}

RanksFacts facts_of_all(Group& all) {
  const RankFacts mine{.device = current_device(), .host = this_host(), .has_nccl = has_nccl()};
  const std::vector<std::byte> bytes = gathered(all, std::as_bytes(std::span(&mine, 1)));
  RanksFacts facts;
  std::set<std::pair<HostId, DeviceId>> devices;
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(RankFacts)) {
    RankFacts one;
    std::memcpy(&one, &bytes[at], sizeof one);
    facts.have_nccl = facts.have_nccl && one.has_nccl;
    facts.own_gpus = devices.emplace(one.host, one.device).second && facts.own_gpus;
    facts.share_a_host = facts.share_a_host && one.host == mine.host;
  }
  return facts;
}

class PreparedCollective : public PreparedExchange {
 public:
  PreparedCollective(runtime::CollectiveCall collective, const KernelRequest& request,
                     Device& device)
      : collective_(std::move(collective)),
        layout_(runtime::layout_of(request)),
        packing_(layout_, device),
        device_(device),
        staged_(runtime::prepare_staged(request, device)) {}

  [[nodiscard]] Bytes workspace() const override { return packing_.workspace(); }
  [[nodiscard]] std::unique_ptr<Exchange> bind(const KernelMemory& memory,
                                               const ExchangeContext& context) override {
    auto* session = dynamic_cast<CudaSession*>(context.session);
    if (session == nullptr || context.communicator.along(collective_.axis).size() == 1) {
      return staged_->bind(memory, context);
    }
    return session->bind(collective_, bind_operands(layout_, packing_, memory), device_, context);
  }

 private:
  runtime::CollectiveCall collective_;
  runtime::ExchangeLayout layout_;
  runtime::Packing packing_;
  Device& device_;
  std::unique_ptr<PreparedExchange> staged_;
};

}  // namespace

std::vector<std::byte> gathered(Group& group, std::span<const std::byte> mine) {
  std::vector<std::byte> all(mine.size() * static_cast<std::size_t>(group.size()));
  Call call;
  call.operation = Operation::Allgather;
  call.input = mine;
  call.output = all;
  group.start(call).wait();
  return all;
}

std::shared_ptr<ExchangeSession> connect_ranks(Device& device, Communicator& communicator,
                                               CudaExchange requested) {
  if (requested == CudaExchange::Host || communicator.all().size() == 1) {
    return nullptr;
  }
  const RanksFacts facts = facts_of_all(communicator.all());
  switch (choose_exchange(requested, facts)) {
    case CudaExchange::Nccl:
      return connect_nccl(device, communicator, facts);
    case CudaExchange::Ipc:
      return connect_ipc(communicator);
    default:
      return nullptr;
  }
}

std::unique_ptr<PreparedExchange> prepare_exchange(const KernelRequest& request, Device& device) {
  if (auto collective = runtime::collective_of(request)) {
    return std::make_unique<PreparedCollective>(std::move(*collective), request, device);
  }
  return runtime::prepare_staged(request, device);
}

}  // namespace trireme::cuda
