// NcclSession: a communicator of NCCL and a stream for each axis of a mesh. One thread at a time.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backend/cuda/nccl_library.h"
#include "backend/cuda/session.h"

namespace trireme::cuda {

class NcclSession final : public CudaSession {
 public:
  struct Axis {
    ncclComm_t ranks = nullptr;
    std::unique_ptr<Stream> stream{};
  };

  /// Collective. The communicator of `comm` passes the ids of NCCL's around.
  NcclSession(Device& device, Communicator& communicator);
  ~NcclSession() override;
  NcclSession(const NcclSession&) = delete;
  NcclSession& operator=(const NcclSession&) = delete;

  [[nodiscard]] std::unique_ptr<Exchange> bind(const runtime::CollectiveCall& collective,
                                               runtime::BoundOperands operands, Device& device,
                                               const ExchangeContext& context) override;
  void wait(Stream& compute) override;
  void abort() noexcept override;

 private:
  void wait_for_device();
  void require_no_errors();
  void receive_tokens();
  void send_tokens();

  Group all_;
  std::unique_ptr<Event> done_;
  std::map<std::string, Axis, std::less<>> axes_;
  std::vector<std::byte> tokens_;
  std::vector<Pending> received_;  ///< tokens of ranks whose step is not known to be done
};

}  // namespace trireme::cuda
