#include "report/train_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <sstream>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "report/help_text.h"
#include "report/waterfall_text.h"
#include "trireme/message.h"
#include "trireme/shell_word.h"

namespace trireme::report {
namespace {

/// "112.4 k", "128 ": the caller appends a unit.
std::string count_text(double count) {
  constexpr double kThousand = 1000;
  for (const auto& [unit, name] :
       {std::pair(1e15, "P"), std::pair(1e12, "T"), std::pair(1e9, "G"), std::pair(1e6, "M")}) {
    if (count >= unit) {
      return fmt::format("{:.2f} {}", count / unit, name);
    }
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
std::string step_loss_text(const RunFacts& facts, double loss) {
  return facts.bounds ? fmt::format("loss {:.3f} (floor {:.3f})", loss, facts.bounds->floor)
                      : fmt::format("loss {:.3f}", loss);
}

/// "61.2 ktok/s", "512 tok/s", "61.2 k examples/s".
std::string speed_text(const RunFacts& facts, double units_per_second) {
  return facts.unit == "tokens" ? count_text(units_per_second) + "tok/s"
                                : counted(units_per_second, facts.unit + "/s");
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

/// "median step 61.2 ms; predicted 58.4 ms, 4.6 % less"
std::string prediction_text(const RunFacts& f, const RunSummary& e) {
  std::string text = fmt::format("median step {}", to_text(e.step_time));
  if (!f.predicted) {
    return text + (f.not_predicted.empty() ? "" : "; " + f.not_predicted);
  }
  const double error = f.predicted->step.count / e.step_time.count - 1;
  return text + fmt::format("; predicted {}, {:.1f} % {}", to_text(f.predicted->step),
                            100 * std::abs(error), error < 0 ? "less" : "more");
}

/// Which ranks the waterfall is of; "" if there is only one.
std::string traced_ranks_text(const RunFacts& f, const Waterfall& w) {
  return f.ranks.empty() ? "" : w.ranks == 1 ? "rank 0" : fmt::format("mean of {} ranks", w.ranks);
}

/// "loss 2.310 (validation 2.400); 4.159 in the first step"
std::string final_loss_text(const RunSummary& e) {
  if (!e.loss) {
    return e.validation ? fmt::format("validation loss {:.3f}", *e.validation)
                        : "no steps, no loss";
  }
  std::string text = fmt::format("loss {:.3f}", *e.loss);
  if (e.validation) {
    text += fmt::format(" (validation {:.3f})", *e.validation);
  }
  return text + fmt::format("; {:.3f} in the first step", e.first_loss.value_or(*e.loss));
}

/// "lowest validation loss 2.310, at step 400; kept in runs/a/best"
std::string best_text(const RunSummary& e) {
  return fmt::format("lowest validation loss {:.3f}, at step {}{}", e.best->loss, e.best->step,
                     e.best_folder.empty() ? "" : "; kept in " + e.best_folder);
}

std::string losses_text(const RunFacts& f, const RunSummary& e, const Terminal& terminal) {
  std::string text;
  text += fmt::format("  {}\n", styled(final_loss_text(e), Style::Bold, terminal.color));
  if (e.best) {
    text += fmt::format("  {}\n", best_text(e));
  }
  if (e.stopped_early) {
    text += "  the validation loss stopped falling; a larger --patience would continue\n";
  }
  if (f.vocabulary > 0) {
    text += fmt::format("    {:.3f}  guessing uniformly among the {} tokens\n",
                        std::log(static_cast<double>(f.vocabulary)), f.vocabulary);
  }
  if (f.bounds) {
    text += fmt::format("    {:.3f}  {}\n    {:.3f}  the floor: {}\n", f.bounds->uninformed,
                        f.bounds->uninformed_is, f.bounds->floor, f.bounds->floor_is);
  }
  if (!e.sample.empty()) {
    text += fmt::format("  sample: {}\n", in_quotes(e.sample));
  }
  return text;
}

std::string files_text(const RunFacts& f, const RunSummary& e) {
  std::string text;
  text += fmt::format(
      "\nIn {}:\n"
      "  checkpoints/        the model and the optimizer's state (safetensors)\n"
      "  metrics.jsonl       every step: loss, speed, MFU, HFU\n"
      "{}"
      "  settings.json       the settings of the run\n",
      e.run_folder,
      e.traced ? "  trace.json          one step, kernel by kernel; open it at ui.perfetto.dev\n"
               : "");
  if (!f.ranks.empty()) {
    text += fmt::format("  plan.json           how it was sharded over ranks\n");
  }
  if (e.tensorboard) {
    text += fmt::format("  events.out.*        for tensorboard --logdir {}\n",
                        shell_word(e.run_folder));
  }
  if (!e.exported.empty()) {
    text += fmt::format(
        "In {}:\n  config.json and the weights (safetensors), for Hugging Face's programs\n",
        e.exported);
  }
  return text;
}

std::string next_text(const RunFacts& f, const RunSummary& e, const std::string& program) {
  std::string text;
  constexpr std::int64_t kFewSteps = 2;
  const std::string resume =
      fmt::format("train --resume {} --steps {}{}", shell_word(e.run_folder),
                  e.interrupted || e.stopped_early ? f.steps : std::max(2 * e.step, kFewSteps),
                  e.stopped_early ? " --patience 0" : "");
  const std::array<std::pair<std::string, std::string_view>, 5> tries{
      {{"report " + shell_word(e.run_folder), "this run as a page: curves, MFU, timeline, memory"},
       {resume, "resume from here"},
       {"train --data FILE --steps 2000", "your own text, byte by byte"},
       {"train --model llama-tiny", "another model"},
       {"train --help", "all options; docs/train.md explains them"}}};
  std::size_t widest = 0;
  for (const auto& [command, what] : tries) {
    widest = std::max(widest, command.size());
  }
  text += "\nNext:\n";
  for (const auto& [command, what] : tries) {
    text += fmt::format("  {} {:<{}}   {}\n", program, command, widest, what);
  }
  return text;
}

/// "imbalance 1.8 1.3, dropped 2.1 0.0 %": of each block with experts.
std::string experts_text(const std::vector<ExpertLoad>& experts) {
  std::string imbalance;
  std::string dropped;
  for (const ExpertLoad& one : experts) {
    imbalance += fmt::format(" {:.1f}", one.imbalance());
    dropped += fmt::format(" {:.1f}", 100 * one.dropped());
  }
  return fmt::format("imbalance{}, dropped{} %", imbalance, dropped);
}

/// "    block 1   imbalance 1.8   dropped  2.1 %   load 45 20 20 15 %"
std::string expert_line(const ExpertLoad& block) {
  double choices = 0;
  for (const double load : block.load) {
    choices += load;
  }
  std::string shares;
  for (const double load : block.load) {
    shares += fmt::format(" {:.0f}", choices > 0 ? 100 * load / choices : 0);
  }
  return fmt::format("    block {:<3} imbalance {:.1f}   dropped {:4.1f} %   load{} %\n",
                     block.block, block.imbalance(), 100 * block.dropped(), shares);
}

/// A line for each block with experts; "" if there is none.
std::string expert_lines(const std::vector<ExpertLoad>& experts) {
  std::string text = experts.empty() ? "" : "  experts in the last step:\n";
  for (const ExpertLoad& block : experts) {
    text += expert_line(block);
  }
  return text;
}

std::string sync_text(const SyncState& sync) {
  const std::string state =
      sync.clocks ? fmt::format("clocks {} to {}", sync.clocks->slowest, sync.clocks->fastest)
                  : fmt::format("spread {:.1e}", sync.spread);
  return fmt::format("staleness {}, {}", sync.staleness, state);
}

/// The speed of a large product, and of which peak if the device specifies one.
std::string product_speed_text(const RunFacts& f) {
  if (f.peak_flops == f.measured_flops) {
    return fmt::format("{:.0f} GFLOP/s", f.measured_flops / 1e9);
  }
  return fmt::format("{:.0f} of {:.0f} TFLOP/s", f.measured_flops / 1e12, f.peak_flops / 1e12);
}

/// ": 3.80 M tokens, and 200.0 k for validation"; "" if they never end.
std::string data_size_text(const RunFacts& f) {
  if (f.data_units == 0) {
    return "";
  }
  const std::string text = ": " + counted(static_cast<double>(f.data_units), f.unit);
  return f.validation_units == 0
             ? text
             : fmt::format("{}, and {}", text,
                           counted(static_cast<double>(f.validation_units), "for validation"));
}

/// "750 steps: 1.54 M tokens, 0.40 epochs, 0.34 tokens per parameter"
std::string run_size_text(const RunFacts& f) {
  const auto units = static_cast<double>(f.steps * f.units_per_step);
  std::string text = fmt::format("{}: {}", plural(f.steps, "step"), counted(units, f.unit));
  if (f.data_units > 0) {
    text += fmt::format(", {:.2g} epochs", units / static_cast<double>(f.data_units));
  }
  return text + fmt::format(", {:.2g} {} per parameter", units / static_cast<double>(f.parameters),
                            f.unit);
}

}  // namespace

std::vector<std::string> progress_parts(const RunFacts& facts, const StepReport& m, Seconds time) {
  std::vector<std::string> parts{
      step_loss_text(facts, m.loss),
      fmt::format("left {}", clock_text(static_cast<double>(facts.steps - m.step) * time.count))};
  if (m.validation) {
    parts.insert(parts.begin() + 1, fmt::format("validation {:.3f}", *m.validation));
  }
  if (!m.experts.empty()) {
    parts.push_back(experts_text(m.experts));
  }
  if (m.sync) {
    parts.push_back(sync_text(*m.sync));
  }
  parts.insert(parts.end(),
               {speed_text(facts, static_cast<double>(facts.units_per_step) / time.count),
                fmt::format("MFU {:.0f} %", 100 * mfu(facts, time)),
                fmt::format("HFU {:.0f} %", 100 * hfu(facts, time)), to_text(facts.memory)});
  return parts;
}

bool ProgressPace::is_due(const RunFacts& facts, const StepReport& m, Seconds now) {
  constexpr std::int64_t kLines = 20;
  constexpr double kLongestSilence = 30;
  const std::int64_t each = std::max<std::int64_t>(1, (facts.steps - facts.first_step) / kLines);
  const bool due = m.validation || m.step % each == 0 || m.step == facts.steps ||
                   m.step == facts.first_step + 1 || now.count - last_.count >= kLongestSilence;
  last_ = due ? now : last_;
  return due;
}

std::string progress_line(const RunFacts& facts, const StepReport& m, Seconds time, int width) {
  constexpr int kBar = 20;
  return within(fmt::format("{} {}/{}", bar(m.step, facts.steps, kBar), m.step, facts.steps),
                progress_parts(facts, m, time), width);
}

std::string run_facts_text(const RunFacts& f) {
  std::string text;
  text += fmt::format("model    {}, {}\n", f.model,
                      counted(static_cast<double>(f.parameters), "parameters"));
  if (!f.weights.empty()) {
    text += fmt::format("weights  {}\n", f.weights);
  }
  text += fmt::format("data     {}{}\n", f.data, data_size_text(f));
  text += fmt::format("run      {}\n", run_size_text(f));
  text += fmt::format("optimizer {}\n", f.optimizer);
  text += fmt::format("rate     {}\n", f.rate);
  text += fmt::format("dtype    {}; gradients {}\n", f.dtype, f.gradients);
  text += fmt::format("device   {}; {} in a large matrix product, measured now\n", f.device,
                      product_speed_text(f));
  if (!f.ranks.empty()) {
    text += fmt::format("ranks    {}\n", f.ranks);
  }
  if (f.gradient_traffic) {
    const GradientTraffic& bytes = *f.gradient_traffic;
    text += fmt::format(
        "sends    {}B along data in a step; uncompressed {}B, {:.1f} times as many\n",
        count_text(bytes.sent), count_text(bytes.uncompressed), bytes.uncompressed / bytes.sent);
  }
  text += fmt::format(
      "a step   {} {}; {}FLOP of matrix products in the model (for MFU), {}FLOP executed "
      "(for HFU)\n",
      f.units_per_step, f.unit, count_text(f.model_flops), count_text(f.hardware_flops));
  text += fmt::format("memory   {}{}: {}\n", to_text(f.memory),
                      f.ranks.empty() ? "" : fmt::format(" on rank {}", f.memory_rank),
                      to_text(f.memory_parts));
  if (f.predicted) {
    text += fmt::format("predicted {} a step, MFU {:.0f} %: {}\n", to_text(f.predicted->step),
                        100 * mfu(f, f.predicted->step), shares_text(*f.predicted));
  }
  for (const std::string& note : f.notes) {
    text += fmt::format("note     {}\n", note);
  }
  if (f.first_step > 0) {
    text += fmt::format("resumed  after step {}\n", f.first_step);
  }
  return text;
}

namespace {

/// "memory   89 MiB: …", continued below its text.
std::string wrapped_fact(const std::string& line, int width) {
  constexpr std::size_t kLabel = 9;  // "optimizer " is longer
  const std::size_t start = line.find_first_not_of(' ', line.find(' ', kLabel - 1));
  if (display_width(line) <= width || start == std::string::npos) {
    return line + "\n";
  }
  const int indent = static_cast<int>(start);
  std::string before = line.substr(0, start);
  std::string text;
  for (const std::string& part : wrapped(line.substr(start), width - indent)) {
    text += before + part + "\n";
    before = spaces(indent);
  }
  return text;
}

}  // namespace

std::string run_facts_text(const RunFacts& f, int width) {
  std::istringstream lines(run_facts_text(f));
  std::string text;
  for (std::string line; std::getline(lines, line);) {
    text += wrapped_fact(line, width);
  }
  return text;
}

std::string run_end_text(const RunFacts& f, const RunSummary& e, const RunEndOptions& options) {
  std::string text;
  const std::int64_t steps = e.step - f.first_step;
  text += fmt::format("\n{} {}, {}, in {}: {} a second",
                      e.stopped_early ? "Stopped early after"
                      : e.interrupted ? "Stopped after"
                                      : "Trained for",
                      plural(steps, "step"),
                      counted(static_cast<double>(steps * f.units_per_step), f.unit),
                      clock_text(e.time.count), counted(e.units_per_second, f.unit));
  if (steps > 0) {
    const double share = mfu(f, {e.time.count / static_cast<double>(steps)});
    text += fmt::format(", {:.0f} % of the matrix-product peak (MFU)", 100 * share);
  }
  text += "\n";
  if (steps > 0) {
    text += fmt::format("  {}\n", prediction_text(f, e));
  }
  if (e.waterfall) {
    text += waterfall_text(*e.waterfall, traced_ranks_text(f, *e.waterfall));
  }
  if (e.overflows > 0) {
    text += fmt::format(
        "  gradients overflowed {} time{}; the step was repeated with half the loss scale\n",
        e.overflows, e.overflows == 1 ? "" : "s");
  }
  text += expert_lines(e.experts);
  text += losses_text(f, e, options.terminal) + files_text(f, e) + next_text(f, e, options.program);
  return text;
}

std::string plan_note_text(const std::string& note) {
  std::string lines = note;
  for (std::size_t at = lines.find('\n'); at != std::string::npos; at = lines.find('\n', at + 1)) {
    lines.replace(at, 1, "\n         ");
  }
  return fmt::format("plan     {}\n", lines);
}

}  // namespace trireme::report
