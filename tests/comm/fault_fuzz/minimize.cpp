#include "comm/fault_fuzz/minimize.h"

#include <algorithm>
#include <vector>

namespace trireme::fault_fuzz {
namespace {

/// Renumbers hosts 0, 1, ... after one was removed.
void renumber_hosts(Scenario& scenario) {
  for (int h = 0; h < scenario.host_count(); ++h) {
    while (h < scenario.host_count() &&
           std::ranges::find(scenario.hosts, h) == scenario.hosts.end()) {
      std::ranges::for_each(scenario.hosts, [&](int& host) { host -= host > h ? 1 : 0; });
      std::erase_if(scenario.faults,
                    [&](const Fault& f) { return f.hits_host() && f.target == h; });
      for (Fault& fault : scenario.faults) {
        fault.target -= fault.hits_host() && fault.target > h ? 1 : 0;
      }
    }
  }
}

Scenario without_rank(Scenario scenario, int rank) {
  scenario.hosts.erase(scenario.hosts.begin() + rank);
  std::erase_if(scenario.faults,
                [&](const Fault& f) { return !f.hits_host() && f.target == rank; });
  for (Fault& fault : scenario.faults) {
    fault.target -= !fault.hits_host() && fault.target > rank ? 1 : 0;
  }
  renumber_hosts(scenario);
  return scenario;
}

/// All that are one reduction smaller, the largest reductions first.
std::vector<Scenario> smaller(const Scenario& from) {
  std::vector<Scenario> all;
  const auto add = [&](const auto& change) {
    Scenario candidate = from;
    change(candidate);
    if (candidate.problem().empty() && !candidate.faults.empty() && candidate != from) {
      all.push_back(std::move(candidate));
    }
  };
  for (std::size_t i = 0; i < from.faults.size(); ++i) {
    add([&](Scenario& s) { s.faults.erase(s.faults.begin() + static_cast<std::ptrdiff_t>(i)); });
  }
  if (from.ops.size() > 1) {
    for (const Op& op : from.ops) {
      add([&](Scenario& s) { s.ops = {op}; });
    }
  }
  for (int r = from.ranks() - 1; r >= 0 && from.ranks() > 2; --r) {
    add([&](Scenario& s) { s = without_rank(s, r); });
  }
  for (std::size_t i = 0; i < from.ops.size(); ++i) {
    add([&](Scenario& s) { s.ops[i].elements = 1; });
    add([&](Scenario& s) { s.ops[i].kind = Op::Kind::Allreduce; });
  }
  return all;
}

}  // namespace

Scenario minimize(Scenario failing, const StillFails& still_fails,
                  const std::function<bool()>& time_is_up) {
  for (bool found = true; found;) {
    found = false;
    for (const Scenario& candidate : smaller(failing)) {
      if (time_is_up()) {
        return failing;
      }
      if (still_fails(candidate)) {
        failing = candidate;
        found = true;
        break;
      }
    }
  }
  return failing;
}

}  // namespace trireme::fault_fuzz
