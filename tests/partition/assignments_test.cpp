// Plans that assign single ops and values: they compute what one device computes, with the communication that follows
// from the assignment and no other.
#include <map>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "expect_error.h"
#include "on_ranks.h"
#include "trireme/compiled_plan.h"
#include "trireme/op.h"
#include "trireme/program_set.h"
#include "two_layers.h"
#include "two_products.h"

namespace trireme {
namespace {

/// Checks that training under the plan equals training on one device, and returns what each rank runs.
std::vector<Program> expect_equal(const TwoLayers& task, const Plan& plan,
                                  const DimNames& names = {}) {
  std::vector<Program> programs = programs_of(task.graph, plan, names);
  EXPECT_EQ(problems(programs, groups_of(plan.mesh)), std::vector<std::string>());
  const Trained one = train_alone(task.graph, task.first, task.batches);
  const Trained many = train_on_ranks(task.graph, plan, names, task.first, task.batches);
  EXPECT_NE(one.losses.front(), one.losses.back());
  for (std::size_t i = 0; i < one.losses.size(); ++i) {
    EXPECT_NEAR(one.losses[i], many.losses[i], kTolerance) << "step " << i;
  }
  for (const auto& [name, numbers] : one.kept) {
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      EXPECT_NEAR(numbers[i], many.kept.at(name).at(i), kTolerance) << name << " at " << i;
    }
  }
  return programs;
}

/// "send forward f64[6,4]" and how often, without the scalars of the loss and the gradients' norm.
Counts communication_in(const Program& program) {
  Counts counts;
  for (const Instruction& step : program.instructions) {
    const Buffer* tensor = step.inputs.empty() ? nullptr : &program.buffer(step.inputs[0]);
    if (step.op->communicates && tensor != nullptr && tensor->type.shape.rank() > 0) {
      ++counts[fmt::format("{} {} {}", step.op->name, to_text(step.phase), to_text(tensor->type))];
    }
  }
  return counts;
}

void expect_only_messages(const std::vector<Program>& programs) {
  for (const Program& program : programs) {
    for (const Instruction& step : program.instructions) {
      EXPECT_TRUE(!step.op->communicates || step.op->name == "send" || step.op->name == "receive")
          << step.op->name;
    }
  }
}

/// The ops that a rank computes in a phase.
std::multiset<std::string> ops_in(const Program& program, Phase phase) {
  std::multiset<std::string> ops;
  for (const Instruction& step : program.instructions) {
    if (!step.op->communicates && step.phase == phase) {
      ops.insert(std::string(step.op->name));
    }
  }
  return ops;
}

bool stores(const Program& program, const std::string& name) {
  return std::ranges::any_of(program.buffers, [&](const Buffer& buffer) {
    return buffer.origin == Origin::Parameter && buffer.name == name;
  });
}

// {x, w1, product} on one device, {relu, w2, product, error} on the other. One activation goes over, its gradient comes
// back; the gradient of each op is computed where the op is.
TEST(Assignments, InterOpBoundarySendsOneMessageEachWay) {
  const Plan plan = parse_plan(R"({"mesh": "pipe=2", "ops": {"relu": {"device": 1}}})");
  const std::vector<Program> programs = expect_equal(two_layers(), plan);
  expect_only_messages(programs);
  EXPECT_EQ(communication_in(programs[0]), (Counts{{"send forward f64[6,4]", 1}}));
  EXPECT_EQ(communication_in(programs[1]), (Counts{{"send backward f64[6,4]", 1}}));
  EXPECT_EQ(ops_in(programs[0], Phase::Forward), (std::multiset<std::string>{"einsum"}));
  EXPECT_EQ(ops_in(programs[0], Phase::Backward), (std::multiset<std::string>{"einsum"}));
  EXPECT_TRUE(stores(programs[0], "w1") && !stores(programs[0], "w2"));
  EXPECT_TRUE(stores(programs[1], "w2") && !stores(programs[1], "w1"));
}

// The weights live on device 0 and are sent; every op runs on device 1; the gradients are sent back to be applied.
TEST(Assignments, WeightsMayLiveOnAnotherDevice) {
  const Plan plan = parse_plan(R"({"mesh": "pipe=2", "ops": {"*": {"device": 1}},
                                   "values": {"w1": {"device": 0}, "w2": {"device": 0}}})");
  const std::vector<Program> programs = expect_equal(two_layers(), plan);
  expect_only_messages(programs);
  EXPECT_EQ(communication_in(programs[0]),
            (Counts{{"send forward f64[5,4]", 1}, {"send forward f64[4,3]", 1}}));
  EXPECT_EQ(communication_in(programs[1]),
            (Counts{{"send backward f64[5,4]", 1}, {"send backward f64[4,3]", 1}}));
  for (const Phase phase : {Phase::Forward, Phase::Backward}) {
    EXPECT_EQ(ops_in(programs[0], phase), std::multiset<std::string>());
  }
  EXPECT_TRUE(stores(programs[0], "w1") && stores(programs[0], "w2"));
}

