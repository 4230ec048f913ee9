// A unit is the ranks that run a task together: one rank of the table in one replica. Units run their lists in order, as
// in time_pipeline(); an Update also waits for the reduction of its stage's gradients, which all replicas and copies join.
#include "trireme/pipeline_simulation.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "base/indexed_vector.h"
#include "plan/pipeline_index.h"
#include "simulate/communication_times.h"
#include "trireme/error.h"

namespace trireme::simulate {
namespace {

/// Bytes that each of p ranks sends, by the lower bound.
double sent_bytes(Operation operation, double ranks, Bytes bytes) {
  const double whole = static_cast<double>(bytes.count) * (ranks - 1) / ranks;
  return operation == Operation::Allreduce ? 2 * whole : whole;
}

/// The parts of a task's time on a unit.
struct TaskCost {
  double compute = 0;
  double communication = 0;
  double bytes = 0;  ///< sent by collectives
};

struct Reduction {
  double start = 0;
  double end = 0;
};

struct Unit {
  int pipe = 0;
  int data = 0;
  std::vector<int> members{};
  int next = 0;
  std::vector<PipelineTiming::Span> spans{};
  double stream = 0;  ///< when its reductions are done
};

class PipelineSimulator {
 public:
  PipelineSimulator(const PipelineTable& table, std::span<const StageWork> stages,
                    const Cluster& cluster, const PipelineSimulationOptions& options)
      : table_(table),
        stages_(stages),
        options_(options),
        times_(cluster, options.among),
        index_(table),
        replicas_(options.mesh.size("data")) {
    report_.ranks.resize(options.mesh.devices());
    report_.trace.kind = TraceKind::Predicted;
    report_.trace.title = fmt::format("{} on {}", table.name, to_text(options.mesh));
    make_units();
  }

  SimulationReport run() {
    if (options_.trace) {
      add_tracks();
    }
    for (bool moved = true; moved;) {
      moved = false;
      for (Unit& unit : units_) {
        const std::vector<PipelineTask>& tasks = tasks_of(unit);
        while (unit.next < std::ssize(tasks) && is_ready(unit, tasks[unit.next])) {
          run_task(unit, tasks[unit.next]);
          ++unit.next;
          moved = true;
        }
      }
    }
    finish();
    return std::move(report_);
  }

 private:
  /// Stage, and the micro-batch of its Update.
  using ReductionKey = std::pair<int, int>;
  /// Pipeline rank, replica, stage, kind of work.
  using CostKey = std::tuple<int, int, int, PipelineWork>;

  void make_units() {
    const Mesh& mesh = options_.mesh;
    units_.resize(std::int64_t{table_.ranks} * replicas_);
    for (int rank = 0; rank < mesh.devices(); ++rank) {
      const std::vector<int> at = mesh.coordinates(rank);
      int pipe = 0;
      int data = 0;
      for (std::size_t i = 0; i < at.size(); ++i) {
        const std::string& axis = mesh.axes()[i].name;
        pipe = axis == "pipe" ? at[i] : pipe;
        data = axis == "data" ? at[i] : data;
      }
      Unit& one = unit(pipe, data);
      one.pipe = pipe;
      one.data = data;
      one.members.push_back(rank);
    }
    for (Unit& one : units_) {
      one.spans.resize(tasks_of(one).size());
    }
  }

  [[nodiscard]] Unit& unit(int pipe, int data) { return units_[data * table_.ranks + pipe]; }
  [[nodiscard]] const std::vector<PipelineTask>& tasks_of(const Unit& one) const {
    return table_.tasks[one.pipe];
  }
  [[nodiscard]] const StageWork& stage(int number) const { return stages_[number]; }
  [[nodiscard]] PipelineTiming::Span& span_at(PipelinePlace place, int data) {
    return unit(place.rank, data).spans[place.position];
  }
  [[nodiscard]] RankReport& rank_report(int rank) { return report_.ranks[rank]; }

  [[nodiscard]] bool is_ready(const Unit& one, const PipelineTask& task) {
    const bool reduces = task.work == PipelineWork::Update && replicas_ > 1;
    const int first = reduces ? 0 : one.data;
    const int last = reduces ? replicas_ - 1 : one.data;
    bool ready = true;
    for (int data = first; data <= last && ready; ++data) {
      index_.for_each_input(task, [&](PipelinePlace input) {
        ready = ready && input.position < unit(input.rank, data).next;
      });
    }
    return ready;
  }

