// What builds with and without a CUDA compiler share.
#include "base/enum_names.h"
#include "trireme/cuda_device.h"
#include "trireme/message.h"

namespace trireme {

namespace {

constexpr auto kExchanges = enum_names<CudaExchange>("auto", "nccl", "ipc", "host");

}  // namespace

std::string_view to_text(AlgorithmChoice choice) {
  static constexpr auto kNames = enum_names<AlgorithmChoice>("fastest", "reproducible");
  return kNames[choice];
}

std::string_view to_text(CudaExchange exchange) {
  return kExchanges[exchange];
}

CudaExchange parse_cuda_exchange(std::string_view text) {
  return parsed("--gpu-exchange", std::string(text),
                [](const std::string& name) { return kExchanges.parse("exchange", name); });
}

}  // namespace trireme
