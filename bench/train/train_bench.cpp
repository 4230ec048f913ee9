// One training step of the same GPT here and in PyTorch, in interleaved runs, from the same weights on the same tokens.
//
//   bench/train/run [--json] [--rounds N] [--ranks N] [--zero N] [--threads N] [--layers N] [--width N] [--heads N]
//                   [--length N] [--sequences N] [--vocabulary N] [--only-trireme]
//
// Without options: 12 layers, width 768, 12 heads, 4 sequences of 256 tokens, a vocabulary of 50304, in f32, with AdamW
// and clipping. Reports medians over the rounds, excluding the first step of each. The losses must agree, or the two do
// not compute the same thing and the bench fails. Memory is the peak of each process. Each round also times a 1024 x
// 1024 x 1024 matrix product: the best of them is the peak for HFU. With --ranks the batch is split over processes:
// here by `--mesh data=N`, with ZeRO if --zero is given, in PyTorch by DDP on Gloo; this also measures how much
// communication overlaps with computation.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/wait.h>
#include <unistd.h>

#include "base/median.h"
#include "pytorch.h"
#include "temporary_folder.h"
#include "train/step/trainer.h"
#include "trireme/comm.h"
#include "trireme/communicator.h"
#include "trireme/cores.h"
#include "trireme/cpu_device.h"
#include "trireme/error.h"
#include "trireme/safetensors.h"
#include "trireme/trace.h"

namespace trireme {
namespace {

struct Options {
  bool json = false;
  std::int64_t rounds = 5;
  std::int64_t ranks = 1;    ///< data parallel, like PyTorch's DDP on Gloo
  std::int64_t zero = 0;     ///< ZeRO level, of Trireme's ranks only
  std::int64_t threads = 0;  ///< per rank; 0: the cores, shared evenly
  std::int64_t layers = 12;
  std::int64_t width = 768;
  std::int64_t heads = 12;
  std::int64_t length = 256;
  std::int64_t sequences = 4;
  std::int64_t vocabulary = 50304;
  std::string pytorch{};  ///< the script; none: Trireme alone
};

constexpr double kRate = 3e-4;
constexpr double kClip = 1.0;
constexpr AdamW kAdam{.beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .decay = 0.1};
constexpr double kLossTolerance = 2e-3;

[[noreturn]] void usage(const std::string& reason) {
  throw Error(
      ErrorKind::Usage,
      reason +
          "\noptions: --json --only-trireme --pytorch SCRIPT, and with a number --rounds "
          "--ranks --zero --threads --layers --width --heads --length --sequences --vocabulary");
}

Options parse(int count, char** arguments) {
  Options o;
  const std::vector<std::pair<std::string_view, std::int64_t*>> numbers{
      {"--rounds", &o.rounds},        {"--ranks", &o.ranks},   {"--zero", &o.zero},
      {"--threads", &o.threads},      {"--layers", &o.layers}, {"--width", &o.width},
      {"--heads", &o.heads},          {"--length", &o.length}, {"--sequences", &o.sequences},
      {"--vocabulary", &o.vocabulary}};
  bool alone = false;
  for (int i = 1; i < count; ++i) {
    const std::string_view name = arguments[i];
    const std::string_view value = i + 1 < count ? arguments[i + 1] : "";
    const auto number =
        std::ranges::find(numbers, name, &std::pair<std::string_view, std::int64_t*>::first);
    if (name == "--json") {
      o.json = true;
    } else if (name == "--only-trireme") {
      alone = true;
    } else if (name == "--pytorch") {
      o.pytorch = value;
      ++i;
    } else if (number != numbers.end()) {
      const auto [end, error] =
          std::from_chars(value.data(), value.data() + value.size(), *number->second);
      if (error != std::errc{} || end != value.data() + value.size() || *number->second < 1) {
        usage(fmt::format("{} wants a number from 1 on, not '{}'", name, value));
      }
      ++i;
    } else {
      usage(fmt::format("no option {}", name));
    }
  }
  if (alone) {
    o.pytorch.clear();
  }
  if (o.threads == 0) {
    const std::int64_t cores = usable_cores();
    o.threads = std::max<std::int64_t>(1, cores / o.ranks);
  }
  return o;
}

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double peak_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) {
      return std::strtod(line.c_str() + 6, nullptr) * 1024;
    }
  }
  return 0;
}

