#include "comm/fault_fuzz/rank.h"

#include <algorithm>
#include <array>
#include <exception>
#include <optional>
#include <thread>

#include "comm/fault_fuzz/workload.h"

namespace trireme::fault_fuzz {
namespace {

RankSet to_set(const std::vector<Rank>& ranks) {
  RankSet set = 0;
  for (const Rank rank : ranks) {
    set |= RankSet{1} << rank;
  }
  return set;
}

Event error_event(Event::Kind kind, const std::exception& error) {
  Event event{.kind = kind};
  copy_text(error.what(), event.text);
  if (const auto* comm = dynamic_cast<const CommError*>(&error)) {
    event.fault = static_cast<int>(comm->fault());
    event.culprits = to_set(comm->culprits());
  }
  return event;
}

class Worker {
 public:
  Worker(const Scenario& scenario, World& world, Journal& journal)
      : scenario_(scenario),
        journal_(journal),
        mine_(journal.ranks[world.rank()]),
        me_(static_cast<std::size_t>(world.rank())),
        group_(world.all()) {}

  /// Returns when the rank is done, or cannot continue.
  void run() {
    while (true) {
      try {
        synchronize();
        work();
        write({.kind = Event::Kind::Finished});
        return;
      } catch (const CommError& error) {
        write(error_event(Event::Kind::CallFailed, error));
      }
      if (!shrink()) {
        return;
      }
    }
  }

 private:
  /// Members may have failed in different steps: all continue after the last of them.
  void synchronize() {
    write({.kind = Event::Kind::BarrierBegun});
    timed("first-barrier", [&] { group_.barrier(); });
    write({.kind = Event::Kind::BarrierDone});
    std::array<std::int64_t, 1> last{step_ + 1};
    timed("synchronize",
          [&] { group_.run(allreduce<std::int64_t>(last, {.reduction = Reduction::Max})); });
    step_ = last[0];
  }

  void work() {
    constexpr int kStepsBetweenChecks = 4;
    for (; step_ % kStepsBetweenChecks != 0 || !all_end(); ++step_) {
      rest();
      const Op& op = scenario_.ops[static_cast<std::size_t>(step_) % scenario_.ops.size()];
      run_op(op, group_, step_,
             [&](const std::function<void()>& call) { timed(to_text(op.kind).data(), call); });
      mine_.steps.fetch_add(1);
    }
  }

  /// Whether the run is over. Members agree, whenever each of them learned of it.
  bool all_end() {
    std::array<std::int64_t, 1> end{journal_.end.load() ? 1 : 0};
    timed("check-end",
          [&] { group_.run(allreduce<std::int64_t>(end, {.reduction = Reduction::Max})); });
    return end[0] != 0;
  }

  /// Occasionally yields the cores to others, and makes no calls during an idle fault.
  void rest() const {
    do {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    } while (now() < journal_.idle_until[me_].load());
  }

  /// False if the rank was excluded.
  bool shrink() {
    write({.kind = Event::Kind::Shrinking});
    try {
      timed(kShrink, [&] { group_ = group_.shrink(); });
    } catch (const CommError& error) {
      write(error_event(Event::Kind::ShrinkFailed, error));
      return false;
    }
    ++generation_;
    write({.kind = Event::Kind::Shrunk});
    return true;
  }

  /// `what` must have static lifetime.
  void timed(const char* what, const std::function<void()>& call) {
    constexpr double kLongPart = 0.3;
    call_ = what;
    began_ = now();
    mine_.waiting_in.store(what);
    mine_.waiting_generation.store(generation_);
    mine_.waiting_since.store(began_);
    try {
      call();
    } catch (...) {
      mine_.waiting_since.store(0);
      throw;
    }
    mine_.waiting_since.store(0);
    if (now() - began_ > kLongPart * scenario_.deadline && call_ != kShrink) {
      write({.kind = Event::Kind::LongCall});
    }
  }

  void write(Event event) {
    event.generation = generation_;
    event.step = step_;
    event.begin = began_;
    event.members = to_set(group_.world_ranks());
    copy_text(call_, event.call);
    mine_.write(event);
  }

  static constexpr const char* kShrink = "shrink";
  const Scenario& scenario_;
  Journal& journal_;
  RankJournal& mine_;
  std::size_t me_;
  Group group_;
  int generation_ = 0;
  std::int64_t step_ = 0;
  double began_ = 0;
  const char* call_ = "";
};

void join_and_work(const Scenario& scenario, const RankPlace& place, Journal& journal) {
  RankJournal& mine = journal.ranks[place.join.rank];
  std::optional<World> world(join(place.join, world_options(scenario, place.bind)));
  mine.write({.kind = Event::Kind::Joined});
  std::exception_ptr error;
  try {
    Worker(scenario, *world, journal).run();
  } catch (...) {
    error = std::current_exception();
  }
  const double begin = now();
  mine.waiting_in.store("leave");
  mine.waiting_since.store(begin);
  mine.write({.kind = Event::Kind::Leaving});
  world.reset();
  mine.waiting_since.store(0);
  mine.write({.kind = Event::Kind::Left, .begin = begin});
  if (error) {
    std::rethrow_exception(error);
  }
}

}  // namespace

WorldOptions world_options(const Scenario& scenario, const std::string& bind) {
  WorldOptions options{.deadline = {scenario.deadline}};
  options.bind = bind;
  switch (scenario.transport) {
    case Transport::Shm:
      options.transport = TransportKind::SharedMemory;
      break;
    case Transport::Tls:
      options.encrypt = true;
      [[fallthrough]];
    case Transport::Tcp:
      options.transport = TransportKind::Tcp;
      break;
    case Transport::Ucx:
      options.transport = TransportKind::Ucx;
      break;
    case Transport::Mixed:
      break;
  }
  return options;
}

void run_rank(const Scenario& scenario, const RankPlace& place, Journal& journal) noexcept {
  RankJournal& mine = journal.ranks[place.join.rank];
  try {
    join_and_work(scenario, place, journal);
  } catch (const WrongResult& error) {
    mine.write(error_event(Event::Kind::WrongResult, error));
  } catch (const std::exception& error) {
    mine.write(error_event(Event::Kind::Unexpected, error));
  }
}

}  // namespace trireme::fault_fuzz
