// The output of a training run: its facts, progress and summary. Callable from any thread.
#pragma once

#include <string>
#include <vector>

#include "report/text_style.h"
#include "trireme/train.h"
#include "trireme/units.h"

namespace trireme::report {

[[nodiscard]] std::string run_facts_text(const RunFacts& facts);
/// The same in lines of at most `width` columns, if words fit, continued below their text.
[[nodiscard]] std::string run_facts_text(const RunFacts& facts, int width);

/// The parts of a progress line, most important first. `time` is the smoothed step time.
[[nodiscard]] std::vector<std::string> progress_parts(const RunFacts& facts, const StepReport& m,
                                                      Seconds time);
/// A bar and as many of these parts as fit: a line that wraps cannot be updated in place.
[[nodiscard]] std::string progress_line(const RunFacts& facts, const StepReport& m, Seconds time,
                                        int width);

/// Decides after which steps a run prints a line where lines cannot be updated in place: the first and the last, about
/// twenty in total, every validation, and after half a minute of silence.
class ProgressPace {
 public:
  /// `now` is from any clock that does not go back. Called for every step.
  [[nodiscard]] bool is_due(const RunFacts& facts, const StepReport& m, Seconds now);

 private:
  Seconds last_{};  ///< when the last line was printed
};

struct RunEndOptions {
  Terminal terminal{};
  std::string program = "trireme";  ///< the command that the user types to run this program
};
[[nodiscard]] std::string run_end_text(const RunFacts& f, const RunSummary& e,
                                       const RunEndOptions& options);

/// "plan     data=2, …", its other lines below the first.
[[nodiscard]] std::string plan_note_text(const std::string& note);

}  // namespace trireme::report