train::TrainerOptions trainer_options(const Options& o) {
  ModelConfig model = preset_model("gpt2-small");
  model.name = "bench";
  model.vocabulary = o.vocabulary;
  model.context = o.length;
  model.width = o.width;
  model.layers = o.layers;
  model.heads = o.heads;
  model.key_heads = o.heads;
  model.head_width = o.width / o.heads;
  model.hidden = 4 * o.width;
  train::TrainerOptions options;
  options.model = model;
  options.batch = {.sequences = o.sequences, .length = o.length};
  options.rate.peak = kRate;
  options.training.optimizer = kAdam;
  options.training.clip_limit = kClip;
  options.training.no_decay = {".bias"};
  return options;
}

/// For each step tokens and then targets, each [sequences, length]. A few words are far more likely than the others, so
/// there is something to learn.
std::vector<std::int32_t> make_tokens(const Options& o) {
  std::mt19937 random(1);  // NOLINT(cert-msc51-cpp,cert-msc32-c): the same in each run
  std::geometric_distribution<std::int32_t> draw(0.05);
  std::vector<std::int32_t> tokens((o.rounds + 1) * 2 * o.sequences * o.length);
  for (std::int32_t& token : tokens) {
    token = std::min(draw(random), static_cast<std::int32_t>(o.vocabulary - 1));
  }
  return tokens;
}

void write_weights(const train::TrainerOptions& options, const std::string& path) {
  const Model model = make_model(options.model, options.batch);
  std::vector<HostBuffer> values;
  std::vector<TensorView> views;
  values.reserve(model.parameters.size());
  views.reserve(model.parameters.size());
  for (const ModelParameter& parameter : model.parameters) {
    values.push_back(initial_values(parameter, options.seed));
    views.push_back(
        {{parameter.name, parameter.type.dtype, parameter.type.shape}, values.back().raw()});
  }
  write_safetensors(path, views);
}

std::unique_ptr<PyTorch> start_pytorch(const Options& o, const TemporaryFolder& folder,
                                       const std::vector<std::int32_t>& tokens) {
  // In a separate process: its memory is not part of a training run.
  const pid_t writer = fork();
  if (writer == 0) {
    write_weights(trainer_options(o), folder / "weights");
    _exit(0);
  }
  waitpid(writer, nullptr, 0);
  std::ofstream(folder / "tokens", std::ios::binary)
      .write(reinterpret_cast<const char*>(tokens.data()),
             static_cast<std::streamsize>(tokens.size() * sizeof(std::int32_t)));
  nlohmann::json settings{{"threads", o.threads},
                          {"ranks", o.ranks},
                          {"store", folder / "store"},
                          {"layers", o.layers},
                          {"width", o.width},
                          {"heads", o.heads},
                          {"context", o.length},
                          {"length", o.length},
                          {"sequences", o.sequences},
                          {"vocabulary", o.vocabulary},
                          {"rate", kRate},
                          {"clip", kClip},
                          {"beta1", kAdam.beta1},
                          {"beta2", kAdam.beta2},
                          {"epsilon", kAdam.epsilon},
                          {"decay", kAdam.decay},
                          {"tokens", folder / "tokens"},
                          {"weights", folder / "weights"}};
  std::ofstream(folder / "settings") << settings;
  return std::make_unique<PyTorch>(o.pytorch, folder / "settings");
}

struct Measured {
  std::vector<double> seconds{};
  double memory = 0;
  void add(const MeasuredStep& step) {
    seconds.push_back(step.seconds);
    memory = step.memory;
  }
};

/// The communication time of a step, and how much of it does not overlap.
struct Overlap {
  double step_without = 0;  ///< seconds of a step without overlap
  double exchanges = 0;     ///< seconds of communication in such a step
  double exposed = 0;       ///< seconds of waiting in a normal step
};

double waiting_in(const Trace& trace) {
  double seconds = 0;
  for (const Trace::Span& span : trace.spans) {
    if (trace.tracks.at(span.track.index).thread == "waiting") {
      seconds += span.duration.count;
    }
  }
  return seconds;
}

