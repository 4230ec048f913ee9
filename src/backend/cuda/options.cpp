// What builds with and without a CUDA compiler share.
#include <fmt/format.h>

#include "trireme/cuda_device.h"
#include "trireme/error.h"

namespace trireme {

CudaExchange parse_cuda_exchange(std::string_view text) {
  if (text == "auto") {
    return CudaExchange::Auto;
  }
  if (text == "nccl") {
    return CudaExchange::Nccl;
  }
  if (text == "host") {
    return CudaExchange::Host;
  }
  throw Error(ErrorKind::Usage,
              fmt::format("--gpu-exchange: unknown exchange '{}'; use auto, nccl or host", text));
}

}  // namespace trireme
