#include "comm/direct_model_memory.h"

#include <algorithm>
#include <stdexcept>

#include <fmt/format.h>

namespace trireme::test {

namespace {

constexpr std::uint64_t kStagingMemory = std::uint64_t{1} << 60;

std::vector<std::int64_t> block_counts(const ModelCase& c) {
  const auto ranks = static_cast<Rank>(c.buffers.size());
  std::vector<std::int64_t> counts(c.buffers.size(), c.size);
  for (Rank r = 0; r < ranks; ++r) {
    std::int64_t& count = counts[r];
    if (c.counts == ModelCounts::SomeEmpty) {
      count = r % 3 == 1 ? 0 : c.size + r;
    } else if (c.counts == ModelCounts::OneLong) {
      count = r == ranks - 1 ? c.size : 2;
    }
  }
  return counts;
}

/// What one rank sends to another in an all-to-all.
std::int64_t pair_count(const ModelCase& c, Rank from, Rank to) {
  switch (c.counts) {
    case ModelCounts::SomeEmpty:
      return (from + 2 * to) % 3 == 1 ? 0 : c.size + from;
    case ModelCounts::OneLong:
      return from == static_cast<Rank>(c.buffers.size()) - 1 && to == 0 ? c.size : 2;
    default:
      return c.size;
  }
}

std::int64_t total(const std::vector<std::int64_t>& counts, Rank ranks) {
  std::int64_t sum = 0;
  for (Rank r = 0; r < ranks; ++r) {
    sum += counts[r];
  }
  return sum;
}

/// Builds the call of one rank.
class CallMaker {
 public:
  CallMaker(const ModelCase& c, std::size_t call, Rank rank)
      : case_(c),
        rank_(rank),
        ranks_(static_cast<Rank>(c.buffers.size())),
        in_place_(c.buffers[rank].in_place),
        memory_((static_cast<std::uint64_t>(call) + 1) << 40 | static_cast<std::uint64_t>(rank)
                                                                   << 36) {
    call_.operation = c.operation;
    call_.dtype = c.dtype;
    call_.root = c.root;
  }

  [[nodiscard]] Call make() {
    switch (case_.operation) {
      case Operation::Barrier:
        break;
      case Operation::Broadcast:
        set(case_.size, 0, case_.size, 0);
        break;
      case Operation::Allreduce:
      case Operation::Reduce:
        set(case_.size, 0, has_whole() ? case_.size : 0, in_place_ ? 0 : kApart);
        break;
      case Operation::Alltoall:
        make_pairs();
        break;
      default:
        make_blocks();
    }
    return call_;
  }

 private:
  static constexpr std::int64_t kApart = std::int64_t{1} << 30;  ///< elements

  [[nodiscard]] bool has_whole() const { return !has_root(case_.operation) || rank_ == case_.root; }
  /// Lengths and offsets in elements.
  void set(std::int64_t input, std::int64_t input_at, std::int64_t output, std::int64_t output_at) {
    const std::int64_t element = size_of(case_.dtype).count;
    const auto at = [&](std::int64_t place) {
      return reinterpret_cast<std::byte*>(memory_ + static_cast<std::uint64_t>(place * element));
    };
    call_.input = {at(input_at), static_cast<std::size_t>(input * element)};
    call_.output = {at(output_at), static_cast<std::size_t>(output * element)};
  }
  void make_blocks() {
    const std::vector<std::int64_t> counts = block_counts(case_);
    if (case_.counts != ModelCounts::Equal) {
      call_.counts = counts;
    }
    const std::int64_t block = counts[rank_];
    const std::int64_t whole = has_whole() ? total(counts, ranks_) : 0;
    const std::int64_t place = in_place_ && has_whole() ? total(counts, rank_) : kApart;
    if (case_.operation == Operation::Gather || case_.operation == Operation::Allgather) {
      set(block, place, whole, 0);
    } else {
      set(whole, 0, block, place);
    }
  }
  void make_pairs() {
    std::vector<std::int64_t> sends;
    std::vector<std::int64_t> receives;
    for (Rank r = 0; r < ranks_; ++r) {
      sends.push_back(pair_count(case_, rank_, r));
      receives.push_back(pair_count(case_, r, rank_));
    }
    const bool equal = case_.counts == ModelCounts::Equal;
    set(total(sends, ranks_), 0, total(receives, ranks_), in_place_ && equal ? 0 : kApart);
    if (!equal) {
      call_.counts = std::move(sends);
      call_.receive_counts = std::move(receives);
    }
  }

