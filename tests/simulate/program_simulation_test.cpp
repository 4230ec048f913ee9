#include "trireme/program_simulation.h"

#include <map>
#include <string>

#include <gtest/gtest.h>

#include "expect_error.h"
#include "plan/pipeline_index.h"
#include "simulate/communication_times.h"
#include "trireme/pipeline.h"

namespace trireme::simulate {
namespace {

constexpr double kAlpha = 2e-6;
constexpr double kBeta = 1e-9;
constexpr double kGamma = 1e-10;

/// One level of links.
Cluster flat_cluster(int devices) {
  return {.name = "flat",
          .nodes = devices,
          .devices_per_node = 1,
          .device = {.name = "test"},
          .links = {{.level = "network", .reach = devices, .alpha = {kAlpha}, .beta = {kBeta}}},
          .gamma = {kGamma}};
}

/// Two levels: `nodes` of 4 devices, ten times slower between nodes.
Cluster two_level_cluster(int nodes) {
  return {.name = "two-level",
          .nodes = nodes,
          .devices_per_node = 4,
          .device = {.name = "test"},
          .links = {{.level = "node", .reach = 4, .alpha = {kAlpha}, .beta = {kBeta}},
                    {.level = "network",
                     .reach = 4 * nodes,
                     .alpha = {10 * kAlpha},
                     .beta = {10 * kBeta}}},
          .gamma = {kGamma}};
}

double ring(int ranks, double bytes) {
  return formula(Operation::Allreduce, Algorithm::Ring, {.ranks = ranks})
      .at(bytes, CostModel::uniform({kAlpha}, {kBeta}, {kGamma}))
      .count;
}

/// Every op takes a time that depends on its name.
ComputeTime by_name(std::map<std::string, double, std::less<>> times) {
  return [times = std::move(times)](const Signature& what, const Work&) -> Seconds {
    const auto found = times.find(what.op->name);
    return {found == times.end() ? 0 : found->second};
  };
}

const TensorType kTensor{DType::F32, {64, 64}};  // 16384 bytes
constexpr double kBytes = 16384;

Attributes along(const std::string& group, int ranks) {
  return {{"group", group}, {"ranks", std::int64_t{ranks}}};
}

/// y = relu(x), reduced over all ranks; and z = tanh(x), which does not need it.
Program reduce_and_compute(int ranks) {
  GraphBuilder b("step");
  const ValueId x = b.input("x", kTensor);
  const ValueId y = b.add1("relu", {x});
  const ValueId sum = b.add1("all_reduce", {y}, along("data", ranks));
  const ValueId z = b.add1("tanh", {x});
  const ValueId both = b.add1("add", {sum, z});
  b.output("both", both);
  return make_program(b.finish());
}

std::vector<int> first_ranks(int count) {
  std::vector<int> ranks;
  for (int rank = 0; rank < count; ++rank) {
    ranks.push_back(rank);
  }
  return ranks;
}

SimulationReport simulate_reduction(int ranks, const ProgramSimulationOptions& options,
                                    const Cluster& cluster) {
  const std::vector<Program> programs(static_cast<std::size_t>(ranks), reduce_and_compute(ranks));
  const std::vector<RankGroups> groups(static_cast<std::size_t>(ranks),
                                       RankGroups{{"data", first_ranks(ranks)}});
  return simulate_programs(programs, groups, cluster, options);
}

TEST(ProgramSimulation, OverlappedReductionTakesLongerOfTheTwo) {
  for (const int ranks : {2, 4, 7, 16}) {
    for (const double beside : {0.0, 1e-6, 1.0}) {
      const SimulationReport report =
          simulate_reduction(ranks,
                             {.compute = by_name({{"relu", 3e-6}, {"tanh", beside}, {"add", 2e-6}}),
                              .among = {Algorithm::Ring}},
                             flat_cluster(ranks));
      const double reduce = ring(ranks, kBytes);
      EXPECT_NEAR(report.step.count, 3e-6 + std::max(reduce, beside) + 2e-6, 1e-15);
      for (const RankReport& rank : report.ranks) {
        EXPECT_NEAR(rank.exposed.count, std::max(0.0, reduce - beside), 1e-15);
        EXPECT_NEAR(rank.bytes_sent, 2 * kBytes * (ranks - 1) / ranks, 1e-9);
      }
    }
  }
}

TEST(ProgramSimulation, WithoutOverlapTimesAdd) {
  const SimulationReport report =
      simulate_reduction(4,
                         {.compute = by_name({{"relu", 3e-6}, {"tanh", 5e-6}, {"add", 2e-6}}),
                          .among = {Algorithm::Ring},
                          .overlap = false},
                         flat_cluster(4));
  EXPECT_NEAR(report.step.count, 10e-6 + ring(4, kBytes), 1e-15);
}

TEST(ProgramSimulation, SlowRankMakesOthersWait) {
  const SimulationReport report =
      simulate_reduction(8,
                         {.compute = by_name({{"relu", 1}}),
                          .variation = {.slow_workers = 1, .slow_factor = 3},
                          .among = {Algorithm::Ring}},
                         flat_cluster(8));
  EXPECT_NEAR(report.step.count, 3 + ring(8, kBytes), 1e-12);
  EXPECT_NEAR(report.ranks[0].idle.count, 2, 1e-12);
  EXPECT_NEAR(report.ranks[7].idle.count, 0, 1e-12);
}

TEST(ProgramSimulation, TimesOfRankSumToStep) {
  const SimulationReport report =
      simulate_reduction(8,
                         {.compute = by_name({{"relu", 1e-5}, {"tanh", 2e-5}, {"add", 1e-5}}),
                          .variation = {.jitter = Jitter::Exponential, .transient_chance = 0.2}},
                         two_level_cluster(2));
  for (const RankReport& rank : report.ranks) {
    EXPECT_NEAR(rank.compute.count + rank.exposed.count + rank.idle.count, report.step.count,
                1e-15);
  }
  EXPECT_EQ(problems(report.trace), std::vector<std::string>{});
  EXPECT_EQ(report.trace.kind, TraceKind::Predicted);
}

TEST(ProgramSimulation, IsReproducible) {
  const auto step = [](std::uint64_t seed) {
    return simulate_reduction(8,
                              {.compute = by_name({{"relu", 1e-5}, {"tanh", 2e-5}}),
                               .variation = {.jitter = Jitter::Uniform, .seed = seed}},
                              flat_cluster(8));
  };
  EXPECT_EQ(step(1).trace, step(1).trace);
  EXPECT_NE(step(1).step, step(2).step);
}

TEST(ProgramSimulation, RejectsMismatches) {
  const ProgramSimulationOptions options{.compute = by_name({})};
  expect_error(ErrorKind::Usage,
               "4 ranks, but the cluster flat has 2 devices; use more nodes of it",
               [&] { (void)simulate_reduction(4, options, flat_cluster(2)); });
  const std::vector<Program> programs{reduce_and_compute(2), Program{}};
  const std::vector<RankGroups> groups(2, RankGroups{{"data", {0, 1}}});
  expect_error(ErrorKind::Usage, "rank 0 waits forever",
               [&] { (void)simulate_programs(programs, groups, flat_cluster(2), options); });
}

// Pipelines: the programs of a table, made by hand.

const char* op_of(PipelineWork work) {
  switch (work) {
    case PipelineWork::Forward:
      return "relu";
    case PipelineWork::Backward:
      return "tanh";
    case PipelineWork::BackwardInput:
      return "gelu";
    default:
      return "silu";
  }
}

/// The program of one rank of a table: each task is one op; what comes from another rank is received, what another rank
/// needs is sent.
class TableProgram {
 public:
  TableProgram(const PipelineTable& table, int rank) : table_(table), index_(table), rank_(rank) {}