class Bench {
 public:
  Bench(const Options& o, World* world)
      : o_(o), world_(world), tokens_(make_tokens(o)), device_(make_cpu_device(cpu_options())) {
    train::TrainerOptions options = trainer_options(o_);
    if (world_ != nullptr) {
      options.plan.mesh = Mesh({{"data", world_->size()}});
      options.plan.zero = static_cast<int>(o_.zero);
      communicator_.emplace(*world_, options.plan.mesh);
    }
    if (leads() && !o_.pytorch.empty()) {
      pytorch_ = start_pytorch(o_, folder_, tokens_);
    }
    trainer_ = std::make_unique<train::Trainer>(options, *device_,
                                                communicator_ ? &*communicator_ : nullptr);
  }

  int run() {
    for (std::int64_t round = 0; round <= o_.rounds; ++round) {
      one_round(round);
    }
    if (world_ != nullptr) {
      measure_overlap();
    }
    if (leads()) {
      report();
    }
    if (furthest_ > kLossTolerance) {
      fmt::print(stderr, "train_bench: the losses differ by {:.2g}: not the same computation\n",
                 furthest_);
      return 1;
    }
    return 0;
  }

 private:
  [[nodiscard]] bool leads() const { return world_ == nullptr || world_->rank() == 0; }
  [[nodiscard]] double ranks() const { return world_ == nullptr ? 1 : world_->size(); }
  [[nodiscard]] CpuOptions cpu_options() const {
    CpuOptions cpu;
    cpu.threads = static_cast<int>(o_.threads);
    cpu.pinned = world_ == nullptr;
    return cpu;
  }
  void meet() {
    if (world_ != nullptr) {
      world_->all().barrier();
    }
  }
  train::StepResult step(std::int64_t round, Trace* trace = nullptr) {
    const auto batch = static_cast<std::size_t>(o_.sequences * o_.length);
    const std::size_t at = static_cast<std::size_t>(round) * 2 * batch;
    return trainer_->run_step(std::span<const std::int32_t>(tokens_).subspan(at, batch),
                              std::span<const std::int32_t>(tokens_).subspan(at + batch, batch),
                              trace);
  }

  void one_round(std::int64_t round) {
    meet();
    const double start = now();
    const train::StepResult result = step(round);
    meet();
    const MeasuredStep own{.loss = result.loss, .seconds = now() - start, .memory = peak_memory()};
    peak_ = std::max(peak_, ranks() * train::measure_peak_flops(*device_, DType::F32));
    meet();
    if (!leads()) {
      return;
    }
    MeasuredStep other;
    if (pytorch_) {
      other = pytorch_->step();
      furthest_ = std::max(furthest_, std::abs(own.loss - other.loss));
    }
    if (round > 0) {
      ours_.add(own);
      theirs_.add(other);
    }
    if (!o_.json) {
      fmt::print(
          stderr, "step {}: loss {:.5f} in {:.3f} s{}\n", round, own.loss, own.seconds,
          pytorch_ ? fmt::format("; PyTorch {:.5f} in {:.3f} s", other.loss, other.seconds) : "");
    }
  }

  /// The best of three steps of each kind, interleaved.
  void measure_overlap() {
    constexpr int kTimes = 3;
    for (int i = 0; i < kTimes; ++i) {
      for (const bool overlap : {false, true}) {
        Trace trace;
        trainer_->set_overlap(overlap);
        meet();
        const double start = now();
        (void)step(o_.rounds, &trace);
        meet();
        const double seconds = now() - start;
        const double waiting = waiting_in(trace);
        if (overlap) {
          overlap_.exposed = i == 0 ? waiting : std::min(overlap_.exposed, waiting);
        } else {
          overlap_.step_without = i == 0 ? seconds : std::min(overlap_.step_without, seconds);
          overlap_.exchanges = i == 0 ? waiting : std::min(overlap_.exchanges, waiting);
        }
      }
    }
  }

