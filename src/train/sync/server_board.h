// A step board whose parts come from a pool on the parameter servers. One thread at a time.
#pragma once

#include <memory>
#include <optional>

#include "train/sync/step_board.h"
#include "trireme/ps_pool.h"

namespace trireme::train {

/// Where the workers of a run hand out parts of batches and collect what became of them.
class ServerPool {
 public:
  struct Options {
    std::string name{};  ///< of the run; begins the names of its tables
    int worker = 0;
    int workers = 1;
  };
  /// The client must outlive the pool.
  ServerPool(ps::ParameterClient& client, const Options& options);

  /// The part that this worker has.
  [[nodiscard]] const std::optional<ps::Ticket>& ticket() const noexcept { return ticket_; }

  /// Hands out parts of the stretch's steps, in order; a step has one part per worker. All ranks are workers.
  /// Collective.
  [[nodiscard]] std::unique_ptr<StepBoard> open_board(Group& workers, const Stretch& stretch);

 private:
  friend class ServerBoard;
  ps::ParameterClient& client_;
  Options options_;
  ps::PartPool parts_;
  ps::TableHandle results_;  ///< a row for each step: the results of its parts
  std::optional<ps::Ticket> ticket_;
};

}  // namespace trireme::train
