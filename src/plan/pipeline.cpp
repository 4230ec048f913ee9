#include "trireme/pipeline.h"

#include <fmt/format.h>

namespace trireme {

std::string to_text(const PipelineTask& task) {
  constexpr std::string_view kLetters = "FBIWU";
  std::string text = fmt::format("{}{}.{}", kLetters[static_cast<std::size_t>(task.work)],
                                 task.stage, task.microbatch);
  return task.copy == 0 ? text : fmt::format("{}/{}", text, task.copy);
}

}  // namespace trireme
