#include "comm/fault_fuzz/truth.h"

#include <algorithm>
#include <bit>

namespace trireme::fault_fuzz {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

bool makes_silent(const Strike& strike) {
  return strike.fault.kind == Fault::Kind::Stop || strike.fault.kind == Fault::Kind::Cut;
}

}  // namespace

bool is_majority(RankSet side, RankSet members) {
  const int twice = 2 * std::popcount(side & members);
  const int count = std::popcount(members);
  return twice > count || (twice == count && contains(side, std::countr_zero(members)));
}

Truth::Truth(const Scenario& scenario, const Record& record)
    : scenario_(scenario), record_(record), unharmed_(everyone()) {
  const std::vector<const Strike*> harmless = harmless_strikes();
  for (const Strike& strike : record.strikes) {
    if (std::ranges::find(harmless, &strike) == harmless.end()) {
      unharmed_ &= ~hit_by(strike);
    }
  }
}

RankSet Truth::ranks_on(int host) const {
  RankSet set = 0;
  for (int r = 0; r < scenario_.ranks(); ++r) {
    set |= scenario_.host_of(r) == host ? RankSet{1} << r : 0;
  }
  return set;
}

/// A cut hits the side that must not continue. One of about a deadline may be noticed by some ranks of either side and
/// not by others, so those who continue may leave out any of them.
RankSet Truth::hit_by(const Strike& strike) const {
  switch (strike.fault.kind) {
    case Fault::Kind::Kill:
    case Fault::Kind::Stop:
    case Fault::Kind::Idle:
      return RankSet{1} << strike.fault.target;
    case Fault::Kind::Cut: {
      const RankSet side = ranks_on(strike.fault.target);
      if (strike.shortest() < deadlines(kHarmful)) {
        return everyone();
      }
      return is_majority(side, everyone()) ? everyone() & ~side : side;
    }
    default:
      return 0;
  }
}

/// Short silences in close succession may add up: then none of them counts as harmless.
std::vector<const Strike*> Truth::harmless_strikes() const {
  const bool slow = std::ranges::any_of(
      record_.strikes, [](const Strike& s) { return s.fault.kind == Fault::Kind::Slow; });
  const double most = deadlines(slow ? kHarmless - 0.15 : kHarmless);
  std::vector<const Strike*> harmless;
  std::vector<const Strike*> silent;
  for (const Strike& strike : record_.strikes) {
    if (makes_silent(strike) && strike.longest() <= most) {
      silent.push_back(&strike);
    } else if (strike.fault.kind == Fault::Kind::Slow ||
               (strike.fault.kind == Fault::Kind::Idle &&
                strike.longest() <= deadlines(kPatience))) {
      harmless.push_back(&strike);
    }
  }
  std::ranges::sort(silent, {}, [](const Strike* s) { return s->began_after; });
  for (auto from = silent.begin(); from != silent.end();) {
    double end = (*from)->ended_before;
    auto to = from + 1;
    for (; to != silent.end() && (*to)->began_after < end + deadlines(1); ++to) {
      end = std::max(end, (*to)->ended_before);
    }
    if (end - (*from)->began_after <= most) {
      harmless.insert(harmless.end(), from, to);
    }
    from = to;
  }
  return harmless;
}

/// Dead ranks do not count, nor do those declared dead by others that share memory with them.
bool Truth::unharmed_continue() const {
  const bool only_kills = std::ranges::all_of(record_.strikes, [&](const Strike& strike) {
    return strike.fault.kind == Fault::Kind::Kill || (hit_by(strike) & ~unharmed_) == 0;
  });
  const bool one_memory = scenario_.transport == Transport::Shm;
  return unharmed_ != 0 && (only_kills || one_memory || is_majority(unharmed_, everyone()));
}

bool Truth::silences(const Strike& strike, int rank, int peer) const {
  if (strike.fault.kind == Fault::Kind::Stop) {
    return strike.fault.target == peer;
  }
  const int a = scenario_.host_of(rank);
  const int b = scenario_.host_of(peer);
  return strike.fault.kind == Fault::Kind::Cut && a != b &&
         (a == strike.fault.target || b == strike.fault.target);
}

std::optional<Truth::Loss> Truth::loss(int rank, int peer) const {
  std::optional<Loss> first;
  const auto add = [&](const Loss& loss) {
    first = !first || loss.time < first->time ? loss : first;
  };
  for (const Strike& strike : record_.strikes) {
    if (silences(strike, rank, peer) && strike.shortest() >= deadlines(kHarmful)) {
      add({strike.began_before, Loss::Notice::Deadline});
    }
  }
  const bool cuts = std::ranges::any_of(
      record_.strikes, [](const Strike& s) { return s.fault.kind == Fault::Kind::Cut; });
  if (const double time = killed_at(peer); time < kNever) {
    const bool prompt = !cuts || scenario_.host_of(rank) == scenario_.host_of(peer);
    add({time, prompt ? Loss::Notice::Prompt : Loss::Notice::Deadline});
  }
  return first;
}

bool Truth::was_any_late() const {
  return std::ranges::any_of(record_.strikes, [&](const Strike& strike) {
    return strike.fault.kind == Fault::Kind::Idle && strike.longest() > deadlines(kPatience);
  });
}

double Truth::killed_at(int rank) const {
  if (record_.ranks[rank].end != RankRecord::End::Killed) {
    return kNever;
  }
  double time = kNever;
  for (const Strike& strike : record_.strikes) {
    if (strike.fault.kind == Fault::Kind::Kill && strike.fault.target == rank) {
      time = std::min(time, strike.began_before);
    }
  }
  return time;
}

bool Truth::was_stopped(int rank, double begin, double end) const {
  return std::ranges::any_of(record_.strikes, [&](const Strike& s) {
    return s.fault.kind == Fault::Kind::Stop && s.fault.target == rank && s.began_after < end &&
           s.ended_before > begin;
  });
}

double Truth::last_change(double end) const {
  double last = 0;
  for (const Strike& strike : record_.strikes) {
    const bool counts = makes_silent(strike) || strike.fault.kind == Fault::Kind::Kill;
    for (const double time : {strike.began_before, strike.ended_before}) {
      last = counts && time <= end ? std::max(last, time) : last;
    }
  }
  return last;
}

bool Truth::share_memory(int a, int b) const {
  return (scenario_.transport == Transport::Shm || scenario_.transport == Transport::Mixed) &&
         scenario_.host_of(a) == scenario_.host_of(b);
}

bool Truth::may_be_given_up(int rank, RankSet by, double time) const {
  constexpr double kSilent =
      0.85;  // the silence counts from the last heartbeat, up to an eighth before the stop
  const bool has_neighbor = std::ranges::any_of(scenario_.hosts, [&, r = 0](int) mutable {
    const int other = r++;
    return other != rank && contains(by, other) && share_memory(rank, other);
  });
  return has_neighbor && std::ranges::any_of(record_.strikes, [&](const Strike& s) {
           return s.fault.kind == Fault::Kind::Stop && s.fault.target == rank &&
                  s.longest() >= deadlines(kSilent) && s.began_after + deadlines(kSilent) <= time;
         });
}

}  // namespace trireme::fault_fuzz
