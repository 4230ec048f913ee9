#include "cli/train_display.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "cli/terminal.h"
#include "trireme/message.h"

namespace trireme::cli {

namespace {

/// "112.4 k", "128 ": the caller appends a unit.
std::string count_text(double count) {
  constexpr double kThousand = 1000;
  if (count >= kThousand * kThousand * kThousand) {
    return fmt::format("{:.2f} G", count / kThousand / kThousand / kThousand);
  }
  if (count >= kThousand * kThousand) {
    return fmt::format("{:.2f} M", count / kThousand / kThousand);
  }
  return count >= kThousand ? fmt::format("{:.1f} k", count / kThousand)
                            : fmt::format("{:.0f} ", count);
}

/// "5.1 k tokens", "384 tokens".
std::string counted(double count, std::string_view what) {
  const std::string text = count_text(count);
  return fmt::format("{}{}{}", text, text.ends_with(' ') ? "" : " ", what);
}

std::string clock_text(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::max(0.0, std::round(seconds)));
  return whole >= 3600 ? fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60)
                       : fmt::format("{}:{:02}", whole / 60, whole % 60);
}

std::string bar(std::int64_t done, std::int64_t all, int width) {
  const auto filled =
      static_cast<int>(std::clamp<std::int64_t>(all > 0 ? done * width / all : 0, 0, width));
  std::string text;
  for (int i = 0; i < width; ++i) {
    text += i < filled ? "█" : "░";
  }
  return text;
}

/// "loss 2.31 (floor 1.64)"
std::string loss_text(const RunFacts& facts, double loss) {
  return facts.bounds ? fmt::format("loss {:.3f} (floor {:.3f})", loss, facts.bounds->floor)
                      : fmt::format("loss {:.3f}", loss);
}

/// "61.2 ktok/s", "512 tok/s", "61.2 k examples/s".
std::string speed_text(const RunFacts& facts, double units_per_second) {
  return facts.unit == "tokens" ? count_text(units_per_second) + "tok/s"
                                : counted(units_per_second, facts.unit + "/s");
}

/// The parts of a progress line, most important first.
std::vector<std::string> moment_parts(const RunFacts& facts, const StepReport& m,
                                      double step_time) {
  const Seconds time{step_time};
  std::vector<std::string> parts{
      loss_text(facts, m.loss),
      fmt::format("left {}", clock_text(static_cast<double>(facts.steps - m.step) * step_time))};
  if (m.sync) {
    parts.push_back(fmt::format("staleness {}, spread {:.1e}", m.sync->staleness, m.sync->spread));
  }
  parts.insert(parts.end(),
               {speed_text(facts, static_cast<double>(facts.units_per_step) / time.count),
                fmt::format("MFU {:.0f} %", 100 * mfu(facts, time)),
                fmt::format("HFU {:.0f} %", 100 * hfu(facts, time)), to_text(facts.memory)});
  return parts;
}

/// As many parts as fit: a line that wraps cannot be updated in place.
std::string within(std::string line, const std::vector<std::string>& parts, int width) {
  for (const std::string& part : parts) {
    if (display_width(line) + 3 + display_width(part) > width) {
      break;
    }
    line += " · " + part;
  }
  return line;
}

/// "93 % computing, 5 % communicating, 2 % idle"
std::string shares_text(const StepPrediction& p) {
  return fmt::format("{:.0f} % computing, {:.0f} % communicating, {:.0f} % idle", 100 * p.compute,
                     100 * p.exposed, 100 * p.idle);
}

/// "a step took 61.2 ms (median); predicted were 58.4 ms, 4.6 % less"
std::string prediction_text(const RunFacts& f, const RunSummary& e) {
  std::string text = fmt::format("a step took {} (median)", to_text(e.step_time));
  if (!f.predicted) {
    return text + (f.not_predicted.empty() ? "" : "; " + f.not_predicted);
  }
  const double error = f.predicted->step.count / e.step_time.count - 1;
  return text + fmt::format("; predicted were {}, {:.1f} % {}", to_text(f.predicted->step),
                            100 * std::abs(error), error < 0 ? "less" : "more");
}

