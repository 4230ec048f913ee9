// A page of memory that the ranks of one library share, owned by the benchmark: its barrier and its
// clock are the same for every library, however the library works internally.
//
// The driver creates and removes the file; each rank maps it.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "operation.h"

namespace peers {

inline constexpr int kMaxRanks = 64;

/// The driver's command. At most `repeats` calls, as many as fit in `milliseconds`; at least three.
struct Command {
  bool quit = false;
  Operation operation = Operation::Allreduce;
  std::int64_t bytes = 0;
  int repeats = 0;
  double milliseconds = 0;
};

/// The file's content; initially zero. Parts that are written separately have their own cache line.
struct PageLayout {
  struct alignas(64) Line {
    std::int64_t value;
  };
  alignas(64) std::atomic<std::uint32_t> arrived;
  alignas(64) std::atomic<std::uint32_t> generation;  ///< of the barrier; a futex
  alignas(64) std::atomic<std::uint32_t> commands;    ///< how many were issued; a futex
  alignas(64) std::atomic<std::uint32_t> wrong;       ///< ranks whose result was wrong
  alignas(64) Command command;
  Line release;  ///< when the last start() opened, in nanoseconds
  Line count;    ///< calls to make, as decided by rank 0
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

  /// Returns when all ranks have arrived. Sleeps, so that a library's own threads get the CPU.
  void barrier();
  /// A barrier whose opening is the start time for finish(). Spins a little, then yields, so that
  /// all ranks are awake when it opens even if there are more of them than cores.
  void start();
  /// Marks this rank as finished. Returns when all are, with the microseconds from the opening of
  /// start() to the last finish.
  [[nodiscard]] double finish();

  /// Rank 0 issues a command; the others sleep, without using the CPU, until it does.
  void publish(const Command& command);
  [[nodiscard]] Command await();
  /// The same number on every rank: rank 0's.
  [[nodiscard]] int agree(int on);
  /// How many ranks pass true.
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
