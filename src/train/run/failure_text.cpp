#include "train/run/failure_text.h"

#include <cmath>

#include <fmt/format.h>

#include "trireme/message.h"
#include "trireme/shell_word.h"

namespace trireme::train {
namespace {

std::string what_happened(const TrainFailure& f) {
  if (f.result.finite) {
    return fmt::format("the loss is {:.3f}, but the update overflowed", f.result.loss);
  }
  return std::isfinite(f.result.loss)
             ? fmt::format("the loss is {:.3f}, but the gradients are not finite", f.result.loss)
             : fmt::format("the loss is {}", std::isnan(f.result.loss) ? "nan" : "infinite");
}

std::string where_it_began(const TrainFailure& f, const Program& program) {
  if (!f.found) {
    return "it did not recur when the step was repeated: check the memory for errors";
  }
  const std::string where = to_text(*f.found, program);
  if (f.found->instruction >= 0) {
    return "it began where " + where;
  }
  return f.result.finite ? "it began in " + where
                         : fmt::format("the update before it overflowed, in {}", where);
}

std::string what_is_saved(const TrainFailure& f) {
  return f.checkpoint.empty() ? "no earlier step was saved"
                              : fmt::format("the newest checkpoint is {}", f.checkpoint);
}

std::string what_to_try(const TrainFailure& f) {
  const std::string resume_hint =
      f.checkpoint.empty() || f.at_once
          ? "start over"
          : fmt::format("--resume {}, or start over,", shell_word(f.run_folder));
  return fmt::format("the rate was {:.2g}: {} with --rate {} or a smaller --clip", f.result.rate,
                     resume_hint, f.rate);
}

}  // namespace

std::string failure_text(const TrainFailure& failure, const Program& program) {
  return fmt::format("step {}: {}; {}; {}; {}", failure.result.step, what_happened(failure),
                     where_it_began(failure, program), what_is_saved(failure),
                     what_to_try(failure));
}

}  // namespace trireme::train
