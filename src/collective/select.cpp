// Choosing an algorithm: predicted times, ranked. No thresholds; every answer is an argmin.
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "base/mutex.h"
#include "collective/algorithms.h"
#include "collective/catalogue.h"
#include "trireme/collective_cost.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr std::int64_t kMaxUsefulSegments = 1 << 16;

/// The real number k that minimizes (c + s k)(A + B / (s k)): where s k = sqrt(c B / A).
double ideal_segments(Algorithm algorithm, Rank ranks, double bandwidth_over_latency) {
  const bool chain = algorithm == Algorithm::Chain;
  const double fixed_rounds =
      chain ? ranks - 2.0 : static_cast<double>(double_tree_depth(ranks)) - 2.0;
  const double per_segment = chain ? 1.0 : 2.0;
  return std::sqrt(std::max(0.0, fixed_rounds) * bandwidth_over_latency) / per_segment;
}

/// The costs of the slowest link, which determine the number of segments.
CostModel slowest(const CostModel& costs) {
  return {{costs.levels.back()}, costs.gamma};
}

/// Formulas assume uniform links, or two levels that match the nodes of two-level.
bool formula_holds(const CostModel& costs, const Choice& choice) {
  const bool two_levels = properties(choice.algorithm).two_level && costs.levels.size() == 2 &&
                          costs.levels.front().span == choice.options.ranks_per_node;
  return costs.is_uniform() || two_levels;
}

}  // namespace

std::int64_t best_segments(Operation operation, Algorithm algorithm, Rank ranks, Bytes bytes,
                           const CostModel& costs) {
  if (!properties(algorithm).segmented || ranks < 2 || bytes.count < 2) {
    return 1;
  }
  const CostModel one_link = slowest(costs);
  const LinkLevel& link = one_link.levels.front();
  // With k segments, each round costs latency + bandwidth / k; derive both from the formula.
  const Terms whole = formula(operation, algorithm, {.ranks = ranks}).inner;
  const double latency = whole.alpha * link.alpha.count;
  const double bandwidth = static_cast<double>(bytes.count) *
                           (whole.beta * link.beta.count + whole.gamma * costs.gamma.count);
  const double per_segment =
      algorithm == Algorithm::Chain ? 1.0 : 2.0;  // beta of one segment is 1/per_segment a round
  const std::int64_t most = std::max<std::int64_t>(
      1, std::min({bytes.count, kMaxUsefulSegments, kMaxPipelineMessages / (ranks - 1)}));
  if (latency <= 0) {
    return most;
  }
  const double ideal = ideal_segments(algorithm, ranks, per_segment * bandwidth / latency);
  const auto below = std::clamp<std::int64_t>(static_cast<std::int64_t>(ideal), 1, most);
  const auto above = std::min(below + 1, most);
  const auto cost = [&](std::int64_t segments) {
    return formula(operation, algorithm, {.ranks = ranks, .segments = segments})
        .at(static_cast<double>(bytes.count), one_link);
  };
  return cost(above) < cost(below) ? above : below;
}

struct Selector::State {
  using Key = std::tuple<Operation, Rank, Rank, std::int64_t, std::vector<Algorithm>>;

  explicit State(CostModel model) : costs(std::move(model)) {}

  [[nodiscard]] Seconds predict(const Query& query, const Choice& choice) const {
    if (formula_holds(costs, choice)) {
      return formula(query.operation, choice.algorithm, choice.options)
          .at(static_cast<double>(query.bytes.count), costs);
    }
    return time_schedule(build(query.operation, choice.algorithm, choice.options),
                         {query.bytes.count}, costs)
        .seconds;
  }

  /// Node sizes for which two-level divides the ranks evenly: the spans of all levels but the last.
  [[nodiscard]] std::vector<Rank> node_sizes(Rank ranks) const {
    std::vector<Rank> sizes;
    for (const LinkLevel& level : costs.levels) {
      if (level.span > 0 && level.span < ranks && ranks % level.span == 0) {
        sizes.push_back(level.span);
      }
    }
    return sizes;
  }

