#include "shrink.h"

#include <algorithm>
#include <utility>

namespace trireme::fuzz {
namespace {

/// Without steps on groups that no longer exist.
Sequence without_orphans(Sequence sequence) {
  Groups groups = world_group(sequence.ranks);
  std::erase_if(sequence.steps, [&](const Step& step) {
    if (!groups.contains(group_of(step))) {
      return true;
    }
    update_groups(groups, step);
    return false;
  });
  return sequence;
}

Sequence without_steps(Sequence sequence, std::size_t begin, std::size_t count) {
  const auto first = sequence.steps.begin() + static_cast<std::ptrdiff_t>(begin);
  sequence.steps.erase(first, first + static_cast<std::ptrdiff_t>(count));
  return without_orphans(std::move(sequence));
}

// Leaving out a rank.

template <class T>
void erase_at(std::vector<T>& from, Rank index) {
  from.erase(from.begin() + index);
}

void lower_above(Rank& place, Rank gone) {
  place -= place > gone || (place == gone && place > 0) ? 1 : 0;
}

void drop_place(Collective& call, Rank gone) {
  const auto ranks = static_cast<Rank>(call.sides.size());
  if (call.operation == Operation::Alltoall && !call.counts.empty()) {
    for (Rank pair = ranks * ranks - 1; pair >= 0; --pair) {
      if (pair / ranks == gone || pair % ranks == gone) {
        erase_at(call.counts, pair);
      }
    }
  } else if (!call.counts.empty()) {
    erase_at(call.counts, gone);
  }
  erase_at(call.sides, gone);
  lower_above(call.root, gone);
}

void drop_place(NewGroups& made, Rank gone) {
  for (NewGroups::Part& part : made.parts) {
    std::erase(part.places, gone);
    for (Rank& place : part.places) {
      lower_above(place, gone);
    }
  }
  std::erase_if(made.parts, [](const NewGroups::Part& part) { return part.places.empty(); });
}

/// False if the step is removed with the rank.
bool keep_without(Step& step, const Groups& groups, Rank rank) {
  const std::vector<Rank>& members = groups.at(group_of(step));
  const auto it = std::ranges::find(members, rank);
  if (it == members.end()) {
    return true;
  }
  const auto gone = static_cast<Rank>(it - members.begin());
  if (members.size() == 1) {
    return false;
  }
  if (auto* message = std::get_if<Message>(&step.action)) {
    const bool takes_part = message->from == gone || message->to == gone;
    lower_above(message->from, gone);
    lower_above(message->to, gone);
    return !takes_part;
  }
  if (auto* call = std::get_if<Collective>(&step.action)) {
    drop_place(*call, gone);
    return true;
  }
  if (auto* made = std::get_if<NewGroups>(&step.action)) {
    drop_place(*made, gone);
    return !made->parts.empty();
  }
  return true;
}

Sequence without_rank(const Sequence& sequence, Rank rank) {
  Sequence out = sequence;
  out.steps.clear();
  --out.ranks;
  erase_at(out.hosts, rank);
  Groups groups = world_group(sequence.ranks);
  for (const Step& step : sequence.steps) {
    Step kept = step;
    if (keep_without(kept, groups, rank)) {
      out.steps.push_back(std::move(kept));
    }
    update_groups(groups, step);
  }
  return without_orphans(std::move(out));
}

// Simpler steps. Each function adds variants of the step, boldest first.

using Variants = std::vector<Step>;

template <class Action, class Change>
void vary(const Step& step, const Change& change, Variants& out) {
  Step changed = step;
  change(std::get<Action>(changed.action));
  if (changed != step) {
    out.push_back(std::move(changed));
  }
}

/// A side's own choices, one at a time.
template <class Action, class Find>
void vary_side(const Step& step, const Find& find, Variants& out) {
  vary<Action>(
      step, [&](Action& a) { find(a) = Side{}; }, out);
  vary<Action>(
      step, [&](Action& a) { find(a).lag = kBlocking; }, out);
  vary<Action>(
      step, [&](Action& a) { find(a).lag = std::min(find(a).lag, 0); }, out);
  vary<Action>(
      step, [&](Action& a) { find(a).lag = std::min(find(a).lag, 1); }, out);
  vary<Action>(
      step, [&](Action& a) { find(a).layout = Side::Layout::Separate; }, out);
  vary<Action>(
      step, [&](Action& a) { find(a).input = {}; }, out);
  vary<Action>(
      step, [&](Action& a) { find(a).output = {}; }, out);
  vary<Action>(
      step, [&](Action& a) { find(a).input.offset = 0; }, out);
  vary<Action>(
      step, [&](Action& a) { find(a).output.offset = 0; }, out);
}

void vary_collective(const Step& step, Variants& out) {
  const auto& call = std::get<Collective>(step.action);
  vary<Collective>(
      step, [](Collective& c) { c.sides.assign(c.sides.size(), Side{}); }, out);
  vary<Collective>(
      step, [](Collective& c) { c.counts.clear(); }, out);
  vary<Collective>(
      step, [](Collective& c) { c.repeat = 1; }, out);
  vary<Collective>(
      step, [](Collective& c) { c.repeat = std::min(c.repeat, 2); }, out);
  vary<Collective>(
      step, [](Collective& c) { c.method = {}; }, out);
  vary<Collective>(
      step, [](Collective& c) { c.order = Order::Any; }, out);
  vary<Collective>(
      step, [](Collective& c) { c.values = Collective::Values::Exact; }, out);
  vary<Collective>(
      step, [](Collective& c) { c.combiner = Collective::Combiner::BuiltIn; }, out);
  vary<Collective>(
      step, [](Collective& c) { c.reduction = Reduction::Sum; }, out);
  vary<Collective>(
      step, [](Collective& c) { c.dtype = DType::F32; }, out);
  vary<Collective>(
      step, [](Collective& c) { c.root = 0; }, out);
  for (std::size_t i = 0; i < call.sides.size(); ++i) {
    vary_side<Collective>(
        step, [i](Collective& c) -> Side& { return c.sides[i]; }, out);
  }
}

void vary_message(const Step& step, Variants& out) {
  vary<Message>(
      step, [](Message& m) { m.tag = 0; }, out);
  vary<Message>(
      step, [](Message& m) { m.dtype = DType::U8; }, out);
  vary_side<Message>(
      step, [](Message& m) -> Side& { return m.sender; }, out);
  vary_side<Message>(
      step, [](Message& m) -> Side& { return m.receiver; }, out);
}

Variants plainer(const Step& step) {
  Variants out;
  if (std::holds_alternative<Collective>(step.action)) {
    vary_collective(step, out);
  } else if (std::holds_alternative<Message>(step.action)) {
    vary_message(step, out);
  }
  return out;
}

class Shrinker {
 public:
  Shrinker(Sequence failing, const Fails& fails, const std::function<bool()>& goes_on)
      : best_(std::move(failing)), fails_(fails), goes_on_(goes_on) {}

