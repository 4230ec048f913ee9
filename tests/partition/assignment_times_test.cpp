// What assigning ops to devices gains and costs: steps of the compiled programs on a simulated cluster.
#include <algorithm>
#include <numeric>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "on_ranks.h"
#include "trireme/op.h"
#include "trireme/program_set.h"
#include "trireme/program_simulation.h"
#include "trireme/training.h"

namespace trireme {
namespace {

constexpr double kFlops = 1e9;
constexpr double kAlpha = 1e-6;
constexpr double kBeta = 1e-9;
constexpr std::int64_t kSide = 16;

Cluster cluster_of(int devices) {
  return {.name = "flat",
          .nodes = devices,
          .devices_per_node = 1,
          .device = {.name = "test"},
          .links = {{.level = "network", .reach = devices, .alpha = {kAlpha}, .beta = {kBeta}}},
          .gamma = {1e-10}};
}

simulate::SimulationReport simulated(const Graph& graph, const Plan& plan,
                                     const DimNames& names = {}) {
  const std::vector<Program> programs = programs_of(graph, plan, names);
  return simulate::simulate_programs(
      programs, groups_of(plan.mesh), cluster_of(plan.mesh.devices()),
      {.compute = simulate::compute_by({.flops = {kFlops}}), .trace = false});
}

/// Forward only: branches of `length` products each over the same input, added up.
Graph branches(int count, int length) {
  GraphBuilder b("branches");
  const ValueId x = b.input("x", {DType::F64, {kSide, kSide}});
  std::vector<ValueId> ends;
  for (int branch = 0; branch < count; ++branch) {
    ValueId y = x;
    for (int i = 0; i < length; ++i) {
      const ValueId w = b.parameter(fmt::format("w{}.{}", branch, i), {DType::F64, {kSide, kSide}});
      y = b.add1("einsum", {y, w}, {{"equation", std::string("bi,ij->bj")}});
      b.rename(y, fmt::format("branch{}.{}", branch, i));
    }
    ends.push_back(y);
  }
  ValueId joined = ends.front();
  for (std::size_t i = 1; i < ends.size(); ++i) {
    joined = b.add1("add", {joined, ends[i]});
    b.rename(joined, "join");
  }
  b.output("y", joined);
  return b.finish();
}

constexpr double kProduct = 2.0 * kSide * kSide * kSide / kFlops;
constexpr double kJoin = 1.0 * kSide * kSide / kFlops;
constexpr double kMessage = kAlpha + kSide * kSide * 8 * kBeta;

// Two equal branches on two devices take as long as one branch, then the message and the join.
TEST(AssignmentTimes, ParallelBranchesTakeOneBranchPlusJoin) {
  constexpr int kLength = 5;
  const Graph graph = branches(2, kLength);
  EXPECT_NEAR(simulated(graph, {}).step.count, 2 * kLength * kProduct + kJoin, 1e-12);
  const Plan plan = parse_plan(R"({"mesh": "pipe=2", "ops": {"branch0.*": {"device": 0},
                                   "branch1.*": {"device": 1}, "join": {"device": 0}}})");
  EXPECT_NEAR(simulated(graph, plan).step.count, kLength * kProduct + kMessage + kJoin, 1e-12);
}

// A chain gains nothing: one device always waits for the other.
TEST(AssignmentTimes, ChainGainsNothing) {
  constexpr int kLength = 6;
  const Graph graph = branches(1, kLength);
  const double alone = simulated(graph, {}).step.count;
  EXPECT_NEAR(alone, kLength * kProduct, 1e-12);
  for (int cut = 1; cut < kLength; ++cut) {
    Plan plan;
    plan.mesh = parse_mesh("pipe=2");
    plan.ops = {
        {.selector = fmt::format("branch0.{}", cut), .location = {PipeLocation::Unit::Device, 1}}};
    EXPECT_NEAR(simulated(graph, plan).step.count, alone + kMessage, 1e-12) << cut;
  }
}

