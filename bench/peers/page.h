// A page of memory that the ranks of one library share, and that belongs to the benchmark: its
// barrier and its clock are the same for every library, whatever the library itself is made of.
//
// The driver makes the file and removes it; each rank maps it.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "operation.h"

namespace peers {

inline constexpr int kMaxRanks = 64;

/// What the driver asks for. `repeats` calls at most, and as many as fit in `milliseconds` of time;
/// at least three.
struct Command {
  bool quit = false;
  Operation operation = Operation::Allreduce;
  std::int64_t bytes = 0;
  int repeats = 0;
  double milliseconds = 0;
};

/// The file's content; zero to begin with. Each part that is written alone has a cache line alone.
struct PageLayout {
  struct alignas(64) Line {
    std::int64_t value;
  };
  alignas(64) std::atomic<std::uint32_t> arrived;
  alignas(64) std::atomic<std::uint32_t> generation;  ///< of the barrier; a futex
  alignas(64) std::atomic<std::uint32_t> commands;    ///< how many were given; a futex
  alignas(64) std::atomic<std::uint32_t> wrong;       ///< ranks whose result was wrong
  alignas(64) Command command;
  Line release;  ///< when the last start() opened, in nanoseconds
  Line count;    ///< calls to make, as rank 0 has decided
  Line done[kMaxRanks];
};

class Page {
 public:
  /// Throws std::system_error.
  Page(const std::string& path, int rank, int ranks);
  ~Page();
  Page(const Page&) = delete;
  Page& operator=(const Page&) = delete;

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int ranks() const { return ranks_; }

  /// Returns when all ranks have come. Sleeps, so that a library's own threads have the processor.
  void barrier();
  /// A barrier whose opening is the moment that finish() counts from. Spins a little, then yields,
  /// so that all ranks are awake when it opens even where there are more of them than cores.
  void start();
  /// Says that this rank is through. Returns when all ranks are: the microseconds from the opening
  /// of start() to the last of them.
  [[nodiscard]] double finish();

  /// Rank 0 gives a command; the others sleep, without using the processor, until it does.
  void publish(const Command& command);
  [[nodiscard]] Command await();
  /// The same number on every rank: rank 0's.
  [[nodiscard]] int agree(int on);
  /// The number of ranks, by all of them, that say so.
  [[nodiscard]] int count_wrong(bool wrong);

 private:
  [[nodiscard]] bool come_last();
  void open();

  PageLayout* page_;
  int rank_;
  int ranks_;
  std::uint32_t seen_ = 0;  ///< commands awaited so far
};

}  // namespace peers
