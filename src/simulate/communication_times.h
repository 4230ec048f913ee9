// What communication between ranks of a cluster takes: messages by the link that joins the two, collectives by the
// fastest algorithm on the links of their group. One thread at a time.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <vector>

#include "trireme/cluster.h"
#include "trireme/collective_cost.h"
#include "trireme/units.h"

namespace trireme::simulate {

/// α, β and γ for a group, its members numbered 0, 1, … in the order given. A level whose blocks hold different numbers of
/// members is left out, so that their messages count as those of the next one.
[[nodiscard]] CostModel group_costs(const Cluster& cluster, std::span<const int> members);

class CommunicationTimes {
 public:
  /// Collectives use the fastest of these algorithms; of all if there are none. The cluster must outlive this object.
  explicit CommunicationTimes(const Cluster& cluster, std::vector<Algorithm> among = {});

  /// α + nβ over the innermost link that joins them.
  [[nodiscard]] Seconds message(int from, int to, double bytes) const;
  /// `bytes` are those of the whole vector, as in Selector::Query.
  [[nodiscard]] Seconds collective(Operation operation, std::span<const int> members, Bytes bytes);
  /// Whether a message between members leaves a node.
  [[nodiscard]] bool crosses_nodes(std::span<const int> members) const;

 private:
  struct Level {
    Rank span = 0;
    double alpha = 0;
    double beta = 0;
    friend auto operator<=>(const Level&, const Level&) = default;
  };
  [[nodiscard]] std::vector<Algorithm> candidates(Operation operation, Rank ranks,
                                                  const CostModel& costs) const;

  const Cluster& cluster_;
  std::vector<Algorithm> among_;
  std::map<std::vector<Level>, std::unique_ptr<Selector>> selectors_;  ///< by the levels of a group
};

}  // namespace trireme::simulate
