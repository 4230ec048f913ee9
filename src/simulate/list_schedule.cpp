#include "trireme/list_schedule.h"

#include <algorithm>
#include <queue>
#include <utility>

#include <fmt/format.h>

#include "base/indexed_vector.h"
#include "trireme/error.h"
#include "trireme/op.h"

namespace trireme::simulate {
namespace {

template <class T>
using ByTask = IndexedVector<int, T>;

/// The tasks that need each task.
ByTask<std::vector<int>> users_of(const ByTask<TaskGraph::Task>& tasks) {
  ByTask<std::vector<int>> users(tasks.count());
  for (int t = 0; t < tasks.count(); ++t) {
    for (const int need : tasks[t].needs) {
      users[need].push_back(t);
    }
  }
  return users;
}

/// The longest path from the start of each task to the end.
ByTask<double> paths_to_end(const ByTask<TaskGraph::Task>& tasks,
                            const ByTask<std::vector<int>>& users) {
  ByTask<double> paths(tasks.count(), 0);
  for (int t = tasks.count(); t-- > 0;) {
    for (const int user : users[t]) {
      paths[t] = std::max(paths[t], paths[user]);
    }
    paths[t] += tasks[t].seconds.count;
  }
  return paths;
}

class Scheduler {
 public:
  Scheduler(const TaskGraph& graph, int devices)
      : tasks_(graph.tasks),
        users_(users_of(tasks_)),
        paths_(paths_to_end(tasks_, users_)),
        missing_(tasks_.count()),
        slots_(tasks_.count()) {
    schedule_.devices = devices;
    for (int device = devices; device-- > 0;) {
      free_.push_back(device);
    }
  }

  ListSchedule run() {
    for (int t = 0; t < tasks_.count(); ++t) {
      missing_[t] = tasks_[t].needs.size();
      schedule_.work.count += tasks_[t].seconds.count;
      schedule_.critical_path.count = std::max(schedule_.critical_path.count, paths_[t]);
      add_if_ready(t);
    }
    start_what_fits(0);
    while (!running_.empty()) {
      const double now = running_.top().first;
      while (!running_.empty() && running_.top().first == now) {
        finish(running_.top().second);
        running_.pop();
      }
      start_what_fits(now);
      schedule_.makespan.count = now;
    }
    schedule_.slots = std::move(slots_).items();
    return std::move(schedule_);
  }

 private:
  using Event = std::pair<double, int>;  ///< end, task

  void add_if_ready(int task) {
    if (missing_[task] == 0) {
      ready_.push({paths_[task], -task});  // among equals the first
    }
  }

  void start_what_fits(double now) {
    while (!ready_.empty() && !free_.empty()) {
      const int task = -ready_.top().second;
      ready_.pop();
      const Seconds end{now + tasks_[task].seconds.count};
      slots_[task] = {free_.back(), {now}, end};
      free_.pop_back();
      running_.push({end.count, task});
    }
  }

  void finish(int task) {
    free_.push_back(slots_[task].device);
    std::ranges::sort(free_, std::greater<>());
    for (const int user : users_[task]) {
      --missing_[user];
      add_if_ready(user);
    }
  }

  ByTask<TaskGraph::Task> tasks_;
  ByTask<std::vector<int>> users_;
  ByTask<double> paths_;
  ByTask<std::size_t> missing_;  ///< needs that are not done
  ByTask<ListSchedule::Slot> slots_;
  std::vector<int> free_;             ///< devices, the lowest last
  std::priority_queue<Event> ready_;  ///< path to the end, negated number
  std::priority_queue<Event, std::vector<Event>, std::greater<>> running_;
  ListSchedule schedule_;
};

}  // namespace

std::vector<std::string> problems(const TaskGraph& graph) {
  std::vector<std::string> found;
  for (std::size_t t = 0; t < graph.tasks.size(); ++t) {
    const TaskGraph::Task& task = graph.tasks[t];
    if (!(task.seconds.count >= 0)) {
      found.push_back(fmt::format("task {} ({}) takes {} s", t, task.name, task.seconds.count));
    }
    for (const int need : task.needs) {
      if (need < 0 || std::cmp_greater_equal(need, t)) {
        found.push_back(fmt::format("task {} ({}) needs task {}, which does not come before it", t,
                                    task.name, need));
      }
    }
  }
  return found;
}

TaskGraph task_graph_of(const Graph& graph, const ComputeTime& compute) {
  TaskGraph tasks;
  for (const Node& node : graph.nodes()) {
    TaskGraph::Task task{
        .name = graph.value(node.outputs.front()).name, .seconds = {}, .needs = {}};
    if (!node.op->is_view) {
      const Signature signature = signature_of(graph, node);
      task.seconds = compute(signature, node.op->work(signature));
    }
    for (const ValueId input : node.inputs) {
      if (const Value& value = graph.value(input); value.origin == Origin::Node) {
        task.needs.push_back(value.producer.index);
      }
    }
    std::ranges::sort(task.needs);
    task.needs.erase(std::unique(task.needs.begin(), task.needs.end()), task.needs.end());
    tasks.tasks.push_back(std::move(task));
  }
  return tasks;
}

Seconds ListSchedule::lower_bound() const {
  return {std::max(work.count / devices, critical_path.count)};
}

Seconds ListSchedule::upper_bound() const {
  return {work.count / devices + (1 - 1.0 / devices) * critical_path.count};
}

double ListSchedule::utilization() const {
  return makespan.count > 0 ? work.count / (makespan.count * devices) : 1;
}

ListSchedule list_schedule(const TaskGraph& graph, int devices) {
  require_valid(graph);
  if (devices < 1) {
    throw Error(ErrorKind::Usage, fmt::format("{} devices; there must be at least one", devices));
  }
  return Scheduler(graph, devices).run();
}

}  // namespace trireme::simulate
