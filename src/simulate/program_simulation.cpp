// A rank runs its instructions until it reaches a communication op or has to wait for one. Communication ops are handled
// in the order of time, from a queue: a message occupies the send port of one rank and the receive port of another, a
// collective the communication streams of its members, first come, first served. A rank that waits continues as soon as
// the end of what it waits for is known.
#include "trireme/program_simulation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <queue>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "base/indexed_vector.h"
#include "base/text.h"
#include "simulate/communication_times.h"
#include "simulate/program_steps.h"
#include "simulate/shared_cores.h"
#include "simulate/step_recorder.h"
#include "trireme/error.h"

namespace trireme::simulate {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::infinity();

/// When a communication op of a rank took place.
struct ExchangeTimes {
  double issued = kUnknown;
  double ready = kUnknown;  ///< when all ranks that it needs have issued it
  double start = kUnknown;  ///< of the transfer: later if links are busy
  double end = kUnknown;
};

/// A communication op of a rank, by its number among the rank's communication ops.
struct Spot {
  int rank = 0;
  std::size_t number = 0;
};

class ProgramSimulator {
 public:
  ProgramSimulator(const RankPrograms& programs, std::span<const RankGroups> groups,
                   const Cluster& cluster, const ProgramSimulationOptions& options)
      : cluster_(cluster),
        options_(options),
        times_(cluster, options.among),
        ranks_(programs.of_rank.size()),
        node_ports_(cluster.nodes) {
    report_.ranks.resize(ranks_.size());
    report_.trace.kind = TraceKind::Predicted;
    if (options.trace) {
      recorder_.emplace(report_.trace, count(), options.traced);
    }
    if (options.host) {
      cores_.emplace(options.host->cores, count());
    }
    steps_.reserve(programs.programs.size());  // ranks refer to them
    for (const Program& program : programs.programs) {
      steps_.push_back(steps_of(program, options.compute, options.overlap));
    }
    for (int rank = 0; rank < count(); ++rank) {
      const std::size_t program = programs.of_rank[rank];
      prepare(rank, steps_.at(program), groups[rank]);
      ranks_[rank].shift = rank - programs.compiled_for.at(program);
    }
  }

  SimulationReport run() {
    for (int rank = 0; rank < count(); ++rank) {
      advance(rank);
    }
    while (next_time() < kUnknown) {
      if (cores_ && cores_->next() <= next_event()) {
        const double time = cores_->next();
        if (const std::optional<int> rank = cores_->step()) {
          end_work(*rank, time);
        }
        continue;
      }
      const Event event = queue_.top();
      queue_.pop();
      handle(event);
    }
    finish();
    return std::move(report_);
  }

 private:
  using Exchange = ProgramSteps::Exchange;
  /// A group of a rank: its members, and how many collectives it has started.
  struct OwnGroup {
    int name = 0;
    const std::vector<int>* members = nullptr;
    std::int64_t calls = 0;
  };
  /// What a rank of a host needs a core for: to continue after a wait, to compute, to start a communication op.
  enum class Work : std::uint8_t { Waking, Computing, Starting };
  struct RankState {
    const ProgramSteps* program = nullptr;
    int shift = 0;         ///< from the ranks that its program names to those that it means
    std::size_t next = 0;  ///< instruction
    double now = 0;
    Work work = Work::Waking;  ///< that it does on its core, on a host
    bool finished = false;
    std::optional<std::size_t> blocked_on{};  ///< an exchange whose end is not known yet
    std::vector<ExchangeTimes> exchanges{};
    std::vector<OwnGroup> groups{};  ///< as the program's
    double stream = 0;               ///< when its collectives are done
    double sends = 0;                ///< when its send port is free
    double receives = 0;
  };
  /// At the same time, earlier instructions come first: otherwise the groups of equal ranks would start their
  /// collectives in different orders.
  struct Event {
    double time = 0;
    std::size_t at = 0;
    int rank = 0;
    [[nodiscard]] bool operator<(const Event& other) const {  // the queue's top is the largest
      return std::tie(time, at, rank) > std::tie(other.time, other.at, other.rank);
    }
  };
  /// Name of the group, first member, number of the call.
  using CallKey = std::tuple<int, int, std::int64_t>;
  /// From, to, tag.
  using LineKey = std::tuple<int, int, std::int64_t>;
  struct Line {
    std::vector<ExchangeTimes> messages{};  ///< that nobody has received yet
    std::vector<Spot> waiting{};            ///< receives without a message
  };

