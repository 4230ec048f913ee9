#include "comm/direct_model.h"

#include <algorithm>
#include <stdexcept>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "comm/direct_model_memory.h"

namespace trireme::test {

using comm::DirectStep;
using comm::Offer;
using comm::Offers;
using comm::Path;
using comm::Phase;
using comm::Place;
using comm::Stage;

namespace {

const char* name_of(DirectStep step) {
  constexpr std::array kNames{"wait", "announce", "choose", "stage", "work", "take", "finish"};
  return kNames.at(static_cast<std::size_t>(step));
}

}  // namespace

std::string to_text(const ModelCase& c) {
  std::string buffers;
  for (const ModelBuffers& b : c.buffers) {
    buffers += fmt::format(" {}{}{}", b.input_visible ? 'S' : 'p', b.output_visible ? 'S' : 'p',
                           b.in_place ? "=" : "");
  }
  return fmt::format("{} of {} {}, counts {}, root {} of {},{} buffers{}", to_text(c.operation),
                     c.size, trireme::to_text(c.dtype), static_cast<int>(c.counts), c.root,
                     c.buffers.size(), c.can_fetch ? " fetching," : "", buffers);
}

// What a rank sees of its peers.

class DirectModel::Peers {
 public:
  Peers(const DirectModel& model, const State& state, std::size_t call, DirectStep asked)
      : model_(model), state_(state), call_(call), asked_(asked) {}

  [[nodiscard]] bool may_begin() const {
    // Like DirectState::may_begin: a rank that saw all start the last call need not check.
    if (call_ < 2 || !previous_is_early() || mutated(Mutation::BeginWithoutWaiting)) {
      return true;
    }
    return std::ranges::all_of(state_, [&](const RankState& r) { return r.call + 1 >= call_; });
  }
  /// The stamp in the slot of this call belongs to this call, not to the call after the next.
  [[nodiscard]] bool has_stamped(Rank rank) const {
    const RankState& r = state_[rank];
    const bool stamped = r.progress.phase != Phase::Begin;
    return mutated(Mutation::AwaitNobody) || (r.call == call_ && stamped) || r.call == call_ + 1 ||
           (r.call == call_ + 2 && !stamped);
  }
  [[nodiscard]] bool has_reached(Rank rank, Stage stage, std::int64_t chunks) const {
    if (is_ignored(stage)) {
      return true;
    }
    return chunks <= 0 ||
           state_[rank].clocks[static_cast<std::size_t>(stage)] >= clock_at(call_, chunks);
  }
  [[nodiscard]] static std::uint64_t clock_at(std::size_t call, std::int64_t chunks) {
    return ((call + 1) << comm::kChunkBits) + static_cast<std::uint64_t>(chunks);
  }

 private:
  [[nodiscard]] bool previous_is_early() const {
    return model_.parts_[call_ - 1][0].direct.is_early;
  }
  [[nodiscard]] bool mutated(Mutation mutation) const { return model_.mutation_ == mutation; }
  [[nodiscard]] bool is_ignored(Stage stage) const {
    switch (model_.mutation_) {
      case Mutation::LeaveWithoutWaiting:
        return asked_ == DirectStep::Finish;
      case Mutation::StageWithoutWaiting:
        return asked_ == DirectStep::Stage;
      case Mutation::WorkWithoutWaiting:
        return asked_ == DirectStep::Work && stage == Stage::Staged;
      case Mutation::TakeWithoutWaiting:
        return asked_ == DirectStep::Take;
      default:
        return false;
    }
  }

