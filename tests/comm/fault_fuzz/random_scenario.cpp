// How a seed becomes a scenario.
#include <algorithm>
#include <array>
#include <cmath>

#include "comm/fault_fuzz/random.h"
#include "comm/fault_fuzz/scenario.h"

namespace trireme::fault_fuzz {
namespace {

std::vector<int> random_hosts(Random& random, const Choices& choices) {
  const int ranks = random.integer(2, 6);
  const bool many = choices.hosts == Choices::Hosts::Many && choices.transport != Transport::Shm &&
                    (choices.transport == Transport::Mixed || random.one_in(2));
  const int most = many ? std::min(ranks, 3) : 1;
  const int hosts = many ? random.integer(2, most) : 1;
  std::vector<int> placement;
  for (int r = 0; r < ranks; ++r) {
    placement.push_back(r < hosts ? r : random.integer(0, hosts - 1));
  }
  if (random.one_in(2)) {
    std::ranges::sort(placement);
  }
  return placement;
}

/// One number, a few thousand, or several MiB.
std::int64_t random_elements(Random& random) {
  switch (random.integer(0, 3)) {
    case 0:
      return random.integer(1, 8);
    case 1:
      return random.integer(100, 50000);
    default:
      return random.integer(1 << 18, 1 << 21);
  }
}

std::vector<Op> random_ops(Random& random) {
  std::vector<Op> ops;
  const int count = random.integer(1, 6);
  for (int i = 0; i < count; ++i) {
    ops.push_back({static_cast<Op::Kind>(random.integer(0, kOps - 1)), random_elements(random)});
  }
  return ops;
}

/// Clearly shorter or longer than the deadline, around it, or to the end.
double random_length(Random& random) {
  switch (random.integer(0, 5)) {
    case 0:
    case 1:
      return random.hundredths(0.3, 0.75);
    case 2:
      return random.hundredths(0.8, 1.4);
    case 3:
    case 4:
      return random.hundredths(1.45, 2.5);
    default:
      return 0;
  }
}

Fault random_fault(Random& random, const Scenario& scenario) {
  const bool hosts = scenario.host_count() > 1;
  constexpr std::array kOneHost{Fault::Kind::Kill, Fault::Kind::Stop, Fault::Kind::Stop,
                                Fault::Kind::Idle};
  constexpr std::array kHosts{Fault::Kind::Kill, Fault::Kind::Stop, Fault::Kind::Cut,
                              Fault::Kind::Cut,  Fault::Kind::Stop, Fault::Kind::Slow,
                              Fault::Kind::Idle};
  Fault fault;
  fault.kind = hosts ? kHosts.at(random.integer(0, kHosts.size() - 1))
                     : kOneHost.at(random.integer(0, kOneHost.size() - 1));
  fault.target =
      random.integer(0, (fault.hits_host() ? scenario.host_count() : scenario.ranks()) - 1);
  fault.at = random.hundredths(0.1, 3);
  if (fault.kind == Fault::Kind::Idle || fault.kind == Fault::Kind::Slow) {
    fault.length = random.hundredths(0.5, 3);
  } else if (fault.kind != Fault::Kind::Kill) {
    fault.length = random_length(random);
  }
  return fault;
}

}  // namespace

Scenario random_scenario(std::uint64_t seed, const Choices& choices) {
  Random random(seed * kTransports + static_cast<std::uint64_t>(choices.transport));
  Scenario scenario;
  scenario.transport = choices.transport;
  scenario.deadline = random.hundredths(0.6, 1.0);
  scenario.hosts = random_hosts(random, choices);
  scenario.ops = random_ops(random);
  const int faults = random.integer(1, 3);
  for (int i = 0; i < faults; ++i) {
    Fault fault = random_fault(random, scenario);
    if (i == 1 && random.one_in(3)) {  // it hits while the first one is being detected
      fault.at = scenario.faults[0].at + random.hundredths(0.9, 1.4);
    }
    if (std::ranges::none_of(scenario.faults, [&](const Fault& f) { return overlap(f, fault); })) {
      scenario.faults.push_back(fault);
    }
  }
  std::ranges::sort(scenario.faults, {}, &Fault::at);
  double end = 0;
  for (const Fault& fault : scenario.faults) {
    end = std::max(end, fault.at + (fault.length > 0 ? fault.length : 1.5));
  }
  scenario.length = std::ceil((end + 1) * 10) / 10;
  return scenario;
}

}  // namespace trireme::fault_fuzz
