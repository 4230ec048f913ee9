#include "cli/simulate_tasks.h"

#include <algorithm>
#include <cmath>

#include "trireme/message.h"
#include "trireme/units.h"

namespace trireme::cli {

std::vector<simulate::StageWork> TaskOptions::stages(const PipelineTable& table) const {
  const double share = static_cast<double>(table.ranks) / table.stages;
  const auto time = [&](const char* option, const std::string& text) {
    return Seconds{parsed(option, text, parse_seconds).count * share};
  };
  const auto size = [&](const char* option, const std::string& text, double part) {
    const Bytes whole = parsed(option, text, parse_bytes);
    return Bytes{std::llround(static_cast<double>(whole.count) * part)};
  };
  simulate::StageWork work;
  work.forward = time("--forward", forward);
  work.backward_input = work.backward_weight = {time("--backward", backward).count / 2};
  work.update = time("--update", update);
  work.message = size("--message-bytes", message_bytes, 1);
  const int calls = std::max(1, static_cast<int>(std::lround(tensor_calls * share)));
  const Bytes reduced = size("--tensor-bytes", tensor_bytes, 1);
  if (reduced.count > 0 && tensor_calls > 0) {
    work.in_forward = {{.bytes = reduced, .count = calls}};
    work.in_backward_input = work.in_forward;
  }
  const Bytes gradients = size("--gradient-bytes", gradient_bytes, share);
  if (gradients.count > 0) {
    work.gradients = {{.bytes = gradients, .axis = "data"}};
  }
  work.gradient_buckets = buckets;
  return std::vector<simulate::StageWork>(static_cast<std::size_t>(table.stages), work);
}

void add_task_options(Command& command, TaskOptions& o) {
  Option* tasks = command.add_flag(
      "--tasks", o.tasks,
      "simulate the tasks of the pipeline schedule, with these times, instead of a model");
  command.section("With --tasks, of a rank's layers");
  const auto add = [&](Option* option) { option->needs(tasks); };
  add(command.add_option("--forward", o.forward, "time of a micro-batch's forward"));
  add(command.add_option("--backward", o.backward, "time of its backward"));
  add(command.add_option("--update", o.update, "time of an update of the weights"));
  add(command.add_option("--message-bytes", o.message_bytes, "from stage to stage"));
  add(command.add_option("--gradient-bytes", o.gradient_bytes, "reduced along data"));
  add(command.add_option("--buckets", o.buckets, "in which gradients are reduced",
                         integer_in(1, 1 << 16)));
  add(command.add_option("--tensor-bytes", o.tensor_bytes, "of an all-reduce along tensor"));
  add(command.add_option("--tensor-calls", o.tensor_calls,
                         "all-reduces along tensor in a forward, and as many in a backward",
                         integer_in(0, 1 << 16)));
}

}  // namespace trireme::cli
