// The size of a rank's staging memory in a group, in bytes. It follows the rank's Area.
//
// A shot holds a whole small input; there are two, used alternately like the slots, each followed by tables of block
// sizes. Chunks of longer inputs circulate in a ring buffer (a round), and the results of combining them in another. A
// round is as large as a core's private cache: by the time that its memory is rewritten, its lines have left the
// reader's cache and need not be invalidated there.
#pragma once

#include <cstddef>

namespace trireme::comm {

inline constexpr std::size_t kShotBytes = std::size_t{64} << 10;
inline constexpr std::size_t kTableBytes = std::size_t{16} << 10;
inline constexpr std::size_t kChunkBytes = std::size_t{512} << 10;
inline constexpr std::size_t kRoundBytes = 2 * kChunkBytes;

}  // namespace trireme::comm
