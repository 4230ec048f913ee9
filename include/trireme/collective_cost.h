// The cost of a Schedule: lock-step timing, exact under the one-port alpha-beta-gamma model, traffic counters,
// closed-form formulas, lower bounds, crossovers, and the selector that ranks algorithms by predicted time. Pure; any
// thread.
//
// The model. A message of b bytes takes alpha + b*beta at any distance; combining b bytes takes b*gamma more at
// the receiver. A rank has one port in each direction: it sends one message at a time and receives one at a time, both
// concurrently. Ranks run in lock step: a step lasts as long as its busiest port, and the steps add up. (Ranks that run
// freely, each entering a step when its own messages of the previous step are done, are never slower.)
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trireme/collective.h"
#include "trireme/schedule.h"
#include "trireme/units.h"

namespace trireme {

/// One class of links. Ranks [k*span, (k+1)*span) for each k reach one another over it.
struct LinkLevel {
  Rank span = 0;  ///< 0: all ranks
  Seconds alpha{1e-6};
  Seconds beta{1e-9};  ///< per byte
};

struct CostModel {
  /// From the closest to the farthest; a pair uses the first level whose span contains both. The last span is 0.
  std::vector<LinkLevel> levels{LinkLevel{}};
  Seconds gamma{1e-10};  ///< per byte combined

  /// The same costs for all pairs.
  [[nodiscard]] static CostModel uniform(Seconds alpha, Seconds beta, Seconds gamma);
  [[nodiscard]] bool is_uniform() const { return levels.size() == 1; }
  [[nodiscard]] const LinkLevel& between(Rank a, Rank b) const;
};

struct Timing {
  Seconds seconds;
  std::vector<Seconds> steps;  ///< per step; they add up to `seconds`
};
[[nodiscard]] Timing time_schedule(const Schedule& schedule, const Payload& payload,
                                   const CostModel& costs);

/// The second cost model: rounds with ports of any width (Time), full-size messages at the busiest rank in one round
/// (Peak), full-size messages on all links (Total); and plain counts.
struct Traffic {
  std::int64_t rounds = 0;
  double peak = 0;   ///< in units of the whole vector
  double total = 0;  ///< in units of the whole vector
  std::int64_t messages = 0;
  Bytes bytes_total;
  std::vector<Bytes> sent;         ///< by rank
  std::vector<Bytes> received;     ///< by rank
  std::vector<Rank> busy_senders;  ///< by step: ranks that send
};
[[nodiscard]] Traffic count_traffic(const Schedule& schedule, const Payload& payload);

/// alpha * messages + n * (beta * bytes + gamma * combined): a cost as three counts, n being the
/// vector's bytes.
struct Terms {
  double alpha = 0;
  double beta = 0;
  double gamma = 0;
  [[nodiscard]] Seconds at(double bytes, const LinkLevel& link, Seconds gamma_per_byte) const;
  friend Terms operator+(const Terms& a, const Terms& b) {
    return {a.alpha + b.alpha, a.beta + b.beta, a.gamma + b.gamma};
  }
  friend Terms operator*(double factor, const Terms& t) {
    return {factor * t.alpha, factor * t.beta, factor * t.gamma};
  }
};

/// The cost of an algorithm in closed form, for blocks of equal size (exact where the number of blocks divides n).
struct Formula {
  Terms inner;  ///< over the links of one node; everything if the algorithm ignores levels
  Terms outer;  ///< over the links between nodes (two-level only)
  [[nodiscard]] Seconds at(double bytes, const CostModel& costs) const;
};
[[nodiscard]] Formula formula(Operation operation, Algorithm algorithm,
                              const BuildOptions& options);
/// The formula in the usual notation: "2(p-1)α + 2(p-1)/p nβ + (p-1)/p nγ".
[[nodiscard]] std::string_view formula_text(Operation operation, Algorithm algorithm);

/// A lower bound for each term; one algorithm need not reach all three at once.
[[nodiscard]] Terms lower_bound(Operation operation, Rank ranks);
/// Their sum over the fastest links: no schedule in the catalog is faster.
[[nodiscard]] Seconds lower_bound(Operation operation, Rank ranks, const Payload& payload,
                                  const CostModel& costs);

/// The vector size above which `longer` beats `shorter`, in bytes: 0 or less if it always does, nullopt if it never
/// does.
[[nodiscard]] std::optional<double> crossover(const Terms& shorter, const Terms& longer,
                                              const CostModel& costs);

/// The number of segments that makes chain or double-tree fastest at this size; 1 for the others.
[[nodiscard]] std::int64_t best_segments(Operation operation, Algorithm algorithm, Rank ranks,
                                         Bytes bytes, const CostModel& costs);

struct Choice {
  Algorithm algorithm = Algorithm::Mst;
  BuildOptions options;  ///< pass to build()
  Seconds predicted;
};

/// Ranks the algorithms of an operation by predicted time: by their formulas if all links are alike, otherwise by
/// timing their schedules. Caches its results; many threads may share one Selector.
class Selector {
 public:
  explicit Selector(CostModel costs);
  ~Selector();
  Selector(const Selector&) = delete;
  Selector& operator=(const Selector&) = delete;

  struct Query {
    Operation operation = Operation::Allreduce;
    Rank ranks = 1;
    Rank root = 0;
    Bytes bytes{};
    std::vector<Algorithm> among = {};  ///< empty: every algorithm that implements the operation
  };
  /// Fastest first; ties keep the catalog's order. Algorithms that do not leave identical bits on all ranks come last,
  /// regardless of their time. The reference is valid as long as the Selector lives.
  const std::vector<Choice>& rank(const Query& query);

  /// Explains the first choice: its terms, which of them dominates, and its lead over the second.
  [[nodiscard]] std::string explain(const Query& query);

  [[nodiscard]] const CostModel& costs() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trireme
