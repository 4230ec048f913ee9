// GroupModel: what calls of a group should take, and so by what they are done.
//
// By the costs of its host if they are known, else by built-in ones of messages. Any thread.
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
  Rank ranks_per_host = 0;  ///< if they are grouped by host, equally many on each; else 0
  TransportKind transport = TransportKind::SharedMemory;  ///< the slowest between two of them
  bool sees_memory = true;                                ///< direct operations can be done
};

class GroupModel {
 public:
  /// Costs: nothing wrong with them, or none.
  GroupModel(const GroupShape& shape, std::optional<HostCosts> costs);

  struct Query {
    Operation operation = Operation::Allreduce;
    Bytes bytes{};  ///< of the whole vector
    DType dtype = DType::F32;
    Rank root = 0;
  };
  /// The fastest by prediction. Direct where that can be done and costs are not known; where they are,
  /// an algorithm must beat it both with buffers that all see and with others, as no rank knows what
  /// buffers the others have.
  [[nodiscard]] Method choose(const Query& query);
  /// What the method should take; nothing where it is not known.
  [[nodiscard]] std::optional<Seconds> predict(const Query& query, const Method& method,
                                               Sight sight) const;
  /// Of algorithms alone, fastest first. Good as long as this.
  [[nodiscard]] const std::vector<Choice>& ranking(const Query& query);
  /// Of messages; also what the number of segments is made for.
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