  [[nodiscard]] int count() const { return static_cast<int>(ranks_.size()); }
  [[nodiscard]] const Exchange& exchange(Spot spot) const {
    return ranks_[spot.rank].program->exchanges[spot.number];
  }
  [[nodiscard]] const Instruction& instruction(int rank, std::size_t at) const {
    return ranks_[rank].program->program->instructions[at];
  }
  [[nodiscard]] RankReport& rank_report(int rank) { return report_.ranks[rank]; }
  [[nodiscard]] ExchangeTimes& times(Spot spot) { return ranks_[spot.rank].exchanges[spot.number]; }

  void prepare(int rank, const ProgramSteps& program, const RankGroups& groups) {
    RankState& state = ranks_[rank];
    state.program = &program;
    state.exchanges.resize(program.exchanges.size());
    rank_report(rank).bytes_sent = program.sent;
    for (const std::string& name : program.groups) {
      const auto group = groups.find(name);
      if (group == groups.end()) {
        throw Error(ErrorKind::Usage, fmt::format("rank {} is in no group {}", rank, name));
      }
      const int known = static_cast<int>(group_names_.size());
      state.groups.push_back(
          {.name = group_names_.try_emplace(name, known).first->second, .members = &group->second});
    }
  }

  [[nodiscard]] double next_event() const {
    if (queue_.empty()) {
      return kUnknown;
    }
    return queue_.top().time;
  }
  [[nodiscard]] double next_time() const {
    const double event = next_event();
    return cores_ ? std::min(event, cores_->next()) : event;
  }

  void handle(const Event& event) {
    if (!cores_) {
      issue(event.rank);
      advance(event.rank);
      return;
    }
    cores_->advance_to(event.time);
    if (!cores_->holds_core(event.rank)) {
      work(event.rank, Work::Waking, 0);
      return;
    }
    issue(event.rank);
    work(event.rank, Work::Starting, options_.host->start.count);
  }

  void work(int rank, Work what, double seconds) {
    ranks_[rank].work = what;
    cores_->run(rank, seconds);
  }

  /// The rank's core has done its work. The time until it had a core counts as well.
  void end_work(int rank, double time) {
    RankState& state = ranks_[rank];
    if (state.work == Work::Computing) {
      end_kernel(rank, time);
    } else {
      RankReport& report = rank_report(rank);
      spend(state.work == Work::Starting ? report.exposed : report.compute, state.now, time);
      state.now = time;
    }
    advance(rank);
  }

  /// Runs until the next communication op, which is queued, or until one that has to be waited for. On a host, also
  /// until the next kernel.
  void advance(int rank) {
    RankState& state = ranks_[rank];
    const std::vector<ProgramSteps::Step>& all = state.program->steps;
    while (wait_for_all(rank)) {
      if (state.next == all.size()) {
        state.finished = true;
        release_core(rank);
        return;
      }
      const ProgramSteps::Step& step = all[state.next];
      if (step.exchange >= 0 || (cores_ && step.runs && !cores_->holds_core(rank))) {
        queue_.push({state.now, state.next, rank});
        return;
      }
      if (cores_ && step.runs) {
        work(rank, Work::Computing, kernel_time(rank));
        return;
      }
      if (step.runs) {
        end_kernel(rank, state.now + kernel_time(rank));
      } else {
        ++state.next;
      }
    }
    release_core(rank);
  }

  void release_core(int rank) {
    if (cores_) {
      cores_->release(rank);
    }
  }

  /// Waits for the communication that must be complete before the next instruction. False if the end of one is not
  /// known.
  bool wait_for_all(int rank) {
    RankState& state = ranks_[rank];
    for (const std::size_t number : state.program->waits_before(state.next)) {
      const ExchangeTimes& needed = state.exchanges[number];
      if (needed.end == kUnknown) {
        state.blocked_on = number;
        return false;
      }
      if (needed.end > state.now) {
        release_core(rank);
        const double begins = std::max(state.now, needed.ready);
        spend(rank_report(rank).idle, state.now, begins);
        const double awake = needed.end + (options_.host ? options_.host->wake.count : 0);
        spend(rank_report(rank).exposed, begins, awake);
        if (recorder_) {
          recorder_->wait(rank, instruction(rank, exchange({rank, number}).at), {state.now, awake});
        }
        state.now = awake;
      }
    }
    return true;
  }

  /// Of the rank's next instruction, with a core of its own.
  [[nodiscard]] double kernel_time(int rank) const {
    const RankState& state = ranks_[rank];
    return state.program->steps[state.next].time.count *
           time_factor(options_.variation, rank, count(), static_cast<std::int64_t>(state.next));
  }

