#include <functional>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "damage.h"
#include "expect_error.h"
#include "trireme/cluster.h"
#include "trireme/error.h"

namespace trireme {
namespace {

std::string parse_failure(const std::string& text) {
  return error_message(ErrorKind::Input, [&] { (void)parse_cluster(text); });
}

class RandomCluster {
 public:
  explicit RandomCluster(unsigned seed) : random_(seed) {}

  Cluster make() {
    Cluster cluster{.name = word(),
                    .nodes = 1 + below(5),
                    .devices_per_node = 1 + below(9),
                    .device = device(),
                    .links = {},
                    .gamma = {number()},
                    .host = below(2) == 0 ? std::nullopt : std::optional(host()),
                    .notes = {}};
    if (cluster.devices_per_node > 1) {
      cluster.links.push_back(link("node", cluster.devices_per_node));
    }
    if (cluster.nodes > 1) {
      cluster.links.push_back(link("network", cluster.devices()));
    }
    for (int i = below(3); i > 0; --i) {
      cluster.notes.push_back(word());
    }
    return cluster;
  }

 private:
  int below(int limit) { return static_cast<int>(random_() % static_cast<unsigned>(limit)); }
  std::vector<MemoryCost> curve() {
    std::vector<MemoryCost> points;
    for (int i = 1 + below(3); i > 0; --i) {
      const std::int64_t before = points.empty() ? 0 : points.back().footprint.count;
      points.push_back({{before + 1 + below(1000)}, {number()}, {number()}});
    }
    return points;
  }
  std::vector<MessagePoint> points() {
    std::vector<MessagePoint> points;
    for (int i = below(4); i > 0; --i) {
      const std::int64_t before = points.empty() ? 0 : points.back().bytes.count;
      points.push_back({{before + 1 + below(1000)}, {number()}, {number()}});
    }
    return points;
  }
  HostCosts host() {
    HostCosts costs{
        .cores = 1 + below(64),
        .messages = {{word(), {number()}, {number()}, points()}},
        .combining = {{"f32", {number()}}},
        .waits = {{2, {number()}, {number()}}, {4, {number()}, {number()}}},
        .copy = curve(),
        .combine = curve(),
        .stage = {number()},
        .fetch = {number()},
        .cached = below(2) == 0 ? std::nullopt : std::optional(PassCost{{number()}, {number()}}),
        .peek = {"system", {number()}, {number()}},
        .compute = below(2) == 0 ? std::nullopt : std::optional(compute())};
    return costs;
  }
  ComputeCosts compute() {
    ComputeCosts costs{.source = word(), .settings = {}};
    for (int ranks = 1 + below(3); ranks > 0; --ranks) {
      ComputeSetting setting{.ranks = ranks, .threads = 1 + below(8), .kernels = {}};
      for (int i = below(4); i > 0; --i) {
        setting.kernels.push_back({.kernel = word(),
                                   .dtype = "f32",
                                   .call = {number()},
                                   .flop = {number()},
                                   .first = {number()},
                                   .others = {number()},
                                   .results = {number()},
                                   .samples = below(100),
                                   .error = number()});
      }
      costs.settings.push_back(setting);
    }
    return costs;
  }
  double number() {
    return std::ldexp(1 + static_cast<double>(random_()) / 4294967296.0, below(200) - 100);
  }
  std::string word() {
    static const std::vector<std::string> letters{"a",  "B", "0", " ", "\"", "\\",
                                                  "\n", "µ", "…", "{", ","};
    std::string word = "x";
    for (int i = below(8); i > 0; --i) {
      word += letters[static_cast<std::size_t>(below(static_cast<int>(letters.size())))];
    }
    return word;
  }
  Link link(const char* level, int reach) {
    return {
        .level = level, .reach = reach, .alpha = {number()}, .beta = {number()}, .source = word()};
  }
  DeviceSpec device() {
    DeviceSpec device{
        .name = word(), .memory = {}, .memory_bandwidth = {}, .peaks = {}, .source = word()};
    if (below(2) == 0) {
      device.memory = Bytes{1 + static_cast<std::int64_t>(random_()) * 123456789};
    }
    if (below(2) == 0) {
      device.memory_bandwidth = ByteRate{number()};
    }
    for (const char* type : {"f32", "bf16", "i8"}) {
      const double dense = number();
      if (below(2) == 0) {
        device.peaks.push_back({.dtype = type, .dense = FlopRate{dense}, .sparse = {}});
      } else if (below(2) == 0) {
        device.peaks.push_back(
            {.dtype = type, .dense = FlopRate{dense}, .sparse = FlopRate{2 * dense}});
      }
    }
    return device;
  }

