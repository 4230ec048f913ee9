// The steps of a direct collective: the next step of a rank, given its progress and its peers'. Pure, like
// direct_protocol.h.
//
// A rank repeats: call next(), run the step, record it with complete(), then store the clock that complete() names.
#pragma once

#include <cstdint>

#include "comm/direct/area.h"
#include "comm/direct/direct_protocol.h"

namespace trireme::comm {

enum class DirectStep : std::uint8_t {
  Wait,      ///< blocked until a peer does something
  Announce,  ///< make the offers and store the stamp
  Choose,    ///< read the offers, choose the path
  Stage,     ///< copy a chunk of the input to staging memory
  Work,      ///< do the work on a chunk, or all of it if the path has no chunks
  Take,      ///< copy results of a chunk that peers combined
  Finish,    ///< the call is done; the caller may reuse its buffers
};

/// See direct_protocol.h.
enum class Phase : std::uint8_t { Begin, Gathering, Working, Leaving, Pipeline, Finished };

/// A rank's progress in a call. Plain data.
struct DirectProgress {
  Phase phase = Phase::Begin;
  Path path = Path::Read;
  bool someone_waits = false;
  DirectStep last = DirectStep::Take;  ///< in the pipeline: the three steps alternate
  Rank seen = 0;                       ///< all awaited ranks below this one have announced
  Offers mine{};
  std::int64_t windows = 0;  ///< chunks of the chunked path
  std::int64_t staged = 0;
  std::int64_t worked = 0;
  std::int64_t taken = 0;

  /// Records the step Choose.
  void choose(const PathChoice& choice) {
    path = choice.path();
    someone_waits = choice.someone_waits(path);
    phase = path == Path::Chunked ? Phase::Pipeline : Phase::Working;
  }
};

/// A clock of this rank, and its next value. No chunks: no rank waits for it.
struct Tick {
  Stage stage = Stage::Staged;
  std::int64_t chunks = 0;
};

/// `Peers` is this rank's view of its peers:
///   bool may_begin()                            all have finished the call before the last
///   bool has_stamped(Rank)                      the rank's offers are visible
///   bool has_reached(Rank, Stage, int64 chunks) the rank's clock shows at least this
template <class Peers>
class DirectSteps {
 public:
  DirectSteps(const DirectCall& call, const Peers& peers) : call_(call), peers_(peers) {}

  /// Changes `progress` only to remember which stamps it has seen.
  [[nodiscard]] DirectStep next(DirectProgress& progress) const {
    switch (progress.phase) {
      case Phase::Begin:
        return peers_.may_begin() ? DirectStep::Announce : DirectStep::Wait;
      case Phase::Gathering:
        return all_stamped(progress) ? DirectStep::Choose : DirectStep::Wait;
      case Phase::Working:
        return DirectStep::Work;
      case Phase::Leaving:
        return may_leave(progress) ? DirectStep::Finish : DirectStep::Wait;
      case Phase::Pipeline:
        return next_in_pipeline(progress);
      case Phase::Finished:
        return DirectStep::Finish;
    }
    return DirectStep::Wait;
  }

  /// Whether a step of the pipeline is possible. next() picks one of those that are.
  [[nodiscard]] bool may_do(DirectStep step, const DirectProgress& progress) const {
    switch (step) {
      case DirectStep::Stage:
        return may_stage(progress);
      case DirectStep::Work:
        return may_work(progress);
      default:
        return may_take(progress);
    }
  }

  /// A peer that this rank waits for in this phase has not done its part.
  [[nodiscard]] bool is_missing(const DirectProgress& progress, Rank peer) const {
    switch (progress.phase) {
      case Phase::Gathering:
        return call_.awaits(peer) && !peers_.has_stamped(peer);
      case Phase::Leaving:
        return call_.leaves_after(peer, progress.path, progress.mine) &&
               !peers_.has_reached(peer, Stage::Worked, 1);
      case Phase::Pipeline:
        return !peers_.has_reached(peer, call_.combines_vector() ? Stage::Taken : Stage::Worked,
                                   progress.windows);
      default:
        return false;
    }
  }

