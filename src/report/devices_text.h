// What `trireme devices` prints.
#pragma once

#include <string>
#include <vector>

#include "trireme/cuda_device.h"

namespace trireme::report {

struct DeviceList {
  bool built_with_cuda = false;
  int found = 0;                     ///< CUDA devices of the machine
  std::vector<CudaFacts> devices{};  ///< those that can be used
  std::string problem{};             ///< of one that cannot
};

[[nodiscard]] std::string devices_text(const DeviceList& list);
[[nodiscard]] std::string devices_json(const DeviceList& list);

}  // namespace trireme::report
