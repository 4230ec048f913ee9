// How large the staging memory of a rank in a group is. It follows the rank's Area. Bytes.
//
// A shot holds a whole small input; there are two, used in turn like the slots, each followed by
// tables of block sizes. Chunks of longer inputs circulate in a round of their own, and the results of
// combining them in another. A round is as long as a core's own cache: by the time that its memory is
// written again, its lines have left the cache of whoever read them and need not be taken from there.
#pragma once

#include <cstddef>

namespace trireme::comm {

inline constexpr std::size_t kShotBytes = std::size_t{64} << 10;
inline constexpr std::size_t kTableBytes = std::size_t{16} << 10;
inline constexpr std::size_t kChunkBytes = std::size_t{512} << 10;
inline constexpr std::size_t kRoundBytes = 2 * kChunkBytes;

}  // namespace trireme::comm