/// A training step of a chain of equal layers.
Graph perceptron(int layers) {
  GraphBuilder b("perceptron");
  const ValueId x = b.input("x", {DType::F64, {kSide, kSide}});
  ValueId y = x;
  for (int i = 0; i < layers; ++i) {
    const ValueId w = b.parameter(fmt::format("w{}", i), {DType::F64, {kSide, kSide}});
    y = b.add1("einsum", {y, w}, {{"equation", std::string("bi,ij->bj")}});
    b.rename(y, fmt::format("product{}", i));
    y = b.add1("relu", {y});
  }
  const ValueId square = b.add1("square", {y});
  b.output("loss", b.add1("reduce_sum", {square}, {{"axes", std::vector<std::int64_t>{0, 1}}}));
  return make_training_graph(b.finish(), {.optimizer = Sgd{}});
}

Plan between_ops(int devices, int layers) {
  Plan plan;
  plan.mesh = parse_mesh(fmt::format("pipe={}", devices));
  for (int device = 1; device < devices; ++device) {
    plan.ops.push_back({.selector = fmt::format("product{}", device * layers / devices),
                        .location = {PipeLocation::Unit::Device, device}});
  }
  return plan;
}

/// Columns of one layer, rows of the next.
Plan within_ops(int devices, int layers) {
  Plan plan;
  plan.mesh = parse_mesh(fmt::format("tensor={}", devices));
  for (int i = 0; i < layers; ++i) {
    plan.values.push_back(
        {.selector = fmt::format("w{}", i), .location = {}, .axes = {{"tensor", 1 - i % 2}}});
  }
  return plan;
}

double bytes_sent(const simulate::SimulationReport& report) {
  return std::accumulate(
      report.ranks.begin(), report.ranks.end(), 0.0,
      [](double sum, const simulate::RankReport& rank) { return sum + rank.bytes_sent; });
}

/// The share of the step in which ranks do not compute because others do.
double idle(const simulate::SimulationReport& report) {
  return report.share(&simulate::RankReport::idle);
}

// Between ops: fewer bytes, more idle time. Within ops: more bytes, less idle time.
TEST(AssignmentTimes, InterOpSendsLessAndIdlesMore) {
  constexpr int kLayers = 4;
  const Graph graph = perceptron(kLayers);
  for (const int devices : {2, 4}) {
    const simulate::SimulationReport inter = simulated(graph, between_ops(devices, kLayers));
    const simulate::SimulationReport intra = simulated(graph, within_ops(devices, kLayers));
    EXPECT_LT(bytes_sent(inter), bytes_sent(intra)) << devices;
    EXPECT_GT(idle(inter), idle(intra)) << devices;
  }
}

// Without pipelining one device computes at a time: all are idle for (D-1)/D of the step, and while messages travel.
TEST(AssignmentTimes, WithoutPipeliningOneDeviceIsActiveAtATime) {
  constexpr int kLength = 8;
  const Graph graph = branches(1, kLength);
  for (const int devices : {2, 4}) {
    Plan plan;
    plan.mesh = parse_mesh(fmt::format("pipe={}", devices));
    for (int device = 1; device < devices; ++device) {
      plan.ops.push_back({.selector = fmt::format("branch0.{}", device * kLength / devices),
                          .location = {PipeLocation::Unit::Device, device}});
    }
    const simulate::SimulationReport report = simulated(graph, plan);
    const double messages = (devices - 1) * kMessage;
    EXPECT_NEAR(report.step.count, kLength * kProduct + messages, 1e-12);
    const double computing = report.share(&simulate::RankReport::compute);
    EXPECT_NEAR(computing, (1.0 - messages / report.step.count) / devices, 1e-9);
  }
}

// Whatever the plan: between devices along pipe only messages, within ops only collectives.
TEST(AssignmentTimes, AxesDetermineCommunication) {
  constexpr int kLayers = 4;
  const Graph graph = perceptron(kLayers);
  const auto kinds = [&](const Plan& plan) {
    std::set<bool> messages;
    for (const Program& program : programs_of(graph, plan, {})) {
      for (const Instruction& step : program.instructions) {
        if (step.op->communicates) {
          messages.insert(step.op->name == "send" || step.op->name == "receive");
        }
      }
    }
    return messages;
  };
  for (const int devices : {2, 3, 4}) {
    EXPECT_EQ(kinds(between_ops(devices, kLayers)), std::set<bool>{true});
    EXPECT_EQ(kinds(within_ops(devices, kLayers)), std::set<bool>{false});
  }
}

}  // namespace
}  // namespace trireme
