// Predicted and measured steps of many plans on this machine, and the plans that `trireme train --mesh auto` chooses.
//
// Runs `trireme train` itself, so it measures what a user gets. A round probes the machine, then runs every plan of every
// model and every choice once; rounds repeat, so that noise of the machine hits all of them. The median over the rounds
// counts, of predictions as of measurements. Losses of all plans of a model must agree, or the plan counts as failed.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/median.h"
#include "temporary_folder.h"

namespace {

using Json = nlohmann::ordered_json;
using trireme::median;
using trireme::TemporaryFolder;

struct Options {
  std::string program = "trireme";
  std::vector<std::string> models{"gpt-mini", "llama-tiny", "depths-mini"};
  std::vector<int> ranks{1, 2, 3, 4};
  int rounds = 3;
  int steps = 15;
  int batch = 12;
  int length = 64;
  std::string json;
};

/// A plan, or the choice of one, of a number of ranks.
struct Case {
  std::string model{};
  int ranks = 1;
  std::string plan{};
  bool automatic = false;
  std::vector<double> predicted{};
  std::vector<double> measured{};
  double loss = 0;
  std::string chosen{};  ///< by --mesh auto, in the last round
  std::string error{};
};

const std::vector<std::pair<int, std::string>>& plans() {
  static const std::vector<std::pair<int, std::string>> all{
      {1, ""},
      {1, "--threads 1"},
      {1, "--microbatches 2"},
      {1, "--recompute full"},
      {2, "--mesh data=2"},
      {2, "--mesh data=2 --zero 1"},
      {2, "--mesh data=2 --zero 2"},
      {2, "--mesh data=2 --zero 3"},
      {2, "--mesh tensor=2"},
      {2, "--mesh pipe=2 --microbatches 2"},
      {2, "--mesh pipe=2 --microbatches 6"},
      {2, "--mesh pipe=2 --microbatches 4 --schedule gpipe"},
      {3, "--mesh data=3"},
      {3, "--mesh data=3 --zero 2"},
      {4, "--mesh data=4"},
      {4, "--mesh data=4 --zero 1"},
      {4, "--mesh data=2,tensor=2"},
      {4, "--mesh tensor=4"},
      {4, "--mesh pipe=2,data=2 --microbatches 3"},
      {4, "--mesh pipe=4 --microbatches 4"},
  };
  return all;
}

std::vector<Case> cases_of(const Options& options) {
  const auto is_requested = [&](int ranks) {
    return std::ranges::find(options.ranks, ranks) != options.ranks.end();
  };
  std::vector<Case> cases;
  for (const std::string& model : options.models) {
    for (const auto& [ranks, plan] : plans()) {
      if (is_requested(ranks)) {
        cases.push_back({.model = model, .ranks = ranks, .plan = plan});
      }
    }
    for (const int ranks : {2, 3, 4}) {
      if (is_requested(ranks)) {
        cases.push_back({.model = model,
                         .ranks = ranks,
                         .plan = fmt::format("-n {} --mesh auto", ranks),
                         .automatic = true});
      }
    }
  }
  return cases;
}

/// The output of a command; nothing if it fails.
std::optional<std::string> output_of(const std::string& command) {
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) {
    return std::nullopt;
  }
  std::string text;
  std::array<char, 4096> buffer{};
  for (std::size_t n = 0; (n = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) {
    text.append(buffer.data(), n);
  }
  return pclose(pipe) == 0 ? std::optional(text) : std::nullopt;
}

double load_average() {
  double load = 0;
  std::ifstream("/proc/loadavg") >> load;
  return load;
}

class Bench {
 public:
  explicit Bench(Options options) : options_(std::move(options)), cases_(cases_of(options_)) {}

  int run() {
    for (int round = 0; round < options_.rounds; ++round) {
      loads_.push_back(load_average());
      fmt::print(stderr, "round {} of {}, load {:.1f}\n", round + 1, options_.rounds,
                 loads_.back());
      if (!output_of(environment() + options_.program + " probe 2>/dev/null")) {
        fmt::print(stderr, "plans_bench: 'trireme probe' failed\n");
        return 1;
      }
      for (Case& one : cases_) {
        measure(one);
      }
    }
    loads_.push_back(load_average());
    check_losses();
    print_plans();
    print_choices();
    if (!options_.json.empty()) {
      std::ofstream(options_.json) << to_json().dump(2) << "\n";
    }
    return 0;
  }

 private:
  [[nodiscard]] std::string environment() const {
    return fmt::format("XDG_CACHE_HOME={}/cache ", folder_.path());
  }

