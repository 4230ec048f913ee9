#include "cli/devices_named.h"

#include <charconv>
#include <optional>

#include <fmt/format.h>

#include "command_line/host_file.h"
#include "trireme/cpu_device.h"
#include "trireme/cuda_device.h"
#include "trireme/error.h"

namespace trireme::cli {
namespace {

/// The N of "cuda:N"; 0 for "cuda"; nothing for any other text.
std::optional<int> cuda_number(const std::string& name) {
  if (name == "cuda") {
    return 0;
  }
  const std::string prefix = "cuda:";
  int number = -1;
  if (name.starts_with(prefix)) {
    const char* end = name.data() + name.size();
    const auto [at, error] = std::from_chars(name.data() + prefix.size(), end, number);
    if (error == std::errc() && at == end && number >= 0) {
      return number;
    }
  }
  return std::nullopt;
}

}  // namespace

DeviceFactory devices_of(const TrainSettings& settings) {
  const std::string& name = settings.device;
  const CudaExchange by = parse_cuda_exchange(settings.gpu_exchange);
  const int found = cuda_device_count();
  if (name == "cpu" || (name == "auto" && found == 0)) {
    return cpu_devices(static_cast<int>(settings.threads));
  }
  const std::string folder = cache_folder();
  keep_cuda_algorithms(
      folder.empty() ? "" : folder + "/cuda-algorithms.txt",
      settings.deterministic ? AlgorithmChoice::Reproducible : AlgorithmChoice::Fastest);
  if (name == "auto" || (name == "cuda" && found > 0)) {
    return cuda_devices({}, by);
  }
  const std::optional<int> number = cuda_number(name);
  if (!number) {
    throw Error(ErrorKind::Usage,
                fmt::format("--device: unknown device '{}'; use auto, cpu, cuda or cuda:N", name));
  }
  if (*number >= found) {
    throw Error(
        ErrorKind::Usage,
        found == 0
            ? std::string("--device: this machine has no CUDA device; use --device cpu")
            : fmt::format("--device: there is no device {}: this machine has cuda:0 to cuda:{}",
                          name, found - 1));
  }
  return cuda_devices(*number, by);
}

}  // namespace trireme::cli
