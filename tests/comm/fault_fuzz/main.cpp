// comm_fault_fuzz: runs random fault scenarios against the library's ranks, and judges what they do.
#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "comm/fault_fuzz/judge.h"
#include "comm/fault_fuzz/leftovers.h"
#include "comm/fault_fuzz/minimize.h"
#include "comm/fault_fuzz/runner.h"
#include "comm/fault_fuzz/settings.h"
#include "comm/netns.h"
#include "trireme/comm.h"
#include "trireme/files.h"

namespace trireme::fault_fuzz {
namespace {

class Fuzzer {
 public:
  explicit Fuzzer(Settings settings) : settings_(std::move(settings)), began_(now()) {}

  int run() {
    const std::string replayed = settings_.replay.empty() ? "" : read_file(settings_.replay);
    const std::string why_unchecked = isolate();
    if (!why_unchecked.empty()) {
      files_ = Leftovers::Files::Unchecked;
      fmt::print("SKIPPED the check for files left behind: {}\n", why_unchecked);
    }
    if (settings_.replay.empty()) {
      drop_transports();
      fuzz();
    } else {
      replay(adapt(parse_scenario(replayed)));
    }
    print_summary();
    return violations_ > 0 ? 1 : 0;
  }

 private:
  /// Reports which parts cannot run here.
  void drop_transports() {
    if (!is_built(TransportKind::Ucx) && std::erase(settings_.transports, Transport::Ucx) > 0) {
      fmt::print("SKIPPED ucx: this build does not have it\n");
    }
    if (const std::string& why = test::why_no_network(); !why.empty()) {
      hosts_ = Choices::Hosts::One;
      const bool mixed = std::erase(settings_.transports, Transport::Mixed) > 0;
      fmt::print("SKIPPED {}cutting and slowing hosts: {}\n", mixed ? "mixed, " : "", why);
    }
  }

  [[nodiscard]] bool is_over(int done) const {
    const int most = settings_.scenarios > 0 ? settings_.scenarios : settings_.seconds > 0 ? 0 : 20;
    return (most > 0 && done >= most) ||
           (settings_.seconds > 0 && now() - began_ > settings_.seconds) ||
           (violations_ > 0 && settings_.after_violation == Settings::AfterViolation::Stop);
  }

  void fuzz() {
    const std::size_t transports = settings_.transports.size();
    for (int i = 0; transports > 0 && !is_over(i); ++i) {
      const std::uint64_t seed = settings_.seed + static_cast<std::uint64_t>(i);
      const Transport transport = settings_.transports[seed % transports];
      const Scenario scenario = random_scenario(seed, {.transport = transport, .hosts = hosts_});
      fmt::print("seed {}: {}, {} ranks on {} host(s), {} fault(s): ", seed, to_text(transport),
                 scenario.ranks(), scenario.host_count(), scenario.faults.size());
      std::fflush(stdout);
      last_seed_ = seed;
      const Judgement judgement = try_once(scenario);
      fmt::print("{}\n", judgement.violations.empty() ? "ok" : "VIOLATION");
      if (!judgement.violations.empty()) {
        explain(scenario, judgement);
      }
    }
  }

  /// On the transport given on the command line, if any.
  [[nodiscard]] Scenario adapt(Scenario scenario) const {
    if (settings_.transports.size() == 1) {
      scenario.transport = settings_.transports.front();
    }
    if (const std::string problem = scenario.problem(); !problem.empty()) {
      throw Error(ErrorKind::Usage, fmt::format("{}: {}", settings_.replay, problem));
    }
    return scenario;
  }

  void replay(const Scenario& scenario) {
    if (scenario.transport == Transport::Ucx && !is_built(TransportKind::Ucx)) {
      fmt::print("SKIPPED: this build does not have ucx\n");
      return;
    }
    if (scenario.host_count() > 1 && !test::why_no_network().empty()) {
      fmt::print("SKIPPED: {}\n", test::why_no_network());
      return;
    }
    const int runs = settings_.scenarios > 0 ? settings_.scenarios : 5;
    for (int i = 0; i < runs && !is_over(-1); ++i) {
      const Judgement judgement = try_once(scenario);
      fmt::print("run {}: {}\n", i + 1, judgement.violations.empty() ? "ok" : "VIOLATION");
      print_violations(judgement);
    }
  }

