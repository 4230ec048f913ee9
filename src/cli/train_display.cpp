#include "cli/train_display.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include <fmt/format.h>
#include <unistd.h>

#include "base/json.h"
#include "cli/terminal.h"

namespace trireme::cli {

double mfu(const TrainFacts& facts, Seconds step_time) {
  return facts.model_flops / step_time.count / facts.peak_flops;
}

double hfu(const TrainFacts& facts, Seconds step_time) {
  return facts.hardware_flops / step_time.count / facts.peak_flops;
}

std::string moment_json(const TrainFacts& facts, const TrainMoment& m) {
  Json json;
  json["step"] = m.step;
  json["loss"] = m.loss;
  json["gradient_norm"] = m.gradient_norm;
  json["learning_rate"] = m.rate;
  json["seconds"] = m.step_time.count;
  json[facts.unit + "_per_second"] = static_cast<double>(facts.units_per_step) / m.step_time.count;
  json["mfu"] = mfu(facts, m.step_time);
  json["hfu"] = hfu(facts, m.step_time);
  json["peak_memory_bytes"] = facts.memory.count;
  if (m.validation) {
    json["validation_loss"] = *m.validation;
  }
  return json.dump();
}

namespace {

std::string count_text(double count) {
  constexpr double kThousand = 1000;
  if (count >= kThousand * kThousand * kThousand) {
    return fmt::format("{:.2f} G", count / kThousand / kThousand / kThousand);
  }
  if (count >= kThousand * kThousand) {
    return fmt::format("{:.2f} M", count / kThousand / kThousand);
  }
  return count >= kThousand ? fmt::format("{:.1f} k", count / kThousand)
                            : fmt::format("{:.0f}", count);
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
std::string loss_text(const TrainFacts& facts, double loss) {
  return facts.marks ? fmt::format("loss {:.3f} (floor {:.3f})", loss, facts.marks->floor)
                     : fmt::format("loss {:.3f}", loss);
}

/// "61.2 ktok/s", "512 tok/s": a prefix goes with the symbol of a unit.
std::string unit_text(double count, std::string_view symbol) {
  const std::string number = count_text(count);
  return fmt::format("{}{}{}", number, number.find(' ') == std::string::npos ? " " : "", symbol);
}

/// "112.4 k parameters"
std::string words_text(double count, std::string_view words) {
  return fmt::format("{} {}", count_text(count), words);
}

std::string speed_text(const TrainFacts& facts, double units_per_second) {
  return facts.unit == "tokens" ? unit_text(units_per_second, "tok/s")
                                : words_text(units_per_second, facts.unit + "/s");
}

std::string moment_text(const TrainFacts& facts, const TrainMoment& m, double step_time) {
  const Seconds time{step_time};
  return fmt::format("{} · {} · MFU {:.0f} % · HFU {:.0f} % · {} · left {}",
                     loss_text(facts, m.loss),
                     speed_text(facts, static_cast<double>(facts.units_per_step) / time.count),
                     100 * mfu(facts, time), 100 * hfu(facts, time), to_text(facts.memory),
                     clock_text(static_cast<double>(facts.steps - m.step) * step_time));
}

void print_facts(const TrainFacts& f) {
  fmt::print("model    {}, {}\n", f.model,
             words_text(static_cast<double>(f.parameters), "parameters"));
  if (!f.weights.empty()) {
    fmt::print("begins   with {}\n", f.weights);
  }
  fmt::print("data     {}\n", f.data);
  fmt::print("device   {}; {:.0f} GFLOP/s in a matrix product, measured now\n", f.device,
             f.peak_flops / 1e9);
  fmt::print("a step   {} {}, {} (model){}; {} of memory, planned before it runs\n",
             f.units_per_step, f.unit, unit_text(f.model_flops, "FLOP"),
             f.hardware_flops > f.model_flops
                 ? fmt::format(", {} with recomputation", unit_text(f.hardware_flops, "FLOP"))
                 : "",
             to_text(f.memory));
  std::fflush(stdout);
}

/// "loss 2.31, on data it has not seen 2.40"
std::string final_loss_text(const TrainEnd& e) {
  std::string text = e.loss ? fmt::format("loss {:.3f}", *e.loss) : "loss";
  if (e.validation) {
    text += fmt::format("{} on data it has not seen {:.3f}", e.loss ? "," : "", *e.validation);
  }
  return e.loss || e.validation ? text : "no step, no loss";
}

void print_end(const TrainFacts& f, const TrainEnd& e) {
  const bool colour = standard_output().colour;
  fmt::print("\n{} {} steps, {} in {}: {}\n", e.interrupted ? "Stopped after" : "Trained for",
             e.step - f.first_step,
             words_text(static_cast<double>((e.step - f.first_step) * f.units_per_step), f.unit),
             clock_text(e.time.count), speed_text(f, e.units_per_second));
  fmt::print("  {}\n", styled(final_loss_text(e), Style::Bold, colour));
  if (f.marks) {
    fmt::print("  {:.3f} is the floor: {}\n  {:.3f} is what {}\n", f.marks->floor,
               f.marks->floor_is, f.marks->uninformed, f.marks->uninformed_is);
  }
  if (!e.sample.empty()) {
    fmt::print("  a sample: {}\n", in_quotes(e.sample));
  }
  fmt::print(
      "\nIn {}:\n"
      "  metrics.jsonl       every step: loss, speed, MFU, HFU\n"
      "  trace.json          one step, kernel by kernel; open it at ui.perfetto.dev\n"
      "  checkpoints/        the model and the optimizer (safetensors)\n"
      "  settings.json       what was asked for\n",
      e.run_folder);
  if (!e.exported.empty()) {
    fmt::print("In {}:\n  config.json and the weights (safetensors), for Hugging Face's programs\n",
               e.exported);
  }
  fmt::print(
      "\nNext:\n"
      "  trireme train --resume {0} --steps {1}     go on from here\n"
      "  trireme train --data FILE --steps 2000          your own text, byte by byte\n"
      "  trireme train --model llama-tiny                another model\n",
      e.run_folder, e.interrupted ? f.steps : 2 * e.step);
}

/// A line that changes in place.
class LiveDisplay : public TrainDisplay {
 public:
  void begin(const TrainFacts& facts) override { print_facts(facts); }
  void step(const TrainFacts& facts, const TrainMoment& m) override {
    const double newest = m.step_time.count;
    smooth_ = smooth_ == 0 ? newest : 0.9 * smooth_ + 0.1 * newest;
    const std::string text = fmt::format("{} {}/{} · {}", bar(m.step, facts.steps, 20), m.step,
                                         facts.steps, moment_text(facts, m, smooth_));
    fmt::print("\r\x1b[K{}", text);
    std::fflush(stdout);
  }
  void end(const TrainFacts& facts, const TrainEnd& end) override {
    fmt::print("\r\x1b[K");
    print_end(facts, end);
  }

 private:
  double smooth_ = 0;
};

/// About twenty lines in all.
class PlainDisplay : public TrainDisplay {
 public:
  void begin(const TrainFacts& facts) override { print_facts(facts); }
  void step(const TrainFacts& facts, const TrainMoment& m) override {
    const std::int64_t each = std::max<std::int64_t>(1, (facts.steps - facts.first_step) / 20);
    time_ += m.step_time.count;
    ++count_;
    if (m.step % each == 0 || m.step == facts.steps || m.step == facts.first_step + 1) {
      fmt::print("step {:>6}/{} · {}\n", m.step, facts.steps,
                 moment_text(facts, m, time_ / static_cast<double>(count_)));
      std::fflush(stdout);
      time_ = 0;
      count_ = 0;
    }
  }
  void end(const TrainFacts& facts, const TrainEnd& end) override { print_end(facts, end); }

 private:
  double time_ = 0;
  std::int64_t count_ = 0;
};

class JsonDisplay : public TrainDisplay {
 public:
  void begin(const TrainFacts&) override {}
  void step(const TrainFacts& facts, const TrainMoment& moment) override {
    fmt::print("{}\n", moment_json(facts, moment));
    std::fflush(stdout);
  }
  void end(const TrainFacts& facts, const TrainEnd& e) override {
    Json json;
    json["summary"] = true;
    json["model"] = facts.model;
    json["parameters"] = facts.parameters;
    json["step"] = e.step;
    json["final_loss"] = e.loss ? Json(*e.loss) : Json();
    json["validation_loss"] = e.validation ? Json(*e.validation) : Json();
    json["floor"] = facts.marks ? Json(facts.marks->floor) : Json();
    json["uninformed_loss"] = facts.marks ? Json(facts.marks->uninformed) : Json();
    json[facts.unit + "_per_second"] = e.units_per_second;
    json["peak_flops_per_second"] = facts.peak_flops;
    json["peak_memory_bytes"] = facts.memory.count;
    json["seconds"] = e.time.count;
    json["weights"] = facts.weights.empty() ? Json() : Json(facts.weights);
    json["export_folder"] = e.exported.empty() ? Json() : Json(e.exported);
    json["interrupted"] = e.interrupted;
    json["run_folder"] = e.run_folder;
    fmt::print("{}\n", json.dump());
  }
};

}  // namespace

std::unique_ptr<TrainDisplay> make_train_display(bool json) {
  if (json) {
    return std::make_unique<JsonDisplay>();
  }
  if (isatty(STDOUT_FILENO) != 0) {
    return std::make_unique<LiveDisplay>();
  }
  return std::make_unique<PlainDisplay>();
}

}  // namespace trireme::cli
