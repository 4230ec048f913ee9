// `trireme ps status` beside a real cluster: people's text, JSON, and OpenMetrics that a strict parser accepts.
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "ps/process_cluster.h"
#include "ps/run_program.h"

namespace trireme::ps {
namespace {

std::string run_status(const std::string& address, const std::string& options) {
  return run_program(fmt::format("ps status --coordinator {} {}", address, options));
}

/// Parses OpenMetrics text: a TYPE line opens a family, whose samples follow it directly; counters end in _total; labels
/// are quoted; the last line is # EOF. Values by name and labels, as written.
class OpenMetrics {
 public:
  explicit OpenMetrics(const std::string& text) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      EXPECT_FALSE(is_ended_) << "after # EOF: " << line;
      take(line);
    }
    EXPECT_TRUE(is_ended_) << "# EOF is missing";
  }
  [[nodiscard]] double at(const std::string& sample) const {
    const auto found = values_.find(sample);
    EXPECT_NE(found, values_.end()) << sample;
    return found == values_.end() ? -1 : found->second;
  }

 private:
  void take(const std::string& line) {
    static const std::regex type_pattern("# TYPE ([a-z_]+) (counter|gauge)");
    static const std::regex help_pattern("# HELP ([a-z_]+) .+");
    static const std::regex sample_pattern(
        R"re(([a-z_]+)(\{[a-z]+="([^"\\]|\\.)*"(,[a-z]+="([^"\\]|\\.)*")*\}) ([-+0-9.e]+))re");
    std::smatch match;
    if (line == "# EOF") {
      is_ended_ = true;
    } else if (std::regex_match(line, match, type_pattern)) {
      family_ = match[1];
      kind_ = match[2];
      EXPECT_TRUE(families_.insert(family_).second) << "twice: " << line;
    } else if (std::regex_match(line, match, help_pattern)) {
      EXPECT_EQ(match[1], family_);
    } else if (std::regex_match(line, match, sample_pattern)) {
      EXPECT_EQ(match[1], family_ + (kind_ == "counter" ? "_total" : "")) << line;
      const std::string name = match[1].str() + match[2].str();
      EXPECT_TRUE(values_.emplace(name, std::stod(match[6])).second) << "twice: " << line;
    } else {
      ADD_FAILURE() << "not OpenMetrics: " << line;
    }
  }

  std::string family_;
  std::string kind_;
  std::set<std::string> families_;
  std::map<std::string, double> values_;
  bool is_ended_ = false;
};

TEST(PsStatus, ShowsServersTablesAndShards) {
  const std::string address = ProcessCluster::free_address();
  const ProcessCluster cluster(address, {.servers = 2, .replicas = 2});
  ParameterClient client(cluster.client_options());
  (void)client.create_table({.name = "weights", .keys = 12, .width = 5});
  const std::string text = run_status(address, "");
  EXPECT_NE(text.find("table weights: 12 keys of 5 floats, add, async"), std::string::npos) << text;
  EXPECT_NE(text.find("server 1 at 127.0.0.1:"), std::string::npos) << text;
  const Json json = Json::parse(run_status(address, "--json"));
  EXPECT_TRUE(json.at("healthy").is_boolean());
  EXPECT_EQ(json.at("servers").size(), 2U);
  ASSERT_EQ(json.at("shards").size(), 6U);
  EXPECT_EQ(json.at("shards")[0].at("chain").size(), 2U);
}

TEST(PsStatus, ShowsReactorsOfEachServer) {
  const std::string address = ProcessCluster::free_address();
  const ProcessCluster cluster(address, {.servers = 2, .reactors = 2, .replicas = 2});
  ParameterClient client(cluster.client_options());
  const std::string text = run_status(address, "");
  for (const char* node : {"server 0 at ", "server 0.1 at ", "server 1 at ", "server 1.1 at "}) {
    EXPECT_NE(text.find(node), std::string::npos) << text;
  }
  const Json json = Json::parse(run_status(address, "--json"));
  EXPECT_EQ(json.at("servers").size(), 4U);
  for (const Json& shard : json.at("shards")) {
    EXPECT_EQ(shard.at("chain").size(), 2U);
    EXPECT_NE(shard.at("chain")[0], shard.at("chain")[1]);
    EXPECT_EQ(shard.at("reactors").size(), 2U);
  }
  const OpenMetrics metrics(run_status(address, "--metrics"));
  EXPECT_EQ(metrics.at("trireme_ps_up{node=\"server 1.1\"}"), 1);
  EXPECT_EQ(metrics.at("trireme_ps_servers_alive{node=\"coordinator\"}"), 2);
}

TEST(PsStatus, PrintsMetricsOfEveryNodeAsOpenMetrics) {
  const std::string address = ProcessCluster::free_address();
  const ProcessCluster cluster(address, {.servers = 2, .replicas = 2});
  ParameterClient client(cluster.client_options());
  // A name with characters that must be escaped.
  const TableHandle table = client.create_table(
      {.name = "a \"table\"\\\n", .keys = 6, .width = 10, .consistency = Consistency::Ssp});
  const std::vector<float> ones(60, 1.0F);
  constexpr int kPushes = 7;
  for (int i = 0; i < kPushes; ++i) {
    client.start_iteration(table);
    client.push(table, Keys::range(0, 6), ones).wait();
    client.complete_iteration(table);
  }
  client.start_iteration(table);
  const OpenMetrics metrics(run_status(address, "--metrics"));
  double pushes = 0;
  double forwards = 0;
  double bytes = 0;
  double tails = 0;
  for (const std::string node : {"server 0", "server 1"}) {
    EXPECT_EQ(metrics.at(fmt::format("trireme_ps_up{{node=\"{}\"}}", node)), 1);
    const auto received = [&](const std::string& message) {
      return metrics.at(fmt::format(
          "trireme_ps_messages_received_total{{node=\"{}\",message=\"{}\"}}", node, message));
    };
    pushes += received("push");
    forwards += received("forward");
    bytes += metrics.at(fmt::format("trireme_ps_values_received_bytes_total{{node=\"{}\"}}", node));
    tails += metrics.at(fmt::format("trireme_ps_replicas{{node=\"{}\",role=\"tail\"}}", node));
  }
  // At least, for what has no answer in time is sent again: 6 shards each time, 40 bytes each, to the head and the tail.
  EXPECT_GE(pushes, 6 * kPushes);
  EXPECT_GE(forwards, 6 * kPushes);
  EXPECT_GE(bytes, 2 * 240 * kPushes);
  EXPECT_EQ(tails, 6);
  EXPECT_EQ(metrics.at("trireme_ps_servers_alive{node=\"coordinator\"}"), 2);
  EXPECT_EQ(metrics.at("trireme_ps_slowest_clock{node=\"coordinator\","
                       "table=\"a \\\"table\\\"\\\\\\n\"}"),
            kPushes);
}

}  // namespace
}  // namespace trireme::ps