  Judgement try_once(const Scenario& scenario) {
    const Record record = fault_fuzz::run(scenario, files_);
    Judgement judgement = judge(scenario, record);
    ++runs_;
    strikes_ += record.strikes.size();
    busy_ += judgement.timing == Judgement::Timing::MachineBusy ? 1 : 0;
    violations_ += judgement.violations.empty() ? 0 : 1;
    for (const RankRecord& rank : record.ranks) {
      steps_ += rank.steps;
    }
    if (settings_.output == Settings::Output::Verbose || !judgement.violations.empty()) {
      story_ = describe(record);
    }
    if (settings_.output == Settings::Output::Verbose) {
      fmt::print("\n{}{}", to_text(scenario), story_);
    }
    return judgement;
  }

  void print_violations(const Judgement& judgement) const {
    for (const Violation& violation : judgement.violations) {
      fmt::print("  {}: {}\n", to_text(violation.rule), violation.text);
    }
    if (!judgement.violations.empty() && settings_.output == Settings::Output::Brief) {
      fmt::print("{}", story_);
    }
    std::fflush(stdout);
  }

  /// Prints the violation, and the smallest scenario found that also has it.
  void explain(const Scenario& scenario, const Judgement& judgement) {
    print_violations(judgement);
    const Rule rule = judgement.violations.front().rule;
    const double end = now() + settings_.shrink_seconds;
    const int found = violations_;
    const Scenario smallest = minimize(
        scenario, [&](const Scenario& candidate) { return fails(candidate, rule, end); },
        [&] { return now() >= end; });
    violations_ = found;
    fmt::print(
        "Smallest scenario found that violates {}; to replay, write it to FILE and run\n"
        "  comm_fault_fuzz --replay FILE\n"
        "The scenario as it was: comm_fault_fuzz --transport {} --seed {} --scenarios 1\n"
        "# seed {}, rule {}\n{}\n",
        to_text(rule), to_text(scenario.transport), last_seed_, last_seed_, to_text(rule),
        to_text(smallest));
    std::fflush(stdout);
  }

  bool fails(const Scenario& candidate, Rule rule, double end) {
    constexpr int kTries = 3;
    for (int i = 0; i < kTries && now() < end; ++i) {
      const Judgement judgement = try_once(candidate);
      if (std::ranges::any_of(judgement.violations,
                              [&](const Violation& v) { return v.rule == rule; })) {
        return true;
      }
    }
    return false;
  }

  void print_summary() const {
    const std::string seeds =
        settings_.replay.empty()
            ? (last_seed_ == 0 ? "no seeds"
                               : fmt::format("seeds {} to {}", settings_.seed, last_seed_))
            : settings_.replay;
    fmt::print(
        "{} runs ({}), {} faults injected, {} steps, {:.0f} s; {} violated a rule, {} not judged "
        "on time "
        "because the machine was busy\n",
        runs_, seeds, strikes_, steps_, now() - began_, violations_, busy_);
  }

  Settings settings_;
  Leftovers::Files files_ = Leftovers::Files::Checked;
  Choices::Hosts hosts_ = Choices::Hosts::Many;
  double began_;
  std::string story_;  ///< of the last run worth reporting
  std::uint64_t last_seed_ = 0;
  int runs_ = 0;
  std::size_t strikes_ = 0;
  std::int64_t steps_ = 0;
  int violations_ = 0;
  int busy_ = 0;
};

int run_program(const std::vector<std::string_view>& arguments) {
  try {
    const std::optional<Settings> settings = parse_settings(arguments);
    if (!settings) {
      fmt::print("{}", usage());
      return 0;
    }
    return Fuzzer(*settings).run();
  } catch (const Error& error) {
    fmt::print(stderr, "comm_fault_fuzz: {}\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "comm_fault_fuzz: {}\n", error.what());
    return 1;
  }
}

}  // namespace
}  // namespace trireme::fault_fuzz

int main(int argc, char** argv) {
  return trireme::fault_fuzz::run_program({argv + 1, argv + argc});
}
