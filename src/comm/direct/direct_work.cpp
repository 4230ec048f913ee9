// What direct operations do with data: the copying and combining that direct_moves.h plans, in real memory.
#include <fmt/format.h>

#include "comm/direct/direct.h"

namespace trireme::comm {

// Where data is.

std::byte* DirectOp::view(Rank rank, std::uint64_t place) const {
  const Rank world_rank = context_.op.members.world_rank(rank);
  return context_.memory.view(world_rank, place);
}

inline std::byte* DirectOp::staging_at(const Spot& spot) const {
  Area& area = state_.area(spot.rank);
  switch (spot.place) {
    case Place::Inline:
      return slot(spot.rank).data.data() + spot.offset;
    case Place::Copy:
      return area.shot(record_.sequence) + spot.offset;
    case Place::Chunk:
      return area.chunk(spot.offset);
    default:
      return area.result(spot.offset);
  }
}

inline const std::byte* DirectOp::source_at(const Spot& spot) const {
  if (spot.place != Place::Input) {
    return staging_at(spot);
  }
  const std::byte* input =
      spot.rank == direct_.me ? call_.input.data() : view(spot.rank, slot(spot.rank).input);
  return input + spot.offset;
}

inline std::byte* DirectOp::target_at(const Spot& spot) const {
  if (spot.place != Place::Output) {
    return staging_at(spot);
  }
  std::byte* output =
      spot.rank == direct_.me ? call_.output.data() : view(spot.rank, slot(spot.rank).output);
  return output + spot.offset;
}

// The work.

/// For peers, before they learn of the call.
void DirectOp::copy_input() {
  static_assert(kWholeTo <= static_cast<std::int64_t>(kShotBytes));
  each_copied(direct_, [this](const Move& move) {
    copy_bytes(target_at(move.to), source_at(move.from), move.bytes, state_.copies());
  });
}

void DirectOp::stage(const Window& window) {
  if (direct_.me != 0) {
    state_.staging().follow(slot(0).staging.load(std::memory_order_relaxed));
  }
  moves().each_staged(window, [this](const Move& move) {
    state_.staging().copy(target_at(move.to), source_at(move.from), move.bytes);
  });
}

void DirectOp::work(const Window& window) {
  if (moves().combines()) {
    combine(window);
    return;
  }
  moves().each_pushed([this](const Move& move) { put(move); });
  moves().each_pulled(window, [this](const Move& move) { copy(move); });
}

/// Results that others produced, from their staging memory.
void DirectOp::take(const Window& window) {
  moves().each_taken(window, [this](const Move& move) { copy(move); });
}

void DirectOp::combine(const Window& window) {
  const DirectMoves<DirectPeers> moves = this->moves();
  const Extent part = moves.combined(window);
  state_.inputs.clear();
  state_.targets.clear();
  if (part.length == 0) {
    return;
  }
  moves.each_source(window, part,
                    [this](const Spot& spot) { state_.inputs.push_back(source_at(spot)); });
  moves.each_target(window, part,
                    [this](const Spot& spot) { state_.targets.push_back(target_at(spot)); });
  Combine how{.dtype = call_.dtype};
  if (direct_.combines_inputs()) {
    how.reduction = call_.options.reduction;
    how.user = call_.options.user;
    how.order = call_.options.order;
    how.divide_by = divisor(call_.options, direct_.ranks);
  }
  if (progress_.path == Path::Chunked && direct_.combines_vector()) {
    combine_chunk(how, part.length);
  } else if (!state_.targets.empty()) {
    combine_many(how, state_.inputs, state_.targets, part.length, stores_);
  }
}

/// To the output, if this rank gets the result, and to where peers take it from.
void DirectOp::combine_chunk(const Combine& how, std::int64_t count) {
  const Stores staging = state_.staging().stores();
  if (state_.targets.size() == 1) {
    const Stores stores = direct_.gets_result(direct_.me) ? stores_ : staging;
    combine_many(how, state_.inputs, state_.targets, count, stores);
  } else if (staging == stores_) {
    combine_many(how, state_.inputs, state_.targets, count, stores_);
  } else {
    // Writes the copy that stays in cache first, and copies the other from it.
    const bool keeps_output = stores_ == Stores::Cached;
    std::byte* kept = state_.targets[keeps_output ? 0 : 1];
    std::byte* other = state_.targets[keeps_output ? 1 : 0];
    state_.targets.assign(1, kept);
    combine_many(how, state_.inputs, state_.targets, count, Stores::Cached);
    copy_bytes(other, kept, count * direct_.geometry->element_bytes, Stores::Streaming);
  }
}

/// To this rank's output.
void DirectOp::copy(const Move& move) {
  if (move.from.place == Place::RemoteInput) {
    fetch(move);
    return;
  }
  std::byte* to = target_at(move.to);
  const std::byte* from = source_at(move.from);
  if (to != from) {
    copy_bytes(to, from, move.bytes, stores_);
  }
}

/// From a peer's input in private memory.
void DirectOp::fetch(const Move& move) {
  const std::uint64_t address =
      slot(move.from.rank).input + static_cast<std::uint64_t>(move.from.offset);
  copy_by_system(move.from.rank, [&](Rank world_rank) {
    context_.memory.fetch(world_rank, address,
                          {target_at(move.to), static_cast<std::size_t>(move.bytes)});
  });
}

/// Into a peer's output in private memory.
void DirectOp::put(const Move& move) {
  require_not_declared_dead();  // otherwise that memory may have been reused
  const std::uint64_t address =
      slot(move.to.rank).output + static_cast<std::uint64_t>(move.to.offset);
  copy_by_system(move.to.rank, [&](Rank world_rank) {
    context_.memory.put(world_rank, address,
                        {source_at(move.from), static_cast<std::size_t>(move.bytes)});
  });
}

void DirectOp::copy_by_system(Rank peer, const std::function<void(Rank world_rank)>& how) {
  const Rank world_rank = context_.op.members.world_rank(peer);
  try {
    how(world_rank);
  } catch (const Error& error) {
    context_.op.failures.fail(
        CommFault::Died, {world_rank},
        fmt::format("call #{}, {}: {}", record_.sequence, to_text(record_), error.what()));
  }
}

}  // namespace trireme::comm
