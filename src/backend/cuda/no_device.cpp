// For builds without a CUDA compiler.
#include "trireme/cuda_device.h"
#include "trireme/error.h"

namespace trireme {

int cuda_device_count() {
  return 0;
}

bool has_cuda() {
  return false;
}

CudaFacts cuda_facts(int /*number*/) {
  throw Error(
      ErrorKind::Usage,
      "this program was built without CUDA: install the CUDA toolkit (nvcc) and build again");
}

void keep_cuda_algorithms(const std::string& /*path*/, AlgorithmChoice /*choice*/) {}

std::unique_ptr<Device> make_cuda_device(int number, CudaExchange /*exchange*/) {
  (void)cuda_facts(number);
  return nullptr;
}

DeviceFactory cuda_devices(std::optional<int> number, CudaExchange /*exchange*/) {
  return [number](const RankOnHost& /*place*/) { return make_cuda_device(number.value_or(0)); };
}

}  // namespace trireme
