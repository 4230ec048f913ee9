// What workers do, and what they must see.
#include <algorithm>
#include <utility>

#include "ps/simulated_world.h"

namespace trireme::ps {

void SimulatedWorld::work(WorkerNode& worker) {
  Client& client = *worker.machine;
  if (!client.is_ready()) {
    return;
  }
  Outbox out;
  if (!worker.has_joined) {
    worker.has_joined = true;
    client.join_clock(kClocked, local(worker), out);
    send(out);
  }
  if (worker.is_in_iteration) {
    if (worker.ops_left == 0) {
      worker.is_in_iteration = false;
      client.complete_iteration(kClocked, local(worker), out);
      ++result_.iterations;
      send(out);
    } else if (worker.pending.size() < 6) {
      begin_op(worker);
    }
  } else if (has_faults_ && client.may_start(kClocked, local(worker))) {
    start_iteration(worker);
  }
}

void SimulatedWorld::start_iteration(WorkerNode& worker) {
  check_start(worker);
  worker.is_in_iteration = true;
  worker.ops_left = static_cast<int>(between(2, 5));
  Outbox out;
  pull(worker, kClocked, {0}, out);
  push(worker, kClocked, {0}, chance(0.5) ? Reply::Values : Reply::Acknowledge, out);
  worker.iterations.push_back(worker.machine->clock(kClocked));
  send(out);
}

void SimulatedWorld::note_registrations() {
  for (WorkerNode& worker : workers_) {
    const auto joined = coordinator_->joined_at(kClocked, worker.id);
    worker.was_given_up = worker.was_given_up || (worker.joined_at && joined != worker.joined_at);
    worker.joined_at = joined;
  }
}

void SimulatedWorld::check_start(const WorkerNode& worker) {
  const ClockCount own = worker.machine->clock(kClocked);
  for (const WorkerNode& other : workers_) {
    if (other.joined_at) {
      const ClockCount clock = std::max(other.machine->clock(kClocked), *other.joined_at);
      if (own - clock > staleness_) {
        fail(
            fmt::format("worker {} starts iteration {} although worker {} has completed {}, s = {}",
                        worker.slot, own, other.slot, clock, staleness_));
      }
    }
  }
}

void SimulatedWorld::begin_op(WorkerNode& worker) {
  --worker.ops_left;
  // Two keys of one shard, or one.
  const Key first = static_cast<Key>(between(0, 2)) * 2;
  std::vector<Key> keys = chance(0.3) ? std::vector<Key>{first, first + 1}
                                      : std::vector<Key>{first + static_cast<Key>(between(0, 1))};
  Outbox out;
  if (chance(0.5)) {
    push(worker, kCounters, std::move(keys), chance(0.3) ? Reply::Values : Reply::Acknowledge, out);
  } else {
    pull(worker, kCounters, keys, out);
  }
  send(out);
}

void SimulatedWorld::push(WorkerNode& worker, TableId table, std::vector<Key> keys, Reply reply,
                          Outbox& out) {
  PendingOp op{.is_push = true,
               .is_read = reply == Reply::Values,
               .table = table,
               .keys = keys,
               .begin = now_};
  std::vector<float> ones(keys.size() * kMaxLives, 0.0F);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    ones[i * kMaxLives + worker.slot] = 1;
    op.numbers.push_back(history(table, keys[i]).begin_push(worker.slot, now_));
    op.own.push_back(history(table, keys[i]).begun(worker.slot));
  }
  const Part part = worker.machine->split(table, KeySet{.list = keys}).at(0);
  const OpId id = worker.machine->push(table, part, Values::copy(ones), reply, local(worker), out);
  worker.pending.emplace(id, std::move(op));
}

void SimulatedWorld::pull(WorkerNode& worker, TableId table, const std::vector<Key>& keys,
                          Outbox& out) {
  PendingOp op{.is_read = true, .table = table, .keys = keys, .begin = now_};
  for (const Key key : keys) {
    op.own.push_back(history(table, key).begun(worker.slot));
  }
  if (table == kClocked) {
    op.required.assign(kMaxLives, 0);
    for (const WorkerNode& other : workers_) {
      if (other.joined_at && !other.was_given_up) {
        const ClockCount bound = worker.machine->clock(kClocked) - staleness_;
        op.required[other.slot] = static_cast<int>(
            std::ranges::count_if(other.iterations, [&](ClockCount c) { return c < bound; }));
      }
    }
  }
  const Part part = worker.machine->split(table, KeySet{.list = keys}).at(0);
  worker.pending.emplace(worker.machine->pull(table, part, local(worker), out), std::move(op));
}

void SimulatedWorld::complete(WorkerNode& worker) {
  for (const Completion& completion : worker.machine->take_completions()) {
    finish(worker, completion);
  }
}

void SimulatedWorld::finish(WorkerNode& worker, const Completion& completion) {
  const auto at = worker.pending.find(completion.op);
  if (at == worker.pending.end()) {
    return fail("an operation completed twice");
  }
  const PendingOp& op = at->second;
  for (std::size_t i = 0; op.is_push && i < op.keys.size(); ++i) {
    history(op.table, op.keys[i]).end_push(worker.slot, op.numbers[i], now_);
    ++result_.acknowledged;
  }
  if (op.is_read) {
    note_read(worker, op, completion.values);
  }
  worker.pending.erase(at);
}

void SimulatedWorld::note_read(const WorkerNode& worker, const PendingOp& op,
                               const Values& values) {
  if (values.size() != op.keys.size() * kMaxLives) {
    return fail("a read returned a vector of another size");
  }
  for (std::size_t i = 0; i < op.keys.size(); ++i) {
    std::vector<int> seen;
    for (const float count : values.view().subspan(i * kMaxLives, kMaxLives)) {
      seen.push_back(static_cast<int>(count));
    }
    if (seen[worker.slot] < op.own[i]) {
      fail(fmt::format("worker {} does not read its own write", worker.slot));
    }
    for (std::size_t w = 0; w < op.required.size(); ++w) {
      if (seen[w] < op.required[w]) {
        fail(fmt::format("worker {} reads {} updates of worker {} where s = {} demands {}",
                         worker.slot, seen[w], w, staleness_, op.required[w]));
      }
    }
    history(op.table, op.keys[i]).add_read(op.begin, now_, std::move(seen));
    ++result_.reads;
  }
}

}  // namespace trireme::ps
