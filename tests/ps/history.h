// The history of one key under test, and whether it is linearizable. Each worker adds 1 to its own component of the
// key's vector, so what a read returns says exactly which pushes it includes: the first v[w] of each worker w.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace trireme::ps {

using SimTime = std::int64_t;
inline constexpr SimTime kNever = INT64_MAX;

class KeyHistory {
 public:
  explicit KeyHistory(std::size_t workers) : pushes_(workers) {}

  /// Returns the push's number among the worker's.
  std::size_t begin_push(std::size_t worker, SimTime now);
  void end_push(std::size_t worker, std::size_t number, SimTime now);
  void add_read(SimTime begin, SimTime end, std::vector<int> seen);

  [[nodiscard]] int begun(std::size_t worker) const {
    return static_cast<int>(pushes_[worker].size());
  }
  [[nodiscard]] int acknowledged(std::size_t worker) const;

  /// What is wrong, or "". Exact: the pushes and reads can be put in one order that respects real time and explains
  /// every read if and only if
  ///   - a read includes every push that was acknowledged before it began, or before a push that it includes began;
  ///   - it includes no push that began after it ended;
  ///   - of two reads one includes the other, and the earlier one never includes more.
  [[nodiscard]] std::string problem() const;

 private:
  struct Push {
    SimTime begin = 0;
    SimTime end = kNever;
  };
  struct Read {
    SimTime begin = 0;
    SimTime end = 0;
    std::vector<int> seen;
  };
  [[nodiscard]] std::string problem_of(const Read& read) const;

  std::vector<std::vector<Push>> pushes_;  ///< by worker
  std::vector<Read> reads_;
};

}  // namespace trireme::ps
