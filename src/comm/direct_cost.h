// What direct operations (direct.h) cost on a host whose rates are known. Pure; any thread.
//
// time = waits + moving. Moving is counted in bytes that a rank touches, read or written: the buffers
// of the caller at the rate of a working set of that size, staging memory at what it takes to write
// past the caches and to read what a peer has written so. Ranks that work at the same time share what
// the memory can do; more ranks than cores take turns.
#pragma once

#include <cstdint>
#include <vector>

#include "trireme/schedule.h"
#include "trireme/units.h"

namespace trireme::comm {

/// Seconds per byte touched, for a rank whose working set is `footprint`.
struct TouchRate {
  Bytes footprint{};
  Seconds alone{};     ///< one rank works
  Seconds together{};  ///< every core works
};

/// What waiting for all of `ranks` ranks takes.
struct WaitCost {
  Rank ranks = 0;
  Seconds first{};  ///< of an operation: from the call to having seen all others
  Seconds next{};   ///< for each further wait
};

struct DirectCosts {
  int cores = 1;
  std::vector<TouchRate> copy{};     ///< by rising footprint; not empty
  std::vector<TouchRate> combine{};  ///< likewise
  Seconds stage{};                   ///< per byte written, past the caches, for peers to read
  Seconds fetch{};                   ///< per byte read that a peer has staged
  struct {
    Seconds alpha{};
    Seconds beta{};               ///< per byte
  } peek{};                       ///< copying from a peer's memory through the system
  std::vector<WaitCost> waits{};  ///< by rising ranks; not empty
  double combine_factor = 1;      ///< how much slower than f32 the dtype combines, in the cache
};

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
};

/// From the moment that all ranks call to the last one being done; root 0, blocks of equal size.
[[nodiscard]] Seconds predict_direct(const DirectQuery& query, const DirectCosts& costs);

/// Bytes that cross memory at least, over all ranks: each input read once, each output written once.
[[nodiscard]] Bytes least_traffic(Operation operation, Rank ranks, Bytes bytes);

/// least_traffic() at the rate of all the cores that `ranks` ranks can use, each with its part of the
/// working set.
[[nodiscard]] Seconds direct_floor(const DirectQuery& query, const DirectCosts& costs);

}  // namespace trireme::comm