  void run_task(Unit& one, const PipelineTask& task) {
    const double free = one.next == 0 ? 0 : one.spans[one.next - 1].end;
    double start = free;
    double in_transit = 0;
    index_.for_each_input(task, [&](PipelinePlace input) {
      const double message = message_time(one, task, input);
      const double ready = span_at(input, one.data).end + message;
      if (ready > start) {
        start = ready;
        in_transit = message;
      }
    });
    double exposed = std::min(in_transit, start - free);
    if (task.work == PipelineWork::Update) {
      const Reduction reduction = reduce(task);
      if (reduction.end > start) {
        exposed = reduction.end - std::max({free, reduction.start});
        start = reduction.end;
      }
    }
    const TaskCost cost = cost_of(one, task);
    const double slowest = add_compute(one, cost.compute);
    one.spans[one.next] = {start, start + slowest + cost.communication};
    for (const int member : one.members) {
      rank_report(member).exposed.count += exposed + cost.communication;
      rank_report(member).bytes_sent += cost.bytes;
    }
    report_.communication.count += cost.communication * static_cast<double>(one.members.size());
    if (options_.trace) {
      add_spans(one, task);
    }
  }

  /// Adds the computation of a task to each member's account; returns the slowest member's.
  double add_compute(const Unit& one, double nominal) {
    double slowest = 0;
    for (const int member : one.members) {
      const double time = nominal * time_factor(options_.variation, member, options_.mesh.devices(),
                                                static_cast<std::int64_t>(one.next));
      rank_report(member).compute.count += time;
      slowest = std::max(slowest, time);
    }
    return slowest;
  }

  double message_time(const Unit& one, const PipelineTask& task, PipelinePlace input) {
    if (input.rank == one.pipe || task.work == PipelineWork::Update) {
      return 0;  // gradients between copies are part of the reduction
    }
    const Unit& from = unit(input.rank, one.data);
    const Bytes bytes = stage(task.stage).message;
    const double time =
        times_.message(from.members.front(), one.members.front(), static_cast<double>(bytes.count))
            .count;
    for (const int member : from.members) {
      rank_report(member).bytes_sent += static_cast<double>(bytes.count);
    }
    report_.communication.count += time * static_cast<double>(one.members.size());
    return time;
  }

  /// The time of a task on a unit, computed once for each kind.
  const TaskCost& cost_of(const Unit& one, const PipelineTask& task) {
    const CostKey key{one.pipe, one.data, task.stage, task.work};
    const auto [found, is_new] = costs_.try_emplace(key);
    if (is_new) {
      found->second = make_cost(one, task);
    }
    return found->second;
  }

  TaskCost make_cost(const Unit& one, const PipelineTask& task) {
    const StageWork& work = stage(task.stage);
    TaskCost cost;
    const auto add = [&](Seconds compute, const std::vector<StageCollective>& collectives) {
      cost.compute += compute.count;
      for (const StageCollective& each : collectives) {
        const std::vector<int> group = group_along(each.axis, one.members.front());
        cost.communication +=
            each.count * times_.collective(each.operation, group, each.bytes).count;
        cost.bytes +=
            each.count * sent_bytes(each.operation, static_cast<double>(group.size()), each.bytes);
      }
    };
    switch (task.work) {
      case PipelineWork::Forward:
        add(work.forward, work.in_forward);
        break;
      case PipelineWork::Backward:
        add(work.backward_input, work.in_backward_input);
        add(work.backward_weight, work.in_backward_weight);
        break;
      case PipelineWork::BackwardInput:
        add(work.backward_input, work.in_backward_input);
        break;
      case PipelineWork::BackwardWeight:
        add(work.backward_weight, work.in_backward_weight);
        break;
      case PipelineWork::Update:
        add(work.update, work.after_update);
        break;
    }
    return cost;
  }

  [[nodiscard]] std::vector<int> group_along(const std::string& axis, int rank) const {
    return options_.mesh.size(axis) > 1 ? options_.mesh.group_of(axis, rank)
                                        : std::vector<int>{rank};
  }

  /// The reduction of a stage's gradients, once for all replicas and copies.
  Reduction reduce(const PipelineTask& update) {
    const ReductionKey key{update.stage, update.microbatch};
    const auto [found, is_new] = reductions_.try_emplace(key);
    if (is_new) {
      found->second = make_reduction(update);
    }
    return found->second;
  }

  Reduction make_reduction(const PipelineTask& update) {
    std::vector<int> group;  // of the first of the units' members
    std::vector<Unit*> joined;
    for (int copy = 0; copy < table_.copies; ++copy) {
      for (int data = 0; data < replicas_; ++data) {
        joined.push_back(&unit(table_.rank_of(copy, update.stage), data));
        group.push_back(joined.back()->members.front());
      }
    }
    if (group.size() < 2) {
      return {};
    }
    const StageWork& work = stage(update.stage);
    double stream = 0;
    for (const Unit* one : joined) {
      stream = std::max(stream, one->stream);
    }
    std::optional<double> first;
    for (int bucket = 0; bucket < work.gradient_buckets; ++bucket) {
      stream = std::max(stream, ready_time(update, bucket));
      first = first.value_or(stream);
      stream += bucket_time(work, group, joined);
    }
    for (Unit* one : joined) {
      one->stream = stream;
    }
    return {*first, stream};
  }

