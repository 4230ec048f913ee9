// What each step of a DirectModel reads and writes.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "comm/direct_model.h"

namespace trireme::test {

using comm::DirectStep;
using comm::Offer;
using comm::Offers;
using comm::Path;
using comm::Place;
using comm::Spot;

/// Records what one step of one rank reads and writes.
class DirectModel::Recorder {
 public:
  Recorder(const DirectModel& model, std::size_t call, Rank me)
      : model_(model), call_(call), me_(me) {}

  // The peers' properties that DirectMoves queries are in their slots.
  [[nodiscard]] Offers offers(Rank rank) const {
    read_slot(rank);
    return model_.part(call_, rank).offers;
  }
  [[nodiscard]] Extent sends(Rank from, Rank to) const {
    read_slot(from);
    return model_.part(call_, from).geometry.block(to);
  }
  void read_slot(Rank rank) const { add({Place::Inline, rank, kSlotHeader}, 8, false); }
  void write_slot() const { add({Place::Inline, me_, kSlotHeader}, 8, true); }

  void copy(const comm::Move& move) const {
    const auto bytes = static_cast<std::uint64_t>(move.bytes);
    action_.transfers.push_back({{address(move.from)}, {address(move.to)}, bytes, false});
    if (address(move.from) != address(move.to)) {
      add(move.from, move.bytes, false);
      add(move.to, move.bytes, true);
    }
  }
  void combine(const comm::DirectMoves<Recorder>& moves, const comm::Window& window) const {
    const Extent part = moves.combined(window);
    const std::int64_t bytes = part.length * model_.part(call_, me_).geometry.element_bytes;
    if (bytes == 0) {
      return;
    }
    Transfer transfer{.bytes = static_cast<std::uint64_t>(bytes),
                      .combines = model_.part(call_, me_).direct.combines_inputs()};
    moves.each_source(window, part, [&](const Spot& spot) {
      transfer.sources.push_back(address(spot));
      add(spot, bytes, false);
    });
    moves.each_target(window, part, [&](const Spot& spot) {
      transfer.targets.push_back(address(spot));
      add(spot, bytes, true);
    });
    action_.transfers.push_back(std::move(transfer));
  }

  [[nodiscard]] Action take() { return std::move(action_); }

 private:
  static constexpr std::int64_t kSlotHeader = 1 << 20;

  /// Slots and staged copies of the next call are elsewhere; those of the call after it, here.
  [[nodiscard]] std::uint64_t address(const Spot& spot) const {
    const Part& part = model_.part(call_, spot.rank);
    const auto offset = static_cast<std::uint64_t>(spot.offset);
    switch (spot.place) {
      case Place::Input:
      case Place::RemoteInput:
        return reinterpret_cast<std::uint64_t>(part.call.input.data()) + offset;
      case Place::Output:
      case Place::RemoteOutput:
        return reinterpret_cast<std::uint64_t>(part.call.output.data()) + offset;
      default:
        break;
    }
    const bool alternates = spot.place == Place::Inline || spot.place == Place::Copy;
    const std::uint64_t turn = alternates ? call_ % 2 : 0;
    return std::uint64_t{1} << 60 | static_cast<std::uint64_t>(spot.rank) << 48 |
           static_cast<std::uint64_t>(spot.place) << 44 | turn << 40 | offset;
  }
  void add(const Spot& spot, std::int64_t bytes, bool is_write) const {
    const bool is_input = spot.place == Place::Input || spot.place == Place::RemoteInput;
    const bool is_output = spot.place == Place::Output || spot.place == Place::RemoteOutput;
    require_inside(spot, bytes, is_input, is_output);
    require_reachable(spot);
    const std::uint64_t begin = address(spot);
    action_.accesses.push_back({begin, begin + static_cast<std::uint64_t>(bytes), is_write,
                                is_input || is_output ? spot.rank : -1});
  }
  void require_reachable(const Spot& spot) const {
    const ModelCase& c = model_.calls_[call_];
    const ModelBuffers& theirs = c.buffers[spot.rank];
    const bool is_remote = spot.place == Place::RemoteInput || spot.place == Place::RemoteOutput;
    if ((spot.rank != me_ && ((spot.place == Place::Input && !theirs.input_visible) ||
                              (spot.place == Place::Output && !theirs.output_visible))) ||
        (is_remote && !c.can_fetch)) {
      fail(fmt::format("rank {} uses a private buffer of rank {}", me_, spot.rank));
    }
  }
  void require_inside(const Spot& spot, std::int64_t bytes, bool is_input, bool is_output) const {
    const Call& call = model_.part(call_, spot.rank).call;
    std::int64_t room = static_cast<std::int64_t>(comm::kRoundBytes);
    if (is_input || is_output) {
      room = static_cast<std::int64_t>(is_input ? call.input.size() : call.output.size());
    } else if (spot.place == Place::Copy) {
      room = static_cast<std::int64_t>(comm::kShotBytes);
    } else if (spot.place == Place::Inline) {
      room = spot.offset == kSlotHeader ? kSlotHeader + 8
                                        : static_cast<std::int64_t>(comm::kInlineBytes);
    }
    if (spot.offset < 0 || spot.offset + bytes > room) {
      fail(fmt::format("rank {} touches bytes {} to {} of place {} of rank {}, which has {}", me_,
                       spot.offset, spot.offset + bytes, static_cast<int>(spot.place), spot.rank,
                       room));
    }
  }

