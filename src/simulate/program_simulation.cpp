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
#include "program/traffic.h"
#include "simulate/communication_times.h"
#include "simulate/shared_cores.h"
#include "simulate/step_recorder.h"
#include "trireme/error.h"

namespace trireme::simulate {
namespace {

struct Spot {
  int rank = 0;
  std::size_t at = 0;
};

class ProgramSimulator {
 public:
  ProgramSimulator(std::span<const Program> programs, std::span<const RankGroups> groups,
                   const Cluster& cluster, const ProgramSimulationOptions& options)
      : programs_(programs),
        groups_(groups),
        cluster_(cluster),
        options_(options),
        times_(cluster, options.among),
        ranks_(programs.size()),
        node_ports_(cluster.nodes) {
    report_.ranks.resize(programs.size());
    report_.trace.kind = TraceKind::Predicted;
    if (options.trace) {
      recorder_.emplace(report_.trace, programs.size());
    }
    if (options.host) {
      timeline_.emplace(options.host->cores);
    }
    for (int rank = 0; rank < count(); ++rank) {
      prepare(rank);
    }
  }

  SimulationReport run() {
    for (int rank = 0; rank < count(); ++rank) {
      advance(rank);
    }
    while (!queue_.empty()) {
      const Event event = queue_.top();
      queue_.pop();
      issue(event.rank);
      advance(event.rank);
    }
    finish();
    return std::move(report_);
  }

 private:
  struct RankState {
    std::size_t next = 0;  ///< instruction
    double now = 0;
    bool finished = false;
    std::optional<std::size_t> blocked_on{};  ///< a communication op whose end is not known yet
    std::vector<Exchange> exchanges{};        ///< by instruction
    std::vector<std::vector<std::size_t>> waits{};  ///< by instruction: ops to finish first
    std::map<std::string, std::int64_t, std::less<>> calls{};  ///< by group: collectives so far
    double stream = 0;                                         ///< when its collectives are done
    double sends = 0;                                          ///< when its send port is free
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
  /// A time that counts towards a total of the report.
  struct Piece {
    Seconds* total = nullptr;
    double start = 0;
    double end = 0;
  };
  /// Group, first member, number of the call.
  using CallKey = std::tuple<std::string, int, std::int64_t>;
  /// From, to, tag.
  using LineKey = std::tuple<int, int, std::int64_t>;
  struct Line {
    std::queue<Exchange> messages{};  ///< that nobody has received yet
    std::queue<Spot> waiting{};       ///< receives without a message
  };

  [[nodiscard]] int count() const { return static_cast<int>(programs_.size()); }
  [[nodiscard]] const Program& program(int rank) const { return programs_[position_of(rank)]; }
  [[nodiscard]] const Instruction& instruction(Spot spot) const {
    return program(spot.rank).instructions[spot.at];
  }
  [[nodiscard]] RankReport& rank_report(int rank) { return report_.ranks[position_of(rank)]; }
  [[nodiscard]] Exchange& exchange(Spot spot) { return ranks_[spot.rank].exchanges[spot.at]; }

  void prepare(int rank) {
    const std::vector<Instruction>& all = program(rank).instructions;
    RankState& state = ranks_[rank];
    state.exchanges.resize(all.size());
    state.waits.resize(all.size() + 1);
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i].op->communicates) {
        const std::size_t by = options_.overlap ? position_of(all[i].done_before) : i + 1;
        state.waits.at(by).push_back(i);
        rank_report(rank).bytes_sent += bytes_sent(signature_of(program(rank), all[i]));
      }
    }
  }

  /// Runs until the next communication op, which is queued, or until one that has to be waited for.
  void advance(int rank) {
    RankState& state = ranks_[rank];
    const std::vector<Instruction>& all = program(rank).instructions;
    while (wait_for_all(rank)) {
      if (state.next == all.size()) {
        state.finished = true;
        return;
      }
      if (all[state.next].op->communicates) {
        queue_.push({state.now, state.next, rank});
        return;
      }
      compute(rank);
      ++state.next;
    }
  }

  /// Waits for the communication that must be complete before the next instruction. False if the end of one is not
  /// known.
  bool wait_for_all(int rank) {
    RankState& state = ranks_[rank];
    for (const std::size_t at : state.waits[state.next]) {
      const Exchange& needed = state.exchanges[at];
      if (needed.end == kUnknown) {
        state.blocked_on = at;
        return false;
      }
      if (needed.end > state.now) {
        const double begins = std::max(state.now, needed.ready);
        spend(rank_report(rank).idle, state.now, begins);
        const double awake = needed.end + (options_.host ? options_.host->wake.count : 0);
        spend(rank_report(rank).exposed, begins, awake);
        if (recorder_) {
          recorder_->wait(rank, instruction({rank, at}), state.now, awake);
        }
        state.now = awake;
      }
    }
    return true;
  }

