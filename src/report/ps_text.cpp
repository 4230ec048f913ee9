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

Json optional_number(const std::optional<double>& number) {
  return number ? Json(*number) : Json();
}

}  // namespace

std::string ps_status_text(const ps::ClusterStatus& status) {
  std::string text = status.is_healthy ? "healthy: every shard has all its replicas\n"
                                       : "recovering: not every shard has all its replicas\n";
  for (const std::string& problem : status.problems) {
    text += problem + "\n";
  }
  for (const std::string& server : status.servers) {
    text += server + "\n";
  }
  for (const std::string& table : status.tables) {
    text += fmt::format("table {}\n", table);
  }
  for (std::size_t i = 0; i < status.shards.size(); ++i) {
    const ps::ShardPlace& place = status.shards[i];
    text += fmt::format(
        "shard {:>3}  epoch {:>4}  servers {}{}\n", i, place.epoch, ps::to_text(place.chain),
        place.learners.empty() ? "" : fmt::format("  + {}", ps::to_text(place.learners)));
  }
  return text;
}

std::string ps_status_json(const ps::ClusterStatus& status) {
  Json json{{"healthy", status.is_healthy},
            {"problems", status.problems},
            {"servers", status.servers},
            {"tables", status.tables},
            {"shards", Json::array()}};
  const auto numbers = [](const std::vector<ps::ServerReactor>& places,
                          std::uint64_t ps::ServerReactor::*number) {
    Json list = Json::array();
    for (const ps::ServerReactor& place : places) {
      list.push_back(place.*number);
    }
    return list;
  };
  for (const ps::ShardPlace& place : status.shards) {
    json["shards"].push_back({{"epoch", place.epoch},
                              {"chain", numbers(place.chain, &ps::ServerReactor::server)},
                              {"reactors", numbers(place.chain, &ps::ServerReactor::reactor)},
                              {"learners", numbers(place.learners, &ps::ServerReactor::server)}});
  }
  return json.dump(2) + "\n";
}

namespace {

/// As OpenMetrics wants it between quotes.
std::string escaped_label(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
    }
    out += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return out;
}

std::string metric_line(const ps::MetricFamily& family, std::string_view node,
                        const ps::MetricSample& sample) {
  const std::string label =
      family.label.empty() ? ""
                           : fmt::format(",{}=\"{}\"", family.label, escaped_label(sample.label));
  return fmt::format("trireme_ps_{}{}{{node=\"{}\"{}}} {}\n", family.name,
                     family.kind == ps::MetricKind::Counter ? "_total" : "", escaped_label(node),
                     label, sample.value);
}

}  // namespace

std::string ps_metrics_text(const std::vector<ps::NodeMetrics>& nodes) {
  std::string text;
  for (const ps::MetricFamily& family : ps::metric_families()) {
    const bool is_counter = family.kind == ps::MetricKind::Counter;
    text += fmt::format("# TYPE trireme_ps_{} {}\n# HELP trireme_ps_{} {}\n", family.name,
                        is_counter ? "counter" : "gauge", family.name, family.help);
    for (const ps::NodeMetrics& node : nodes) {
      if (family.name == "up") {
        text += metric_line(family, node.node, {"up", "", node.is_up ? 1.0 : 0.0});
      }
      for (const ps::MetricSample& sample : node.samples) {
        text += sample.family == family.name ? metric_line(family, node.node, sample) : "";
      }
    }
  }
  return text + "# EOF\n";
}

std::string ps_bench_text(const std::vector<ps::PsBenchRow>& rows) {
  std::string text =
      "push+pull of one vector over TCP and through shared memory (shm); the floors are bare loops "
      "that also add. Medians of interleaved runs.\n";
  text += fmt::format(
      "{:>8} {:>5} {:>10} {:>10} {:>6} {:>7} {:>6} {:>9} {:>10} {:>10} {:>6} {:>9} {:>10} {:>7} "
      "{:>11}\n",
      "size", "depth", "floor/s", "op/s", "share", "GB/s", "chain", "CPU-s/GB", "shm floor",
      "shm/s", "x TCP", "CPU-s/GB", "Redis/s", "x Redis", "memcpy GB/s");
  for (const ps::PsBenchRow& row : rows) {
    text += fmt::format(
        "{:>8} {:>5} {:>10.0f} {:>10.0f} {:>5.0f}% {:>7.2f} {:>5.0f}% {:>9.2f} {:>10.0f} {:>10.0f} "
        "{:>6.2f} {:>9.2f} {:>10} {:>7} {:>11.1f}\n",
        to_text(row.size), row.depth, row.floor_per_second, row.per_second, 100 * row.floor_share,
        2e-9 * static_cast<double>(row.size.count) * row.per_second, 100 * row.chain_share,
        row.cpu_seconds_per_gb, row.shared_floor_per_second, row.shared_per_second,
        row.shared_ratio, row.shared_cpu_seconds_per_gb,
        row.redis_per_second ? fmt::format("{:.0f}", *row.redis_per_second) : "-",
        row.redis_ratio ? fmt::format("{:.2f}", *row.redis_ratio) : "-",
        1e-9 * row.memcpy_bytes_per_second);
  }
  return text;
}