void print_facts(const RunFacts& f) {
  fmt::print("model    {}, {}\n", f.model,
             counted(static_cast<double>(f.parameters), "parameters"));
  if (!f.weights.empty()) {
    fmt::print("begins   with {}\n", f.weights);
  }
  fmt::print("data     {}\n", f.data);
  fmt::print("device   {}; {:.0f} GFLOP/s in a large matrix product, measured now\n", f.device,
             f.peak_flops / 1e9);
  if (!f.ranks.empty()) {
    fmt::print("ranks    {}\n", f.ranks);
  }
  if (f.gradient_traffic) {
    const GradientTraffic& bytes = *f.gradient_traffic;
    fmt::print("sends    {}B along data in a step; uncompressed {}B, {:.1f} times as many\n",
               count_text(bytes.sent), count_text(bytes.uncompressed),
               bytes.uncompressed / bytes.sent);
  }
  fmt::print(
      "a step   {} {}; {}FLOP of matrix products in the model (for MFU), {}FLOP executed "
      "(for HFU)\n",
      f.units_per_step, f.unit, count_text(f.model_flops), count_text(f.hardware_flops));
  fmt::print("memory   {}{}: {}\n", to_text(f.memory), f.ranks.empty() ? "" : " on rank 0",
             to_text(f.memory_parts));
  if (f.predicted) {
    fmt::print("predicted {} a step, MFU {:.0f} %: {}\n", to_text(f.predicted->step),
               100 * mfu(f, f.predicted->step), shares_text(*f.predicted));
  }
  if (f.first_step > 0) {
    fmt::print("resumed  after step {}\n", f.first_step);
  }
  std::fflush(stdout);
}

/// "loss 2.310 (on data it has not seen 2.400), after 4.159 in the first step"
std::string final_loss_text(const RunSummary& e) {
  if (!e.loss) {
    return e.validation ? fmt::format("loss on data it has not seen {:.3f}", *e.validation)
                        : "no steps, no loss";
  }
  std::string text = fmt::format("loss {:.3f}", *e.loss);
  if (e.validation) {
    text += fmt::format(" (on data it has not seen {:.3f})", *e.validation);
  }
  return text + fmt::format(", after {:.3f} in the first step", e.first_loss.value_or(*e.loss));
}

void print_losses(const RunFacts& f, const RunSummary& e) {
  fmt::print("  {}\n", styled(final_loss_text(e), Style::Bold, standard_output().color));
  if (f.vocabulary > 0) {
    fmt::print("    {:.3f}  from guessing evenly among the {} tokens there are\n",
               std::log(static_cast<double>(f.vocabulary)), f.vocabulary);
  }
  if (f.bounds) {
    fmt::print("    {:.3f}  from {}\n    {:.3f}  is the floor: {}\n", f.bounds->uninformed,
               f.bounds->uninformed_is, f.bounds->floor, f.bounds->floor_is);
  }
  if (!e.sample.empty()) {
    fmt::print("  it writes: {}\n", in_quotes(e.sample));
  }
}

void print_files(const RunFacts& f, const RunSummary& e) {
  fmt::print(
      "\nIn {}:\n"
      "  checkpoints/        the model and the optimizer's state (safetensors)\n"
      "  metrics.jsonl       every step: loss, speed, MFU, HFU\n"
      "{}"
      "  settings.json       the settings of the run\n",
      e.run_folder,
      e.traced ? "  trace.json          one step, kernel by kernel; open it at ui.perfetto.dev\n"
               : "");
  if (!f.ranks.empty()) {
    fmt::print("  plan.json           how it was sharded over ranks\n");
  }
  if (e.tensorboard) {
    fmt::print("  events.out.*        for tensorboard --logdir {}\n", e.run_folder);
  }
  if (!e.exported.empty()) {
    fmt::print("In {}:\n  config.json and the weights (safetensors), for Hugging Face's programs\n",
               e.exported);
  }
}

void print_next(const RunFacts& f, const RunSummary& e, const std::string& program) {
  constexpr std::int64_t kFewSteps = 2;
  const std::string plan = f.ranks.empty() ? "" : fmt::format(" --plan {}/plan.json", e.run_folder);
  const std::string resume = fmt::format("train --resume {}{} --steps {}", e.run_folder, plan,
                                         e.interrupted ? f.steps : std::max(2 * e.step, kFewSteps));
  const std::array<std::pair<std::string, std::string_view>, 4> tries{
      {{resume, "resume from here"},
       {"train --data FILE --steps 2000", "your own text, byte by byte"},
       {"train --model llama-tiny", "another model"},
       {"train --help", "all options; docs/train.md explains them"}}};
  std::size_t widest = 0;
  for (const auto& [command, what] : tries) {
    widest = std::max(widest, command.size());
  }
  fmt::print("\nNext:\n");
  for (const auto& [command, what] : tries) {
    fmt::print("  {} {:<{}}   {}\n", program, command, widest, what);
  }
}