  /// When every replica has computed this bucket of the gradients.
  double ready_time(const PipelineTask& update, int bucket) {
    const int buckets = stage(update.stage).gradient_buckets;
    const double later = static_cast<double>(buckets - 1 - bucket) / buckets;
    double ready = 0;
    for (int data = 0; data < replicas_; ++data) {
      PipelineTiming::Span last{};
      index_.for_each_input(update, [&](PipelinePlace input) {
        const PipelineTiming::Span& span = span_at(input, data);
        last = span.end > last.end ? span : last;
      });
      ready = std::max(ready, last.end - later * (last.end - last.start));
    }
    return ready;
  }

  double bucket_time(const StageWork& work, const std::vector<int>& group,
                     const std::vector<Unit*>& joined) {
    double time = 0;
    for (const StageCollective& each : work.gradients) {
      const Bytes bytes{each.bytes.count / work.gradient_buckets};
      time += each.count * times_.collective(each.operation, group, bytes).count;
      const double sent =
          each.count * sent_bytes(each.operation, static_cast<double>(group.size()), bytes);
      for (const Unit* one : joined) {
        for (const int member : one->members) {
          rank_report(member).bytes_sent += sent;
        }
      }
    }
    report_.communication.count +=
        time * static_cast<double>(joined.size() * joined.front()->members.size());
    return time;
  }

  void add_tracks() {
    for (int rank = 0; rank < options_.mesh.devices(); ++rank) {
      const std::string process = fmt::format("rank {}", rank);
      compute_.push_back(report_.trace.add_track(process, "compute"));
      exchanges_.push_back(report_.trace.add_track(process, "exchanges 0"));
    }
  }

  void add_spans(const Unit& one, const PipelineTask& task) {
    const PipelineTiming::Span& span = one.spans[one.next];
    for (const int member : one.members) {
      add_span(compute_[member], task, span.start, span.end);
      if (task.work == PipelineWork::Update) {
        const Reduction reduction = reduce(task);
        if (reduction.end > reduction.start) {
          add_span(exchanges_[member], task, reduction.start, reduction.end);
        }
      }
    }
  }
  void add_span(TrackId track, const PipelineTask& task, double start, double end) {
    report_.trace.add_span({.track = track,
                            .name = to_text(task),
                            .category = std::string(to_text(task.work)),
                            .start = {start},
                            .duration = {end - start},
                            .args = {{"stage", std::int64_t{task.stage}},
                                     {"microbatch", std::int64_t{task.microbatch}}}});
  }

  void finish() {
    for (const Unit& one : units_) {
      if (!one.spans.empty()) {
        report_.step.count = std::max(report_.step.count, one.spans.back().end);
      }
    }
    for (RankReport& rank : report_.ranks) {
      rank.idle.count = std::max(0.0, report_.step.count - rank.compute.count - rank.exposed.count);
    }
  }

  const PipelineTable& table_;
  std::span<const StageWork> stages_;
  const PipelineSimulationOptions& options_;  // all outlive the simulator, which lives for one call
  CommunicationTimes times_;
  PipelineIndex index_;
  int replicas_;
  std::vector<Unit> units_;  ///< by replica, then by pipeline rank
  std::map<CostKey, TaskCost> costs_;
  std::map<ReductionKey, Reduction> reductions_;
  IndexedVector<int, TrackId> compute_;
  IndexedVector<int, TrackId> exchanges_;
  SimulationReport report_;
};

void check(const PipelineTable& table, std::span<const StageWork> stages, const Cluster& cluster,
           const PipelineSimulationOptions& options) {
  require_valid(table, ErrorKind::Usage, "the pipeline table is wrong");
  require_valid(options.variation);
  const auto require = [](bool holds, const std::string& problem) {
    if (!holds) {
      throw Error(ErrorKind::Usage, problem);
    }
  };
  require(std::ssize(stages) == table.stages,
          fmt::format("work of {} stages; the table has {}", stages.size(), table.stages));
  require(options.mesh.size("pipe") == table.ranks,
          fmt::format("the mesh {} has {} ranks along pipe; the table has {}",
                      to_text(options.mesh), options.mesh.size("pipe"), table.ranks));
  require(
      options.mesh.devices() <= cluster.devices(),
      fmt::format("the mesh {} has {} ranks; the cluster {} has {} devices", to_text(options.mesh),
                  options.mesh.devices(), cluster.name, cluster.devices()));
  for (const StageWork& work : stages) {
    require(work.gradient_buckets >= 1,
            fmt::format("{} gradient buckets; use 1 or more", work.gradient_buckets));
  }
}

}  // namespace

SimulationReport simulate_pipeline(const PipelineTable& table, std::span<const StageWork> stages,
                                   const Cluster& cluster,
                                   const PipelineSimulationOptions& options) {
  check(table, stages, cluster, options);
  return PipelineSimulator(table, stages, cluster, options).run();
}

}  // namespace trireme::simulate