  Program make() {
    const ValueId x = builder_.input("x", kTensor);
    for (const PipelineTask& task : table_.tasks[static_cast<std::size_t>(rank_)]) {
      if (task.work != PipelineWork::Update) {
        add(task, x);
      }
    }
    return make_program(builder_.finish());
  }

 private:
  using Key = std::tuple<PipelineWork, int, int>;
  [[nodiscard]] std::int64_t tag(const PipelineTask& producer) const {
    return (static_cast<std::int64_t>(producer.work) * table_.stages + producer.stage) *
               table_.microbatches +
           producer.microbatch;
  }

  void add(const PipelineTask& task, ValueId x) {
    ValueId input = x;
    index_.for_each_input(task, [&](PipelinePlace place) {
      const PipelineTask& producer = index_.task(place);
      const ValueId value = place.rank == rank_
                                ? own_.at({producer.work, producer.stage, producer.microbatch})
                                : builder_.add1("receive", {},
                                                {{"from", std::int64_t{place.rank}},
                                                 {"tag", tag(producer)},
                                                 {"shape", kTensor.shape.dims()},
                                                 {"dtype", std::string("f32")}});
      input = input == x ? value : builder_.add1("add", {input, value});
    });
    const ValueId output = builder_.add1(op_of(task.work), {input});
    own_[{task.work, task.stage, task.microbatch}] = output;
    builder_.output("out", output);
    send(task, output);
  }

  void send(const PipelineTask& task, ValueId output) {
    const bool forward = task.work == PipelineWork::Forward;
    const int other = forward ? task.stage + 1 : task.stage - 1;
    if (task.work == PipelineWork::BackwardWeight || other < 0 || other >= table_.stages) {
      return;
    }
    const int to = table_.rank_of(task.copy, other);
    if (to != rank_) {
      builder_.output(
          "sent", builder_.add1("send", {output}, {{"to", std::int64_t{to}}, {"tag", tag(task)}}));
    }
  }

