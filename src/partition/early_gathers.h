// Gathers of what is kept between steps, begun before they are needed, so that they are on their way while what comes
// before computes. Any thread.
#pragma once

#include <cstdint>
#include <vector>

namespace trireme::partition {

struct Placed;
struct Turn;
class RunOrder;

/// The turns of a place of the pipeline, by task, with gathers moved to the front as far as memory allows.
///
/// A gather can move if its input is there when the step begins: a part of a parameter, say, cut along an axis. What has
/// begun and is not needed yet, results and scratch, is at most as large as what one block gathers in one part of
/// the step (the largest gather, where there are no blocks); so much more memory it takes, at most. A gather that is
/// larger by itself stays where it is. With room for two:
///
///   gather a, use a, gather b, use b, gather c, use c   becomes   gather a, gather b, gather c, use a, use b, use c
///
/// and with room for one   gather a, gather b, use a, gather c, use b, use c.
///
/// Gathers keep their order among themselves, and places alone decide on it, so that all ranks of a group agree.
[[nodiscard]] std::vector<std::vector<Turn>> begin_gathers_early(
    const Placed& placed, const RunOrder& order, int pipe,
    const std::vector<std::vector<Turn>>& tasks);

}  // namespace trireme::partition
