// Memory that the ranks of a benchmark share, independent of the measured transport: a barrier, a clock that starts
// when the barrier opens, and space for results. Created before the ranks start; each rank calls it from one thread.
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

  /// Returns when all ranks have arrived. Throws Error(Peer) on all ranks if one aborted.
  void barrier();
  /// A barrier whose opening is the start time for finish(). All ranks are awake then.
  void start();
  /// Marks this rank as finished. Returns when all are, with the time from the opening of start() to
  /// the last finish: the same on all ranks.
  [[nodiscard]] Seconds finish(Rank rank);

  /// Rank 0's number, on every rank.
  [[nodiscard]] std::int64_t agree(Rank rank, std::int64_t number);
  /// How many ranks pass true.
  [[nodiscard]] int count(Rank rank, bool yes);

  /// After a rank's failure: makes all ranks in a barrier, now or later, stop waiting and throw.
  void abort() noexcept;

  /// Memory that all ranks and their parent share; zero at first.
  [[nodiscard]] std::span<std::byte> results();

 private:
  struct Layout;
  struct Unmap {
    std::size_t bytes;
    void operator()(Layout* layout) const noexcept;
  };
  [[nodiscard]] bool arrive_last();
  void await(std::uint32_t generation, int max_yields);

  Rank ranks_;
  std::size_t result_bytes_;
  std::unique_ptr<Layout, Unmap> layout_;
};

/// Pins the calling thread to one core if every rank can have its own; else does nothing.
void pin_to_core(Rank rank, Rank ranks);

}  // namespace trireme::measure
