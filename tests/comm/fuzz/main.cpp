// comm_fuzz: runs random sequences of operations on the ranks of a world and checks every result.
// Uses only the public headers.
#include <charconv>
#include <chrono>
#include <cstdio>
#include <exception>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "execute.h"
#include "generate.h"
#include "sequence.h"
#include "shrink.h"
#include "supervise.h"

namespace trireme::fuzz {
namespace {

constexpr const char* kHelp = R"(Usage: comm_fuzz [OPTIONS]

Runs random sequences of collectives and messages on the ranks of a world and checks every result.
A sequence that fails (wrong result, crash or hang) is shrunk and printed.

  --seed N           the first seed (default 1); sequence i has seed N + i
  --sequences N      how many sequences (default 100, or no limit with --seconds)
  --seconds S        start no sequence after this long
  --transport NAME   in-process, shm, tcp, tls, ucx, mixed, mixed-tls, or all, which
                     takes turns (default all)
  --ranks P          ranks of every sequence (default: the seed decides)
  --end HOW          ranks leave alone or together, after a barrier (default: the seed decides)
  --timeout S        a sequence that takes longer hangs (default 60)
  --shrink-seconds S how long to shrink (default 240)
  --replay FILE      run the sequence in this file, - is standard input, ten times or
                     --sequences times, until it fails
  --list             print the sequences and run nothing
  -h, --help         this text

Exit codes: 0 all passed, 1 a sequence failed, 2 usage.
)";

struct Options {
  std::uint64_t seed = 1;
  std::optional<std::int64_t> sequences{};
  std::optional<double> seconds{};
  std::vector<Transport> transports = available_transports();
  std::optional<Rank> ranks{};
  std::optional<Sequence::End> end{};
  Seconds timeout{60};
  Seconds shrink_time{240};
  std::string replay{};
  enum class Mode { Run, List, Help } mode = Mode::Run;
};

template <class Number>
Number to_number(const std::string& option, const std::string& text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || number < 0) {
    throw Error(ErrorKind::Usage, fmt::format("{} expects a number, got '{}'", option, text));
  }
  return number;
}

std::vector<Transport> to_transports(const std::string& text) {
  return text == "all" ? available_transports() : std::vector{parse_fuzz_transport(text)};
}

Sequence::End to_end(const std::string& text) {
  if (text != "alone" && text != "together") {
    throw Error(ErrorKind::Usage, fmt::format("--end expects alone or together, got '{}'", text));
  }
  return text == "alone" ? Sequence::End::Alone : Sequence::End::Together;
}

void set_option(const std::string& option, const std::string& value, Options& options) {
  if (option == "--seed") {
    options.seed = to_number<std::uint64_t>(option, value);
  } else if (option == "--sequences") {
    options.sequences = to_number<std::int64_t>(option, value);
  } else if (option == "--seconds") {
    options.seconds = to_number<double>(option, value);
  } else if (option == "--transport") {
    options.transports = to_transports(value);
  } else if (option == "--ranks") {
    options.ranks = std::max(to_number<Rank>(option, value), 1);
  } else if (option == "--end") {
    options.end = to_end(value);
  } else if (option == "--timeout") {
    options.timeout = Seconds{to_number<double>(option, value)};
  } else if (option == "--shrink-seconds") {
    options.shrink_time = Seconds{to_number<double>(option, value)};
  } else if (option == "--replay") {
    options.replay = value;
  } else {
    throw Error(ErrorKind::Usage, fmt::format("unknown option '{}'; see --help", option));
  }
}

Options parse_options(const std::vector<std::string>& words) {
  Options options;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--help" || words[i] == "-h") {
      options.mode = Options::Mode::Help;
    } else if (words[i] == "--list") {
      options.mode = Options::Mode::List;
    } else if (i + 1 < words.size()) {
      set_option(words[i], words[i + 1], options);
      ++i;
    } else {
      throw Error(ErrorKind::Usage, fmt::format("unknown option or no value: '{}'", words[i]));
    }
  }
  return options;
}