  Sequence shrink() {
    bool smaller = true;
    while (smaller && goes_on_()) {
      smaller = drop_steps();
      smaller = drop_ranks() || smaller;
      smaller = simplify_world() || smaller;
      smaller = simplify_steps() || smaller;
    }
    return best_;
  }

 private:
  /// Takes the candidate if it fails as well.
  bool accept(const Sequence& candidate) {
    if (!goes_on_() || candidate == best_ || !find_illegal(candidate).empty() ||
        !fails_(candidate)) {
      return false;
    }
    best_ = candidate;
    return true;
  }

  /// Removes runs of steps, half of them at first, from the end.
  bool drop_steps() {
    bool any = false;
    for (std::size_t length = best_.steps.size(); length > 0; length /= 2) {
      std::size_t end = best_.steps.size();
      while (end > 0) {
        const std::size_t begin = end > length ? end - length : 0;
        const bool accepted = accept(without_steps(best_, begin, end - begin));
        any = any || accepted;
        end = std::min(begin, best_.steps.size());
      }
    }
    return any;
  }

  bool drop_ranks() {
    bool any = false;
    for (Rank rank = best_.ranks - 1; rank >= 0 && best_.ranks > 1; --rank) {
      any = accept(without_rank(best_, rank)) || any;
    }
    return any;
  }

  template <class Change>
  bool try_change(const Change& change) {
    Sequence candidate = best_;
    change(candidate);
    return accept(candidate);
  }

  bool simplify_world() {
    bool any = try_change([](Sequence& s) { s.checksums = WorldOptions::Checksums::Network; });
    any = try_change([](Sequence& s) { s.connections = 2; }) || any;
    any = try_change([](Sequence& s) { s.costs = Sequence::Costs::None; }) || any;
    any = try_change([](Sequence& s) { s.end = Sequence::End::Together; }) || any;
    return try_change([](Sequence& s) { s.skew = Sequence::Skew::None; }) || any;
  }

  bool simplify_steps() {
    bool any = false;
    for (std::size_t i = 0; i < best_.steps.size(); ++i) {
      any = simplify_step(i) || any;
      any = lower_counts(i) || any;
    }
    return any;
  }

  /// Tries the variants once. Those of an accepted variant replace the others.
  bool simplify_step(std::size_t index) {
    bool any = false;
    Variants variants = plainer(best_.steps[index]);
    for (std::size_t k = 0; k < variants.size();) {
      if (try_change([&](Sequence& s) { s.steps[index] = variants[k]; })) {
        any = true;
        variants = plainer(best_.steps[index]);
      } else {
        ++k;
      }
    }
    return any;
  }

  bool lower_counts(std::size_t index) {
    const Step step = best_.steps[index];
    if (std::holds_alternative<Message>(step.action)) {
      return lower([index](Sequence& s) -> std::int64_t& {
        return std::get<Message>(s.steps[index].action).count;
      });
    }
    if (!std::holds_alternative<Collective>(step.action)) {
      return false;
    }
    bool any = lower([index](Sequence& s) -> std::int64_t& {
      return std::get<Collective>(s.steps[index].action).count;
    });
    for (std::size_t k = 0; k < std::get<Collective>(step.action).counts.size(); ++k) {
      any = lower([index, k](Sequence& s) -> std::int64_t& {
              return std::get<Collective>(s.steps[index].action).counts[k];
            }) ||
            any;
    }
    return any;
  }

  /// Bisects a number down to the smallest that still fails.
  template <class Find>
  bool lower(const Find& find) {
    const std::int64_t before = find(best_);
    std::int64_t passing = -1;
    while (find(best_) - passing > 1 && goes_on_()) {
      // 0 and 1 first: most remaining steps do not need their data.
      const std::int64_t middle = passing < 1 ? passing + 1 : passing + (find(best_) - passing) / 2;
      if (!try_change([&](Sequence& s) { find(s) = middle; })) {
        passing = middle;
      }
    }
    return find(best_) != before;
  }

  Sequence best_;
  const Fails& fails_;
  const std::function<bool()>& goes_on_;
};

}  // namespace

Sequence shrink(Sequence failing, const Fails& fails, const std::function<bool()>& goes_on) {
  return Shrinker(std::move(failing), fails, goes_on).shrink();
}

}  // namespace trireme::fuzz