std::string ps_bench_json(const std::vector<ps::PsBenchRow>& rows) {
  Json json = Json::array();
  for (const ps::PsBenchRow& row : rows) {
    json.push_back({{"bytes", row.size.count},
                    {"depth", row.depth},
                    {"floor_per_second", row.floor_per_second},
                    {"per_second", row.per_second},
                    {"floor_share", row.floor_share},
                    {"chain_share", row.chain_share},
                    {"shared_floor_per_second", row.shared_floor_per_second},
                    {"shared_per_second", row.shared_per_second},
                    {"shared_ratio", row.shared_ratio},
                    {"shared_cpu_seconds_per_gb", row.shared_cpu_seconds_per_gb},
                    {"redis_per_second", optional_number(row.redis_per_second)},
                    {"redis_ratio", optional_number(row.redis_ratio)},
                    {"cpu_seconds_per_gb", row.cpu_seconds_per_gb},
                    {"memcpy_bytes_per_second", row.memcpy_bytes_per_second}});
  }
  return json.dump(2) + "\n";
}

std::string ps_chaos_text(const ps::ChaosResult& result) {
  std::string text =
      fmt::format("{} kills, {} pauses and {} moves of shards in {}\n\n", result.kills,
                  result.pauses, result.moves, to_text(result.elapsed));
  text += fmt::format("{:<34} {:>10} {:>12}\n", "", "promised", "observed");
  text += fmt::format("{:<34} {:>10} {:>12}\n", "acknowledged pushes", "", result.acknowledged);
  text += fmt::format("{:<34} {:>10} {:>12}\n", "lost", 0, result.lost);
  text += fmt::format("{:<34} {:>10} {:>12}\n", "doubled", 0, result.doubled);
  text += fmt::format("{:<34} {:>10} {:>12}\n", "checked reads", "", result.reads);
  text += fmt::format("{:<34} {:>10} {:>12}\n", "stale reads", 0, result.violations);
  text += fmt::format("{:<34} {:>10} {:>9.0f} ms\n", "failover, median", "",
                      milliseconds(result.failover_p50));
  text += fmt::format("{:<34} {:>10} {:>9.0f} ms\n", "failover, 99th percentile", "",
                      milliseconds(result.failover_p99));
  text += fmt::format("{:<34} {:>10} {:>9.0f} ms\n", "longest wait in a move, 99th pct.", "",
                      milliseconds(result.move_p99));
  text += fmt::format("{:<34} {:>10} {:>9.0f} ms\n", "a worker joins, 99th percentile", "",
                      milliseconds(result.join_p99));
  text +=
      fmt::format("{:<34} {:>10} {:>9.2f} ms\n", "push, median", "", milliseconds(result.push_p50));
  return text;
}

std::string ps_chaos_json(const ps::ChaosResult& result) {
  const Json json{{"kills", result.kills},
                  {"pauses", result.pauses},
                  {"moves", result.moves},
                  {"acknowledged", result.acknowledged},
                  {"lost", result.lost},
                  {"doubled", result.doubled},
                  {"reads", result.reads},
                  {"violations", result.violations},
                  {"failover_p50_ms", milliseconds(result.failover_p50)},
                  {"failover_p99_ms", milliseconds(result.failover_p99)},
                  {"move_p99_ms", milliseconds(result.move_p99)},
                  {"join_p99_ms", milliseconds(result.join_p99)},
                  {"push_p50_ms", milliseconds(result.push_p50)},
                  {"elapsed_s", result.elapsed.count}};
  return json.dump(2) + "\n";
}

}  // namespace trireme::report