  const PipelineTable& table_;
  PipelineIndex index_;
  int rank_;
  GraphBuilder builder_{"rank"};
  std::map<Key, ValueId> own_;
};

TEST(ProgramSimulation, PipelineProgramsMatchTableTiming) {
  int tables = 0;
  for (const PipelineSchedule& schedule : pipeline_schedules()) {
    for (const PipelineOptions& size : {PipelineOptions{.ranks = 2, .microbatches = 4},
                                        PipelineOptions{.ranks = 4, .microbatches = 8}}) {
      if (!problems(schedule, size).empty()) {
        continue;
      }
      const PipelineTable table = schedule.make(size);
      ++tables;
      std::vector<Program> programs;
      for (int rank = 0; rank < table.ranks; ++rank) {
        programs.push_back(TableProgram(table, rank).make());
      }
      const SimulationReport report = simulate_programs(
          programs, std::vector<RankGroups>(programs.size()), flat_cluster(table.ranks),
          {.compute =
               by_name({{"relu", 1e-3}, {"gelu", 1.5e-3}, {"silu", 0.5e-3}, {"tanh", 2e-3}})});
      const PipelineTiming timing =
          time_pipeline(table, PipelineDurations{.forward = 1e-3,
                                                 .backward_input = 1.5e-3,
                                                 .backward_weight = 0.5e-3,
                                                 .update = 0,
                                                 .message = kAlpha + kBytes * kBeta});
      EXPECT_NEAR(report.step.count, timing.makespan, 1e-9 * timing.makespan)
          << schedule.name << " " << size.ranks;
      EXPECT_EQ(problems(report.trace), std::vector<std::string>{});
    }
  }
  EXPECT_GT(tables, 12);
}

TEST(ProgramSimulation, NodesSharingPortTakeTurns) {
  // Ranks 0 and 1 of one node each send to a rank of the other.
  std::vector<Program> programs;
  for (int rank = 0; rank < 8; ++rank) {
    GraphBuilder b("rank");
    const ValueId x = b.input("x", kTensor);
    if (rank < 2) {
      b.output("sent",
               b.add1("send", {x}, {{"to", std::int64_t{rank + 4}}, {"tag", std::int64_t{0}}}));
    } else if (rank == 4 || rank == 5) {
      b.output("y", b.add1("receive", {},
                           {{"from", std::int64_t{rank - 4}},
                            {"tag", std::int64_t{0}},
                            {"shape", kTensor.shape.dims()}}));
    } else {
      b.output("y", b.add1("relu", {x}));
    }
    programs.push_back(make_program(b.finish()));
  }
  const std::vector<RankGroups> groups(8);
  ProgramSimulationOptions options{.compute = by_name({})};
  const double message = 10 * (kAlpha + kBytes * kBeta);
  const Cluster cluster = two_level_cluster(2);
  EXPECT_NEAR(simulate_programs(programs, groups, cluster, options).step.count, message, 1e-15);
  options.shared_node_port = true;
  EXPECT_NEAR(simulate_programs(programs, groups, cluster, options).step.count, 2 * message, 1e-15);
}

TEST(GroupCosts, UseLinksBetweenMembers) {
  const Cluster cluster = two_level_cluster(4);
  EXPECT_TRUE(group_costs(cluster, std::vector<int>{0, 1, 2, 3}).is_uniform());
  EXPECT_EQ(group_costs(cluster, std::vector<int>{0, 1, 2, 3}).levels[0].beta.count, kBeta);
  const CostModel strided = group_costs(cluster, std::vector<int>{0, 4, 8, 12});
  EXPECT_TRUE(strided.is_uniform());
  EXPECT_EQ(strided.levels[0].beta.count, 10 * kBeta);
  const CostModel all = group_costs(cluster, first_ranks(16));
  ASSERT_EQ(all.levels.size(), 2U);
  EXPECT_EQ(all.levels[0].span, 4);
  const CostModel pairs = group_costs(cluster, std::vector<int>{0, 2, 4, 6, 8, 10});
  ASSERT_EQ(pairs.levels.size(), 2U);
  EXPECT_EQ(pairs.levels[0].span, 2);
  EXPECT_TRUE(group_costs(cluster, std::vector<int>{0, 1, 4}).is_uniform());  // uneven: as if far
}

TEST(ComputeRates, UseLongerOfFlopsAndBytes) {
  const ComputeTime time = compute_by({.flops = {1e12}, .memory = {1e9}, .launch = {1e-6}});
  EXPECT_DOUBLE_EQ(time({}, {.products = 2e9, .bytes = 1}).count, 1e-6 + 2e-3);
  EXPECT_DOUBLE_EQ(time({}, {.others = 1, .bytes = 5e6}).count, 1e-6 + 5e-3);
  EXPECT_EQ(time({}, {}).count, 0);
  EXPECT_EQ(peak_rates(device_preset("h100"), "bf16").flops.count, 989.4e12);
  EXPECT_THROW((void)peak_rates(device_preset("cpu"), "f32"), Error);
}

}  // namespace
}  // namespace trireme::simulate