// X [W1a W1b] [W2a; W2b] = X W1a W2a + X W1b W2b: within the ops one all-reduce of Y, between them one message of X W1.
TEST(Assignments, BlockIdentityIsOneAllReduceOrOneMessage) {
  const Plan intra = parse_plan(R"json({"mesh": "tensor=2", "values": {
      "w1": {"tensor": "sharded(1)"}, "w2": {"tensor": "sharded(0)"}}})json");
  const Plan inter = parse_plan(R"({"mesh": "pipe=2", "ops": {"einsum.1": {"device": 1}}})");
  for (const char* between : {"", "gelu"}) {
    const Graph graph = two_products(between, {DType::F64, {8, 2}});
    for (const Program& program : programs_of(graph, intra, {})) {
      EXPECT_EQ(communication_in(program), (Counts{{"all_reduce forward f64[4,2]", 1}}));
    }
    const std::vector<Program> messages = programs_of(graph, inter, {});
    EXPECT_EQ(communication_in(messages[0]), (Counts{{"send forward f64[4,8]", 1}}));
    EXPECT_EQ(communication_in(messages[1]), Counts());
  }
  (void)expect_equal(two_layers(), intra);
}

/// FLOPs of the forward pass by op.
std::map<std::string, double> work_in(const Graph& graph) {
  std::map<std::string, double> work;
  for (const Node& node : graph.nodes()) {
    if (node.phase == Phase::Forward && !node.op->communicates) {
      const Work done = node.op->work(signature_of(graph, node));
      work[std::string(node.op->name)] += done.products + done.others;
    }
  }
  return work;
}

// Every value sharded by rows, or by columns: each device has its share of the work of every op.
TEST(Assignments, EveryOpSupportsRowAndColumnSharding) {
  const TwoLayers task = two_layers();
  for (const int dimension : {0, 1}) {
    Plan plan;
    plan.mesh = parse_mesh("tensor=2");
    for (const char* name : {"x", "w1", "einsum", "relu", "w2", "einsum.1", "y", "subtract"}) {
      plan.values.push_back({.selector = name, .location = {}, .axes = {{"tensor", dimension}}});
    }
    (void)expect_equal(task, plan);
    const PlacementSpec placements = resolve_placements(task.graph, plan, {});
    const Partition partition(task.graph, placements);
    std::map<std::string, double> sums;
    for (int rank = 0; rank < 2; ++rank) {
      const RankGraph mine = partition.graph_at(place_of(plan, placements, rank), table_of(plan));
      for (const auto& [op, work] : work_in(mine.graph)) {
        EXPECT_GT(work, 0) << op;
        sums[op] += work;
      }
    }
    const std::map<std::string, double> whole = work_in(task.graph);
    for (const char* op : {"einsum", "relu", "subtract", "square"}) {
      EXPECT_EQ(sums.at(op), whole.at(op)) << op;
    }
  }
}

TEST(Assignments, ValuesGetAssignedPlacements) {
  const TwoLayers task = two_layers();
  const Plan plan = parse_plan(R"json({"mesh": "data=2,tensor=2", "zero": 1, "values": {
      "w*": {"tensor": "sharded(1)"}, "w2": {"tensor": "replicated"}, "x": {"data": "sharded(0)"},
      "relu": {"tensor": "replicated", "data": "sharded(0)"}}})json");
  (void)expect_equal(task, plan);
  const PlacementSpec placements = resolve_placements(task.graph, plan, {});
  const Partition partition(task.graph, placements);
  EXPECT_EQ(to_text(partition.stored("w1"), placements.axes), "[1:tensor]");
  EXPECT_EQ(to_text(partition.stored("w2"), placements.axes), "[]");
  EXPECT_EQ(to_text(partition.stored("x"), placements.axes), "[0:data]");
}

