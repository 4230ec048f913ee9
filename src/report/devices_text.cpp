#include "report/devices_text.h"

#include <fmt/format.h>

#include "base/cores.h"
#include "base/json.h"

namespace trireme::report {
namespace {

std::string library_text(const CudaLibrary& library) {
  return library.problem.empty() ? fmt::format("{} {}", library.name, library.version)
                                 : fmt::format("{} is missing", library.name);
}

std::string device_text(std::size_t number, const CudaFacts& device) {
  std::string text = fmt::format("cuda:{}   {}, {} of {} free", number, device.name,
                                 to_text(device.free), to_text(device.memory));
  for (const CudaLibrary& library : device.libraries) {
    text += ", " + library_text(library);
  }
  text += '\n';
  for (const CudaLibrary& library : device.libraries) {
    text += library.problem.empty() ? "" : fmt::format("         {}\n", library.problem);
  }
  return text;
}

}  // namespace

std::string devices_text(const DeviceList& list) {
  std::string text = fmt::format("cpu      {} cores\n", usable_cores());
  for (std::size_t i = 0; i < list.devices.size(); ++i) {
    text += device_text(i, list.devices[i]);
  }
  if (!list.problem.empty()) {
    text += fmt::format("{}\n", list.problem);
  }
  if (list.found == 0) {
    text += "No CUDA device: this machine has no /dev/nvidia0.\n";
  }
  if (!list.built_with_cuda) {
    text +=
        "This program was built without CUDA: install the CUDA toolkit (nvcc) and build again.\n";
  }
  return text;
}

std::string devices_json(const DeviceList& list) {
  Json devices = Json::array();
  for (const CudaFacts& device : list.devices) {
    Json libraries = Json::array();
    for (const CudaLibrary& library : device.libraries) {
      libraries.push_back(
          {{"name", library.name}, {"version", library.version}, {"problem", library.problem}});
    }
    devices.push_back({{"name", device.name},
                       {"memory_bytes", device.memory.count},
                       {"free_bytes", device.free.count},
                       {"libraries", libraries}});
  }
  const Json json{{"cpu_cores", usable_cores()},
                  {"built_with_cuda", list.built_with_cuda},
                  {"cuda_devices", devices},
                  {"problem", list.problem}};
  return json.dump(2) + "\n";
}

}  // namespace trireme::report