void print_end(const RunFacts& f, const RunSummary& e, const std::string& program) {
  const std::int64_t steps = e.step - f.first_step;
  fmt::print("\n{} {} steps, {}, in {}: {} a second",
             e.interrupted ? "Stopped after" : "Trained for", steps,
             counted(static_cast<double>(steps * f.units_per_step), f.unit),
             clock_text(e.time.count), counted(e.units_per_second, f.unit));
  if (steps > 0) {
    const double share = mfu(f, {e.time.count / static_cast<double>(steps)});
    fmt::print(", {:.0f} % of what this machine's matrix products can do (MFU)", 100 * share);
  }
  fmt::print("\n");
  if (steps > 0) {
    fmt::print("  {}\n", prediction_text(f, e));
  }
  if (e.overflows > 0) {
    fmt::print("  gradients overflowed {} time{}; the step was repeated with half the loss scale\n",
               e.overflows, e.overflows == 1 ? "" : "s");
  }
  print_losses(f, e);
  print_files(f, e);
  print_next(f, e, program);
}

/// "plan     data=2, …", its other lines below the first.
void print_note(const std::string& text) {
  std::string lines = text;
  for (std::size_t at = lines.find('\n'); at != std::string::npos; at = lines.find('\n', at + 1)) {
    lines.replace(at, 1, "\n         ");
  }
  fmt::print("plan     {}\n", lines);
  std::fflush(stdout);
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
      std::fputs("\n", stdout);
      std::fflush(stdout);
    }
  }
  void note(const std::string& text) override { print_note(text); }
  void begin(const RunFacts& facts) override { print_facts(facts); }
  void step(const RunFacts& facts, const StepReport& m) override {
    constexpr int kBar = 20;
    const double newest = m.step_time.count;
    smooth_ = smooth_ == 0 ? newest : 0.9 * smooth_ + 0.1 * newest;
    const int width = standard_output().width - 1;
    fmt::print("\r\x1b[K{}",
               within(fmt::format("{} {}/{}", bar(m.step, facts.steps, kBar), m.step, facts.steps),
                      moment_parts(facts, m, smooth_), width));
    std::fflush(stdout);
    open_ = true;
  }
  void end(const RunFacts& facts, const RunSummary& end) override {
    fmt::print("\r\x1b[K");
    open_ = false;
    print_end(facts, end, program_);
  }

 private:
  std::string program_;
  double smooth_ = 0;
  bool open_ = false;
};

/// About twenty lines in total.
class PlainDisplay : public TrainDisplay {
 public:
  explicit PlainDisplay(std::string program) : program_(std::move(program)) {}
  void note(const std::string& text) override { print_note(text); }
  void begin(const RunFacts& facts) override { print_facts(facts); }
  void step(const RunFacts& facts, const StepReport& m) override {
    const std::int64_t each = std::max<std::int64_t>(1, (facts.steps - facts.first_step) / 20);
    time_ += m.step_time.count;
    ++count_;
    if (m.step % each == 0 || m.step == facts.steps || m.step == facts.first_step + 1) {
      fmt::print("step {:>6}/{} · {}\n", m.step, facts.steps,
                 fmt::join(moment_parts(facts, m, time_ / static_cast<double>(count_)), " · "));
      std::fflush(stdout);
      time_ = 0;
      count_ = 0;
    }
  }
  void end(const RunFacts& facts, const RunSummary& end) override {
    print_end(facts, end, program_);
  }

 private:
  std::string program_;
  double time_ = 0;
  std::int64_t count_ = 0;
};

class JsonDisplay : public TrainDisplay {
 public:
  void note(const std::string&) override {}
  void begin(const RunFacts&) override {}
  void step(const RunFacts& facts, const StepReport& moment) override {
    fmt::print("{}\n", to_json(facts, moment));
    std::fflush(stdout);
  }
  void end(const RunFacts& facts, const RunSummary& e) override {
    fmt::print("{}\n", to_json(facts, e));
  }
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
