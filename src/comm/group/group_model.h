// GroupModel: predicts how long a group's calls take, and chooses their methods accordingly.
//
// Uses the costs of its host if known, else built-in message costs. Callable from any thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "base/mutex.h"
#include "comm/direct/direct_cost.h"
#include "trireme/collective_cost.h"
#include "trireme/comm.h"
#include "trireme/host_costs.h"

namespace trireme::comm {

/// How the ranks of a group are distributed.
struct GroupShape {
  Rank ranks = 1;
  Rank ranks_per_host = 0;  ///< if they are grouped by host, the same number on each; else 0
  TransportKind transport = TransportKind::SharedMemory;  ///< the slowest between two of them
  bool shares_memory = true;                              ///< direct operations are possible
};

class GroupModel {
 public:
  /// The costs, if given, must be valid.
  GroupModel(const GroupShape& shape, std::optional<HostCosts> costs);

  struct Query {
    Operation operation = Operation::Allreduce;
    Bytes bytes{};  ///< of the whole vector
    DType dtype = DType::F32;
    Rank root = 0;
  };
  /// The fastest method by prediction. Direct if possible and costs are unknown; if they are known, an algorithm must
  /// beat it both with shared-memory buffers and with private ones, because no rank knows which buffers the others
  /// have.
  [[nodiscard]] Method choose(const Query& query);
  /// The predicted time of the method; nothing if unknown.
  [[nodiscard]] std::optional<Seconds> predict(const Query& query, const Method& method,
                                               Sight sight) const;
  /// Algorithms only, fastest first. Valid as long as this object.
  [[nodiscard]] const std::vector<Choice>& ranking(const Query& query);
  /// Of messages; also determines the number of segments.
  [[nodiscard]] const CostModel& messages(DType dtype) const;

 private:
  [[nodiscard]] Selector& selector(DType dtype) const;
  [[nodiscard]] Seconds first_wait() const;
  [[nodiscard]] bool is_on_one_host() const;
  [[nodiscard]] BuildOptions options_for(const Query& query, Algorithm algorithm) const;
  [[nodiscard]] std::vector<Choice> rank_on_one_host(const Query& query) const;
  [[nodiscard]] Seconds moving(const Query& query, Algorithm algorithm) const;

  GroupShape shape_;
  std::optional<HostCosts> costs_;
  MessageCost near_;                                  ///< messages inside a host
  std::vector<std::unique_ptr<Selector>> selectors_;  ///< by dtype
  Mutex mutex_;
  std::map<std::tuple<Operation, std::int64_t, DType, Rank>, std::vector<Choice>> rankings_
      TRIREME_GUARDED_BY(mutex_);
};

}  // namespace trireme::comm
