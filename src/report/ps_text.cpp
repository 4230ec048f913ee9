#include "report/ps_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/json.h"

namespace trireme::report {
namespace {

double milliseconds(Seconds time) {
  constexpr double kMilli = 1000;
  return time.count * kMilli;
}

}  // namespace

std::string ps_status_text(const ps::ClusterStatus& status) {
  std::string text = status.is_healthy ? "healthy: every shard has all its replicas\n"
                                       : "recovering: not every shard has all its replicas\n";
  for (const std::string& server : status.servers) {
    text += server + "\n";
  }
  for (const std::string& table : status.tables) {
    text += fmt::format("table {}\n", table);
  }
  for (std::size_t i = 0; i < status.shards.size(); ++i) {
    const ps::ShardPlace& place = status.shards[i];
    text += fmt::format(
        "shard {:>3}  epoch {:>4}  servers {}{}\n", i, place.epoch, fmt::join(place.chain, " > "),
        place.learners.empty() ? "" : fmt::format("  + {}", fmt::join(place.learners, " ")));
  }
  return text;
}

std::string ps_status_json(const ps::ClusterStatus& status) {
  Json json{{"healthy", status.is_healthy},
            {"servers", status.servers},
            {"tables", status.tables},
            {"shards", Json::array()}};
  for (const ps::ShardPlace& place : status.shards) {
    json["shards"].push_back(
        {{"epoch", place.epoch}, {"chain", place.chain}, {"learners", place.learners}});
  }
  return json.dump(2) + "\n";
}

std::string ps_bench_text(const std::vector<ps::PsBenchRow>& rows, std::size_t depth) {
  std::string text =
      "push+pull of one vector, operations per second; the floor is a bare TCP loop that also "
      "adds\n";
  text +=
      fmt::format("{:>10} {:>10} {:>10} {:>8} {:>14} {:>14} {:>8} {:>10}\n", "size", "floor", "one",
                  "share", "floor, deep", fmt::format("{} deep", depth), "share", "GB/s");
  for (const ps::PsBenchRow& row : rows) {
    text += fmt::format(
        "{:>10} {:>10.0f} {:>10.0f} {:>7.0f}% {:>14.0f} {:>14.0f} {:>7.0f}% {:>10.2f}\n",
        to_text(row.size), row.floor_per_second, row.push_pull_per_second,
        100 * row.push_pull_per_second / row.floor_per_second, row.pipelined_floor_per_second,
        row.pipelined_per_second, 100 * row.pipelined_per_second / row.pipelined_floor_per_second,
        2e-9 * static_cast<double>(row.size.count) * row.pipelined_per_second);
  }
  return text;
}

std::string ps_bench_json(const std::vector<ps::PsBenchRow>& rows) {
  Json json = Json::array();
  for (const ps::PsBenchRow& row : rows) {
    json.push_back({{"bytes", row.size.count},
                    {"floor_per_second", row.floor_per_second},
                    {"push_pull_per_second", row.push_pull_per_second},
                    {"pipelined_floor_per_second", row.pipelined_floor_per_second},
                    {"pipelined_per_second", row.pipelined_per_second}});
  }
  return json.dump(2) + "\n";
}

std::string ps_chaos_text(const ps::ChaosResult& result) {
  std::string text = fmt::format("{} kills and {} pauses in {}\n\n", result.kills, result.pauses,
                                 to_text(result.elapsed));
  text += fmt::format("{:<34} {:>10} {:>12}\n", "", "promised", "observed");
  text += fmt::format("{:<34} {:>10} {:>12}\n", "acknowledged pushes", "", result.acknowledged);
  text += fmt::format("{:<34} {:>10} {:>12}\n", "lost", 0, result.lost);
  text += fmt::format("{:<34} {:>10} {:>12}\n", "doubled", 0, result.doubled);
  text += fmt::format("{:<34} {:>10} {:>9.0f} ms\n", "failover, median", "",
                      milliseconds(result.failover_p50));
  text += fmt::format("{:<34} {:>10} {:>9.0f} ms\n", "failover, 99th percentile", "",
                      milliseconds(result.failover_p99));
  text +=
      fmt::format("{:<34} {:>10} {:>9.2f} ms\n", "push, median", "", milliseconds(result.push_p50));
  return text;
}

std::string ps_chaos_json(const ps::ChaosResult& result) {
  const Json json{{"kills", result.kills},
                  {"pauses", result.pauses},
                  {"acknowledged", result.acknowledged},
                  {"lost", result.lost},
                  {"doubled", result.doubled},
                  {"failover_p50_ms", milliseconds(result.failover_p50)},
                  {"failover_p99_ms", milliseconds(result.failover_p99)},
                  {"push_p50_ms", milliseconds(result.push_p50)},
                  {"elapsed_s", result.elapsed.count}};
  return json.dump(2) + "\n";
}

}  // namespace trireme::report
