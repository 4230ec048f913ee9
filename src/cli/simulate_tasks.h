// The work of pipeline stages, from the options of `trireme simulate --tasks`.
#pragma once

#include <string>
#include <vector>

#include "command_line/command_line.h"
#include "trireme/pipeline.h"
#include "trireme/pipeline_simulation.h"

namespace trireme::cli {

/// Of a rank's layers, for one micro-batch. With several stages per rank, each has its share.
struct TaskOptions {
  bool tasks = false;
  std::string forward = "1ms";
  std::string backward = "2ms";  ///< half for the input, half for the weights
  std::string update = "0s";
  std::string gradient_bytes = "0";
  std::string message_bytes = "0";
  std::string tensor_bytes = "0";
  int tensor_calls = 4;
  int buckets = 1;

  /// The work of each stage of the table. Throws Error(Usage) that names the option.
  [[nodiscard]] std::vector<simulate::StageWork> stages(const PipelineTable& table) const;
};

void add_task_options(Command& command, TaskOptions& options);

}  // namespace trireme::cli
