#include "ongoing.h"

#include <algorithm>
#include <stdexcept>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "compare.h"
#include "inputs.h"
#include "reference.h"
#include "shape.h"

namespace trireme::fuzz {
namespace {

/// Repeated calls have different values.
CallView view_of(const Ongoing& ongoing, const Collective& call) {
  const std::uint64_t key = ongoing.step->key + (static_cast<std::uint64_t>(ongoing.round) << 32);
  return {call, key, static_cast<Rank>(call.sides.size())};
}

/// Messages are checked as broadcasts from place 0 of 1.
CallView message_view(const Ongoing& ongoing, const Collective& broadcast) {
  return {broadcast, ongoing.step->key, 1};
}

bool is_in_place(const Ongoing& ongoing, const Collective& call) {
  return call.operation == Operation::Broadcast || side_of(ongoing).layout == Side::Layout::InPlace;
}

/// Whether the one buffer of an in-place call is the output, with the input as a part of it.
bool output_is_whole(Operation operation) {
  return operation == Operation::Gather || operation == Operation::Allgather;
}
bool has_whole(Operation operation) {
  return output_is_whole(operation) || operation == Operation::Scatter ||
         operation == Operation::ReduceScatter;
}

Location needed(Location where) {
  return where.memory == Memory::None ? Location{Memory::Private, where.offset} : where;
}

[[noreturn]] void fail(const Ongoing& ongoing, const std::string& problem) {
  throw std::runtime_error(fmt::format("wrong result of step {}: {}", ongoing.step->key, problem));
}

void require_none(const Differences& found, const Ongoing& ongoing, const char* what) {
  if (found.count != 0) {
    fail(ongoing, fmt::format("{} elements of the {}: {}", found.count, what, found.first));
  }
}

// Collectives.

std::span<std::byte> block_of(std::span<std::byte> whole, const CallView& view, Rank place,
                              std::int64_t elements) {
  const auto element = static_cast<std::size_t>(size_of(view.call.dtype).count);
  return whole.subspan(static_cast<std::size_t>(block_offset(view, place)) * element,
                       static_cast<std::size_t>(elements) * element);
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
  const auto ranks = static_cast<std::size_t>(view.ranks);
  const auto me = static_cast<std::size_t>(place);
  for (std::size_t r = 0; r < ranks; ++r) {
    sent.push_back(counts[me * ranks + r]);
    received.push_back(counts[r * ranks + me]);
  }
  out = with_counts(std::move(out), std::move(sent), std::move(received));
}

/// A buffer that the call ignores may be absent.
void make_buffers(World& world, Ongoing& ongoing, const Collective& call) {
  const CallView view = view_of(ongoing, call);
  const Side& side = side_of(ongoing);
  const std::int64_t in = input_elements(view, ongoing.place);
  const std::int64_t out = output_elements(view, ongoing.place);
  if (is_in_place(ongoing, call)) {
    ongoing.input = Buffer(world, needed(side.input), call.dtype, std::max(in, out));
    return;
  }
  const bool reads = reads_input(call, ongoing.place);
  const bool writes = writes_output(call, ongoing.place);
  ongoing.input = Buffer(world, reads ? needed(side.input) : side.input, call.dtype, in);
  ongoing.output = Buffer(world, writes ? needed(side.output) : side.output, call.dtype, out);
}

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
          block_of(ongoing.input.data(), view, place,
                   gathers ? input_elements(view, place) : output_elements(view, place));
    }
  }
  if (reads_input(call, place)) {
    fill_input(view, place, 0, input);
  }
  ongoing.call.input = input;
  ongoing.call.output = output;
}

void prepare_call(Ongoing& ongoing, const Collective& call) {
  ongoing.call.operation = call.operation;
  ongoing.call.dtype = call.dtype;
  ongoing.call.root = call.root;
  ongoing.call.options = options_of(call);
  set_spans(ongoing, call);
  set_counts(view_of(ongoing, call), ongoing.place, ongoing.call);
}

void check_output(const Ongoing& ongoing, const Collective& call) {
  if (writes_output(call, ongoing.place)) {
    require_none(compare_output(view_of(ongoing, call), ongoing.place, ongoing.call.output),
                 ongoing, "output");
  } else if (!ongoing.output.is_untouched()) {
    fail(ongoing, "an output that is not this rank's changed");
  }
}

/// In place, the output has overwritten the input, except in a scatter, whose output is a part of it.
bool keeps_input(const Ongoing& ongoing, const Collective& call) {
  return !is_in_place(ongoing, call) || !writes_output(call, ongoing.place) ||
         call.operation == Operation::Scatter;
}

void check_input(const Ongoing& ongoing, const Collective& call) {
  if (!reads_input(call, ongoing.place)) {
    if (!is_in_place(ongoing, call) && !ongoing.input.is_untouched()) {
      fail(ongoing, "an input that is not this rank's changed");
    }
  } else if (keeps_input(ongoing, call)) {
    require_none(compare_input(view_of(ongoing, call), ongoing.place, 0, ongoing.call.input),
                 ongoing, "input, which must not change");
  }
}

// Messages.

bool is_sender(const Ongoing& ongoing, const Message& message) {
  return ongoing.place == message.from;
}

void prepare_message(World& world, Ongoing& ongoing, const Message& message) {
  ongoing.input = Buffer(world, needed(side_of(ongoing).input), message.dtype, message.count);
  if (is_sender(ongoing, message)) {
    const Collective broadcast = as_broadcast(message);
    fill_input(message_view(ongoing, broadcast), 0, 0, ongoing.input.data());
  }
}

void check_message(const Ongoing& ongoing, const Message& message) {
  const Collective broadcast = as_broadcast(message);
  require_none(compare_input(message_view(ongoing, broadcast), 0, 0, ongoing.input.data()), ongoing,
               "message");
}

}  // namespace

const Side& side_of(const Ongoing& ongoing) {
  if (const auto* call = std::get_if<Collective>(&ongoing.step->action)) {
    return call->sides[ongoing.place];
  }
  const auto& message = std::get<Message>(ongoing.step->action);
  return is_sender(ongoing, message) ? message.sender : message.receiver;
}

void prepare(World& world, Ongoing& ongoing) {
  if (const auto* call = std::get_if<Collective>(&ongoing.step->action)) {
    make_buffers(world, ongoing, *call);
    prepare_call(ongoing, *call);
  } else {
    prepare_message(world, ongoing, std::get<Message>(ongoing.step->action));
  }
  if (!ongoing.input.began_zero() || !ongoing.output.began_zero()) {
    fail(ongoing, "new memory is not zero");
  }
}

void prepare_next_round(Ongoing& ongoing) {
  ongoing.input.reset();
  ongoing.output.reset();
  ++ongoing.round;
  set_spans(ongoing, std::get<Collective>(ongoing.step->action));
}

void check(const Ongoing& ongoing) {
  if (const auto* call = std::get_if<Collective>(&ongoing.step->action)) {
    check_output(ongoing, *call);
    check_input(ongoing, *call);
  } else {
    check_message(ongoing, std::get<Message>(ongoing.step->action));
  }
  if (!ongoing.input.guards_hold() || !ongoing.output.guards_hold()) {
    fail(ongoing, "bytes around a buffer changed");
  }
}

}  // namespace trireme::fuzz