  void report() const {
    const auto count = static_cast<double>(o_.sequences * o_.length);
    const double seconds = median(ours_.seconds);
    const Flops hardware = trainer_->flops().hardware();
    const Flops model = trainer_->flops().model();
    nlohmann::json row{{"ranks", ranks()},
                       {"zero", o_.zero},
                       {"threads", o_.threads},
                       {"tokens_per_second", count / seconds},
                       {"peak_flops", peak_},
                       {"hfu", hardware.causal_products / seconds / peak_},
                       {"mfu", model.products / seconds / peak_},
                       {"mfu_causal", model.causal_products / seconds / peak_},
                       {"peak_memory_bytes", ours_.memory},
                       {"planned_memory_bytes", trainer_->memory().count}};
    if (pytorch_) {
      row["pytorch"] = pytorch_->version();
      row["pytorch_tokens_per_second"] = count / median(theirs_.seconds);
      row["pytorch_peak_memory_bytes"] = theirs_.memory;
      row["speed_ratio"] = median(theirs_.seconds) / seconds;
      row["memory_ratio"] = ours_.memory / theirs_.memory;
      row["loss_difference"] = furthest_;
    }
    if (world_ != nullptr) {
      row["exchange_seconds"] = overlap_.exchanges;
      row["exposed_seconds"] = overlap_.exposed;
      row["hidden_share"] = 1 - overlap_.exposed / overlap_.exchanges;
      row["step_seconds_without_overlap"] = overlap_.step_without;
    }
    if (o_.json) {
      fmt::print("{}\n", row.dump());
    } else {
      print(row);
    }
  }

  void print(const nlohmann::json& row) const {
    constexpr double kGiB = 1 << 30;
    const auto number = [&](const char* name) { return row.at(name).get<double>(); };
    fmt::print(
        "{} layers, width {}, {} heads, {} x {} tokens, vocabulary {}, f32, {} ranks of {} "
        "threads; medians of {}\n\n",
        o_.layers, o_.width, o_.heads, o_.sequences, o_.length, o_.vocabulary, ranks(), o_.threads,
        o_.rounds);
    fmt::print("{:<24}{:>12}{:>14}\n", "", "tokens/s", "peak memory");
    fmt::print("{:<24}{:>12.1f}{:>10.2f} GiB\n", "Trireme", number("tokens_per_second"),
               number("peak_memory_bytes") / kGiB);
    if (pytorch_) {
      fmt::print("{:<24}{:>12.1f}{:>10.2f} GiB\n", "PyTorch " + pytorch_->version(),
                 number("pytorch_tokens_per_second"), number("pytorch_peak_memory_bytes") / kGiB);
      fmt::print("{:<24}{:>11.2f}x{:>13.2f}x\n", "Trireme / PyTorch", number("speed_ratio"),
                 number("memory_ratio"));
    }
    fmt::print(
        "\nHFU {:.1f} % (products executed, causal attention halved), MFU {:.1f} % "
        "(attention whole), {:.1f} % (halved),\nof {:.1f} GFLOP/s, the best product of "
        "1024^3 in this run; memory planned {:.2f} GiB\n",
        100 * number("hfu"), 100 * number("mfu"), 100 * number("mfu_causal"),
        number("peak_flops") / 1e9, number("planned_memory_bytes") / kGiB);
    if (world_ != nullptr) {
      fmt::print(
          "communication {:.3f} s without overlap (a step of {:.3f} s), {:.3f} s of waiting with "
          "it: "
          "{:.0f} % overlapped\n",
          number("exchange_seconds"), number("step_seconds_without_overlap"),
          number("exposed_seconds"), 100 * number("hidden_share"));
    }
  }

  Options o_;
  World* world_;
  TemporaryFolder folder_;
  std::vector<std::int32_t> tokens_;
  std::unique_ptr<PyTorch> pytorch_;
  std::unique_ptr<Device> device_;
  std::optional<Communicator> communicator_;
  std::unique_ptr<train::Trainer> trainer_;
  Measured ours_;
  Measured theirs_;
  double peak_ = 0;
  double furthest_ = 0;
  Overlap overlap_;
};

int run(const Options& o) {
  if (o.ranks == 1) {
    return Bench(o, nullptr).run();
  }
  WorldOptions options;
  options.deadline = {60.0};  // ranks wait while PyTorch runs
  return launch(
      static_cast<Rank>(o.ranks),
      [&](World& world) {
        if (Bench(o, &world).run() != 0) {
          throw Error(ErrorKind::Input, "the losses differ");
        }
      },
      options);
}

}  // namespace
}  // namespace trireme

int main(int count, char** arguments) {
  std::signal(SIGPIPE, SIG_IGN);
  try {
    return trireme::run(trireme::parse(count, arguments));
  } catch (const trireme::Error& error) {
    fmt::print(stderr, "train_bench: {}\n", error.what());
    return error.kind() == trireme::ErrorKind::Usage ? 2 : 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "train_bench: {}\n", error.what());
    return 1;
  }
}