  void compute(int rank) {
    RankState& state = ranks_[rank];
    const Instruction& what = program(rank).instructions[state.next];
    if (what.op->is_view) {
      return;
    }
    const Signature signature = signature_of(program(rank), what);
    const Work work = what.op->work(signature);
    const double nominal = options_.compute(signature, work).count;
    const double time = nominal * time_factor(options_.variation, rank, count(),
                                              static_cast<std::int64_t>(state.next));
    spend(rank_report(rank).compute, state.now, state.now + time);
    if (timeline_) {
      timeline_->use(state.now, state.now + time, options_.host->cores.threads);
    }
    rank_report(rank).flops += work.products;
    if (recorder_ && time > 0) {
      recorder_->compute(rank, what, work, state.now, state.now + time);
    }
    state.now += time;
  }

  /// Starts the communication op at which the rank is.
  void issue(int rank) {
    RankState& state = ranks_[rank];
    const Spot spot{rank, state.next++};
    exchange(spot).issued = state.now;
    if (options_.host) {
      start_exchange(rank);
    }
    const Instruction& what = instruction(spot);
    if (what.attributes.contains("group")) {
      issue_call(spot);
    } else if (what.op->name == "send") {
      issue_send(spot);
    } else {
      issue_receive(spot);
    }
  }

  /// The rank's own part of starting a communication op.
  void start_exchange(int rank) {
    RankState& state = ranks_[rank];
    const double end = state.now + options_.host->start.count;
    spend(rank_report(rank).exposed, state.now, end);
    use_cores(state.now, end, 1);
    state.now = end;
  }

  void issue_call(Spot spot) {
    const Signature s = signature_of(program(spot.rank), instruction(spot));
    const std::string& name = s.text("group");
    const auto group = groups_[position_of(spot.rank)].find(name);
    if (group == groups_[position_of(spot.rank)].end()) {
      throw Error(ErrorKind::Usage, fmt::format("rank {} is in no group {}", spot.rank, name));
    }
    const std::vector<int>& members = group->second;
    const CallKey key{name, members.front(), ranks_[spot.rank].calls[name]++};
    std::vector<Spot>& arrived = calls_[key];
    arrived.push_back(spot);
    if (arrived.size() == members.size()) {
      const std::vector<Spot> spots = std::move(arrived);
      calls_.erase(key);
      run_call(spots, members, s);
    }
  }

