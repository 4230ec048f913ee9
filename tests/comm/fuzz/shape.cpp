#include "shape.h"

namespace trireme::fuzz {
namespace {

std::int64_t count_at(const CallView& view, Rank index) {
  return view.call.counts.empty() ? view.call.count : view.call.counts.at(index);
}

/// What `from` has for `to` in an all-to-all.
std::int64_t pair_count(const CallView& view, Rank from, Rank to) {
  return count_at(view, from * view.ranks + to);
}

std::int64_t all_blocks(const CallView& view) {
  std::int64_t sum = 0;
  for (Rank r = 0; r < view.ranks; ++r) {
    sum += count_at(view, r);
  }
  return sum;
}

std::int64_t sent_before(const CallView& view, Rank from, Rank to) {
  std::int64_t sum = 0;
  for (Rank r = 0; r < to; ++r) {
    sum += pair_count(view, from, r);
  }
  return sum;
}

}  // namespace

bool reads_input(const Collective& call, Rank place) {
  const bool only_root =
      call.operation == Operation::Scatter || call.operation == Operation::Broadcast;
  return call.operation != Operation::Barrier && (!only_root || place == call.root);
}

bool writes_output(const Collective& call, Rank place) {
  const bool only_root = call.operation == Operation::Reduce || call.operation == Operation::Gather;
  return call.operation != Operation::Barrier && (!only_root || place == call.root);
}

std::int64_t block_offset(const CallView& view, Rank place) {
  std::int64_t sum = 0;
  for (Rank r = 0; r < place; ++r) {
    sum += count_at(view, r);
  }
  return sum;
}

std::int64_t input_elements(const CallView& view, Rank place) {
  switch (view.call.operation) {
    case Operation::Scatter:
    case Operation::ReduceScatter:
      return all_blocks(view);
    case Operation::Gather:
    case Operation::Allgather:
      return count_at(view, place);
    case Operation::Alltoall:
      return sent_before(view, place, view.ranks);
    case Operation::Barrier:
      return 0;
    default:
      return view.call.count;
  }
}

std::int64_t output_elements(const CallView& view, Rank place) {
  switch (view.call.operation) {
    case Operation::Scatter:
    case Operation::ReduceScatter:
      return count_at(view, place);
    case Operation::Gather:
    case Operation::Allgather:
      return all_blocks(view);
    case Operation::Alltoall: {
      std::int64_t sum = 0;
      for (Rank r = 0; r < view.ranks; ++r) {
        sum += pair_count(view, r, place);
      }
      return sum;
    }
    case Operation::Barrier:
      return 0;
    default:
      return view.call.count;
  }
}

std::vector<Copied> copies(const CallView& view, Rank place) {
  const Collective& call = view.call;
  if (call.operation == Operation::Broadcast) {
    return {{call.count, call.root, 0}};
  }
  if (call.operation == Operation::Scatter) {
    return {{count_at(view, place), call.root, block_offset(view, place)}};
  }
  std::vector<Copied> out;
  for (Rank r = 0; r < view.ranks; ++r) {
    if (call.operation == Operation::Alltoall) {
      out.push_back({pair_count(view, r, place), r, sent_before(view, r, place)});
    } else {
      out.push_back({count_at(view, r), r, 0});
    }
  }
  return out;
}

Collective as_broadcast(const Message& message) {
  return {
      .operation = Operation::Broadcast, .dtype = message.dtype, .root = 0, .count = message.count};
}

}  // namespace trireme::fuzz