/// Ops that nothing places: where their inputs are. Later assignments of a value's readers do not matter.
TEST(Assignments, UnassignedPlacementsAreDerived) {
  const TwoLayers task = two_layers();
  const Plan plan = parse_plan(
      R"({"mesh": "pipe=3", "schedule": "gpipe",
          "ops": {"*": {"stage": 2}, "relu": {"device": 1}, "einsum": {"device": 0},
                  "grad/relu/*": {"device": 0}}})");
  const std::vector<Program> programs = expect_equal(task, plan);
  EXPECT_EQ(ops_in(programs[0], Phase::Forward), (std::multiset<std::string>{"einsum"}));
  EXPECT_EQ(ops_in(programs[1], Phase::Forward), (std::multiset<std::string>{"relu"}));
  EXPECT_EQ(ops_in(programs[1], Phase::Backward), std::multiset<std::string>());
  EXPECT_EQ(ops_in(programs[0], Phase::Backward).count("relu_backward"), 1U);
}

// A value of device 1 is read on device 0 before its own result goes back: every device runs the same order of tasks,
// or the schedule cannot do it.
TEST(Assignments, RevisitingDevicesNeedsCapableSchedule) {
  const char* const text = R"({{"mesh": "pipe=2", "microbatches": {}, "schedule": "{}",
                               "ops": {{"*": {{"device": 0}}, "relu": {{"device": 1}}}}}})";
  const TwoLayers task = two_layers();
  const DimNames names{{"x", {"batch", "inputs"}}, {"y", {"batch", "outputs"}}};
  for (const auto& [microbatches, schedule] :
       std::vector<std::pair<int, const char*>>{{1, "1f1b"}, {3, "gpipe"}, {3, "naive"}}) {
    SCOPED_TRACE(schedule);
    (void)expect_equal(task, parse_plan(fmt::format(fmt::runtime(text), microbatches, schedule)),
                       names);
  }
  expect_error(ErrorKind::Usage, "schedule 1f1b cannot run this plan: on device ", [&] {
    (void)programs_of(task.graph, parse_plan(fmt::format(fmt::runtime(text), 3, "1f1b")), names);
  });
}

// With other axes, a device is a group of them.
TEST(Assignments, PipelineStagesMayBeGroups) {
  const DimNames names{{"x", {"batch", "inputs"}},
                       {"y", {"batch", "outputs"}},
                       {"w1", {"width", "hidden"}},
                       {"w2", {"hidden", "width"}}};
  for (const char* mesh : {"data=2,pipe=2", "pipe=2,tensor=2", "tensor=2,pipe=2"}) {
    Plan plan = parse_plan(R"({"mesh": "", "zero": 3})");
    plan.mesh = parse_mesh(mesh);
    for (const char* op : {"relu", "subtract"}) {
      plan.ops.push_back({.selector = op, .location = {PipeLocation::Unit::Device, 1}});
    }
    plan.ops.push_back({.selector = "einsum.1", .location = {}});
    plan.values.push_back({.selector = "w1", .location = PipeLocation{.index = 1}, .axes = {}});
    SCOPED_TRACE(mesh);
    (void)expect_equal(two_layers(), plan, names);
  }
}

TEST(Assignments, RejectInvalidAssignments) {
  const std::vector<std::pair<const char*, const char*>> wrong{
      {R"("ops": {"relo": {"device": 1}})", "plan: unknown op 'relo'; did you mean 'relu'?"},
      {R"("ops": {"conv*": {"device": 1}})",
       "plan: no op matches 'conv*'; trireme plan show --ops lists them"},
      {R"json("ops": {"@block(7)": {"device": 1}})json", "unknown op '@block(7)'"},
      {R"("ops": {"new/w1": {"device": 1}})",
       "op new/w1 updates w1 and runs where that is stored; assign the parameter under values"},
      {R"("ops": {"re*": {"device": 1}, "*lu": {"device": 0}})",
       "'re*' and '*lu' disagree about the device of op relu; assign it by its exact name"},
      {R"("values": {"w3": {"device": 1}})", "unknown value 'w3'; did you mean 'w1'?"},
      {R"("values": {"relu": {"device": 1}})",
       "relu cannot have its own device: it is computed: assign the op of this name under "
       "ops"},
      {R"("values": {"x": {"stage": 1}})", "an input is on every device that reads it"},
      {R"json("values": {"w1": {"tensor": "sharded(2)"}})json",
       "w1 is f64[5,4]; it has no dimension 2 to shard along tensor"},
  };
  const TwoLayers task = two_layers();
  for (const auto& [assignments, words] : wrong) {
    const std::string text = fmt::format(R"({{"mesh": "pipe=2,tensor=2", {}}})", assignments);
    expect_error(ErrorKind::Usage, words,
                 [&] { (void)resolve_placements(task.graph, parse_plan(text), {}); });
  }
}

}  // namespace
}  // namespace trireme
