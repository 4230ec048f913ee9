#include "rank_run.h"

#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include "elements.h"
#include "values.h"

namespace trireme::fuzz {
namespace {

CallView view_of(const Ongoing& ongoing, const Collective& call) {
  return {call, ongoing.step->key, static_cast<Rank>(call.sides.size())};
}

/// Messages are checked as broadcasts from place 0 of 1.
CallView message_view(const Ongoing& ongoing, const Collective& broadcast) {
  return {broadcast, ongoing.step->key, 1};
}

const Side& side_of(const Ongoing& ongoing, const Collective& call) {
  return call.sides[static_cast<std::size_t>(ongoing.place)];
}

bool is_in_place(const Ongoing& ongoing, const Collective& call) {
  return call.operation == Operation::Broadcast ||
         side_of(ongoing, call).layout == Side::Layout::InPlace;
}

/// Whether the one buffer of an in-place call is the output, with the input as a part of it.
bool output_is_whole(Operation operation) {
  return operation == Operation::Gather || operation == Operation::Allgather;
}
bool has_whole(Operation operation) {
  return output_is_whole(operation) || operation == Operation::Scatter ||
         operation == Operation::ReduceScatter;
}

/// A buffer that the call reads or writes cannot be missing.
Location present(Location where, bool needed) {
  if (needed && where.memory == Memory::None) {
    where.memory = Memory::Private;
  }
  return where;
}

std::span<std::byte> block_of(std::span<std::byte> whole, const CallView& view, Rank place,
                              std::int64_t elements) {
  const auto element = static_cast<std::size_t>(size_of(view.call.dtype).count);
  return whole.subspan(static_cast<std::size_t>(block_offset(view, place)) * element,
                       static_cast<std::size_t>(elements) * element);
}

std::uint64_t hash_of(std::span<const std::byte> bytes) {
  std::uint64_t hash = 1;
  for (const std::byte b : bytes) {
    hash = (hash ^ static_cast<std::uint64_t>(b)) * 0x100000001B3U;
  }
  return hash | 1;
}

CallOptions options_of(const Collective& call) {
  return {
      .reduction = call.reduction,
      .user = call.combiner == Collective::Combiner::User ? &user_reduction(call.dtype) : nullptr,
      .order = call.order,
      .method = call.method};
}

void set_counts(const CallView& view, Rank place, Call& out) {
  const std::vector<std::int64_t>& counts = view.call.counts;
  if (counts.empty()) {
    return;
  }
  if (view.call.operation != Operation::Alltoall) {
    out = with_counts(std::move(out), counts);
    return;
  }
  std::vector<std::int64_t> sent;
  std::vector<std::int64_t> received;
  for (Rank r = 0; r < view.ranks; ++r) {
    sent.push_back(counts[static_cast<std::size_t>(place * view.ranks + r)]);
    received.push_back(counts[static_cast<std::size_t>(r * view.ranks + place)]);
  }
  out = with_counts(std::move(out), std::move(sent), std::move(received));
}

/// All ways of waiting must do the same; the key decides which is used.
void wait_somehow(Pending& pending, std::uint64_t random) {
  switch (random % 4) {
    case 0:
      while (!pending.wait(Seconds{0.0005})) {
      }
      return;
    case 1:
      while (!pending.done()) {
        (void)pending.wait(Seconds{0.01});
      }
      pending.wait();
      return;
    default:
      pending.wait();
  }
}

bool compares_bits(const Collective& call, const std::string& method) {
  if (call.operation != Operation::Allreduce || call.values != Collective::Values::Random) {
    return false;
  }
  return call.order == Order::Fixed || method == "direct" ||
         keeps_ranks_alike(parse_algorithm(method));
}

}  // namespace

RankRun::RankRun(World& world, const Sequence& sequence, Board& board)
    : world_(world), sequence_(sequence), board_(board) {
  groups_.emplace(0, world.all());
}

void RankRun::run() {
  try {
    for (std::size_t i = 0; i < sequence_.steps.size(); ++i) {
      begin(i);
      finish_due(i);
    }
    finish_due(static_cast<std::size_t>(-1));
  } catch (const std::exception& error) {
    // Before the stack unwinds: there Pendings wait, maybe forever.
    board_.report(fmt::format("rank {}: {}", world_.rank(), error.what()));
    throw;
  }
}

void RankRun::require(bool condition, const Ongoing& ongoing, const std::string& problem) const {
  if (!condition) {
    throw std::runtime_error(
        fmt::format("wrong result of step {}: {}", ongoing.step->key, problem));
  }
}

void RankRun::begin(std::size_t index) {
  const Step& step = sequence_.steps[index];
  if (const auto* call = std::get_if<Collective>(&step.action)) {
    begin_collective(index, *call);
  } else if (const auto* message = std::get_if<Message>(&step.action)) {
    begin_message(index, *message);
  } else {
    make_groups(std::get<NewGroups>(step.action));
  }
}

// Groups.

void RankRun::make_groups(const NewGroups& made) {
  const auto parent = groups_.find(made.parent);
  if (parent == groups_.end()) {
    return;
  }
  Group from = parent->second;
  for (std::size_t colour = 0; colour < made.parts.size(); ++colour) {
    const NewGroups::Part& part = made.parts[colour];
    const auto key = std::ranges::find(part.places, from.rank()) - part.places.begin();
    if (key == static_cast<std::ptrdiff_t>(part.places.size())) {
      continue;
    }
    groups_.emplace(part.id, made.kind == NewGroups::Kind::Split
                                 ? from.split(static_cast<std::int64_t>(colour), key)
                                 : from.subset(part.places));
  }
}

// Collectives.

void RankRun::prepare_buffers(Ongoing& ongoing, const Collective& call) {
  const CallView view = view_of(ongoing, call);
  const Rank place = ongoing.place;
  const Side& side = side_of(ongoing, call);
  const std::int64_t in = input_elements(view, place);
  const std::int64_t out = output_elements(view, place);
  const bool reads = reads_input(call, place);
  const bool writes = writes_output(call, place);
  if (is_in_place(ongoing, call)) {
    ongoing.input = Buffer(world_, present(side.input, true), call.dtype, std::max(in, out));
  } else {
    ongoing.input = Buffer(world_, present(side.input, reads), call.dtype, in);
    ongoing.output = Buffer(world_, present(side.output, writes), call.dtype, out);
  }
  require(ongoing.input.began_zero() && ongoing.output.began_zero(), ongoing,
          "new memory is not zero");
}

namespace {

/// The spans of the call, and the values of the input.
void set_spans(Ongoing& ongoing, const Collective& call) {
  const CallView view = view_of(ongoing, call);
  const Rank place = ongoing.place;
  std::span<std::byte> input = ongoing.input.data();
  std::span<std::byte> output = ongoing.output.data();
  if (is_in_place(ongoing, call)) {
    output = input;
    if (has_whole(call.operation)) {
      const bool gathers = output_is_whole(call.operation);
      (gathers ? input : output) =
          block_of(output, view, place,
                   gathers ? input_elements(view, place) : output_elements(view, place));
    }
  }
  if (reads_input(call, place)) {
    fill_input(view, place, 0, input);
  }
  ongoing.call.input = input;
  ongoing.call.output = output;
}

}  // namespace

void RankRun::begin_collective(std::size_t index, const Collective& call) {
  const auto group = groups_.find(call.group);
  if (group == groups_.end()) {
    return;
  }
  auto ongoing = std::make_unique<Ongoing>();
  ongoing->step = &sequence_.steps[index];
  ongoing->index = index;
  ongoing->place = group->second.rank();
  prepare_buffers(*ongoing, call);
  ongoing->call.operation = call.operation;
  ongoing->call.dtype = call.dtype;
  ongoing->call.root = call.root;
  ongoing->call.options = options_of(call);
  set_spans(*ongoing, call);
  set_counts(view_of(*ongoing, call), ongoing->place, ongoing->call);
  ongoing->hashed = compares_bits(call, group->second.method_of(ongoing->call));
  const Side& side = side_of(*ongoing, call);
  begin_or_run(side, std::move(ongoing), group->second);
}

void RankRun::begin_or_run(const Side& side, std::unique_ptr<Ongoing> ongoing, Group& group) {
  if (side.lag == kBlocking) {
    group.run(ongoing->call);
    finish(*ongoing);
    return;
  }
  ongoing->pending = group.start(ongoing->call);
  outstanding_.emplace(ongoing->index + static_cast<std::size_t>(side.lag), std::move(ongoing));
}

void RankRun::check_collective(const Ongoing& ongoing, const Collective& call) {
  const CallView view = view_of(ongoing, call);
  const bool in_place = is_in_place(ongoing, call);
  if (writes_output(call, ongoing.place)) {
    const Differences found = compare_output(view, ongoing.place, ongoing.call.output);
    require(found.count == 0, ongoing,
            fmt::format("{} elements of the output: {}", found.count, found.first));
  } else if (!in_place) {
    require(ongoing.output.is_untouched(), ongoing, "an output that is not this rank's changed");
  }
  if (reads_input(call, ongoing.place) && (!in_place || !writes_output(call, ongoing.place))) {
    const Differences found = compare_input(view, ongoing.place, 0, ongoing.call.input);
    require(found.count == 0, ongoing,
            fmt::format("{} elements of the input changed: {}", found.count, found.first));
  } else if (!in_place) {
    require(ongoing.input.is_untouched(), ongoing, "an input that is not this rank's changed");
  }
  if (ongoing.hashed) {
    board_.hash(ongoing.index, world_.rank()) = hash_of(ongoing.call.output);
  }
}

// Messages.

namespace {

/// Sends or receives, blocking.
void pass_message(Group& group, const Message& message, std::span<std::byte> data) {
  with_type(message.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (group.rank() == message.from) {
      group.send<T>(elements<T>(std::span<const std::byte>(data)), message.to, message.tag);
    } else {
      group.receive<T>(elements<T>(data), message.from, message.tag);
    }
  });
}

}  // namespace

