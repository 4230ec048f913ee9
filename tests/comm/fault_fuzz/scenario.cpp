#include "comm/fault_fuzz/scenario.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/enum_names.h"
#include "base/text.h"
#include "trireme/error.h"

namespace trireme::fault_fuzz {
namespace {

constexpr auto kTransportNames = enum_names<Transport>("shm", "tcp", "tls", "ucx", "mixed");
constexpr auto kOpNames = enum_names<Op::Kind>(
    "barrier", "allreduce", "ring-allreduce", "broadcast", "reduce", "scatter", "gather",
    "allgather", "reduce-scatter", "alltoall", "ring", "pairs", "flood", "started", "split");
constexpr auto kFaultNames = enum_names<Fault::Kind>("kill", "stop", "cut", "idle", "slow");

using Words = std::vector<std::string_view>;

[[noreturn]] void refuse(std::string_view what, std::string_view text) {
  throw Error(ErrorKind::Input, fmt::format("expected {}, found '{}'", what, text));
}

template <class T>
T parse_number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    refuse("a number", text);
  }
  return value;
}

template <class Names>
auto parse_name(const Names& names, std::string_view text) {
  const auto found = names.find(text);
  if (!found) {
    refuse(fmt::format("one of {}", fmt::join(names.list(), ", ")), text);
  }
  return *found;
}

/// "fault stop rank 2 at 1.25 for 1.7"
Fault parse_fault(const Words& words) {
  if (words.size() != 6 && words.size() != 8) {
    throw Error(ErrorKind::Input, "expected 'fault KIND rank|host N at TIME [for TIME]'");
  }
  Fault fault{.kind = parse_name(kFaultNames, words[1])};
  const std::string_view target = fault.hits_host() ? "host" : "rank";
  if (words[2] != target || words[4] != "at" || (words.size() == 8 && words[6] != "for")) {
    refuse(fmt::format("'fault {} {} N at TIME [for TIME]'", words[1], target),
           fmt::format("{}", fmt::join(words, " ")));
  }
  fault.target = parse_number<int>(words[3]);
  fault.at = parse_number<double>(words[5]);
  fault.length = words.size() == 8 ? parse_number<double>(words[7]) : 0;
  return fault;
}

void parse_line(const Words& words, Scenario& into) {
  const std::string_view key = words[0];
  if (key == "hosts") {
    for (std::size_t i = 1; i < words.size(); ++i) {
      into.hosts.push_back(parse_number<int>(words[i]));
    }
  } else if (key == "fault") {
    into.faults.push_back(parse_fault(words));
  } else if (key == "op" && words.size() == 3) {
    into.ops.push_back({parse_name(kOpNames, words[1]), parse_number<std::int64_t>(words[2])});
  } else if (key == "transport" && words.size() == 2) {
    into.transport = parse_name(kTransportNames, words[1]);
  } else if (key == "deadline" && words.size() == 2) {
    into.deadline = parse_number<double>(words[1]);
  } else if (key == "length" && words.size() == 2) {
    into.length = parse_number<double>(words[1]);
  } else {
    refuse("transport, deadline, hosts, length, op or fault",
           fmt::format("{}", fmt::join(words, " ")));
  }
}

double end_of(const Fault& fault) {
  return fault.length > 0 ? fault.at + fault.length : std::numeric_limits<double>::infinity();
}

std::string problem_of(const Scenario& scenario, const Fault& fault) {
  const int targets = fault.hits_host() ? scenario.host_count() : scenario.ranks();
  if (fault.target < 0 || fault.target >= targets) {
    return fmt::format("a fault hits {} {} of {}", fault.hits_host() ? "host" : "rank",
                       fault.target, targets);
  }
  if (fault.hits_host() && scenario.host_count() == 1) {
    return "cutting or slowing a host needs several hosts";
  }
  return fault.at < 0 || fault.length < 0 ? "a fault at a negative time" : "";
}

}  // namespace

std::string_view to_text(Transport transport) {
  return kTransportNames[transport];
}
std::string_view to_text(Op::Kind kind) {
  return kOpNames[kind];
}
std::string_view to_text(Fault::Kind kind) {
  return kFaultNames[kind];
}

bool overlap(const Fault& a, const Fault& b) {
  return a.kind == b.kind && a.target == b.target && a.at <= end_of(b) && b.at <= end_of(a);
}

int Scenario::host_count() const {
  return hosts.empty() ? 0 : *std::ranges::max_element(hosts) + 1;
}

std::string Scenario::problem() const {
  if (ranks() < 1 || ranks() > 16 || std::ranges::min(hosts) < 0 || host_count() > ranks()) {
    return "a scenario needs 1 to 16 ranks on hosts 0, 1, ...";
  }
  if (transport == Transport::Shm && host_count() > 1) {
    return "shm needs all ranks on one host";
  }
  if (ops.empty() || std::ranges::any_of(ops, [](const Op& op) { return op.elements < 1; })) {
    return "a scenario needs ops with at least one element each";
  }
  if (!(deadline > 0) || !(length > 0)) {
    return "deadline and length must be positive";
  }
  for (const Fault& fault : faults) {
    if (std::string problem = problem_of(*this, fault); !problem.empty()) {
      return problem;
    }
    if (std::ranges::any_of(faults, [&](const Fault& other) {
          return &other != &fault && overlap(fault, other);
        })) {
      return fmt::format("a {} begins while another is still in progress", to_text(fault.kind));
    }
  }
  return "";
}

std::string to_text(const Scenario& scenario) {
  std::string text =
      fmt::format("transport {}\ndeadline {}\nhosts {}\nlength {}\n", to_text(scenario.transport),
                  scenario.deadline, fmt::join(scenario.hosts, " "), scenario.length);
  for (const Op& op : scenario.ops) {
    text += fmt::format("op {} {}\n", to_text(op.kind), op.elements);
  }
  for (const Fault& fault : scenario.faults) {
    text += fmt::format("fault {} {} {} at {}{}\n", to_text(fault.kind),
                        fault.hits_host() ? "host" : "rank", fault.target, fault.at,
                        fault.length > 0 ? fmt::format(" for {}", fault.length) : "");
  }
  return text;
}

Scenario parse_scenario(std::string_view text) {
  Scenario scenario;
  int number = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const Words words = split_words(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    try {
      if (!words.empty() && !words[0].starts_with('#')) {
        parse_line(words, scenario);
      }
    } catch (const Error& error) {
      throw Error(ErrorKind::Input, fmt::format("line {}: {}", number, error.what()));
    }
  }
  if (const std::string problem = scenario.problem(); !problem.empty()) {
    throw Error(ErrorKind::Input, "invalid scenario: " + problem);
  }
  return scenario;
}

}  // namespace trireme::fault_fuzz
