// PartPool: hands out the parts of a data set to whichever worker asks, so that fast workers do more. It is a table of
// the parameter servers with the update "pool": replicated, and every request takes effect once.
//
// A part counts as used when the servers apply the gradient that was computed from it: its ticket travels with the push
// (TrainHead::ticket) and is replicated together with its effect. A part whose worker failed is handed out again under
// the same ticket. If the failed worker's push did arrive, on some servers or on all, the second one is ignored there.
//
// Each worker has a pool object of its own. One thread at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "trireme/parameter_server.h"

namespace trireme::ps {

inline constexpr const char* kPoolUpdate = "pool";

/// A part in a worker's hands.
struct Ticket {
  std::int64_t part = 0;
  int owner = 0;  ///< the worker to whom it was first given; for TrainHead::worker
};

class PartPool {
 public:
  struct Options {
    std::string table{};  ///< its name; all workers use the same
    int worker = 0;
    int workers = 1;
  };
  /// The client must outlive the pool. Throws as ParameterClient::create_table().
  PartPool(ParameterClient& client, const Options& options);

  /// Hands out the parts first to last - 1 from now on. Called by one worker, while no other uses the pool.
  void open(std::int64_t first, std::int64_t last);
  /// The next part; nothing if there are no more. The part taken before is done.
  [[nodiscard]] std::optional<Ticket> take();
  /// Ends the pool early, at the next multiple of `parts`.
  void stop(std::int64_t parts);
  /// A worker has failed: its part will be handed out again.
  void abandon(int worker);
  /// The parts end here. Final when all workers have got nothing from take().
  [[nodiscard]] std::int64_t last();

 private:
  ParameterClient& client_;
  Options options_;
  TableHandle table_;
};

}  // namespace trireme::ps