  void run_call(const std::vector<Spot>& spots, const std::vector<int>& members,
                const Signature& s) {
    const double time = collective_time(members, s);
    const double ready = exchange(spots.back()).issued;  // the last: events come in order of time
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

  void issue_send(Spot spot) {
    const Signature s = signature_of(program(spot.rank), instruction(spot));
    const int to = static_cast<int>(s.integer("to"));
    RankState& from_state = ranks_[spot.rank];
    RankState& to_state = ranks_[to];
    const double time = message_time(spot.rank, to, bytes_sent(s));
    const std::vector<int> both{spot.rank, to};
    const double start =
        take_node_ports(both,
                        std::max({from_state.now + wake_time(from_state.now, from_state.sends),
                                  from_state.sends, to_state.receives}),
                        time);
    const Exchange message{.ready = from_state.now, .start = start, .end = start + time};
    from_state.sends = to_state.receives = message.end;
    use_cores(message.start, message.end, both.size());
    Line& line = lines_[{spot.rank, to, s.integer("tag")}];
    if (line.waiting.empty()) {
      line.messages.push(message);
    } else {
      const Spot receive = line.waiting.front();
      line.waiting.pop();
      complete(receive, message);
    }
    complete(spot, message);
  }

  void issue_receive(Spot spot) {
    const Signature s = signature_of(program(spot.rank), instruction(spot));
    Line& line = lines_[{static_cast<int>(s.integer("from")), spot.rank, s.integer("tag")}];
    if (line.messages.empty()) {
      line.waiting.push(spot);
      return;
    }
    Exchange message = line.messages.front();
    line.messages.pop();
    const double issued = exchange(spot).issued;  // what came before is on the sender's track only
    message.start = std::max(message.start, issued);
    message.end = std::max(message.end, issued);
    complete(spot, message);
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

  void complete(Spot spot, const Exchange& times) {
    exchange(spot) = times;
    spend(report_.communication, times.start, times.end);
    if (recorder_ && times.end > times.start) {
      const Instruction& what = instruction(spot);
      recorder_->exchange(spot.rank, what, times,
                          bytes_sent(signature_of(program(spot.rank), what)));
    }
    RankState& state = ranks_[spot.rank];
    if (state.blocked_on == spot.at) {
      state.blocked_on.reset();
      advance(spot.rank);
    }
  }

  static Operation operation_of(const Signature& s) {
    static const std::map<std::string_view, Operation> operations{
        {"all_reduce", Operation::Allreduce},
        {"all_gather", Operation::Allgather},
        {"reduce_scatter", Operation::ReduceScatter},
        {"all_to_all", Operation::Alltoall}};
    const auto found = operations.find(s.op->name);
    if (found == operations.end()) {
      throw Error(ErrorKind::Usage, fmt::format("cannot simulate the op {}", s.op->name));
    }
    return found->second;
  }

  /// Of the vector that is whole on one side of the operation.
  static Bytes whole_bytes(const Signature& s) {
    const TensorType whole = s.op->name == "all_gather" ? s.op->infer(s).front() : s.inputs.front();
    return size_of(whole);
  }

  void finish() {
    for (int rank = 0; rank < count(); ++rank) {
      if (!ranks_[rank].finished) {
        throw Error(ErrorKind::Usage,
                    fmt::format("rank {} waits forever: instruction {} has no counterpart", rank,
                                ranks_[rank].blocked_on.value_or(0)));
      }
      report_.step = std::max(report_.step, Seconds{ranks_[rank].now});
    }
    for (int rank = 0; rank < count(); ++rank) {
      spend(rank_report(rank).idle, ranks_[rank].now, report_.step.count);
    }
    if (timeline_) {
      move_to_host_time();
    }
  }

  double collective_time(const std::vector<int>& members, const Signature& s) {
    if (!options_.host) {
      return times_.collective(operation_of(s), members, whole_bytes(s)).count;
    }
    return options_.host
        ->collective(
            {.op = s, .operation = operation_of(s), .members = members, .bytes = whole_bytes(s)})
        .count;
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

  /// Adds a time to a total: at once or, if times on the host are not known yet, at the end.
  void spend(Seconds& total, double start, double end) {
    if (timeline_) {
      pieces_.push_back({&total, start, end});
    } else {
      total.count += end - start;
    }
  }
  /// Ranks that communicate; more of them than cores take turns, which the time of the transfer includes.
  void use_cores(double start, double end, std::size_t ranks) {
    if (timeline_) {
      timeline_->use(
          start, end,
          std::min(static_cast<double>(ranks), static_cast<double>(options_.host->cores.cores)));
    }
  }
  void move_to_host_time() {
    report_.step = {timeline_->host_time(report_.step.count)};
    for (const Piece& piece : pieces_) {
      piece.total->count += timeline_->host_time(piece.end) - timeline_->host_time(piece.start);
    }
    for (Trace::Span& span : report_.trace.spans) {
      const double end = timeline_->host_time(span.start.count + span.duration.count);
      span.start = {timeline_->host_time(span.start.count)};
      span.duration = {end - span.start.count};
    }
  }

  std::span<const Program> programs_;
  std::span<const RankGroups> groups_;
  const Cluster& cluster_;
  const ProgramSimulationOptions&
      options_;  // all four outlive the simulator, which lives for one call
  CommunicationTimes times_;
  IndexedVector<int, RankState> ranks_;
  IndexedVector<int, double> node_ports_;  ///< when they are free
  std::priority_queue<Event> queue_;
  std::map<CallKey, std::vector<Spot>> calls_;
  std::map<LineKey, Line> lines_;
  SimulationReport report_;
  std::optional<CoreTimeline> timeline_;  ///< if ranks share cores
  std::vector<Piece> pieces_;             ///< likewise: times to add to the report
  std::optional<StepRecorder> recorder_;  // after the report, whose trace it fills
};

}  // namespace

ComputeTime compute_by(const ComputeRates& rates) {
  return [rates](const Signature& /*kernel*/, const Work& work) -> Seconds {
    const double flops = work.products + work.others;
    if (flops == 0 && work.bytes == 0) {
      return {0};
    }
    const double moving = rates.memory.count > 0 ? work.bytes / rates.memory.count : 0;
    return {rates.launch.count + std::max(flops / rates.flops.count, moving)};
  };
}

ComputeRates peak_rates(const DeviceSpec& device, std::string_view dtype) {
  const std::optional<FlopRate> peak = device.peak(dtype);
  if (!peak || !device.memory_bandwidth) {
    throw Error(
        ErrorKind::Usage,
        fmt::format("the {} of {} is unknown",
                    peak ? "memory bandwidth" : fmt::format("{} peak", dtype), device.name));
  }
  return {.flops = *peak, .memory = *device.memory_bandwidth, .launch = {}};
}

double SimulationReport::share(Seconds RankReport::*part) const {
  double sum = 0;
  for (const RankReport& rank : ranks) {
    sum += (rank.*part).count;
  }
  return step.count > 0 ? sum / (step.count * static_cast<double>(ranks.size())) : 0;
}

SimulationReport simulate_programs(std::span<const Program> programs,
                                   std::span<const RankGroups> groups, const Cluster& cluster,
                                   const ProgramSimulationOptions& options) {
  require_valid(options.variation);
  if (groups.size() != programs.size()) {
    throw Error(ErrorKind::Usage, fmt::format("{} programs, but the groups of {} ranks",
                                              programs.size(), groups.size()));
  }
  if (!options.host && std::ssize(programs) > cluster.devices()) {
    throw Error(ErrorKind::Usage, fmt::format("{} ranks, but the cluster {} has {} devices",
                                              programs.size(), cluster.name, cluster.devices()));
  }
  if (!options.compute) {
    throw Error(ErrorKind::Usage, "the simulation needs the time of instructions");
  }
  return ProgramSimulator(programs, groups, cluster, options).run();
}

}  // namespace trireme::simulate