  void end_kernel(int rank, double end) {
    RankState& state = ranks_[rank];
    const ProgramSteps::Step& step = state.program->steps[state.next];
    spend(rank_report(rank).compute, state.now, end);
    rank_report(rank).flops += step.work.products;
    if (recorder_ && end > state.now) {
      recorder_->compute(rank, instruction(rank, state.next), step.work, {state.now, end});
    }
    state.now = end;
    ++state.next;
  }

  /// Starts the communication op at which the rank is.
  void issue(int rank) {
    RankState& state = ranks_[rank];
    const Spot spot{rank, position_of(state.program->steps[state.next++].exchange)};
    times(spot).issued = state.now;
    switch (exchange(spot).kind) {
      case Exchange::Kind::Collective:
        return issue_call(spot);
      case Exchange::Kind::Send:
        return issue_send(spot);
      case Exchange::Kind::Receive:
        return issue_receive(spot);
    }
  }

  void issue_call(Spot spot) {
    OwnGroup& group = ranks_[spot.rank].groups[exchange(spot).group];
    const CallKey key{group.name, group.members->front(), group.calls++};
    std::vector<Spot>& arrived = calls_[key];
    arrived.push_back(spot);
    if (arrived.size() == group.members->size()) {
      const std::vector<Spot> spots = std::move(arrived);
      calls_.erase(key);
      run_call(spots, *group.members);
    }
  }

  void run_call(const std::vector<Spot>& spots, const std::vector<int>& members) {
    const double time =
        shared_time(collective_time(members, exchange(spots.back())), members.size());
    const double ready = times(spots.back()).issued;  // the last: events come in order of time
    double start = ready;
    for (const Spot spot : spots) {
      start = std::max(
          {start, ranks_[spot.rank].stream, ready + wake_time(ready, ranks_[spot.rank].stream)});
    }
    start = take_node_ports(members, start, time);
    for (const Spot spot : spots) {
      ranks_[spot.rank].stream = start + time;
    }
    use_cores(start, start + time, members.size());
    for (const Spot spot : spots) {
      complete(spot, {.ready = ready, .start = start, .end = start + time});
    }
  }

  /// The rank with which a message is exchanged.
  [[nodiscard]] int peer_of(Spot spot) const {
    return exchange(spot).peer + ranks_[spot.rank].shift;
  }

  void issue_send(Spot spot) {
    const Exchange& what = exchange(spot);
    const int to = peer_of(spot);
    RankState& from_state = ranks_[spot.rank];
    RankState& to_state = ranks_.at(to);
    const std::vector<int> both{spot.rank, to};
    const double time = shared_time(message_time(spot.rank, to, what.sent), both.size());
    const double start =
        take_node_ports(both,
                        std::max({from_state.now + wake_time(from_state.now, from_state.sends),
                                  from_state.sends, to_state.receives}),
                        time);
    const ExchangeTimes message{.ready = from_state.now, .start = start, .end = start + time};
    from_state.sends = to_state.receives = message.end;
    use_cores(message.start, message.end, both.size());
    const auto line = lines_.try_emplace({spot.rank, to, what.tag}).first;
    if (line->second.waiting.empty()) {
      line->second.messages.push_back(message);
    } else {
      const Spot receive = taken_first(line->second.waiting, line);
      complete(receive, message);
    }
    complete(spot, message);
  }

  void issue_receive(Spot spot) {
    const auto line = lines_.try_emplace({peer_of(spot), spot.rank, exchange(spot).tag}).first;
    if (line->second.messages.empty()) {
      line->second.waiting.push_back(spot);
      return;
    }
    ExchangeTimes message = taken_first(line->second.messages, line);
    const double issued = times(spot).issued;  // what came before is on the sender's track only
    message.start = std::max(message.start, issued);
    message.end = std::max(message.end, issued);
    complete(spot, message);
  }

  /// The first of a line's messages or receives, which are few. A line that has none left is forgotten: there is one for
  /// each tag.
  template <class T>
  T taken_first(std::vector<T>& few, std::map<LineKey, Line>::iterator line) {
    const T first = few.front();
    few.erase(few.begin());
    if (few.empty()) {
      lines_.erase(line);
    }
    return first;
  }

  /// The start of a transfer of this length: later if the members' nodes share their ports and those are busy.
  double take_node_ports(std::span<const int> members, double start, double time) {
    if (!options_.shared_node_port || options_.host || !times_.crosses_nodes(members)) {
      return start;
    }
    for (const int member : members) {
      start = std::max(start, node_ports_[cluster_.node_of(member)]);
    }
    for (const int member : members) {
      node_ports_[cluster_.node_of(member)] = start + time;
    }
    return start;
  }