  const DirectModel& model_;
  const State& state_;
  std::size_t call_;
  DirectStep asked_;
};

// Before any rank starts.

DirectModel::DirectModel(const std::vector<ModelCase>& calls, Mutation mutation)
    : calls_(calls), mutation_(mutation), ranks_(static_cast<Rank>(calls.front().buffers.size())) {
  parts_.resize(calls.size());
  for (std::size_t call = 0; call < calls.size(); ++call) {
    parts_[call].resize(ranks_);
    prepare(call);
  }
}

void DirectModel::prepare(std::size_t call) {
  for (Rank rank = 0; rank < ranks_; ++rank) {
    prepare_part(call, rank);
  }
  const std::int64_t last_end = chunks_to_;
  for (Rank rank = 0; rank < ranks_; ++rank) {
    chunks_to_ = last_end;
    choose_path(call, rank);
  }
}

void DirectModel::prepare_part(std::size_t call, Rank rank) {
  const ModelCase& c = calls_[call];
  Part& part = parts_[call][rank];
  part.call = model_call(c, call, rank);
  part.geometry = comm::make_geometry(part.call, rank, ranks_);
  part.direct = comm::make_direct_call(part.call, part.geometry, rank, ranks_);
  const ModelBuffers& buffers = c.buffers[rank];
  const comm::Visibility visibility{
      .input = buffers.input_visible, .output = buffers.output_visible, .can_fetch = c.can_fetch};
  part.offers = part.direct.offers(visibility);
  if (!part.direct.may_lend() && part.direct.offers({}) != part.offers) {
    fail("an offer depends on buffers that DirectOp does not look up");
  }
  if (mutation_ == Mutation::AnnounceWithheldAsCopy && part.offers.input == Offer::Withheld) {
    part.offers.input = Offer::Copy;
  }
}

std::string DirectModel::signature(std::size_t call) const {
  std::string out = fmt::format("{} {} {} {} {} {}", static_cast<int>(calls_[call].operation),
                                calls_[call].root, ranks_, static_cast<int>(path(call)),
                                chunks(call), static_cast<int>(calls_[call].counts));
  for (Rank r = 0; r < ranks_; ++r) {
    const Part& p = part(call, r);
    out +=
        fmt::format(" {}{}{}", static_cast<int>(p.offers.input), static_cast<int>(p.offers.output),
                    calls_[call].buffers[r].in_place ? '=' : ' ');
  }
  return out + (part(call, 0).direct.is_early ? " early" : "");
}

// The steps.

int DirectModel::action_of(std::size_t call, Rank rank, DirectStep step, std::int64_t chunk) {
  Part& part = parts_[call][rank];
  int& action =
      part.actions[static_cast<std::size_t>(step) + kStepKinds * static_cast<std::size_t>(chunk)];
  if (action < 0) {
    action = static_cast<int>(actions_.size());
    actions_.push_back(record(call, rank, step, chunk));
  }
  return action;
}

std::vector<DirectModel::Candidate> DirectModel::candidates(const State& state) {
  std::vector<Candidate> out;
  for (Rank rank = 0; rank < ranks_; ++rank) {
    if (state[rank].call < calls_.size()) {
      add_candidates(state, rank, out);
    }
  }
  return out;
}

void DirectModel::add_candidates(const State& state, Rank rank, std::vector<Candidate>& out) {
  const RankState& mine = state[rank];
  if (mine.progress.phase == Phase::Pipeline) {
    add_pipeline(state, rank, out);
    return;
  }
  const Peers peers(*this, state, mine.call, DirectStep::Finish);
  comm::DirectProgress progress = mine.progress;
  progress.seen = 0;
  const DirectStep step =
      comm::DirectSteps<Peers>(part(mine.call, rank).direct, peers).next(progress);
  if (step == DirectStep::Finish) {
    out.push_back({rank, step, -1});
  } else if (step != DirectStep::Wait) {
    out.push_back({rank, step, action_of(mine.call, rank, step, 0)});
  }
}

/// Any possible step of the pipeline: a rank may not have seen the clock that allows another.
void DirectModel::add_pipeline(const State& state, Rank rank, std::vector<Candidate>& out) {
  const RankState& mine = state[rank];
  const comm::DirectCall& direct = part(mine.call, rank).direct;
  comm::DirectProgress progress = mine.progress;
  const Peers honest(*this, state, mine.call, DirectStep::Wait);
  const DirectStep next = comm::DirectSteps<Peers>(direct, honest).next(progress);
  if (next == DirectStep::Finish) {
    out.push_back({rank, next, -1});
    return;
  }
  bool has_next = next == DirectStep::Wait;
  for (const DirectStep step : {DirectStep::Stage, DirectStep::Work, DirectStep::Take}) {
    const Peers peers(*this, state, mine.call, step);
    if (comm::DirectSteps<Peers>(direct, peers).may_do(step, progress)) {
      const std::int64_t chunk = step == DirectStep::Stage  ? progress.staged
                                 : step == DirectStep::Work ? progress.worked
                                                            : progress.taken;
      out.push_back({rank, step, action_of(mine.call, rank, step, chunk)});
      has_next = has_next || step == next;
    }
  }
  if (!has_next) {
    fail("next() picks a step that is not possible");
  }
}

void DirectModel::apply(const Candidate& step, State& state) const {
  RankState& mine = state[step.rank];
  if (step.step == DirectStep::Finish) {
    ++mine.call;
    mine.progress = {};
    return;
  }
  if (step.step == DirectStep::Choose) {
    mine.progress = part(mine.call, step.rank).chosen;
    return;
  }
  const comm::Tick tick = comm::complete(step.step, mine.progress);
  if (tick.chunks > 0 && mutation_ != Mutation::NeverTell) {
    mine.clocks[static_cast<std::size_t>(tick.stage)] = Peers::clock_at(mine.call, tick.chunks);
  }
}

bool DirectModel::is_finished(const State& state) const {
  return std::ranges::all_of(state, [&](const RankState& r) { return r.call == calls_.size(); });
}

// One order of all steps.

std::optional<std::string> DirectModel::run(Order order) {
  try {
    run_in(order);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return std::nullopt;
}

void DirectModel::run_in(Order order) {
  State state = begin();
  Contents contents(*this);
  Rank turn = 0;
  while (!is_finished(state)) {
    const std::vector<Candidate> steps = candidates(state);
    if (steps.empty()) {
      fail("all ranks wait");
    }
    const auto from_turn = [&](const Candidate& c) { return (c.rank - turn + ranks_) % ranks_; };
    const Candidate step = order == Order::LowestFirst ? steps.front()
                           : order == Order::HighestFirst
                               ? steps.back()
                               : *std::ranges::min_element(steps, {}, from_turn);
    turn = (step.rank + 1) % ranks_;
    require_buffers_held(state, step);
    const std::size_t call = state[step.rank].call;
    if (step.step == DirectStep::Finish) {
      contents.check_result(call, step.rank);
    } else {
      contents.execute(call, step);
    }
    apply(step, state);
  }
}

/// No rank uses a buffer of a rank whose call has returned.
void DirectModel::require_buffers_held(const State& state, const Candidate& step) const {
  if (step.action < 0) {
    return;
  }
  const std::size_t call = state[step.rank].call;
  for (const Access& access : actions_[step.action].accesses) {
    if (access.owner >= 0 && state[access.owner].call > call) {
      fail(fmt::format("rank {}, call {}, {}: uses a buffer of rank {}, which has returned",
                       step.rank, call, name_of(step.step), access.owner));
    }
  }
}

// All orders.

std::optional<std::string> DirectModel::explore() {
  try {
    explore_all();
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return std::nullopt;
}

namespace {

/// Which states are equal: the rest of a RankState follows from this.
void append_key(std::size_t call, const comm::DirectProgress& p, std::string& key) {
  for (const std::int64_t value :
       {static_cast<std::int64_t>(call), static_cast<std::int64_t>(p.phase), p.staged, p.worked,
        p.taken}) {
    key.push_back(static_cast<char>(value));
  }
}

}  // namespace

void DirectModel::explore_all() {
  std::unordered_set<std::string> seen;
  std::vector<State> stack{begin()};
  while (!stack.empty()) {
    const State state = std::move(stack.back());
    stack.pop_back();
    std::string key;
    for (const RankState& r : state) {
      append_key(r.call, r.progress, key);
    }
    if (!seen.insert(key).second || is_finished(state)) {
      continue;
    }
    const std::vector<Candidate> steps = candidates(state);
    if (steps.empty()) {
      fail("all ranks wait");
    }
    require_independent(state, steps);
    for (const Candidate& step : steps) {
      apply(step, stack.emplace_back(state));
    }
  }
  states_ = seen.size();
}

void DirectModel::require_independent(const State& state, const std::vector<Candidate>& steps) {
  for (std::size_t i = 0; i < steps.size(); ++i) {
    require_buffers_held(state, steps[i]);
    for (std::size_t j = 0; j < i; ++j) {
      const Candidate& a = steps[i];
      const Candidate& b = steps[j];
      if (a.action >= 0 && b.action >= 0 && conflict(a.action, b.action)) {
        fail(fmt::format("rank {}, {}, and rank {}, {}, touch the same bytes at the same time",
                         a.rank, name_of(a.step), b.rank, name_of(b.step)));
      }
    }
  }
}

bool DirectModel::conflict(int a, int b) {
  const auto first = static_cast<std::size_t>(std::min(a, b));
  const auto second = static_cast<std::size_t>(std::max(a, b));
  if (conflicts_.size() <= second) {
    conflicts_.resize(second + 1);
  }
  conflicts_[second].resize(second + 1, -1);
  std::int8_t& known = conflicts_[second][first];
  if (known < 0) {
    known = 0;
    for (const Access& x : actions_[first].accesses) {
      for (const Access& y : actions_[second].accesses) {
        const bool overlap = x.begin < y.end && y.begin < x.end;
        known = known != 0 || (overlap && (x.is_write || y.is_write)) ? 1 : 0;
      }
    }
  }
  return known != 0;
}

}  // namespace trireme::test
