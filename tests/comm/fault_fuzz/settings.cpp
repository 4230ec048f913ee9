#include "comm/fault_fuzz/settings.h"

#include <charconv>

#include <fmt/format.h>

#include "trireme/error.h"

namespace trireme::fault_fuzz {
namespace {

constexpr std::string_view kUsage = R"(Usage: comm_fault_fuzz [OPTIONS]

Runs ranks that compute together while they are killed, stopped, cut off and delayed. Survivors call
Group::shrink() and continue. Checks what the comm library promises: right results, no wait beyond its
limit, survivors that agree, no minority that continues, nothing left behind.

  --seed N             the first seed (default 1); each scenario takes the next
  --seconds S          begin no new scenario after this long
  --scenarios N        how many scenarios (default 20; without a limit if --seconds is given); with
                       --replay, how many runs (default 5)
  --transport NAME     shm, tcp, tls, ucx, mixed, or all in turn (default all); with --replay, instead
                       of the scenario's own
  --replay FILE        runs the scenario in FILE instead; stops at the first violation
  --shrink-seconds S   how long to look for a smaller scenario that fails (default 60; 0: do not)
  --keep-going         continue with the next scenario after a violation
  --verbose            print what every rank did in every run
  -h, --help           this text

Rules about time are not judged in runs in which the machine was late by more than a third of the
deadline.

Exit codes: 0 no violation, 1 violations, 2 usage.
)";

[[noreturn]] void bad_usage(const std::string& message) {
  throw Error(ErrorKind::Usage, message + " (see comm_fault_fuzz --help)");
}

template <class T>
T parse_number(std::string_view option, std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < T{}) {
    bad_usage(fmt::format("{}: expected a number, found '{}'", option, text));
  }
  return value;
}

std::vector<Transport> all_transports() {
  std::vector<Transport> all;
  for (int i = 0; i < kTransports; ++i) {
    all.push_back(static_cast<Transport>(i));
  }
  return all;
}

std::vector<Transport> parse_transports(std::string_view text) {
  std::vector<Transport> all = all_transports();
  if (text == "all") {
    return all;
  }
  std::erase_if(all, [&](Transport transport) { return to_text(transport) != text; });
  if (all.empty()) {
    bad_usage(
        fmt::format("unknown transport '{}': expected shm, tcp, tls, ucx, mixed or all", text));
  }
  return all;
}

void set_option(Settings& settings, std::string_view option, std::string_view value) {
  if (option == "--seed") {
    settings.seed = parse_number<std::uint64_t>(option, value);
  } else if (option == "--seconds") {
    settings.seconds = parse_number<double>(option, value);
  } else if (option == "--scenarios") {
    settings.scenarios = parse_number<int>(option, value);
  } else if (option == "--transport") {
    settings.transports = parse_transports(value);
  } else if (option == "--replay") {
    settings.replay = value;
  } else if (option == "--shrink-seconds") {
    settings.shrink_seconds = parse_number<double>(option, value);
  } else {
    bad_usage(fmt::format("unknown option '{}'", option));
  }
}

}  // namespace

std::string_view usage() {
  return kUsage;
}

std::optional<Settings> parse_settings(const std::vector<std::string_view>& arguments) {
  Settings settings{.transports = all_transports()};
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string_view option = arguments[i];
    if (option == "-h" || option == "--help") {
      return std::nullopt;
    }
    if (option == "--keep-going") {
      settings.after_violation = Settings::AfterViolation::Continue;
    } else if (option == "--verbose") {
      settings.output = Settings::Output::Verbose;
    } else if (i + 1 == arguments.size()) {
      bad_usage(fmt::format("unknown option '{}', or one without a value", option));
    } else {
      set_option(settings, option, arguments[++i]);
    }
  }
  return settings;
}

}  // namespace trireme::fault_fuzz