void RankRun::begin_message(std::size_t index, const Message& message) {
  const auto it = groups_.find(message.group);
  if (it == groups_.end() ||
      (it->second.rank() != message.from && it->second.rank() != message.to)) {
    return;
  }
  Group& group = it->second;
  const bool sends = group.rank() == message.from;
  const Side& side = sends ? message.sender : message.receiver;
  auto ongoing = std::make_unique<Ongoing>();
  ongoing->step = &sequence_.steps[index];
  ongoing->index = index;
  ongoing->place = group.rank();
  ongoing->input = Buffer(world_, present(side.input, true), message.dtype, message.count);
  const std::span<std::byte> data = ongoing->input.data();
  if (sends) {
    fill_input(message_view(*ongoing, as_broadcast(message)), 0, 0, data);
  }
  if (side.lag == kBlocking) {
    pass_message(group, message, data);
    finish(*ongoing);
    return;
  }
  ongoing->pending = sends ? group.start_send(data, message.dtype, message.to, message.tag)
                           : group.start_receive(data, message.dtype, message.from, message.tag);
  outstanding_.emplace(index + static_cast<std::size_t>(side.lag), std::move(ongoing));
}

void RankRun::check_message(const Ongoing& ongoing, const Message& message) {
  const Collective broadcast = as_broadcast(message);
  const Differences found =
      compare_input(message_view(ongoing, broadcast), 0, 0, ongoing.input.data());
  require(found.count == 0, ongoing,
          fmt::format("{} elements of the message: {}", found.count, found.first));
}

// The ends.

void RankRun::finish_due(std::size_t index) {
  while (!outstanding_.empty() && outstanding_.begin()->first <= index) {
    const std::unique_ptr<Ongoing> due = std::move(outstanding_.begin()->second);
    outstanding_.erase(outstanding_.begin());
    wait_somehow(due->pending, mix(due->step->key, static_cast<std::uint64_t>(world_.rank())));
    finish(*due);
  }
}

void RankRun::finish(Ongoing& ongoing) {
  if (const auto* call = std::get_if<Collective>(&ongoing.step->action)) {
    check_collective(ongoing, *call);
  } else {
    check_message(ongoing, std::get<Message>(ongoing.step->action));
  }
  require(ongoing.input.guards_hold(), ongoing, "bytes around the input changed");
  require(ongoing.output.guards_hold(), ongoing, "bytes around the output changed");
}

}  // namespace trireme::fuzz
