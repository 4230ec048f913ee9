// Ring attention, in which keys and values circulate among ranks: what is sent, what is computed, and what is never in
// memory.
#include "partition/ring.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "on_ranks.h"
#include "program/traffic.h"
#include "trireme/error.h"
#include "trireme/model.h"
#include "trireme/model_dims.h"
#include "trireme/optimize.h"
#include "trireme/training.h"

namespace trireme {
namespace {

constexpr std::int64_t kBatch = 2;
constexpr std::int64_t kRingLength = 24;
constexpr std::int64_t kHeads = 4;
constexpr std::int64_t kKeyHeads = 2;
constexpr std::int64_t kDepth = 4;

/// One block with grouped queries, over f32.
Graph llama(std::int64_t layers = 1, std::int64_t length = kRingLength) {
  ModelConfig config;
  config.name = "llama";
  config.family = Family::Llama;
  config.vocabulary = 32;
  config.context = length;
  config.width = 16;
  config.layers = layers;
  config.heads = kHeads;
  config.key_heads = kKeyHeads;
  config.head_width = kDepth;
  config.hidden = 20;
  return make_training_graph(make_model(config, {.sequences = kBatch, .length = length}).graph);
}

/// The same without a mask.
Graph without_mask(const Graph& graph) {
  std::string text = to_text(graph);
  for (const std::string_view op : {" attention(", " attention_backward("}) {
    for (std::size_t at = text.find(op); at != std::string::npos; at = text.find(op, at + 1)) {
      text.insert(text.find(')', at) + 1, " causal=0");
    }
  }
  return parse_graph(text);
}

Plan ring_of(int ranks, Plan::Context context = Plan::Context::Ring) {
  Plan plan;
  plan.mesh = parse_mesh(fmt::format("context={}", ranks));
  plan.context = context;
  return plan;
}

Graph graph_at(const Graph& graph, const Plan& plan, int rank) {
  const PlacementSpec placements = resolve_placements(graph, plan, dim_names(graph));
  const Partition partition(graph, placements);
  return partition.graph_at(place_of(plan, placements, rank), table_of(plan)).graph;
}

struct Sent {
  int messages = 0;
  std::int64_t bytes = 0;
  friend bool operator==(const Sent&, const Sent&) = default;
};
std::ostream& operator<<(std::ostream& out, const Sent& sent) {
  return out << sent.messages << " messages, " << sent.bytes << " bytes";
}

Sent sent_in(const Graph& graph, Phase phase) {
  Sent sent;
  for (const Node& node : graph.nodes()) {
    if (node.op->name == "send" && node.phase == phase) {
      ++sent.messages;
      sent.bytes += size_of(graph.value(node.inputs[0]).type).count;
    }
  }
  return sent;
}

int count(const Graph& graph, std::string_view op) {
  return static_cast<int>(
      std::ranges::count_if(graph.nodes(), [&](const Node& node) { return node.op->name == op; }));
}

/// This many tensors, each a rank's KV shard.
Sent parts_of_keys(int ranks, int messages) {
  const std::int64_t part = kBatch * kRingLength / ranks * kKeyHeads * kDepth * 4;
  return {messages, messages * part};
}

// Without a mask all parts visit all ranks: p - 1 of keys and of values in the forward; the same again in the backward,
// and p of each of their gradients, which return home.
TEST(Ring, SendsEachShardOnce) {
  const Graph graph = without_mask(llama());
  for (const int ranks : {2, 3, 4}) {
    for (int rank = 0; rank < ranks; ++rank) {
      const Graph mine = graph_at(graph, ring_of(ranks), rank);
      EXPECT_EQ(sent_in(mine, Phase::Forward), parts_of_keys(ranks, 2 * (ranks - 1)));
      EXPECT_EQ(sent_in(mine, Phase::Backward), parts_of_keys(ranks, 2 * (ranks - 1) + 2 * ranks));
      EXPECT_EQ(count(mine, "receive"), count(mine, "send"));
      EXPECT_EQ(count(mine, "attention"), ranks);
      EXPECT_EQ(count(mine, "attention_backward"), ranks);
    }
  }
}

// Of the whole sequence.
constexpr std::int64_t kQueryBytes = kBatch * kRingLength * kHeads * kDepth * 4;
constexpr std::int64_t kKeyBytes = kBatch * kRingLength * kKeyHeads * kDepth * 4;
constexpr std::int64_t kLseBytes = kBatch * kHeads * kRingLength * 4;

// Pairs of queries i and keys j < i, p (p - 1) / 2 of them. In round s, p - s pairs move keys and values, s move queries
// and results; in the last round of an even p, p / 2 pairs move both, but only half of the queries.
TEST(Ring, MovesKeysOrQueriesUnderCausalMask) {
  const Graph graph = llama();
  for (const int ranks : {2, 3, 4, 6}) {
    double keys = 0;
    double queries = 0;
    for (int s = 1; 2 * s < ranks; ++s) {
      keys += ranks - s;
      queries += s;
    }
    keys += ranks % 2 == 0 ? ranks / 2.0 : 0;
    queries += ranks % 2 == 0 ? ranks / 4.0 : 0;
    Sent forward;
    Sent backward;
    for (int rank = 0; rank < ranks; ++rank) {
      const Graph mine = graph_at(graph, ring_of(ranks), rank);
      forward.bytes += sent_in(mine, Phase::Forward).bytes;
      backward.bytes += sent_in(mine, Phase::Backward).bytes;
      // All ranks compute with as many pairs.
      EXPECT_EQ(count(mine, "attention"), 1 + ranks / 2);
      EXPECT_EQ(count(mine, "attention_backward"), 1 + ranks / 2);
    }
    EXPECT_EQ(static_cast<double>(forward.bytes) * ranks,
              keys * 2 * kKeyBytes + queries * (2 * kQueryBytes + kLseBytes));
    EXPECT_EQ(static_cast<double>(backward.bytes) * ranks,
              keys * 4 * kKeyBytes + queries * (4 * kQueryBytes + kLseBytes));
  }
}

/// FLOPs of attention that a rank executes, without those that the mask makes unnecessary.
double attention_flops(const Program& program) {
  double flops = 0;
  for (const Instruction& one : program.instructions) {
    if (one.op->name == "attention" || one.op->name == "attention_backward") {
      const Work work = one.op->work(signature_of(program, one));
      flops += work.products * (1 - work.causal);
    }
  }
  return flops;
}

struct Balance {
  double least = std::numeric_limits<double>::infinity();
  double most = 0;
  double sum = 0;
};
Balance balance_of(std::int64_t length, int ranks) {
  const Graph graph = llama(1, length);
  Balance balance;
  for (int rank = 0; rank < ranks; ++rank) {
    const double flops = attention_flops(make_program(graph_at(graph, ring_of(ranks), rank)));
    balance.least = std::min(balance.least, flops);
    balance.most = std::max(balance.most, flops);
    balance.sum += flops;
  }
  return balance;
}

// A plain ring would give the last of 4 ranks 1.75 times the mean.
TEST(Ring, BalancesWorkUnderCausalMask) {
  for (const int ranks : {2, 3, 4, 5, 6, 8}) {
    const Balance balance = balance_of(240, ranks);
    EXPECT_EQ(balance.most, balance.least) << ranks << " ranks";
    EXPECT_NEAR(balance.sum, attention_flops(make_program(llama(1, 240))), 1e-9 * balance.sum);
  }
  for (const int ranks : {2, 3, 4, 7}) {  // shards of unequal or odd length
    const Balance balance = balance_of(1001, ranks);
    EXPECT_LT(balance.most / balance.least, 1.01) << ranks << " ranks";
  }
}

TEST(Ring, GathersNothing) {
  const Graph mine = graph_at(llama(), ring_of(4), 3);
  EXPECT_EQ(count(mine, "all_gather"), 0) << to_text(mine);
  for (const Value& value : mine.values()) {
    if (value.origin == Origin::Node && value.type.shape.rank() >= 3) {
      EXPECT_LE(value.type.shape.dim(1), kRingLength / 4) << value.name << to_text(value.type);
    }
  }
}

// The next part is in flight while the current one is used, and the previous one has been released.
TEST(Ring, OverlapsComputeWithTransfers) {
  const Program program = make_program(graph_at(without_mask(llama()), ring_of(3), 1));
  std::vector<std::string> order;
  std::map<std::string, std::int32_t> done;  // the last message of each kind
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& one = program.instructions[i];
    const std::string name(one.op->name);
    const bool begins = name == "send" || name == "receive";
    if (one.phase != Phase::Forward || !(begins || name == "attention")) {
      continue;
    }
    if (begins) {
      done[name] = one.done_before;
    } else if (done.contains("receive")) {
      EXPECT_LT(static_cast<std::int32_t>(i), done["receive"]);
      EXPECT_LT(static_cast<std::int32_t>(i), done["send"]);
      done.clear();
    }
    order.push_back(name);
  }
  EXPECT_EQ(order,
            (std::vector<std::string>{"receive", "receive", "send", "send", "attention", "receive",
                                      "receive", "send", "send", "attention", "attention"}));
}

Bytes peak_of(Plan::Context context, int rank) {
  const Graph graph = llama(2, 40 * kRingLength);
  const Graph mine = graph_at(graph, ring_of(6, context), rank);
  return memory_use(make_program(fuse_elementwise(mine))).peak;
}

TEST(Ring, NeedsLessMemoryThanGathering) {
  for (const int rank : {0, 3, 5}) {
    EXPECT_LT(peak_of(Plan::Context::Ring, rank).count, peak_of(Plan::Context::Gather, rank).count);
  }
}

}  // namespace
}  // namespace trireme
