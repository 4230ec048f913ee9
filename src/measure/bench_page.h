// A page that the ranks of a benchmark share, whatever the transport that is measured: a barrier of
// its own, a clock that begins when the barrier opens, and room for results. Made before the ranks
// are; each rank calls it from one thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "trireme/schedule.h"
#include "trireme/units.h"

namespace trireme::measure {

class BenchPage {
 public:
  /// Throws Error(System) if memory is short.
  BenchPage(Rank ranks, std::size_t result_bytes);

  /// Returns when all ranks have come. Throws Error(Peer) if one gave up. So do the others.
  void barrier();
  /// A barrier whose opening is the moment that finish() counts from. All ranks are awake then.
  void start();
  /// Says that this rank is done. Returns when all are, with the time from the opening of start() to
  /// the last of them: the same on all ranks.
  [[nodiscard]] Seconds finish(Rank rank);

  /// Rank 0's number, on every rank.
  [[nodiscard]] std::int64_t agree(Rank rank, std::int64_t number);
  /// How many ranks say so.
  [[nodiscard]] int count(Rank rank, bool yes);

  /// Tells all ranks in a barrier, or coming to one, to stop waiting. After a rank's failure.
  void give_up() noexcept;

  /// Room that all ranks and their parent see; zero in the beginning.
  [[nodiscard]] std::span<std::byte> results();

 private:
  struct Layout;
  struct Unmap {
    std::size_t bytes;
    void operator()(Layout* layout) const noexcept;
  };
  [[nodiscard]] bool come_last();
  void await(std::uint32_t generation, int most_yields);

  Rank ranks_;
  std::size_t result_bytes_;
  std::unique_ptr<Layout, Unmap> layout_;
};

/// Keeps the calling thread on one core, where every rank can have its own; does nothing otherwise.
void keep_to_core(Rank rank, Rank ranks);
/// Cores that this process may use.
[[nodiscard]] int usable_cores();

}  // namespace trireme::measure
