#include "cli/train_display.h"

#include <chrono>
#include <cstdio>
#include <optional>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "command_line/terminal.h"
#include "report/train_text.h"

namespace trireme::cli {

namespace {

void print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

std::string end_text(const RunFacts& facts, const RunSummary& end, const std::string& program) {
  return report::run_end_text(facts, end, {.terminal = standard_output(), .program = program});
}

/// A line updated in place.
class LiveDisplay : public TrainDisplay {
 public:
  explicit LiveDisplay(std::string program) : program_(std::move(program)) {}
  LiveDisplay(const LiveDisplay&) = delete;
  LiveDisplay& operator=(const LiveDisplay&) = delete;
  /// Ends the line, so that later output, such as an error, starts on a new one.
  ~LiveDisplay() override {
    if (open_) {
      print("\n");
    }
  }
  void note(const std::string& text) override { print(report::plan_note_text(text)); }
  void begin(const RunFacts& facts) override {
    print(report::run_facts_text(facts, standard_output().width));
  }
  void step(const RunFacts& facts, const StepReport& m) override {
    const double newest = m.step_time.count;
    smooth_ = smooth_ == 0 ? newest : 0.9 * smooth_ + 0.1 * newest;
    const int width = standard_output().width - 1;
    validation_ = m.validation ? m.validation : validation_;
    StepReport shown = m;
    shown.validation = validation_;
    print("\r\x1b[K" + report::progress_line(facts, shown, {smooth_}, width));
    open_ = true;
  }
  void end(const RunFacts& facts, const RunSummary& end) override {
    open_ = false;
    print("\r\x1b[K" + end_text(facts, end, program_));
  }

 private:
  std::string program_;
  double smooth_ = 0;
  std::optional<double> validation_;  ///< the last one, shown until the next
  bool open_ = false;
};

Seconds now() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return {std::chrono::duration<double>(since).count()};
}

/// A line now and then.
class PlainDisplay : public TrainDisplay {
 public:
  explicit PlainDisplay(std::string program) : program_(std::move(program)) {}
  void note(const std::string& text) override { print(report::plan_note_text(text)); }
  void begin(const RunFacts& facts) override { print(report::run_facts_text(facts)); }
  void step(const RunFacts& facts, const StepReport& m) override {
    time_ += m.step_time.count;
    ++count_;
    if (pace_.is_due(facts, m, now())) {
      const std::vector<std::string> parts =
          report::progress_parts(facts, m, {time_ / static_cast<double>(count_)});
      print(fmt::format("step {:>6}/{} · {}\n", m.step, facts.steps, fmt::join(parts, " · ")));
      time_ = 0;
      count_ = 0;
    }
  }
  void end(const RunFacts& facts, const RunSummary& end) override {
    print(end_text(facts, end, program_));
  }

 private:
  std::string program_;
  report::ProgressPace pace_;
  double time_ = 0;
  std::int64_t count_ = 0;
};

/// Notes go to standard error: every line of standard output is JSON.
class JsonDisplay : public TrainDisplay {
 public:
  void note(const std::string& text) override {
    std::string line = text;
    for (std::size_t at = line.find('\n'); at != std::string::npos; at = line.find('\n')) {
      line.replace(at, 1, "; ");
    }
    fmt::print(stderr, "trireme: note: {}\n", line);
  }
  void begin(const RunFacts& facts) override {
    for (const std::string& text : facts.notes) {
      note(text);
    }
  }
  void step(const RunFacts& facts, const StepReport& moment) override {
    print(to_json(facts, moment) + "\n");
  }
  void end(const RunFacts& facts, const RunSummary& e) override { print(to_json(facts, e) + "\n"); }
};

}  // namespace

std::unique_ptr<TrainDisplay> make_train_display(const DisplayOptions& options) {
  if (options.json) {
    return std::make_unique<JsonDisplay>();
  }
  if (isatty(STDOUT_FILENO) != 0) {
    return std::make_unique<LiveDisplay>(options.program);
  }
  return std::make_unique<PlainDisplay>(options.program);
}

}  // namespace trireme::cli
