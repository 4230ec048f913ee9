// Prefetched parameters: where the gathers are, how much memory they take, and that they overlap in a run.
#include <algorithm>
#include <fstream>
#include <map>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "on_ranks.h"
#include "plan_case.h"
#include "temporary_folder.h"
#include "tiny_model.h"
#include "trireme/communicator.h"
#include "trireme/cpu_device.h"
#include "trireme/execution.h"
#include "trireme/model_dims.h"
#include "trireme/op.h"
#include "trireme/program_set.h"
#include "trireme/training.h"

namespace trireme {
namespace {

/// A weight that multiplies the previous layers' result.
struct Layer {
  std::string name{};
  Shape shape{};
  std::int32_t block = -1;
  std::size_t sharded = 0;  ///< the dimension along which it is sharded
};

/// The order of a rank's instructions: "gather a, use a".
std::string order_of(const std::vector<Layer>& layers) {
  GraphBuilder b("layers");
  PlacementSpec placements;
  placements.axes = {{"data", 2}};
  ValueId y = b.input("x", {DType::F32, {4, layers.front().shape.dim(0)}});
  placements.stored[y] = {.dims = {{.axes = {0}}, {}}};
  for (const Layer& layer : layers) {
    const ValueId w = b.parameter(layer.name, {DType::F32, layer.shape});
    placements.used[w] = Placement::replicated(2);
    placements.stored[w] = Placement::replicated(2);
    placements.stored[w].dims[layer.sharded].axes = {0};
    b.set_block(layer.block);
    y = b.add1("einsum", {y, w}, {{"equation", std::string("bi,ij->bj")}});
  }
  b.output("y", y);
  const Partition partition(b.finish(), placements);
  Plan plan;
  plan.mesh = parse_mesh("data=2");
  const Graph mine = partition.graph_at(place_of(plan, placements, 0), table_of(plan)).graph;
  std::vector<std::string> words;
  std::map<ValueId, std::string> gathered;
  for (const Node& node : mine.nodes()) {
    if (node.op->name == "all_gather") {
      gathered[node.outputs[0]] = mine.value(node.inputs[0]).name;
      words.push_back("gather " + gathered[node.outputs[0]]);
    } else {
      words.push_back("use " + gathered.at(node.inputs[1]));
    }
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

TEST(EarlyGathers, WithoutBlocksOneGatherRunsAhead) {
  EXPECT_EQ(order_of({{"a", {6, 6}}, {"b", {6, 6}}, {"c", {6, 6}}}),
            "gather a, gather b, use a, gather c, use b, use c");
}

TEST(EarlyGathers, RunAheadByOneBlock) {
  EXPECT_EQ(order_of({{"a", {6, 6}, 0},
                      {"b", {6, 6}, 0},
                      {"c", {6, 6}, 1},
                      {"d", {6, 6}, 1},
                      {"e", {6, 6}, 2}}),
            "gather a, gather b, gather c, use a, gather d, use b, gather e, use c, use d, use e");
}

// c and d together are as large as b.
TEST(EarlyGathers, LimitIsInBytes) {
  EXPECT_EQ(order_of({{"a", {6, 6}, 0}, {"b", {6, 12}, 1}, {"c", {12, 3}, 2}, {"d", {3, 12}, 3}}),
            "gather a, gather b, use a, gather c, gather d, use b, use c, use d");
}

// Column shards arrive in scratch first, which is as large as the result.
TEST(EarlyGathers, CountScratchMemory) {
  EXPECT_EQ(order_of({{"a", {6, 6}, 0},
                      {.name = "b", .shape = {6, 6}, .block = 1, .sharded = 1},
                      {"c", {6, 6}, 2},
                      {"d", {6, 6}, 3}}),
            "gather a, gather b, use a, gather c, gather d, use b, use c, use d");
}

TEST(EarlyGathers, SkipGathersLargerThanBlock) {
  EXPECT_EQ(order_of({{"a", {6, 6}, 0}, {"big", {6, 60}}, {"large", {60, 6}}, {"b", {6, 6}, 1}}),
            "gather a, use a, gather big, use big, gather large, gather b, use large, use b");
}

// A model.

/// PipeDream updates stages in sequence.
Graph graph_for(const Case& c) {
  ModelConfig config = tiny_model();
  config.dtype = DType::F32;
  TrainingOptions options;
  options.independent_updates = c.schedule == "pipedream";
  return make_training_graph(make_model(config, {.sequences = 4, .length = 6}).graph, options);
}

std::vector<Graph> graphs_of(const Graph& graph, const Plan& plan) {
  const PlacementSpec placements = resolve_placements(graph, plan, dim_names(graph));
  const Partition partition(graph, placements);
  std::vector<Graph> graphs;
  for (int rank = 0; rank < plan.mesh.devices(); ++rank) {
    graphs.push_back(partition.graph_at(place_of(plan, placements, rank), table_of(plan)).graph);
  }
  return graphs;
}

bool gathers_parameter(const Graph& graph, const Node& node) {
  return node.op->name == "all_gather" && graph.value(node.inputs[0]).origin == Origin::Parameter;
}

/// The same graph with every gather of a parameter right before its first use.
class LateGathers {
 public:
  explicit LateGathers(const Graph& graph) : graph_(graph), builder_(graph.name()) {}

  Graph run() {
    for (std::size_t v = 0; v < graph_.values().size(); ++v) {
      add_leaf({static_cast<std::int32_t>(v)});
    }
    for (const Node& node : graph_.nodes()) {
      if (gathers_parameter(graph_, node)) {
        put_off_[node.outputs[0]] = &node;
      } else {
        add(node);
      }
    }
    for (const Output& output : graph_.outputs()) {
      builder_.output(output.name, now_.at(output.value));
    }
    for (const Update& update : graph_.updates()) {
      builder_.update(now_.at(update.target), now_.at(update.value));
    }
    return builder_.finish();
  }

 private:
  void add_leaf(ValueId id) {
    const Value& value = graph_.value(id);
    if (value.origin != Origin::Node) {
      now_[id] = value.origin == Origin::Input       ? builder_.input(value.name, value.type)
                 : value.origin == Origin::Parameter ? builder_.parameter(value.name, value.type)
                                                     : builder_.state(value.name, value.type);
    }
  }
  void add(const Node& node) {
    std::vector<ValueId> inputs;
    for (const ValueId input : node.inputs) {
      if (!now_.contains(input)) {
        add(*put_off_.at(input));
      }
      inputs.push_back(now_.at(input));
    }
    builder_.set_phase(node.phase);
    builder_.set_block(node.block);
    const std::vector<ValueId> outputs = builder_.copy(node, inputs);
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      now_[node.outputs[k]] = outputs[k];
    }
  }

  const Graph& graph_;
  GraphBuilder builder_;
  std::map<ValueId, ValueId> now_;
  std::map<ValueId, const Node*> put_off_;
};

/// The most that one block gathers in the forward or in the backward.
std::int64_t most_of_a_block(const Graph& graph) {
  std::map<std::pair<Phase, std::int32_t>, std::int64_t> bytes;
  for (const Node& node : graph.nodes()) {
    if (gathers_parameter(graph, node) && node.block >= 0) {
      for (const ValueId output : node.outputs) {
        bytes[{node.phase, node.block}] += size_of(graph.value(output).type).count;
      }
    }
  }
  std::int64_t most = 0;
  for (const auto& [block, sum] : bytes) {
    most = std::max(most, sum);
  }
  return most;
}

std::vector<std::string_view> ops_of(const Graph& graph) {
  std::vector<std::string_view> ops;
  for (const Node& node : graph.nodes()) {
    ops.push_back(node.op->name);
  }
  return ops;
}

std::int64_t peak_of(const Graph& graph) {
  return memory_use(make_program(graph)).peak.count;
}

std::vector<Case> zero3_cases() {
  return {{.mesh = "data=2", .zero = 3},
          {.mesh = "data=3", .zero = 3},
          {.mesh = "data=2", .microbatches = 2, .zero = 3},
          {.mesh = "data=2,tensor=2", .zero = 3},
          {.mesh = "data=2,tensor=3", .zero = 3, .sequence = true},
          {.mesh = "data=2,context=2", .zero = 3},
          {.mesh = "pipe=2,data=2", .microbatches = 2, .zero = 3},
          {.mesh = "pipe=2,data=2", .microbatches = 4, .schedule = "gpipe", .zero = 3},
          {.mesh = "pipe=2,data=2", .microbatches = 2, .schedule = "zb-h1", .zero = 3},
          {.mesh = "pipe=2,data=2",
           .microbatches = 2,
           .schedule = "interleaved",
           .chunks = 2,
           .zero = 3},
          {.mesh = "pipe=2,data=2", .microbatches = 2, .schedule = "chimera", .zero = 3},
          {.mesh = "pipe=2,data=2", .microbatches = 4, .schedule = "pipedream", .zero = 3}};
}

TEST(EarlyGathers, UseAtMostMemoryOfOneBlock) {
  for (const Case& c : zero3_cases()) {
    SCOPED_TRACE(describe(c));
    const std::vector<Graph> graphs = graphs_of(graph_for(c), plan_of(c));
    std::int64_t most = 0;  // on the rank with the most: all ranks use the same limit
    for (const Graph& mine : graphs) {
      most = std::max(most, most_of_a_block(mine));
    }
    for (const Graph& mine : graphs) {
      const Graph late = LateGathers(mine).run();
      ASSERT_EQ(late.nodes().size(), mine.nodes().size());
      EXPECT_NE(ops_of(late), ops_of(mine)) << "nothing was prefetched";
      EXPECT_LE(peak_of(mine), peak_of(late) + most);
    }
  }
}

TEST(EarlyGathers, AreIdenticalOnAllRanks) {
  for (const Case& c : zero3_cases()) {
    SCOPED_TRACE(describe(c));
    const Plan plan = plan_of(c);
    std::vector<Program> programs;
    for (const Graph& mine : graphs_of(graph_for(c), plan)) {
      programs.push_back(make_program(mine));
    }
    EXPECT_EQ(trireme::problems(programs, groups_of(plan.mesh)), std::vector<std::string>{});
  }
}

/// Products between a communication op and the first instruction that needs it.
std::int64_t overlapped_products(const Program& program, const Instruction& exchange) {
  const auto begin = &exchange - program.instructions.data();
  return std::count_if(program.instructions.begin() + begin,
                       program.instructions.begin() + exchange.done_before,
                       [](const Instruction& other) { return other.op->name == "einsum"; });
}

// All gathers of a block, except the first one's of the forward and the last one's of the backward, which comes first
// there, have products to overlap with; and the instructions that wait for them read them.
TEST(EarlyGathers, OverlapWithProducts) {
  const Case c{.mesh = "data=2", .zero = 3};
  const Program program = make_program(graphs_of(graph_for(c), plan_of(c)).front());
  int overlapped = 0;
  for (const Instruction& instruction : program.instructions) {
    const bool gathers = instruction.op->name == "all_gather";
    const bool first =
        instruction.phase == Phase::Forward ? instruction.block <= 0 : instruction.block == 3;
    if (gathers && !first && instruction.block >= 0) {
      EXPECT_GE(overlapped_products(program, instruction), 1)
          << program.buffer(instruction.inputs[0]).name << " in " << to_text(instruction.phase);
      ++overlapped;
    }
  }
  EXPECT_GE(overlapped, 3 * 12 + 3 * 4);
}

// A run.

/// Gathers of the trace during which a whole kernel ran.
int gathers_with_kernels(const Trace& trace) {
  const auto is_kernel = [&](const Trace::Span& span) {
    return trace.tracks.at(static_cast<std::size_t>(span.track.index)).thread == "compute";
  };
  const auto is_gather = [&](const Trace::Span& span) {
    return span.name == "all_gather" && trace.tracks.at(static_cast<std::size_t>(span.track.index))
                                            .thread.starts_with("exchanges");
  };
  const auto within = [](const Trace::Span& inner, const Trace::Span& outer) {
    return inner.start >= outer.start &&
           inner.start.count + inner.duration.count <= outer.start.count + outer.duration.count;
  };
  return static_cast<int>(std::ranges::count_if(trace.spans, [&](const Trace::Span& gather) {
    return is_gather(gather) && std::ranges::any_of(trace.spans, [&](const Trace::Span& kernel) {
             return is_kernel(kernel) && within(kernel, gather);
           });
  }));
}

TEST(EarlyGathers, OverlapWithComputeDuringRun) {
  const Case c{.mesh = "data=2", .zero = 3};
  const Plan plan = plan_of(c);
  const Graph graph = graph_for(c);
  const std::vector<Program> programs = programs_of(graph, plan, dim_names(graph));
  const TemporaryFolder folder;
  const auto file_of = [&](int rank) { return folder / std::to_string(rank); };
  ASSERT_EQ(launch(2,
                   [&](World& world) {
                     Communicator communicator(world, plan.mesh);
                     CpuOptions options;
                     options.threads = 1;
                     options.pinned = false;
                     const auto device = make_cpu_device(options);
                     Execution execution(programs[static_cast<std::size_t>(world.rank())], *device,
                                         &communicator);
                     for (const Buffer& buffer : execution.program().buffers) {
                       if (buffer.origin != Origin::Node) {
                         execution.write(buffer.name,
                                         std::vector<std::byte>(
                                             static_cast<std::size_t>(size_of(buffer.type).count)));
                       }
                     }
                     Trace trace;
                     execution.run(&trace);
                     std::ofstream(file_of(world.rank())) << gathers_with_kernels(trace);
                   }),
            0);
  for (int rank = 0; rank < 2; ++rank) {
    int count = 0;
    std::ifstream(file_of(rank)) >> count;
    EXPECT_GE(count, 3 * 12 + 3 * 4) << "rank " << rank;
  }
}

}  // namespace
}  // namespace trireme