class Stopwatch {
 public:
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

/// How often the sequence fails.
int count_failures(const Sequence& sequence, int runs, Seconds timeout) {
  int failures = 0;
  for (int i = 0; i < runs; ++i) {
    failures += run_apart(sequence, timeout).passed() ? 0 : 1;
  }
  return failures;
}

/// Runs the sequence until it fails, at most this many times.
Outcome run_until_failure(const Sequence& sequence, std::int64_t runs, Seconds timeout) {
  Outcome outcome;
  for (std::int64_t i = 0; i < runs && outcome.passed(); ++i) {
    outcome = run_apart(sequence, timeout);
  }
  return outcome;
}

struct Shrunk {
  Sequence sequence;
  Outcome outcome;
};

/// A sequence that fails intermittently is run more often, to reproduce it.
Shrunk shrink_by_running(const Sequence& failing, const Outcome& outcome, const Options& options) {
  constexpr int kRuns = 5;
  const Stopwatch watch;
  const int failures = count_failures(failing, kRuns, options.timeout);
  const int tries = failures == kRuns ? 2 : failures >= 3 ? 5 : 15;
  fmt::print("fails in {} of {} runs; shrinking\n", failures, kRuns);
  std::fflush(stdout);
  Shrunk smallest{failing, outcome};
  int candidates = 0;
  const Fails fails = [&](const Sequence& candidate) {
    ++candidates;
    const Outcome result = run_until_failure(candidate, tries, options.timeout);
    smallest.outcome = result.passed() ? smallest.outcome : result;
    return !result.passed();
  };
  smallest.sequence =
      shrink(failing, fails, [&] { return watch.seconds() < options.shrink_time.count; });
  fmt::print("shrunk {} steps to {}: {} candidates in {:.0f} s\n", failing.steps.size(),
             smallest.sequence.steps.size(), candidates, watch.seconds());
  return smallest;
}

/// Saves the sequence in a file and prints how to run it again.
void print_sequence(const std::string& title, const Sequence& sequence, const std::string& file) {
  fmt::print("{}:\n\n{}\n", title, to_text(sequence));
  std::ofstream(file) << to_text(sequence);
  fmt::print("replay: comm_fuzz --replay {}\n", file);
  std::fflush(stdout);
}

void report(const Sequence& failing, const Outcome& outcome, std::uint64_t seed,
            const Options& options) {
  const std::string file = fmt::format("comm_fuzz_{}_{}", to_text(failing.transport), seed);
  fmt::print("seed {} on {}: {} after {:.1f} s: {}\n", seed, to_text(failing.transport),
             to_text(outcome.kind), outcome.took.count, outcome.details);
  print_sequence("the sequence", failing, file + ".full");
  const Shrunk smallest = shrink_by_running(failing, outcome, options);
  print_sequence(
      fmt::format("smallest sequence for seed {} on {}", seed, to_text(failing.transport)),
      smallest.sequence, file + ".min");
  fmt::print("{}: {}\n", to_text(smallest.outcome.kind), smallest.outcome.details);
}

bool goes_on(const Options& options, std::int64_t done, const Stopwatch& watch) {
  if (options.seconds && watch.seconds() >= *options.seconds) {
    return false;
  }
  constexpr std::int64_t kSequences = 100;
  const std::int64_t unlimited = std::numeric_limits<std::int64_t>::max();
  return done < options.sequences.value_or(options.seconds ? unlimited : kSequences);
}

int fuzz(const Options& options) {
  const Stopwatch watch;
  std::int64_t done = 0;
  std::int64_t checks = 0;
  for (; goes_on(options, done, watch); ++done) {
    const std::uint64_t seed = options.seed + static_cast<std::uint64_t>(done);
    const auto turn = static_cast<std::size_t>(done) % options.transports.size();
    const Sequence sequence = generate(
        seed, {.transport = options.transports[turn], .ranks = options.ranks, .end = options.end});
    if (options.mode == Options::Mode::List) {
      fmt::print("# seed {}\n{}\n", seed, to_text(sequence));
      continue;
    }
    const Outcome outcome = run_apart(sequence, options.timeout);
    if (!outcome.passed()) {
      report(sequence, outcome, seed, options);
      fmt::print("failed: seed {}, after {} sequences, {} operations checked\n", seed, done,
                 checks);
      return 1;
    }
    checks += count_checks(sequence);
  }
  fmt::print("passed: {} sequences, {} operations checked, seeds {} to {}, {:.1f} s\n", done,
             checks, options.seed,
             options.seed + static_cast<std::uint64_t>(std::max<std::int64_t>(done, 1)) - 1,
             watch.seconds());
  return 0;
}

std::string read_all(const std::string& path) {
  std::ifstream file(path == "-" ? "/dev/stdin" : path);
  if (!file) {
    throw Error(ErrorKind::Usage, fmt::format("cannot open '{}'", path));
  }
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

int replay(const Options& options) {
  const Sequence sequence = parse_sequence(read_all(options.replay));
  constexpr std::int64_t kRuns = 10;
  const Outcome outcome =
      run_until_failure(sequence, options.sequences.value_or(kRuns), options.timeout);
  fmt::print("{} after {:.1f} s, {} steps, {} operations{}{}\n", to_text(outcome.kind),
             outcome.took.count, sequence.steps.size(), count_checks(sequence),
             outcome.passed() ? "" : ": ", outcome.details);
  return outcome.passed() ? 0 : 1;
}

int run(const Options& options) {
  if (options.mode == Options::Mode::Help) {
    fmt::print("{}", kHelp);
    return 0;
  }
  for (const Transport transport : options.transports) {
    if (!is_available(transport)) {
      fmt::print("skipped: {} is not available here\n", to_text(transport));
      return 0;
    }
  }
  return options.replay.empty() ? fuzz(options) : replay(options);
}

}  // namespace
}  // namespace trireme::fuzz

int main(int argc, char** argv) {
  try {
    const std::vector<std::string> words(argv + 1, argv + argc);
    return trireme::fuzz::run(trireme::fuzz::parse_options(words));
  } catch (const std::exception& error) {
    fmt::print(stderr, "comm_fuzz: {}\n", error.what());
    return 2;
  }
}