  void complete(Spot spot, const ExchangeTimes& when) {
    times(spot) = when;
    spend(report_.communication, when.start, when.end);
    RankState& state = ranks_[spot.rank];
    if (recorder_ && when.end > when.start) {
      const Exchange& what = exchange(spot);
      recorder_->exchange(spot.rank, instruction(spot.rank, what.at), {when.start, when.end},
                          what.sent, state.shift);
    }
    if (state.blocked_on == spot.number) {
      state.blocked_on.reset();
      advance(spot.rank);
    }
  }

  void finish() {
    for (int rank = 0; rank < count(); ++rank) {
      if (!ranks_[rank].finished) {
        const std::size_t number = ranks_[rank].blocked_on.value_or(0);
        throw Error(ErrorKind::Usage,
                    fmt::format("rank {} waits forever: instruction {} has no counterpart", rank,
                                exchange({rank, number}).at));
      }
      report_.step = std::max(report_.step, Seconds{ranks_[rank].now});
    }
    report_.slowest = report_.step;
    for (int rank = 0; rank < count(); ++rank) {
      spend(rank_report(rank).idle, ranks_[rank].now, report_.step.count);
    }
  }

  double collective_time(const std::vector<int>& members, const Exchange& what) {
    return options_.host ? options_.host
                               ->collective({.op = what.signature,
                                             .operation = what.operation,
                                             .members = members,
                                             .bytes = what.whole})
                               .count
                         : options_.collective_start.count +
                               times_.collective(what.operation, members, what.whole).count;
  }
  [[nodiscard]] double message_time(int from, int to, double bytes) const {
    return options_.host
               ? options_.host->message({static_cast<std::int64_t>(std::llround(bytes))}).count
               : times_.message(from, to, bytes).count;
  }

  /// How long the thread that communicates takes to run again, if it has been idle since `last`.
  [[nodiscard]] double wake_time(double now, double last) const {
    constexpr double kStaysAwake = 1e-4;
    return options_.host && now > last + kStaysAwake ? options_.host->wake.count : 0;
  }

  static void spend(Seconds& total, double start, double end) { total.count += end - start; }

  /// A transfer between so many ranks keeps cores busy. More ranks than cores take turns, which its time includes.
  void use_cores(double start, double end, std::size_t ranks) {
    if (cores_) {
      cores_->use(start, end, cores_for(ranks));
    }
  }
  /// What a transfer between so many ranks takes while others compute.
  [[nodiscard]] double shared_time(double time, std::size_t ranks) const {
    return cores_ ? time * cores_->crowding(cores_for(ranks)) : time;
  }
  [[nodiscard]] double cores_for(std::size_t ranks) const {
    return std::min(static_cast<double>(ranks), static_cast<double>(options_.host->cores.cores));
  }

  const Cluster& cluster_;
  const ProgramSimulationOptions& options_;  // both outlive the simulator, which lives for one call
  CommunicationTimes times_;
  std::vector<ProgramSteps> steps_;
  std::map<std::string, int, std::less<>> group_names_;
  IndexedVector<int, RankState> ranks_;
  IndexedVector<int, double> node_ports_;  ///< when they are free
  std::priority_queue<Event> queue_;
  std::map<CallKey, std::vector<Spot>> calls_;
  std::map<LineKey, Line> lines_;
  SimulationReport report_;
  std::optional<CoreSchedule> cores_;     ///< of a host
  std::optional<StepRecorder> recorder_;  // after the report, whose trace it fills
};

}  // namespace

SimulationReport simulate_programs(const RankPrograms& programs, std::span<const RankGroups> groups,
                                   const Cluster& cluster,
                                   const ProgramSimulationOptions& options) {
  require_valid(options.variation);
  const std::size_t ranks = programs.of_rank.size();
  if (groups.size() != ranks) {
    throw Error(ErrorKind::Usage,
                fmt::format("{} programs, but the groups of {} ranks", ranks, groups.size()));
  }
  if (!options.host && std::cmp_greater(ranks, cluster.devices())) {
    throw Error(ErrorKind::Usage,
                fmt::format("{} ranks, but the cluster {} has {}; use more nodes of it "
                            "(NAME:NODES) or a smaller mesh",
                            ranks, cluster.name, plural(cluster.devices(), "device")));
  }
  if (!options.compute) {
    throw Error(ErrorKind::Usage, "the simulation needs the time of instructions");
  }
  return ProgramSimulator(programs, groups, cluster, options).run();
}

}  // namespace trireme::simulate
