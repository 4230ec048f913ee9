// The cost of direct operations (direct.h) on a host with known rates. Pure; any thread.
//
// time = waits + data movement. Data movement is counted in bytes that a rank reads or writes: the caller's buffers at
// the rate of a working set of that size, staging memory at the cost of writing for peers and of reading data staged by
// a peer. Ranks that work at the same time share the memory bandwidth; more ranks than cores take turns.
#pragma once

#include <cstdint>

#include "trireme/host_costs.h"
#include "trireme/schedule.h"
#include "trireme/tensor.h"
#include "trireme/units.h"

namespace trireme::comm {

/// Where the buffers of a call are.
enum class Sight : std::uint8_t {
  Hidden,   ///< peers cannot see them
  Visible,  ///< World::allocate, or threads
};

struct DirectQuery {
  Operation operation = Operation::Allreduce;
  Rank ranks = 1;
  Bytes bytes{};  ///< n, of the vector
  Sight sight = Sight::Hidden;
  DType dtype = DType::F32;
};

/// Requires costs without problems().

/// From the moment that all ranks call until the last one is done; root 0, blocks of equal size.
[[nodiscard]] Seconds predict_direct(const DirectQuery& query, const HostCosts& costs);

/// How much longer a byte of such a working set takes to access while this many ranks are active than while two are.
[[nodiscard]] Seconds crowding(Bytes footprint, Rank active, const HostCosts& costs);

/// The least number of bytes that cross memory, over all ranks: each input read once, each output written once.
[[nodiscard]] Bytes least_traffic(Operation operation, Rank ranks, Bytes bytes);

/// least_traffic() at the combined rate of all the cores that `ranks` ranks can use, each with its part of the working
/// set.
[[nodiscard]] Seconds direct_floor(const DirectQuery& query, const HostCosts& costs);

}  // namespace trireme::comm
