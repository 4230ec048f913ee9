// List scheduling: the ops of a graph on several devices, each op on one device as soon as one is free, the op with the
// longest path to the end first. Deterministic. Callable from any thread.
//
// Data moves between devices for free, as in Graham's model (Graham, Bounds for Certain Multiprocessing Anomalies, 1966).
// With T1 the time of all ops on one device and Tinf the longest path through the graph, the makespan on m devices is
//
//   max(T1 / m, Tinf)  <=  makespan  <=  T1 / m + (1 - 1/m) Tinf  <=  (2 - 1/m) times the shortest possible
//
// so it bounds the gain from placing branches on separate devices: nothing for a chain, half of the time for two equal
// branches.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trireme/graph.h"
#include "trireme/program_simulation.h"
#include "trireme/units.h"
#include "trireme/valid.h"

namespace trireme::simulate {

/// What to schedule. Tasks are numbered in an order in which each comes after those that it needs.
struct TaskGraph {
  struct Task {
    std::string name{};
    Seconds seconds{};
    std::vector<int> needs{};  ///< tasks before it
  };
  std::vector<Task> tasks{};
};
/// What is wrong, in words: a task that needs a later one, a negative time. Empty if nothing.
[[nodiscard]] std::vector<std::string> problems(const TaskGraph& graph);

/// The nodes of a graph, each with the time of its kernel. Views take no time.
[[nodiscard]] TaskGraph task_graph_of(const Graph& graph, const ComputeTime& compute);

struct ListSchedule {
  struct Slot {
    int device = 0;
    Seconds start{};
    Seconds end{};
  };
  int devices = 1;
  std::vector<Slot> slots{};  ///< by task
  Seconds makespan{};
  Seconds work{};  ///< of all tasks: the makespan on one device
  /// The longest chain: the makespan on as many devices as there are tasks.
  Seconds critical_path{};

  /// No schedule on this many devices is shorter.
  [[nodiscard]] Seconds lower_bound() const;
  /// No list schedule on this many devices is longer.
  [[nodiscard]] Seconds upper_bound() const;
  /// The share of the devices' time that is used.
  [[nodiscard]] double utilization() const;
};
/// Requires a valid graph and at least one device; throws Error(Usage) otherwise.
[[nodiscard]] ListSchedule list_schedule(const TaskGraph& graph, int devices);

}  // namespace trireme::simulate