  const ModelCase& case_;
  Rank rank_;
  Rank ranks_;
  bool in_place_;
  std::uint64_t memory_;
  Call call_{};
};

std::uint64_t address_of(std::span<const std::byte> buffer) {
  return reinterpret_cast<std::uint64_t>(buffer.data());
}

}  // namespace

Call model_call(const ModelCase& c, std::size_t call, Rank rank) {
  return CallMaker(c, call, rank).make();
}

// ModelMemory

/// Splits segments at this address.
void ModelMemory::cut(std::uint64_t at) {
  auto it = segments_.lower_bound(at);
  if (it == segments_.begin() || (--it)->second.end <= at) {
    return;
  }
  Segment rest = it->second;
  rest.origin.offset += at - rest.begin;
  rest.begin = at;
  it->second.end = at;
  segments_[at] = rest;
}

void ModelMemory::write(std::uint64_t begin, std::uint64_t bytes, const Origin& origin) {
  if (bytes == 0) {
    return;
  }
  cut(begin);
  cut(begin + bytes);
  segments_.erase(segments_.lower_bound(begin), segments_.lower_bound(begin + bytes));
  segments_[begin] = {begin, begin + bytes, origin};
}

std::vector<Segment> ModelMemory::read(std::uint64_t begin, std::uint64_t bytes) const {
  std::vector<Segment> out;
  if (bytes == 0) {
    return out;
  }
  auto it = segments_.upper_bound(begin);
  if (it != segments_.begin() && std::prev(it)->second.end > begin) {
    --it;
  }
  for (; it != segments_.end() && it->first < begin + bytes; ++it) {
    Segment part = it->second;
    const std::uint64_t skipped = begin > part.begin ? begin - part.begin : 0;
    part.begin += skipped;
    part.origin.offset += skipped;
    part.end = std::min(part.end, begin + bytes);
    out.push_back(part);
  }
  return out;
}

bool ModelMemory::holds(std::uint64_t begin, std::uint64_t bytes, const Origin& origin) const {
  std::uint64_t at = begin;
  for (const Segment& part : read(begin, bytes)) {
    const Origin expected{origin.call, origin.rank, origin.offset + (at - begin)};
    if (part.begin != at || part.origin != expected) {
      return false;
    }
    at = part.end;
  }
  return at == begin + bytes;
}

// Contents

DirectModel::Contents::Contents(const DirectModel& model) : model_(model) {
  for (std::size_t call = 0; call < model.parts_.size(); ++call) {
    for (Rank r = 0; r < model.ranks_; ++r) {
      const Call& c = model.part(call, r).call;
      memory_.write(address_of(c.input), c.input.size(), {call, r, 0});
    }
  }
}

void DirectModel::Contents::execute(std::size_t call, const Candidate& step) {
  for (const Transfer& transfer : model_.actions_[step.action].transfers) {
    if (transfer.combines) {
      combine(call, transfer);
    } else {
      copy(call, transfer);
    }
  }
}

void DirectModel::Contents::copy(std::size_t call, const Transfer& transfer) {
  const std::uint64_t from = transfer.sources.front();
  const std::vector<Segment> parts = memory_.read(from, transfer.bytes);
  std::uint64_t at = from;
  for (const Segment& part : parts) {
    if (part.begin != at || part.origin.call != call) {
      break;
    }
    at = part.end;
  }
  if (at != from + transfer.bytes) {
    throw std::runtime_error("reads bytes that were not written in this call");
  }
  for (const std::uint64_t target : transfer.targets) {
    for (const Segment& part : parts) {
      if (target != from) {
        write(target + (part.begin - from), part.end - part.begin, part.origin);
      }
    }
  }
}

/// The same bytes of all ranks' inputs become one.
void DirectModel::Contents::combine(std::size_t call, const Transfer& transfer) {
  std::uint64_t offset = 0;
  for (std::size_t r = 0; r < transfer.sources.size(); ++r) {
    const std::vector<Segment> parts = memory_.read(transfer.sources[r], transfer.bytes);
    const std::uint64_t first = parts.empty() ? 0 : parts.front().origin.offset;
    offset = r == 0 ? first : offset;
    if (!memory_.holds(transfer.sources[r], transfer.bytes, {call, static_cast<Rank>(r), offset})) {
      throw std::runtime_error(
          fmt::format("combines bytes that are not those of rank {} in this call", r));
    }
  }
  if (transfer.sources.size() != static_cast<std::size_t>(model_.ranks_)) {
    throw std::runtime_error("combines too few inputs");
  }
  for (const std::uint64_t target : transfer.targets) {
    write(target, transfer.bytes, {call, kCombined, offset});
  }
}

void DirectModel::Contents::write(std::uint64_t begin, std::uint64_t bytes, const Origin& origin) {
  if (begin < kStagingMemory) {
    if (!written_.read(begin, bytes).empty()) {
      throw std::runtime_error("writes bytes of an output twice");
    }
    written_.write(begin, bytes, {});
  }
  memory_.write(begin, bytes, origin);
}

void DirectModel::Contents::expect(std::uint64_t begin, std::uint64_t bytes,
                                   const Origin& origin) const {
  if (!memory_.holds(begin, bytes, origin)) {
    throw std::runtime_error("returns without the right result");
  }
}

void DirectModel::Contents::check_result(std::size_t call, Rank rank) const {
  const Part& part = model_.part(call, rank);
  const std::uint64_t output = address_of(part.call.output);
  const std::uint64_t bytes = part.call.output.size();
  const auto own = static_cast<std::uint64_t>(part.geometry.form == comm::Form::Blocks
                                                  ? part.geometry.block(rank).offset *
                                                        part.geometry.element_bytes
                                                  : 0);
  switch (part.call.operation) {
    case Operation::Barrier:
      break;
    case Operation::Broadcast:
      expect(output, bytes, {call, part.call.root, 0});
      return;
    case Operation::Scatter:
      expect(output, bytes, {call, part.call.root, own});
      break;
    case Operation::Gather:
    case Operation::Allgather:
      check_gathered(call, rank);
      break;
    case Operation::Alltoall:
      check_exchanged(call, rank);
      break;
    default:
      expect(output, bytes, {call, kCombined, own});
  }
  check_input(call, rank);
}

void DirectModel::Contents::check_gathered(std::size_t call, Rank rank) const {
  const Part& part = model_.part(call, rank);
  const auto element = static_cast<std::uint64_t>(part.geometry.element_bytes);
  for (Rank r = 0; r < model_.ranks_ && !part.call.output.empty(); ++r) {
    const Extent block = part.geometry.block(r);
    expect(address_of(part.call.output) + static_cast<std::uint64_t>(block.offset) * element,
           static_cast<std::uint64_t>(block.length) * element, {call, r, 0});
  }
}

void DirectModel::Contents::check_exchanged(std::size_t call, Rank rank) const {
  const Part& part = model_.part(call, rank);
  const auto element = static_cast<std::uint64_t>(part.geometry.element_bytes);
  for (Rank r = 0; r < model_.ranks_; ++r) {
    const Extent block = part.geometry.receive_block(r);
    const Extent sent = model_.part(call, r).geometry.block(rank);
    expect(address_of(part.call.output) + static_cast<std::uint64_t>(block.offset) * element,
           static_cast<std::uint64_t>(block.length) * element,
           {call, r, static_cast<std::uint64_t>(sent.offset) * element});
  }
}

/// For an in-place call only what is not part of the output.
void DirectModel::Contents::check_input(std::size_t call, Rank rank) const {
  const Call& c = model_.part(call, rank).call;
  const std::uint64_t begin = address_of(c.input);
  const std::uint64_t end = begin + c.input.size();
  const std::uint64_t cut_begin = std::clamp(address_of(c.output), begin, end);
  const std::uint64_t cut_end = std::clamp(address_of(c.output) + c.output.size(), begin, end);
  expect(begin, cut_begin - begin, {call, rank, 0});
  expect(cut_end, end - cut_end, {call, rank, cut_end - begin});
}

}  // namespace trireme::test
