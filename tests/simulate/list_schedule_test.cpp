// List schedules: valid, within Graham's bounds, and what branches on separate devices gain.
#include "trireme/list_schedule.h"

#include <algorithm>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

#include "trireme/error.h"

namespace trireme::simulate {
namespace {

TaskGraph random_graph(std::mt19937& random, int tasks) {
  TaskGraph graph;
  for (int t = 0; t < tasks; ++t) {
    TaskGraph::Task task{.name = std::to_string(t), .seconds = {double(random() % 9)}, .needs = {}};
    for (int before = 0; before < t; ++before) {
      if (random() % 4 == 0) {
        task.needs.push_back(before);
      }
    }
    graph.tasks.push_back(task);
  }
  return graph;
}

void expect_valid(const TaskGraph& graph, const ListSchedule& schedule) {
  for (std::size_t t = 0; t < graph.tasks.size(); ++t) {
    const ListSchedule::Slot& slot = schedule.slots[t];
    EXPECT_GE(slot.device, 0);
    EXPECT_LT(slot.device, schedule.devices);
    EXPECT_EQ(slot.end.count - slot.start.count, graph.tasks[t].seconds.count);
    for (const int need : graph.tasks[t].needs) {
      EXPECT_LE(schedule.slots[static_cast<std::size_t>(need)].end.count, slot.start.count);
    }
    for (std::size_t other = 0; other < t; ++other) {
      const ListSchedule::Slot& b = schedule.slots[other];
      EXPECT_TRUE(slot.device != b.device || slot.end.count <= b.start.count ||
                  b.end.count <= slot.start.count)
          << t << " and " << other;
    }
  }
}

/// The shortest schedule, by trying every order: each task starts as early as it can on the device that is free first.
double shortest(const TaskGraph& graph, int devices) {
  std::vector<int> order(graph.tasks.size());
  std::iota(order.begin(), order.end(), 0);
  double best = std::numeric_limits<double>::infinity();
  do {
    std::vector<double> free(static_cast<std::size_t>(devices), 0);
    std::vector<double> end(graph.tasks.size(), -1);
    bool possible = true;
    for (const int task : order) {
      const auto t = static_cast<std::size_t>(task);
      double start = 0;
      for (const int need : graph.tasks[t].needs) {
        possible = possible && end[static_cast<std::size_t>(need)] >= 0;
        start = std::max(start, end[static_cast<std::size_t>(need)]);
      }
      const auto device = std::ranges::min_element(free);
      end[t] = *device = std::max(start, *device) + graph.tasks[t].seconds.count;
    }
    if (possible) {
      best = std::min(best, *std::ranges::max_element(end));
    }
  } while (std::ranges::next_permutation(order).found);
  return best;
}

TEST(ListSchedule, IsValidAndWithinItsBounds) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    const TaskGraph graph = random_graph(random, 1 + static_cast<int>(random() % 40));
    for (const int devices : {1, 2, 3, 7}) {
      const ListSchedule schedule = list_schedule(graph, devices);
      expect_valid(graph, schedule);
      EXPECT_GE(schedule.makespan.count, schedule.lower_bound().count);
      EXPECT_LE(schedule.makespan.count, schedule.upper_bound().count + 1e-9);
      if (devices == 1) {
        EXPECT_EQ(schedule.makespan.count, schedule.work.count);
      }
    }
  }
}

TEST(ListSchedule, IsWithinGrahamBoundOfOptimum) {
  std::mt19937 random(2);
  for (int round = 0; round < 60; ++round) {
    const TaskGraph graph = random_graph(random, 6);
    for (const int devices : {2, 3}) {
      EXPECT_LE(list_schedule(graph, devices).makespan.count,
                (2 - 1.0 / devices) * shortest(graph, devices) + 1e-9);
    }
  }
}

/// `branches` chains of `length` tasks of a second, between a first and a last task.
TaskGraph branched(int branches, int length) {
  TaskGraph graph;
  graph.tasks.push_back({"first", {1}, {}});
  std::vector<int> ends;
  for (int b = 0; b < branches; ++b) {
    int before = 0;
    for (int i = 0; i < length; ++i) {
      graph.tasks.push_back({"branch", {1}, {before}});
      before = static_cast<int>(graph.tasks.size()) - 1;
    }
    ends.push_back(before);
  }
  graph.tasks.push_back({"join", {1}, ends});
  return graph;
}

TEST(ListSchedule, RunsBranchesAtSameTime) {
  const TaskGraph two = branched(2, 5);
  EXPECT_EQ(list_schedule(two, 1).makespan.count, 12);
  EXPECT_EQ(list_schedule(two, 2).makespan.count, 7);  // one branch and the join
  EXPECT_EQ(list_schedule(two, 3).makespan.count, 7);
  EXPECT_EQ(list_schedule(branched(4, 5), 2).makespan.count, 12);
}

TEST(ListSchedule, GainsNothingOnChain) {
  const TaskGraph chain = branched(1, 8);
  EXPECT_EQ(list_schedule(chain, 1).makespan.count, 10);
  const ListSchedule four = list_schedule(chain, 4);
  EXPECT_EQ(four.makespan.count, 10);
  EXPECT_EQ(four.critical_path.count, 10);
  EXPECT_DOUBLE_EQ(four.utilization(), 0.25);
}

TEST(ListSchedule, AcceptsGraphNodes) {
  GraphBuilder builder("two towers");
  const TensorType type{DType::F32, Shape{4, 4}};
  const ValueId x = builder.input("x", type);
  const ValueId a = builder.add1("einsum", {x, x}, {{"equation", std::string("ik,kj->ij")}});
  const ValueId b = builder.add1("einsum", {x, x}, {{"equation", std::string("ki,kj->ij")}});
  builder.output("y", builder.add1("add", {a, b}));
  const TaskGraph tasks =
      task_graph_of(builder.finish(), compute_by({.flops = {128.0}, .memory = {}, .launch = {}}));
  ASSERT_EQ(tasks.tasks.size(), 3U);
  EXPECT_DOUBLE_EQ(tasks.tasks[0].seconds.count, 1);  // 2 x 4^3 FLOPs
  EXPECT_EQ(tasks.tasks[2].needs, (std::vector<int>{0, 1}));
  EXPECT_DOUBLE_EQ(list_schedule(tasks, 1).makespan.count, 2 + 16.0 / 128);
  EXPECT_DOUBLE_EQ(list_schedule(tasks, 2).makespan.count, 1 + 16.0 / 128);
}

TEST(ListSchedule, RejectsInvalidOrder) {
  TaskGraph graph = branched(1, 1);
  graph.tasks[0].needs = {2};
  EXPECT_THROW((void)list_schedule(graph, 2), Error);
  EXPECT_THROW((void)list_schedule(branched(1, 1), 0), Error);
}

}  // namespace
}  // namespace trireme::simulate
