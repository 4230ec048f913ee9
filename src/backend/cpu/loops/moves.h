// Copies elements from one layout to another: nested loops with a step on each side. Adjacent loops are merged where
// possible, so that the rest is copied in runs, transposed in tiles, or, at worst, one element at a time.
#pragma once

#include <array>
#include <cstring>
#include <optional>
#include <vector>

#include "backend/cpu/loops/elements.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

/// Steps in elements.
struct MoveLoop {
  std::int64_t size = 1;
  std::int64_t from = 0;
  std::int64_t to = 0;
};

inline constexpr std::size_t kMoveLoops = 8;
inline constexpr std::int64_t kTile = 32;
inline constexpr std::int64_t kRunBytes = 1 << 16;

/// Iterates over the loops around the inner part of a move, in the order of the target.
class MoveCursor {
 public:
  MoveCursor(const std::vector<MoveLoop>& loops, std::int64_t index) : loops_(loops) {
    for (std::size_t d = loops_.size(); d-- > 0;) {
      at_[d] = index % loops_[d].size;
      index /= loops_[d].size;
      from += at_[d] * loops_[d].from;
      to += at_[d] * loops_[d].to;
    }
  }
  void next() {
    for (std::size_t d = loops_.size(); d-- > 0;) {
      from += loops_[d].from;
      to += loops_[d].to;
      if (++at_[d] < loops_[d].size) {
        return;
      }
      from -= loops_[d].size * loops_[d].from;
      to -= loops_[d].size * loops_[d].to;
      at_[d] = 0;
    }
  }

  std::int64_t from = 0;
  std::int64_t to = 0;

 private:
  const std::vector<MoveLoop>& loops_;
  std::array<std::int64_t, kMoveLoops> at_{};
};

/// A move prepared for elements of one size.
class Move {
 public:
  /// nullopt if too many loops remain. `from` and `to`: the position of the first element.
  static std::optional<Move> make(const std::vector<MoveLoop>& loops, std::int64_t element_bytes,
                                  std::int64_t from = 0, std::int64_t to = 0) {
    Move move;
    move.bytes_ = element_bytes;
    move.from_ = from;
    move.to_ = to;
    for (const MoveLoop& loop : loops) {
      move.add(loop);
    }
    move.take_inner();
    if (move.outer_.size() > kMoveLoops) {
      return std::nullopt;
    }
    return move;
  }

  void run(const std::byte* from, std::byte* to) const {
    switch (bytes_) {
      case 1:
        return run_as<std::uint8_t>(from, to);
      case 2:
        return run_as<std::uint16_t>(from, to);
      case 4:
        return run_as<std::uint32_t>(from, to);
      default:
        return run_as<std::uint64_t>(from, to);
    }
  }

 private:
  /// Adds the next inner loop; merges it with the last one if both sides are contiguous.
  void add(const MoveLoop& loop) {
    count_ *= loop.size;
    if (loop.size == 1) {
      return;
    }
    if (!outer_.empty()) {
      MoveLoop& last = outer_.back();
      if (last.from == loop.size * loop.from && last.to == loop.size * loop.to) {
        last = {last.size * loop.size, loop.from, loop.to};
        return;
      }
    }
    outer_.push_back(loop);
  }

  /// The innermost loop in the target's order and, if it is not a run, the loop that is a run of the source.
  void take_inner() {
    if (outer_.empty()) {
      inner_ = {1, 1, 1};
      return;
    }
    inner_ = outer_.back();
    outer_.pop_back();
    if (inner_.from == 1) {
      return;
    }
    for (std::size_t d = 0; d < outer_.size(); ++d) {
      if (outer_[d].from == 1) {
        across_ = outer_[d];
        outer_.erase(outer_.begin() + static_cast<std::ptrdiff_t>(d));
        return;
      }
    }
  }

  [[nodiscard]] std::int64_t outer_count() const {
    std::int64_t count = 1;
    for (const MoveLoop& loop : outer_) {
      count *= loop.size;
    }
    return count;
  }

  /// The inner part is split into pieces, so that there is work for all threads.
  template <class E>
  void run_as(const std::byte* from_bytes, std::byte* to_bytes) const {
    if (count_ == 0) {
      return;
    }
    const E* from = reinterpret_cast<const E*>(from_bytes) + from_;
    E* to = reinterpret_cast<E*>(to_bytes) + to_;
    const std::int64_t length = across_.size > 1 ? across_.size : inner_.size;
    const std::int64_t piece = across_.size > 1 ? kTile : kRunBytes / bytes_;
    const std::int64_t pieces = (length + piece - 1) / piece;
    const std::int64_t tasks = outer_count() * pieces;
    const std::int64_t grain = 1 + kSerial * tasks / count_;
    parallel(tasks, grain, [&](std::int64_t begin, std::int64_t end) {
      MoveCursor cursor(outer_, begin / pieces);
      std::int64_t first = begin % pieces * piece;
      for (std::int64_t task = begin; task < end; ++task) {
        move_piece(from + cursor.from, to + cursor.to, first, std::min(piece, length - first));
        first += piece;
        if (first >= length) {
          first = 0;
          cursor.next();
        }
      }
    });
  }

  template <class E>
  void move_piece(const E* from, E* to, std::int64_t first, std::int64_t count) const {
    if (across_.size > 1) {
      transpose(from + first, to + first * across_.to, count);
    } else if (inner_.from == 1 && inner_.to == 1) {
      std::memcpy(to + first, from + first, static_cast<std::size_t>(count) * sizeof(E));
    } else {
      for (std::int64_t i = first; i < first + count; ++i) {
        to[i * inner_.to] = from[i * inner_.from];
      }
    }
  }

  /// `rows` of the target, each a column of the source, in tiles that stay in the L1 cache.
  template <class E>
  void transpose(const E* from, E* to, std::int64_t rows) const {
    for (std::int64_t column = 0; column < inner_.size; column += kTile) {
      const std::int64_t columns = std::min(kTile, inner_.size - column);
      for (std::int64_t r = 0; r < rows; ++r) {
        const E* source = from + r + column * inner_.from;
        E* target = to + r * across_.to + column * inner_.to;
        for (std::int64_t c = 0; c < columns; ++c) {
          target[c * inner_.to] = source[c * inner_.from];
        }
      }
    }
  }

  std::vector<MoveLoop> outer_;
  MoveLoop inner_{1, 1, 1};
  MoveLoop across_{1, 0, 0};
  std::int64_t bytes_ = 1;
  std::int64_t from_ = 0;
  std::int64_t to_ = 0;
  std::int64_t count_ = 1;
};

}  // namespace
}  // namespace trireme::cpu::TRIREME_ISA
