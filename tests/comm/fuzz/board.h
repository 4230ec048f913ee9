// Board: memory shared by the supervisor and all ranks of one run, created before they are forked.
//
// Ranks store the first problem there, and the hashes of results whose bits must agree. Any process
// and thread may report; each hash is written by one rank.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "sequence.h"

namespace trireme::fuzz {

class Board {
 public:
  /// Throws Error(System) if memory is short.
  explicit Board(const Sequence& sequence);
  ~Board();
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;

  /// Keeps the first problem that is reported.
  void report(std::string_view problem);
  [[nodiscard]] bool has_report() const;
  /// Empty if there is none.
  [[nodiscard]] std::string report_text() const;

  /// 0: nothing to compare.
  [[nodiscard]] std::uint64_t& hash(std::size_t step, Rank rank);
  /// Reports a step whose hashes are not all the same. Call it when all ranks are done.
  void compare_hashes(const Sequence& sequence);

 private:
  struct Head {
    std::atomic<int> claimed{0};
    std::atomic<int> written{0};
    std::array<char, 4096> text{};
  };
  [[nodiscard]] Head& head() const;

  std::span<std::byte> memory_;
  std::size_t ranks_;
};

}  // namespace trireme::fuzz
