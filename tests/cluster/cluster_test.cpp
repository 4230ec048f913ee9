#include "trireme/cluster.h"

#include <functional>
#include <limits>

#include <gtest/gtest.h>

#include "trireme/error.h"

namespace trireme {
namespace {

/// 2 racks of 2 nodes of 4 devices: three levels.
Cluster three_levels() {
  return {
      .name = "three",
      .nodes = 4,
      .devices_per_node = 4,
      .device = {.name = "d",
                 .memory = Bytes{1000},
                 .memory_bandwidth = ByteRate{1e9},
                 .peaks = {{.dtype = "f32", .dense = FlopRate{1e12}, .sparse = std::nullopt}},
                 .source = ""},
      .links = {{.level = "node", .reach = 4, .alpha = {1e-6}, .beta = {1e-11}, .source = ""},
                {.level = "rack", .reach = 8, .alpha = {2e-6}, .beta = {1e-10}, .source = ""},
                {.level = "network", .reach = 16, .alpha = {5e-6}, .beta = {1e-9}, .source = ""}},
      .gamma = {1e-12},
      .notes = {}};
}

TEST(Cluster, FindsInnermostLinkBetweenTwoRanks) {
  const Cluster cluster = three_levels();
  ASSERT_TRUE(problems(cluster).empty()) << problems(cluster).front();
  EXPECT_EQ(cluster.devices(), 16);
  EXPECT_EQ(cluster.node_of(7), 1);
  for (int a = 0; a < 16; ++a) {
    for (int b = 0; b < 16; ++b) {
      if (a != b) {
        const char* level = a / 4 == b / 4 ? "node" : a / 8 == b / 8 ? "rack" : "network";
        EXPECT_EQ(cluster.link_between(a, b).level, level) << a << " " << b;
      }
    }
  }
}

TEST(Cluster, MessageCostDependsOnLink) {
  const Cluster cluster = cluster_preset("figure-4x4");
  const Link& fast = cluster.link_between(0, 3);
  const Link& slow = cluster.link_between(3, 4);
  EXPECT_LT(fast.alpha.count + 1e6 * fast.beta.count, slow.alpha.count + 1e6 * slow.beta.count);
}

TEST(Cluster, RejectsMissingLinks) {
  const Cluster cluster = three_levels();
  EXPECT_THROW((void)cluster.link_between(0, 16), Error);
  EXPECT_THROW((void)cluster.link_between(-1, 0), Error);
  EXPECT_THROW((void)cluster.link_between(3, 3), Error);
}

TEST(Cluster, OneDeviceNeedsNoLink) {
  Cluster cluster = three_levels();
  cluster.nodes = 1;
  cluster.devices_per_node = 1;
  cluster.links.clear();
  EXPECT_TRUE(problems(cluster).empty());
}

TEST(MessageCost, InterpolatesLinearly) {
  MessageCost cost{"shm", {1}, {2}, {}};
  EXPECT_EQ(cost.at({10}), (MessagePoint{{10}, {21}, {21}}));  // alpha and beta
  cost.points = {{{10}, {1}, {2}}, {{20}, {3}, {5}}, {{40}, {4}, {6}}};
  EXPECT_EQ(cost.at({10}), cost.points[0]);
  EXPECT_EQ(cost.at({15}), (MessagePoint{{15}, {2}, {3.5}}));
  EXPECT_EQ(cost.at({40}), cost.points[2]);
  EXPECT_EQ(cost.at({80}), (MessagePoint{{80}, {6}, {8}}));  // extrapolated from the last two
  EXPECT_EQ(cost.at({0}), (MessagePoint{{0}, {1}, {2}}));    // as the shortest
}

struct Flaw {
  const char* words;  ///< what problems() must say
  std::function<void(Cluster&)> plant;
};

TEST(Cluster, VerifyFindsEveryPlantedFlaw) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<Flaw> flaws{
      {"no name", [](Cluster& c) { c.name.clear(); }},
      {"nodes is 0", [](Cluster& c) { c.nodes = 0; }},
      {"devices_per_node is -1", [](Cluster& c) { c.devices_per_node = -1; }},
      {"more than 1048576",
       [](Cluster& c) { c.nodes = c.devices_per_node = std::numeric_limits<int>::max(); }},
      {"device has no name", [](Cluster& c) { c.device.name.clear(); }},
      {"memory is 0", [](Cluster& c) { c.device.memory = Bytes{0}; }},
      {"memory bandwidth is nan", [nan](Cluster& c) { c.device.memory_bandwidth = ByteRate{nan}; }},
      {"unknown number type 'fp33'", [](Cluster& c) { c.device.peaks[0].dtype = "fp33"; }},
      {"given twice", [](Cluster& c) { c.device.peaks.push_back(c.device.peaks[0]); }},
      {"is empty", [](Cluster& c) { c.device.peaks[0].dense.reset(); }},
      {"peak of f32 is 0", [](Cluster& c) { c.device.peaks[0].dense = FlopRate{0}; }},
      {"swapped", [](Cluster& c) { c.device.peaks[0].sparse = FlopRate{1}; }},
      {"no level name", [](Cluster& c) { c.links[0].level.clear(); }},
      {"'node' is given twice", [](Cluster& c) { c.links[1].level = "node"; }},
      {"reach 4 is not a larger multiple of 4", [](Cluster& c) { c.links[1].reach = 4; }},
      {"reach 12 joins parts",
       [](Cluster& c) { c.links[0].reach = 12, c.devices_per_node = 8, c.nodes = 3; }},
      {"reach 32 is more", [](Cluster& c) { c.links[2].reach = 32; }},
      {"8 of 16 devices are joined; add a link with reach 16",
       [](Cluster& c) { c.links.pop_back(); }},
      {"1 of 16 devices are joined", [](Cluster& c) { c.links.clear(); }},
      {"alpha is -1 s", [](Cluster& c) { c.links[1].alpha = {-1}; }},
      {"beta is nan s", [nan](Cluster& c) { c.links[1].beta = {nan}; }},
      {"host: cores is 0", [](Cluster& c) { c.host = HostCosts{}; }},
      {"host: there are no waits", [](Cluster& c) { c.host = HostCosts{}; }},
      {"host: copy has no points", [](Cluster& c) { c.host = HostCosts{}; }},
      {"waits of 2 ranks after those of 4",
       [](Cluster& c) {
         c.host = HostCosts{.waits = {{4, {}, {}}, {2, {}, {}}}};
       }},
      {"combine: a footprint of 8 bytes after 8",
       [](Cluster& c) {
         c.host = HostCosts{.combine = {{{8}, {}, {}}, {{8}, {}, {}}}};
       }},
      {"host: compute has no settings",
       [](Cluster& c) { c.host = HostCosts{.compute = ComputeCosts{}}; }},
      {"host: gelu of f32 costs nothing",
       [](Cluster& c) {
         c.host = HostCosts{.compute = ComputeCosts{"", {{1, 1, {{"gelu", "f32"}}}}}};
       }},
      {"host: compute: 0 ranks with 1 threads",
       [](Cluster& c) {
         c.host = HostCosts{.compute = ComputeCosts{"", {{0, 1, {}}}}};
       }},
      {"host: fetch is -1 s", [](Cluster& c) { c.host = HostCosts{.fetch = {-1}}; }},
      {"host: beta of tcp is nan s",
       [nan](Cluster& c) {
         c.host = HostCosts{.messages = {{"tcp", {}, {nan}}}};
       }},
      {"shm: a message of 8 bytes after one of 8",
       [](Cluster& c) {
         c.host = HostCosts{.messages = {{"shm", {}, {}, {{{8}, {}, {}}, {{8}, {}, {}}}}}};
       }},
      {"exchange of shm is -1 s",
       [](Cluster& c) {
         c.host = HostCosts{.messages = {{"shm", {}, {}, {{{8}, {}, {-1}}}}}};
       }},
      {"gamma is inf s", [](Cluster& c) { c.gamma = {std::numeric_limits<double>::infinity()}; }},
  };
  for (const Flaw& flaw : flaws) {
    Cluster cluster = three_levels();
    flaw.plant(cluster);
    std::string all;
    for (const std::string& problem : problems(cluster)) {
      all += problem + "\n";
    }
    EXPECT_NE(all.find(flaw.words), std::string::npos)
        << "wanted: " << flaw.words << "\ngot: " << all;
  }
}

TEST(Rates, PrintInMostReadableUnit) {
  EXPECT_EQ(to_text(FlopRate{989.4e12}), "989.4 TFLOP/s");
  EXPECT_EQ(to_text(FlopRate{1978.9e12}), "1.9789 PFLOP/s");
  EXPECT_EQ(to_text(ByteRate{3.35e12}), "3.35 TB/s");
  EXPECT_EQ(to_text(ByteRate{999.999e9}), "1 TB/s");
  EXPECT_EQ(to_text(ByteRate{0}), "0 B/s");
}

}  // namespace
}  // namespace trireme