  const DirectModel& model_;
  std::size_t call_;
  Rank me_;
  mutable Action action_{};
};

void DirectModel::choose_path(std::size_t call, Rank rank) {
  Part& part = parts_[call][rank];
  comm::PathChoice choice(part.direct);
  for (Rank r = 0; r < ranks_; ++r) {
    Offers offers = this->part(call, r).offers;
    if (mutation_ == Mutation::ShareEagerly && part.direct.gets_result(r)) {
      offers.output = Offer::Buffer;
    }
    if (part.direct.awaits(r)) {
      choice.add(r, offers);
    }
  }
  part.chosen.choose(choice);
  part.chosen.mine = part.offers;
  if (part.chosen.path != parts_[call][0].chosen.path) {
    fail(fmt::format("ranks 0 and {} choose different paths", rank));
  }
  const Recorder peers(*this, call, rank);
  part.windows = comm::make_windows(part.direct, part.chosen.path,
                                    comm::longest_block_of_all(part.direct, peers));
  part.chosen.windows = part.windows.count;
  if (part.chosen.path == Path::Chunked) {
    chunks_to_ = part.windows.place_after(chunks_to_);
  }
  part.actions.assign(kStepKinds * static_cast<std::size_t>(part.windows.count + 1), -1);
}

DirectModel::Action DirectModel::record(std::size_t call, Rank rank, DirectStep step,
                                        std::int64_t chunk) const {
  const Part& part = this->part(call, rank);
  Recorder recorder(*this, call, rank);
  bool skips = (step == DirectStep::Announce && mutation_ == Mutation::SkipPartOfCopy) ||
               (step == DirectStep::Stage && mutation_ == Mutation::SkipPartOfChunk);
  const auto copy = [&](const comm::Move& move) {
    if (!std::exchange(skips, false)) {
      recorder.copy(move);
    }
  };
  const comm::DirectMoves<Recorder> moves(part.direct, part.chosen.path, part.windows, recorder);
  const comm::Window window = part.windows.at(chunk);
  const bool copies = part.offers.input == Offer::Copy &&
                      part.direct.offers({}).input != Offer::Withheld;  // see the mutation
  switch (step) {
    case DirectStep::Announce:
      recorder.write_slot();
      if (copies) {
        comm::each_copied(part.direct, copy);
      }
      break;
    case DirectStep::Choose:
      for (Rank r = 0; r < ranks_; ++r) {
        if (part.direct.awaits(r)) {
          recorder.read_slot(r);
        }
      }
      break;
    case DirectStep::Stage:
      moves.each_staged(window, copy);
      break;
    case DirectStep::Work:
      if (part.windows.count == 0) {
        break;
      }
      if (moves.combines()) {
        recorder.combine(moves, window);
      } else {
        moves.each_pushed(copy);
        moves.each_pulled(window, copy);
      }
      break;
    default:
      moves.each_taken(window, copy);
  }
  return recorder.take();
}

}  // namespace trireme::test