  std::mt19937 random_;
};

TEST(ClusterText, RoundTripsAnyCluster) {
  RandomCluster clusters(11);
  for (int i = 0; i < 500; ++i) {
    const Cluster cluster = clusters.make();
    ASSERT_TRUE(problems(cluster).empty()) << problems(cluster).front();
    ASSERT_EQ(parse_cluster(to_text(cluster)), cluster) << to_text(cluster);
  }
}

TEST(ClusterText, RoundTripsEveryPreset) {
  for (const std::string& name : cluster_preset_names()) {
    const Cluster cluster = cluster_preset(name);
    EXPECT_EQ(parse_cluster(to_text(cluster)), cluster);
  }
}

TEST(ClusterText, AcceptsHandWrittenText) {
  const Cluster cluster = parse_cluster(R"({
    "name": "mine", "nodes": 2, "devices_per_node": 1,
    "device": {"name": "box", "memory_bytes": 16e9, "peak_flops_per_second": {"bf16": {"dense": 1e14}}},
    "links": [{"level": "network", "reach": 2, "alpha_seconds": 2e-5, "beta_seconds_per_byte": 8e-10}],
    "gamma_seconds_per_byte": 0
  })");
  EXPECT_EQ(cluster.device.memory, Bytes{16'000'000'000});
  EXPECT_EQ(cluster.device.peak("bf16"), FlopRate{1e14});
  EXPECT_EQ(cluster.device.peak("bf16", Sparsity::Structured), std::nullopt);
  EXPECT_EQ(cluster.device.memory_bandwidth, std::nullopt);
  EXPECT_EQ(cluster.link_between(0, 1).alpha, Seconds{2e-5});
}

TEST(ClusterText, ErrorsNameFieldOrLine) {
  const std::string good = to_text(cluster_preset("laptop"));
  ASSERT_NO_THROW((void)parse_cluster(good));
  EXPECT_EQ(parse_failure(replaced(good, "\"nodes\"", "\"node\"")),
            "cluster: unknown field 'node'; did you mean 'nodes'?");
  EXPECT_EQ(parse_failure(replaced(good, "\"nodes\": 1", "\"nodes\": \"1\"")),
            "cluster: nodes is not an integer of at most 63 bits");
  EXPECT_EQ(parse_failure(replaced(good, "\"nodes\": 1", "\"nodes\": 3000000000")),
            "cluster: nodes is 3000000000, out of range");
  EXPECT_EQ(parse_failure(replaced(good, "\"nodes\": 1,", "")), "cluster: nodes is missing");
  EXPECT_EQ(parse_failure(replaced(good, "\"nodes\": 1", "\"nodes\": 0")),
            "cluster: nodes is 0; it must be at least 1");
  EXPECT_EQ(parse_failure(replaced(good, "\"alpha_seconds\": 1e-06", "\"alpha_seconds\": null")),
            "cluster: links[0].alpha_seconds is not a number");
  EXPECT_EQ(parse_failure(replaced(good, "alpha_seconds", "alpha_second")),
            "cluster: unknown field 'links[0].alpha_second'; did you mean 'alpha_seconds'?");
  EXPECT_EQ(parse_failure(replaced(good, "\"device\": {", "\"device\": 5, \"links\": {")),
            "cluster: field 'links' is given twice");
  EXPECT_EQ(
      parse_failure("{\"name\": \"x\",\n \"nodes\" 1}").rfind("cluster: line 2, column 10: ", 0),
      0U);
  EXPECT_EQ(parse_failure("[]"), "cluster: the document is not an object { … }");
  EXPECT_EQ(parse_failure(replaced(to_text(cluster_preset("dgx-h100")), "\"bf16\"", "\"bf1\"")),
            "cluster: unknown field 'device.peak_flops_per_second.bf1'; did you mean 'bf16'?");
}

/// Any input gives either a verified cluster or an Error.
TEST(ClusterText, SurvivesDamagedDocuments) {
  const std::string good = to_text(cluster_preset("dgx-h100:2"));
  std::mt19937 random(5);
  int refused = 0;
  for (int i = 0; i < 5000; ++i) {
    const std::string text = damaged(good, random);
    try {
      ASSERT_TRUE(problems(parse_cluster(text)).empty());
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 2500);
}

TEST(MixedClusters, TextRoundTrips) {
  const Cluster cluster = cluster_preset("2xdgx-a100+dgx-h100");
  EXPECT_EQ(parse_cluster(to_text(cluster)), cluster);
  Cluster priced = cluster;
  priced.kinds[1].device.price = Price{2.5};
  EXPECT_EQ(parse_cluster(to_text(priced)), priced);
}

TEST(MixedClusters, UseWeakestOfTheirKinds) {
  const Cluster cluster = cluster_preset("2xdgx-a100+dgx-h100");
  const Cluster slow = cluster_preset("dgx-a100:3");
  EXPECT_EQ(cluster.devices(), 24);
  EXPECT_EQ(cluster.device.peak("bf16"), slow.device.peak("bf16"));
  EXPECT_EQ(cluster.device.peak("f8"), std::nullopt);  // an A100 has none
  EXPECT_EQ(cluster.device.memory, slow.device.memory);
  EXPECT_EQ(cluster.links[0].beta, slow.links[0].beta);
  EXPECT_EQ(cluster.links[1].beta, slow.links[1].beta);
  EXPECT_EQ(nodes_of_kind(cluster, 1).device, device_preset("h100"));
  EXPECT_EQ(nodes_of_kind(cluster, 0).devices(), 16);
  EXPECT_TRUE(problems(nodes_of_kind(cluster, 1)).empty());
}

TEST(MixedClusters, ReportErrors) {
  const std::string text = to_text(cluster_preset("2xdgx-a100+dgx-h100"));
  EXPECT_NE(parse_failure(replaced(text, "\"nodes\": 3", "\"nodes\": 4")).find("joined"),
            std::string::npos);
  EXPECT_NE(parse_failure(replaced(text, "\"kinds\"", "\"links\": [], \"kinds\"")).find("links"),
            std::string::npos);
  EXPECT_NE(
      parse_failure(replaced(text, "\"level\": \"network\"", "\"level\": \"net\"")).find("levels"),
      std::string::npos);
  Cluster cluster = cluster_preset("2xdgx-a100+dgx-h100");
  cluster.device.memory = Bytes{1};
  EXPECT_NE(problems(cluster).front().find("weakest"), std::string::npos);
}

}  // namespace
}  // namespace trireme
