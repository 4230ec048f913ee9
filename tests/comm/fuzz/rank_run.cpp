#include "rank_run.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "elements.h"
#include "inputs.h"

namespace trireme::fuzz {
namespace {

std::uint64_t hash_of(std::span<const std::byte> bytes) {
  std::uint64_t hash = 1;
  for (const std::byte b : bytes) {
    hash = (hash ^ static_cast<std::uint64_t>(b)) * 0x100000001B3U;
  }
  return hash | 1;
}

/// All kinds of waiting must be equivalent; the key decides which is used.
void wait_somehow(Pending& pending, std::uint64_t random) {
  switch (random % 5) {
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
    case 2: {
      const Pending dropped = std::move(pending);
      return;
    }
    default:
      pending.wait();
  }
}

bool compares_bits(const Collective& call, const std::string& method) {
  if (call.operation != Operation::Allreduce || call.values != Collective::Values::Random) {
    return false;
  }
  return call.order == Order::Fixed || method == "direct" ||
         properties(parse_algorithm(method)).bit_identical;
}

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

RankRun::RankRun(World& world, const Sequence& sequence, Board& board)
    : world_(world), sequence_(sequence), board_(board) {
  groups_.emplace(0, world.all());
}

void RankRun::run() {
  try {
    check_world();
    for (std::size_t i = 0; i < sequence_.steps.size(); ++i) {
      begin(i);
      finish_due(i);
    }
    finish_due(static_cast<std::size_t>(-1));
    if (sequence_.end == Sequence::End::Together) {
      world_.all().barrier();
    }
  } catch (const std::exception& error) {
    // Before the stack unwinds, when Pendings wait, maybe forever.
    board_.report(fmt::format("rank {}: {}", world_.rank(), error.what()));
    throw;
  }
}

void RankRun::check_world() const {
  const std::set<int> hosts(sequence_.hosts.begin(), sequence_.hosts.end());
  if (world_.size() != sequence_.ranks || world_.hosts().size() != hosts.size()) {
    throw std::runtime_error(
        fmt::format("the world has {} ranks on {} hosts", world_.size(), world_.hosts().size()));
  }
}

void RankRun::begin(std::size_t index) {
  const Step& step = sequence_.steps[index];
  pause(step);
  if (const auto* call = std::get_if<Collective>(&step.action)) {
    begin_collective(index, *call);
  } else if (const auto* message = std::get_if<Message>(&step.action)) {
    begin_message(index, *message);
  } else if (const auto* made = std::get_if<NewGroups>(&step.action)) {
    make_groups(*made);
  } else {
    groups_.erase(std::get<Release>(step.action).group);
  }
}

void RankRun::pause(const Step& step) const {
  const std::uint64_t random = mix(step.key, static_cast<std::uint64_t>(world_.rank()) + 100);
  if (sequence_.skew == Sequence::Skew::Pauses && random % 4 == 0) {
    std::this_thread::sleep_for(std::chrono::microseconds((random >> 8) % 1500));
  }
}

// Groups.

namespace {

void check_group(const Group& parent, const NewGroups::Part& part, const Group& group) {
  std::vector<Rank> expected;
  for (const Rank place : part.places) {
    expected.push_back(parent.world_ranks().at(place));
  }
  const auto place =
      static_cast<Rank>(std::ranges::find(part.places, parent.rank()) - part.places.begin());
  if (group.world_ranks() != expected || group.rank() != place) {
    throw std::runtime_error(fmt::format("wrong members of group {}", part.id));
  }
}

}  // namespace

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
    const Group group = made.kind == NewGroups::Kind::Split
                            ? from.split(static_cast<std::int64_t>(colour), key)
                            : from.subset(part.places);
    check_group(from, part, group);
    groups_.emplace(part.id, group);
  }
}

// Calls and messages.

std::unique_ptr<Ongoing> RankRun::prepare_step(std::size_t index, const Group& group) {
  auto ongoing = std::make_unique<Ongoing>();
  ongoing->step = &sequence_.steps[index];
  ongoing->index = index;
  ongoing->place = group.rank();
  prepare(world_, *ongoing);
  return ongoing;
}

void RankRun::begin_collective(std::size_t index, const Collective& call) {
  const auto it = groups_.find(call.group);
  if (it == groups_.end()) {
    return;
  }
  Group& group = it->second;
  std::unique_ptr<Ongoing> ongoing = prepare_step(index, group);
  const int lag = side_of(*ongoing).lag;
  for (int round = 1; round < call.repeat; ++round) {
    lag == kBlocking ? group.run(ongoing->call) : group.start(ongoing->call).wait();
    finish(*ongoing);
    prepare_next_round(*ongoing);
  }
  ongoing->hashed = compares_bits(call, group.method_of(ongoing->call));
  if (lag == kBlocking) {
    group.run(ongoing->call);
    finish(*ongoing);
  } else {
    ongoing->pending = group.start(ongoing->call);
    finish_later(std::move(ongoing));
  }
}

void RankRun::begin_message(std::size_t index, const Message& message) {
  const auto it = groups_.find(message.group);
  if (it == groups_.end() ||
      (it->second.rank() != message.from && it->second.rank() != message.to)) {
    return;
  }
  Group& group = it->second;
  std::unique_ptr<Ongoing> ongoing = prepare_step(index, group);
  const std::span<std::byte> data = ongoing->input.data();
  if (side_of(*ongoing).lag == kBlocking) {
    pass_message(group, message, data);
    finish(*ongoing);
    return;
  }
  ongoing->pending = group.rank() == message.from
                         ? group.start_send(data, message.dtype, message.to, message.tag)
                         : group.start_receive(data, message.dtype, message.from, message.tag);
  finish_later(std::move(ongoing));
}

// The ends.

void RankRun::finish_later(std::unique_ptr<Ongoing> ongoing) {
  const std::size_t due = ongoing->index + static_cast<std::size_t>(side_of(*ongoing).lag);
  outstanding_.emplace(due, std::move(ongoing));
}

void RankRun::finish_due(std::size_t index) {
  while (!outstanding_.empty() && outstanding_.begin()->first <= index) {
    const std::unique_ptr<Ongoing> due = std::move(outstanding_.begin()->second);
    outstanding_.erase(outstanding_.begin());
    wait_somehow(due->pending, mix(due->step->key, static_cast<std::uint64_t>(world_.rank())));
    finish(*due);
  }
}

void RankRun::finish(const Ongoing& ongoing) {
  check(ongoing);
  if (ongoing.hashed) {
    board_.hash(ongoing.index, world_.rank()) = hash_of(ongoing.call.output);
  }
}

}  // namespace trireme::fuzz
