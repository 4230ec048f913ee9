// How a probe takes its samples: each number in several passes, timed by all ranks together.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <span>

#include "measure/bench_page.h"
#include "measure/line_fit.h"
#include "trireme/comm.h"

namespace trireme::measure {

/// Samples per number; a sample is itself a median or a mean.
inline constexpr std::size_t kSamples = 8;
/// Each pass measures all numbers once, so that noise of the machine affects a few samples of many numbers and not all
/// samples of one.
inline constexpr std::size_t kPasses = 4;

using Samples = std::array<double, kSamples / kPasses>;  ///< of one pass
using AllSamples = std::array<double, kSamples>;

/// The trimmed mean, without the two slowest and the two fastest.
[[nodiscard]] Estimate estimate(const AllSamples& samples);
/// The samples minus the smallest overhead, but at least a tenth of each.
[[nodiscard]] Samples less(Samples samples, const Samples& overhead);
[[nodiscard]] Samples divided(Samples samples, double divisor);

/// One rank of a probe. Every rank calls the same functions in the same order.
class Prober {
 public:
  /// Both must outlive this object.
  Prober(World& world, BenchPage& page) : world_(world), page_(page), rank_(world.rank()) {}

  /// Seconds that the work takes if the ranks below `active` do it at the same time; the medians of several rounds.
  /// `before` runs before each round and is not timed.
  [[nodiscard]] Samples time(Rank active, const std::function<void()>& work,
                             const std::function<void()>& before = {});
  /// A call of the whole world.
  [[nodiscard]] Samples time(const Call& call);
  /// One of many consecutive barriers.
  [[nodiscard]] Samples barriers_in_a_row();

  void meet() { page_.barrier(); }
  [[nodiscard]] World& world() { return world_; }
  [[nodiscard]] Rank rank() const { return rank_; }

 private:
  World& world_;
  BenchPage& page_;
  Rank rank_;
};

/// Numbers that rank 0 writes for the parent, in the order in which the parent reads them.
class Sheet {
 public:
  /// Bytes that hold the numbers of any probe.
  static constexpr std::size_t kBytes = 1024 * sizeof(AllSamples);

  explicit Sheet(std::span<std::byte> memory);

  /// Calls `measure` once per pass; it puts the same numbers in the same order each time.
  void fill(const std::function<void()>& measure);
  /// Only rank 0 writes.
  void put(const Samples& samples, Rank rank);
  [[nodiscard]] AllSamples take() { return next_ < end_ ? *next_++ : AllSamples{}; }
  [[nodiscard]] AllSamples take_per_byte(double bytes);

 private:
  AllSamples* first_;
  AllSamples* next_;
  AllSamples* end_;
  std::size_t pass_ = 0;
};

}  // namespace trireme::measure
