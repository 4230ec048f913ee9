#include "trireme/topology.h"

#include <cmath>

#include <gtest/gtest.h>

#include "trireme/collective_cost.h"
#include "trireme/error.h"

namespace trireme {
namespace {

const LinkCosts kWormhole{{1e-6}, {1e-9}, {1e-10}, Switching::Wormhole};
const LinkCosts kStoreAndForward{{1e-6}, {1e-9}, {1e-10}, Switching::StoreAndForward};

// On a linear array with wormhole routing no directed link carries two messages in a step.
TEST(Topology, RingAndTreeDoNotConflictOnLinearArray) {
  for (Rank p = 2; p <= 33; ++p) {
    const Topology line = linear_array(p);
    for (const Operation operation :
         {Operation::Allgather, Operation::ReduceScatter, Operation::Allreduce}) {
      const Schedule ring = build(operation, Algorithm::Ring, {.ranks = p});
      for (const StepLoad& load : time_on(line, ring, {p}, kWormhole).steps) {
        EXPECT_LE(load.max_messages, 1) << p;
      }
    }
    for (Rank root = 0; root < p; ++root) {
      for (const Operation operation :
           {Operation::Broadcast, Operation::Reduce, Operation::Scatter, Operation::Gather}) {
        const Schedule tree = build(operation, Algorithm::Mst, {.ranks = p, .root = root});
        for (const StepLoad& load : time_on(line, tree, {p}, kWormhole).steps) {
          EXPECT_LE(load.max_messages, 1) << p << " root " << root;
        }
      }
    }
  }
}

// The neighbors use one direction, the wrap-around the other; with half-duplex cables they
// conflict.
TEST(Topology, HalfDuplexCablesConflict) {
  const Schedule ring = build(Operation::Allgather, Algorithm::Ring, {.ranks = 9});
  for (const StepLoad& load : time_on(linear_array(9, Duplex::Half), ring, {9}, kWormhole).steps) {
    EXPECT_EQ(load.max_messages, 2);
  }
}

// With store-and-forward the wrap-around takes p-1 hops, and the whole ring waits for it.
TEST(Topology, WrapAroundIsSlowUnderStoreAndForward) {
  const Rank p = 9;
  const Schedule ring = build(Operation::Allgather, Algorithm::Ring, {.ranks = p});
  const double hop = 1e-6 + 1000 * 1e-9;
  EXPECT_NEAR(time_on(linear_array(p), ring, {1000 * p}, kWormhole).seconds.count, (p - 1) * hop,
              1e-15);
  EXPECT_NEAR(time_on(linear_array(p), ring, {1000 * p}, kStoreAndForward).seconds.count,
              (p - 1) * (p - 1) * hop, 1e-15);
  EXPECT_NEAR(time_on(ring_network(p), ring, {1000 * p}, kStoreAndForward).seconds.count,
              (p - 1) * hop, 1e-15);
}

// The tree leaves most links idle, the ring none. p = 8: round k has 2^k senders.
TEST(Topology, TreesLeaveLinksIdle) {
  const Schedule tree = build(Operation::Broadcast, Algorithm::Mst, {.ranks = 8});
  EXPECT_EQ(count_traffic(tree, {8}).busy_senders, (std::vector<Rank>{1, 2, 4}));
  const double used = 7.0 / (3 * 4);  // (p-1) messages of the L * floor(p/2) possible ones
  double senders = 0;
  for (const Rank busy : count_traffic(tree, {8}).busy_senders) {
    senders += busy;
  }
  EXPECT_DOUBLE_EQ(senders / (3 * 4), used);
  EXPECT_LT(time_on(linear_array(8), tree, {8}, kWormhole).utilization, 0.5);

  const Schedule ring = build(Operation::Allreduce, Algorithm::Ring, {.ranks = 8});
  const LinkTiming on_ring = time_on(ring_network(8), ring, {8}, kWormhole);
  for (const StepLoad& load : on_ring.steps) {
    EXPECT_EQ(load.busy_links, 8);  // all links of the direction that the ring uses
  }
  EXPECT_DOUBLE_EQ(on_ring.utilization, 0.5);  // the other direction stays idle
  EXPECT_DOUBLE_EQ(time_on(linear_array(8), ring, {8}, kWormhole).utilization,
                   1.0);  // the wrap-around uses it
}

// Without conflicts the link-level time is the one-port time.
TEST(Topology, MatchesOnePortModelWithoutConflicts) {
  const CostModel costs = CostModel::uniform({1e-6}, {1e-9}, {1e-10});
  for (const Rank p : {2, 5, 8, 12}) {
    for (const Operation operation : {Operation::Allreduce, Operation::Allgather}) {
      const Schedule ring = build(operation, Algorithm::Ring, {.ranks = p});
      const double expected = time_schedule(ring, {p * 100}, costs).seconds.count;
      EXPECT_NEAR(time_on(linear_array(p), ring, {p * 100}, kWormhole).seconds.count, expected,
                  1e-12 * expected);
    }
    const Schedule flat = build(Operation::Reduce, Algorithm::Flat, {.ranks = p});
    const double expected = time_schedule(flat, {800}, costs).seconds.count;
    EXPECT_NEAR(time_on(fat_tree(p, p, 1), flat, {800}, kWormhole).seconds.count, expected,
                1e-12 * expected);
  }
}

// A rank has one port per direction, however many links it has.
TEST(Topology, MessagesOfOneRankAreSerialized) {
  const Schedule flat = build(Operation::Broadcast, Algorithm::Flat, {.ranks = 3, .root = 1});
  EXPECT_NEAR(time_on(linear_array(3), flat, {1000}, kWormhole).seconds.count, 2 * 2e-6, 1e-15);
}

TEST(Topology, TransfersShareLinkBandwidth) {
  // Pairwise exchange over one slow port per node: all four ranks of a node go through it at once.
  const Schedule exchange = build(Operation::Alltoall, Algorithm::Pairwise, {.ranks = 8});
  const LinkTiming timing = time_on(node_cluster(2, 4, 10), exchange, {8 * 1000}, kWormhole);
  EXPECT_EQ(timing.steps[3].max_messages, 4);  // shift by 4: every message crosses
  EXPECT_NEAR(timing.steps[3].seconds.count, 1e-6 + 4 * 1000 * 10e-9, 1e-15);
}

// The traffic between nodes decides.
TEST(Topology, TwoLevelsBeatFlatRingOnNodes) {
  const Topology cluster = node_cluster(4, 4, 10);
  const Schedule flat = build(Operation::Allreduce, Algorithm::RecursiveDoubling, {.ranks = 16});
  const Schedule two =
      build(Operation::Allreduce, Algorithm::TwoLevel, {.ranks = 16, .ranks_per_node = 4});
  const Payload payload{16 << 20};
  EXPECT_LT(time_on(cluster, two, payload, kWormhole).seconds,
            time_on(cluster, flat, payload, kWormhole).seconds);
}

TEST(Topology, MeshAndTorusRouteAlongRowsThenColumns) {
  const Topology mesh = mesh_network(3, 4);
  EXPECT_EQ(mesh.links.size(), 2U * (3 * 3 + 2 * 4));
  EXPECT_EQ(mesh.route(0, 11).size(), 5U);
  const Topology torus = torus_network(3, 4);
  EXPECT_EQ(torus.links.size(), 2U * (3 * 4 + 3 * 4));
  EXPECT_EQ(torus.route(0, 11).size(), 2U);
  for (const Topology& topology :
       {mesh, torus, fat_tree(12, 4, 2), node_cluster(3, 4, 8), ring_network(12)}) {
    for (Rank a = 0; a < 12; ++a) {
      for (Rank b = 0; b < 12; ++b) {
        int at = a;
        for (const int link : topology.route(a, b)) {
          EXPECT_EQ(topology.links[link].from, at);
          at = topology.links[link].to;
        }
        EXPECT_EQ(at, b) << topology.name;
      }
    }
  }
}

TEST(Topology, ParsesNamesAndRejectsMismatchedSizes) {
  EXPECT_EQ(parse_topology("linear", 5).links.size(), 8U);
  EXPECT_EQ(parse_topology("ring", 5).links.size(), 10U);
  EXPECT_EQ(parse_topology("linear:half", 5).links.size(), 4U);
  EXPECT_EQ(parse_topology("mesh:2x4", 8).ranks, 8);
  EXPECT_EQ(parse_topology("fat-tree:4x2", 8).ranks, 8);
  EXPECT_EQ(parse_topology("nodes:2x4x20", 8).name, "2 nodes of 4, network 20 times slower");
  for (const char* text : {"", "cube", "mesh", "mesh:3x3", "torus:0x8", "nodes:2", "nodes:2x4x3x1",
                           "linear:3", "mesh:half", "mesh:axb"}) {
    EXPECT_THROW((void)parse_topology(text, 8), Error) << text;
  }
}

}  // namespace
}  // namespace trireme
