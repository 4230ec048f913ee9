#include "ps/simulator.h"

#include <algorithm>
#include <utility>

#include "ps/message_text.h"
#include "ps/simulated_world.h"

namespace trireme::ps {

bool SimulatedWorld::is_done() {
  return std::ranges::all_of(workers_, [](const WorkerNode& worker) {
    return worker.pending.empty() && !worker.is_in_iteration;
  });
}

/// A last read of every key by a new worker: exactly what was acknowledged, and of dead workers perhaps more.
void SimulatedWorld::check_end() {
  WorkerNode reader;
  start_worker(0);
  workers_[0].has_joined = true;  // only reads
  const auto tables = {std::pair(kCounters, kCounterKeys), std::pair(kClocked, Key{1})};
  while (!workers_[0].machine->is_ready() && !events_.empty() && now_ < kDeadline + kFaultsEnd) {
    Event event = events_.top();
    events_.pop();
    now_ = event.time;
    dispatch(std::move(event));
  }
  if (!workers_[0].machine->is_ready()) {
    return fail("a new worker gets no answer");
  }
  Outbox out;
  for (const auto& [table, keys] : tables) {
    for (Key key = 0; key < keys; ++key) {
      pull(workers_[0], table, {key}, out);
    }
  }
  send(out);
  while (!workers_[0].pending.empty() && !events_.empty() && now_ < 2 * kDeadline) {
    Event event = events_.top();
    events_.pop();
    now_ = event.time;
    dispatch(std::move(event));
  }
  if (!workers_[0].pending.empty()) {
    return fail("the last reads have not finished");
  }
  for (std::size_t i = 0; i < histories_.size(); ++i) {
    if (const std::string problem = histories_[i].problem(); !problem.empty()) {
      fail(fmt::format("key {}: {}", i, problem));
    }
  }
}

/// Soon after the faults, every shard has its replicas in different processes.
void SimulatedWorld::check_placement() {
  const std::size_t wanted = std::min(coordinator_options_.replicas, processes_);
  const auto is_spread = [&](const ShardRecord& record) {
    return record.view.processes() >= wanted;
  };
  while (!std::ranges::all_of(records_, is_spread) && !events_.empty() && now_ < 2 * kDeadline) {
    Event event = events_.top();
    events_.pop();
    now_ = event.time;
    dispatch(std::move(event));
  }
  for (const ShardRecord& record : records_) {
    if (!is_spread(record)) {
      fail(fmt::format("replicas share processes: {}", describe(record.view)));
    }
  }
}

SimulationResult SimulatedWorld::run() {
  SimTime next_fault = 60'000;
  const SimTime fault_gap = between(10'000, 60'000);
  while (!events_.empty() && result_.problem.empty()) {
    Event event = events_.top();
    events_.pop();
    now_ = event.time;
    ++result_.events;
    if (has_faults_ && now_ > kFaultsEnd) {
      end_faults();
    }
    if (has_faults_ && now_ > next_fault) {
      next_fault = now_ + between(fault_gap / 2, fault_gap * 2);
      inject_fault();
    }
    dispatch(std::move(event));
    if (!has_faults_ && is_done()) {
      check_end();
      starved_until_ = now_;
      check_placement();
      break;
    }
    if (now_ > kDeadline) {
      std::string left;
      for (const WorkerNode& worker : workers_) {
        left +=
            fmt::format("; worker {}: {} operations, {} in the client, {} iteration {}",
                        worker.slot, worker.pending.size(), worker.machine->pending(),
                        worker.is_in_iteration ? "in" : "after", worker.machine->clock(kClocked));
      }
      fail("operations have not finished although the faults ended" + left);
    }
  }
  for (const ShardRecord& record : records_) {
    result_.epochs += record.view.epoch;
  }
  return result_;
}

SimulationResult simulate(const SimulationOptions& options) {
  return SimulatedWorld(options).run();
}

}  // namespace trireme::ps