  /// The options worth considering for this algorithm.
  [[nodiscard]] std::vector<BuildOptions> candidates(const Query& query,
                                                     Algorithm algorithm) const {
    BuildOptions options{.ranks = query.ranks, .root = query.root};
    options.segments = best_segments(query.operation, algorithm, query.ranks, query.bytes, costs);
    if (query.ranks > properties(algorithm).max_ranks) {
      return {};
    }
    if (!properties(algorithm).two_level) {
      return {options};
    }
    std::vector<BuildOptions> all;
    for (const Rank size : node_sizes(query.ranks)) {
      options.ranks_per_node = size;
      all.push_back(options);
    }
    return all;
  }

  [[nodiscard]] std::vector<Choice> evaluate(const Query& query) const {
    std::vector<Choice> choices;
    for (const Algorithm algorithm :
         query.among.empty() ? algorithms_for(query.operation) : query.among) {
      std::optional<Choice> best;
      for (const BuildOptions& options : candidates(query, algorithm)) {
        Choice choice{.algorithm = algorithm, .options = options, .predicted = {}};
        choice.predicted = predict(query, choice);
        if (!best || choice.predicted < best->predicted) {
          best = choice;
        }
      }
      if (best) {
        choices.push_back(*best);
      }
    }
    std::ranges::stable_sort(choices, {}, [](const Choice& choice) {
      return std::pair(!properties(choice.algorithm).bit_identical, choice.predicted.count);
    });
    return choices;
  }

  CostModel costs;
  Mutex mutex;
  std::map<Key, std::vector<Choice>> known TRIREME_GUARDED_BY(mutex);
};

Selector::Selector(CostModel costs) : state_(std::make_unique<State>(std::move(costs))) {
  const std::vector<LinkLevel>& levels = state_->costs.levels;
  for (std::size_t i = 0; i + 1 < levels.size(); ++i) {
    if (levels[i].span < 1) {
      throw Error(ErrorKind::Usage,
                  fmt::format("level {} of {} spans {} ranks; only the last may span all (0)",
                              i + 1, levels.size(), levels[i].span));
    }
  }
  if (levels.empty() || levels.back().span != 0) {
    throw Error(ErrorKind::Usage, "a cost model needs a last level that spans all ranks (span 0)");
  }
}
Selector::~Selector() = default;

const CostModel& Selector::costs() const {
  return state_->costs;
}

const std::vector<Choice>& Selector::rank(const Query& query) {
  State::Key key{query.operation, query.ranks, query.root, query.bytes.count, query.among};
  {
    MutexLock lock(state_->mutex);
    if (const auto found = state_->known.find(key); found != state_->known.end()) {
      return found->second;
    }
  }
  std::vector<Choice> choices =
      state_->evaluate(query);  // without the lock: it may take milliseconds
  MutexLock lock(state_->mutex);
  return state_->known.try_emplace(std::move(key), std::move(choices)).first->second;
}

namespace {

/// Which of the three terms of a formula dominates.
std::string_view dominant_term(const Formula& cost, double bytes, const CostModel& costs) {
  const LinkLevel& near = costs.levels.front();
  const LinkLevel& far = costs.levels.back();
  const double latency = cost.inner.alpha * near.alpha.count + cost.outer.alpha * far.alpha.count;
  const double moving =
      bytes * (cost.inner.beta * near.beta.count + cost.outer.beta * far.beta.count);
  const double combining = bytes * (cost.inner.gamma + cost.outer.gamma) * costs.gamma.count;
  if (latency >= moving + combining) {
    return "latency";
  }
  return moving >= combining ? "bandwidth" : "computation";
}

}  // namespace

std::string Selector::explain(const Query& query) {
  const std::vector<Choice>& choices = rank(query);
  if (choices.empty()) {
    return fmt::format("no algorithm of {} applies", to_text(query.operation));
  }
  const Choice& best = choices.front();
  std::string why = fmt::format("{} is predicted fastest: ", to_text(best.algorithm));
  if (formula_holds(costs(), best)) {
    const Formula cost = formula(query.operation, best.algorithm, best.options);
    why += fmt::format("{}; {} dominates", formula_text(query.operation, best.algorithm),
                       dominant_term(cost, static_cast<double>(query.bytes.count), costs()));
  } else {
    why += "timed step by step over the levels";
  }
  if (choices.size() > 1 && best.predicted.count > 0) {
    why += fmt::format("; next is {}, {:.2f} times as long", to_text(choices[1].algorithm),
                       choices[1].predicted.count / best.predicted.count);
  }
  return why;
}

}  // namespace trireme
