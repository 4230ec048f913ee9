// Windows: how the data of a direct collective is divided, among ranks and over time. Pure, like
// direct_protocol.h.
#pragma once

#include <algorithm>
#include <cstdint>

#include "comm/direct/area.h"
#include "comm/direct/direct_limits.h"
#include "comm/direct/direct_protocol.h"
#include "comm/wire/geometry.h"

namespace trireme::comm {

/// A range of the operation's unit: elements of the vector, or of each block.
struct Window {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t number = 0;  ///< which chunk
  [[nodiscard]] std::int64_t length() const { return end - begin; }
};

/// How a call is divided into windows: into one, or (chunked) into chunks that circulate in staging memory. The same on
/// all ranks.
struct Windows {
  std::int64_t unit = 0;    ///< elements of the vector, or of the longest block
  std::int64_t length = 0;  ///< elements of a window
  std::int64_t count = 0;
  std::int64_t chunk_bytes = 0;  ///< of staging memory, for a window
  std::int64_t first_place = 0;  ///< of a chunk, there

  [[nodiscard]] Window at(std::int64_t number) const {
    const std::int64_t begin = number * length;
    return {begin, std::min(unit, begin + length), number};
  }
  /// Where a window's chunk begins, in the part of staging memory for chunks or for results.
  [[nodiscard]] std::int64_t place_of(std::int64_t number) const {
    const std::int64_t places = static_cast<std::int64_t>(kRoundBytes) / chunk_bytes;
    return (first_place + number) % places * chunk_bytes;
  }
  /// Chunks start where those of the last chunked call ended. Returns the new end.
  [[nodiscard]] std::int64_t place_after(std::int64_t end_of_last) {
    const std::int64_t places = static_cast<std::int64_t>(kRoundBytes) / chunk_bytes;
    first_place = (end_of_last + chunk_bytes - 1) / chunk_bytes % places;
    return count > 0 ? place_of(count - 1) + chunk_bytes : end_of_last;
  }
};

/// The elements of the window that `rank` combines: split at cache lines, so that no two ranks write to the same one.
[[nodiscard]] inline Extent share_of(const DirectCall& call, const Window& window, Rank rank) {
  const std::int64_t line = std::max<std::int64_t>(1, kLine / call.geometry->element_bytes);
  const std::int64_t lines = (window.length() + line - 1) / line;
  const auto edge = [&](std::int64_t r) {
    return window.begin + std::min(window.length(), lines * r / call.ranks * line);
  };
  return {edge(rank), edge(rank + 1) - edge(rank)};
}

/// `longest` is the longest block of any pair of ranks, in elements; of a vector, its length.
[[nodiscard]] inline Windows make_windows(const DirectCall& call, Path path, std::int64_t longest) {
  Windows windows{.unit = longest, .length = longest};
  if (path == Path::Chunked) {
    const std::int64_t element = call.geometry->element_bytes;
    const std::int64_t parts = call.has_block_for_each() ? call.ranks : 1;
    const std::int64_t room = static_cast<std::int64_t>(kChunkBytes) / parts / kLine * kLine;
    const std::int64_t needed = (longest * element + kLine - 1) / kLine * kLine;
    windows.length = std::max<std::int64_t>(1, std::min(room, needed) / element);
    windows.chunk_bytes = std::max(kLine, parts * windows.length * element);
  }
  windows.count = longest == 0 ? 0 : (longest + windows.length - 1) / windows.length;
  return windows;
}

/// What make_windows() takes as the longest block.
template <class Peers>
[[nodiscard]] std::int64_t longest_block_of_all(const DirectCall& call, const Peers& peers) {
  const Geometry& geometry = *call.geometry;
  if (geometry.form == Form::Vector) {
    return geometry.count;
  }
  std::int64_t longest = geometry.longest_block(call.ranks);
  for (Rank from = 0; !geometry.received.empty() && from < call.ranks; ++from) {
    for (Rank to = 0; to < call.ranks; ++to) {
      longest = std::max(longest, peers.sends(from, to).length);
    }
  }
  return longest;
}

}  // namespace trireme::comm