 private:
  [[nodiscard]] bool all_stamped(DirectProgress& progress) const {
    for (; progress.seen < call_.ranks; ++progress.seen) {
      const Rank rank = progress.seen;
      if (rank != call_.me && call_.awaits(rank) && !peers_.has_stamped(rank)) {
        return false;
      }
    }
    return true;
  }

  [[nodiscard]] bool may_leave(const DirectProgress& progress) const {
    for (Rank r = 0; r < call_.ranks; ++r) {
      if (r != call_.me && is_missing(progress, r)) {
        return false;
      }
    }
    return true;
  }

  /// Stage, work, take, in turn, skipping what is not possible yet.
  [[nodiscard]] DirectStep next_in_pipeline(const DirectProgress& progress) const {
    if ((call_.combines_vector() ? progress.taken : progress.worked) == progress.windows) {
      return DirectStep::Finish;
    }
    constexpr DirectStep kOrder[] = {DirectStep::Stage, DirectStep::Work, DirectStep::Take,
                                     DirectStep::Stage, DirectStep::Work};
    const int first = progress.last == DirectStep::Stage  ? 1
                      : progress.last == DirectStep::Work ? 2
                                                          : 0;
    for (int turn = first; turn < first + 3; ++turn) {
      if (may_do(kOrder[turn], progress)) {
        return kOrder[turn];
      }
    }
    return DirectStep::Wait;
  }

  /// Chunk k reuses the place of chunk k - 2: all its readers are done with it.
  [[nodiscard]] bool may_stage(const DirectProgress& progress) const {
    return progress.staged < progress.windows &&
           readers_reached(Stage::Worked, progress.staged - 1);
  }
  /// The chunk is staged everywhere, and its result reuses the place of one that all have taken.
  [[nodiscard]] bool may_work(const DirectProgress& progress) const {
    return progress.worked < progress.staged &&
           sources_reached(Stage::Staged, progress.worked + 1) &&
           (!call_.combines_vector() || readers_reached(Stage::Taken, progress.worked - 1));
  }
  [[nodiscard]] bool may_take(const DirectProgress& progress) const {
    return call_.combines_vector() && progress.taken < progress.worked &&
           sources_reached(Stage::Worked, progress.taken + 1);
  }

  [[nodiscard]] bool readers_reached(Stage stage, std::int64_t chunks) const {
    for (Rank r = 0; r < call_.ranks; ++r) {
      if (r != call_.me && call_.reads(Path::Chunked, r, call_.me) &&
          !peers_.has_reached(r, stage, chunks)) {
        return false;
      }
    }
    return true;
  }
  [[nodiscard]] bool sources_reached(Stage stage, std::int64_t chunks) const {
    for (Rank r = 0; r < call_.ranks; ++r) {
      if (r != call_.me && call_.reads(Path::Chunked, call_.me, r) &&
          !peers_.has_reached(r, stage, chunks)) {
        return false;
      }
    }
    return true;
  }

  const DirectCall& call_;
  const Peers& peers_;
};

/// Records that a step is done (except Choose, see DirectProgress::choose).
[[nodiscard]] inline Tick complete(DirectStep step, DirectProgress& progress) {
  switch (step) {
    case DirectStep::Announce:
      progress.phase = Phase::Gathering;
      return {};
    case DirectStep::Stage:
      progress.last = step;
      return {Stage::Staged, ++progress.staged};
    case DirectStep::Work:
      ++progress.worked;
      if (progress.phase == Phase::Pipeline) {
        progress.last = step;
        return {Stage::Worked, progress.worked};
      }
      progress.phase = progress.someone_waits ? Phase::Leaving : Phase::Finished;
      return {Stage::Worked, progress.someone_waits ? 1 : 0};
    case DirectStep::Take:
      progress.last = step;
      return {Stage::Taken, ++progress.taken};
    default:
      return {};
  }
}

}  // namespace trireme::comm