  void measure(Case& one) {
    const std::string run_folder = folder_ / "run";
    std::filesystem::remove_all(run_folder);
    const std::optional<std::string> out = output_of(fmt::format(
        "{}{} train --json --model {} --batch {} --length {} --steps {} --validation 0 --rate "
        "constant:0.001 --run-folder {} {} 2>{}/error",
        environment(), options_.program, one.model, options_.batch, options_.length, options_.steps,
        run_folder, one.plan, folder_.path()));
    if (!out) {
      std::ifstream in(folder_ / "error");
      std::getline(in, one.error);
      return;
    }
    const std::size_t last = out->rfind('\n', out->size() - 2);
    const Json summary = Json::parse(out->substr(last == std::string::npos ? 0 : last + 1));
    one.measured.push_back(summary.at("step_seconds"));
    one.loss = summary.at("final_loss");
    one.chosen = summary.at("ranks").is_null() ? "one rank" : summary.at("ranks");
    if (!summary.at("predicted_step_seconds").is_null()) {
      one.predicted.push_back(summary.at("predicted_step_seconds"));
    }
  }

  void check_losses() {
    for (Case& one : cases_) {
      const auto first = std::ranges::find(cases_, one.model, &Case::model);
      if (one.error.empty() && std::abs(one.loss - first->loss) > 1e-3 * first->loss) {
        one.error = fmt::format("its loss is {}, not {}", one.loss, first->loss);
      }
    }
  }

  static bool is_complete(const Case& one) {
    return one.error.empty() && !one.measured.empty() && !one.predicted.empty();
  }
  static double error_of(const Case& one) {
    return median(one.predicted) / median(one.measured) - 1;
  }

  void print_plans() const {
    fmt::print("load average {:.1f} to {:.1f}; {} rounds of {} steps, batch {}, length {}\n\n",
               std::ranges::min(loads_), std::ranges::max(loads_), options_.rounds, options_.steps,
               options_.batch, options_.length);
    fmt::print("{:<12} {:>5} {:<46} {:>10} {:>10} {:>8}\n", "model", "ranks", "plan", "predicted",
               "measured", "error");
    std::vector<double> errors;
    for (const Case& one : cases_) {
      if (!is_complete(one)) {
        fmt::print("{:<12} {:>5} {:<46} {}\n", one.model, one.ranks, one.plan, one.error);
        continue;
      }
      fmt::print("{:<12} {:>5} {:<46} {:>7.2f} ms {:>7.2f} ms {:>+6.1f} %\n", one.model, one.ranks,
                 one.plan, 1e3 * median(one.predicted), 1e3 * median(one.measured),
                 100 * error_of(one));
      if (!one.automatic) {
        errors.push_back(std::abs(error_of(one)));
      }
    }
    if (!errors.empty()) {
      fmt::print("\nmedian absolute error of {} plans: {:.1f} %; largest {:.1f} %\n", errors.size(),
                 100 * median(errors), 100 * std::ranges::max(errors));
    }
  }

  /// The fastest measured plan of the model with this many ranks, the chosen one included.
  [[nodiscard]] const Case& best_of(const Case& choice) const {
    const Case* best = &choice;
    for (const Case& one : cases_) {
      if (one.model == choice.model && one.ranks == choice.ranks && is_complete(one) &&
          median(one.measured) < median(best->measured)) {
        best = &one;
      }
    }
    return *best;
  }

  void print_choices() const {
    fmt::print("\n{:<12} {:>5} {:<40} {:>10} {:<36} {:>10} {:>8}\n", "model", "ranks", "chosen",
               "measured", "best of all", "measured", "slower");
    for (const Case& one : cases_) {
      if (one.automatic && is_complete(one)) {
        const Case& best = best_of(one);
        fmt::print("{:<12} {:>5} {:<40} {:>7.2f} ms {:<36} {:>7.2f} ms {:>6.1f} %\n", one.model,
                   one.ranks, one.chosen, 1e3 * median(one.measured), best.plan,
                   1e3 * median(best.measured),
                   100 * (median(one.measured) / median(best.measured) - 1));
      }
    }
  }

  [[nodiscard]] Json to_json() const {
    Json json{{"loads", loads_}, {"rounds", options_.rounds}, {"cases", Json::array()}};
    for (const Case& one : cases_) {
      json["cases"].push_back({{"model", one.model},
                               {"ranks", one.ranks},
                               {"plan", one.plan},
                               {"automatic", one.automatic},
                               {"chosen", one.chosen},
                               {"predicted_seconds", one.predicted},
                               {"measured_seconds", one.measured},
                               {"error", one.error}});
    }
    return json;
  }

  Options options_;
  std::vector<Case> cases_;
  std::vector<double> loads_;
  TemporaryFolder folder_;
};

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Predicted and measured training steps of many plans on this machine.");
  app.add_option("--program", options.program, "trireme")->capture_default_str();
  app.add_option("--models", options.models, "presets")->delimiter(',')->capture_default_str();
  app.add_option("--ranks", options.ranks, "only plans of these numbers of ranks")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--rounds", options.rounds, "of all plans, interleaved")->capture_default_str();
  app.add_option("--steps", options.steps, "of each run")->capture_default_str();
  app.add_option("--batch", options.batch, "sequences")->capture_default_str();
  app.add_option("--length", options.length, "tokens of a sequence")->capture_default_str();
  app.add_option("--json", options.json, "also write all times to this file");
  CLI11_PARSE(app, argc, argv);
  return Bench(std::move(options)).run();
}
