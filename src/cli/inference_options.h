// The options that `trireme generate` and `trireme evaluate` share: the model, and the ranks that run it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "command_line/command_line.h"
#include "trireme/generate.h"
#include "trireme/plan.h"

namespace trireme::cli {

struct InferenceOptions {
  ModelSourceOptions source{};
  std::optional<int> ranks{};  ///< absent: the size of the mesh
  std::string mesh{};
  int threads = 0;
  bool json = false;

  /// With -n alone, all ranks are along tensor. Throws Error(Usage) that names the option.
  [[nodiscard]] Plan plan() const;
};

void add_inference_options(Command* command, InferenceOptions& options);

/// All of standard input, if a command reads "-" among these; else null.
[[nodiscard]] std::shared_ptr<const std::string> read_standard_input(
    const std::vector<std::string>& names);

}  // namespace trireme::cli
