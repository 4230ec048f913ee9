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

/// Escapes a label value for OpenMetrics.
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
    text += fmt::format("# TYPE trireme_ps_{} {}\n# HELP trireme_ps_{} {}\n", family.name,
                        to_text(family.kind), family.name, family.help);
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

namespace {

std::string bench_line(const ps::PsBenchRow& row) {
  return fmt::format(
      "{:>8} {:>5} {:>10.0f} {:>10.0f} {:>6.2f} {:>10.0f} {:>5.0f}% {:>7.2f} {:>5.0f}% {:>5.0f}% "
      "{:>9.2f} "
      "{:>10.0f} {:>10.0f} {:>6.2f} {:>9.2f} {:>11.1f}\n",
      to_text(row.size), row.depth, row.floor_per_second, row.echo_per_second,
      1e-9 * row.stream_bytes_per_second, row.per_second, 100 * row.floor_share,
      2e-9 * static_cast<double>(row.size.count) * row.per_second, 100 * row.chain_share,
      100 * row.chain_relay_share, row.cpu_seconds_per_gb, row.shared_floor_per_second,
      row.shared_per_second, row.shared_ratio, row.shared_cpu_seconds_per_gb,
      1e-9 * row.memcpy_bytes_per_second);
}

/// Operations next to Redis's commands, and latencies.
std::string bench_operations_line(const ps::PsBenchRow& row) {
  std::string text = fmt::format("{:>8} {:>5} {:>10.0f} {:>10.0f}", to_text(row.size), row.depth,
                                 row.push_per_second, row.pull_per_second);
  if (row.redis) {
    text += fmt::format(" {:>10.0f} {:>10.0f} {:>10.2f} {:>10.2f} {:>12.2f}", row.redis->set,
                        row.redis->get, row.push_per_second / row.redis->set,
                        row.pull_per_second / row.redis->get, ps::redis_ratio(row));
  } else {
    text += fmt::format(" {:>10} {:>10} {:>10} {:>10} {:>12}", "-", "-", "-", "-", "-");
  }
  if (row.latency) {
    text += fmt::format(" {:>10} {:>10} {:>10}", to_text(row.latency->p50),
                        to_text(row.latency->p99), to_text(row.latency->echo_p50));
  }
  return text + "\n";
}

}  // namespace

std::string ps_bench_text(const std::vector<ps::PsBenchRow>& rows) {
  std::string text =
      "push+pull of one vector over TCP and through shared memory (shm); the floors are bare loops "
      "that also add, the echo does not. Medians of interleaved runs.\n";
  text += fmt::format(
      "{:>8} {:>5} {:>10} {:>10} {:>6} {:>10} {:>6} {:>7} {:>6} {:>6} {:>9} {:>10} {:>10} {:>6} "
      "{:>9} "
      "{:>11}\n",
      "size", "depth", "floor/s", "echo/s", "GB/s 1", "op/s", "share", "GB/s", "chain", "relay",
      "CPU-s/GB", "shm floor", "shm/s", "x TCP", "CPU-s/GB", "memcpy GB/s");
  for (const ps::PsBenchRow& row : rows) {
    text += bench_line(row);
  }
  text +=
      "\nGB/s 1: a bare stream in one direction. A push alone beside Redis's SET, a pull alone "
      "beside its GET; push+pull counts as the two operations that it is, beside SET and GET in "
      "turn.\n";
  text += fmt::format(
      "{:>8} {:>5} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10} {:>12} {:>10} {:>10} {:>10}\n", "size",
      "depth", "push/s", "pull/s", "SET/s", "GET/s", "push / SET", "pull / GET", "2 x p+p / SG",
      "p+p p50", "p+p p99", "echo p50");
  for (const ps::PsBenchRow& row : rows) {
    text += bench_operations_line(row);
  }
  return text;
}

std::string ps_bench_json(const std::vector<ps::PsBenchRow>& rows) {
  Json json = Json::array();
  for (const ps::PsBenchRow& row : rows) {
    Json entry{{"bytes", row.size.count},
               {"depth", row.depth},
               {"floor_per_second", row.floor_per_second},
               {"echo_per_second", row.echo_per_second},
               {"stream_bytes_per_second", row.stream_bytes_per_second},
               {"per_second", row.per_second},
               {"push_per_second", row.push_per_second},
               {"pull_per_second", row.pull_per_second},
               {"floor_share", row.floor_share},
               {"chain_share", row.chain_share},
               {"relay_per_second", row.relay_per_second},
               {"chain_relay_share", row.chain_relay_share},
               {"shared_floor_per_second", row.shared_floor_per_second},
               {"shared_per_second", row.shared_per_second},
               {"shared_ratio", row.shared_ratio},
               {"shared_cpu_seconds_per_gb", row.shared_cpu_seconds_per_gb},
               {"cpu_seconds_per_gb", row.cpu_seconds_per_gb},
               {"memcpy_bytes_per_second", row.memcpy_bytes_per_second}};
    if (row.latency) {
      entry["p50_us"] = 1000 * milliseconds(row.latency->p50);
      entry["p99_us"] = 1000 * milliseconds(row.latency->p99);
      entry["echo_p50_us"] = 1000 * milliseconds(row.latency->echo_p50);
    }
    if (row.redis) {
      entry["redis_per_second"] = row.redis->mixed;
      entry["redis_set_per_second"] = row.redis->set;
      entry["redis_get_per_second"] = row.redis->get;
      entry["redis_ratio"] = ps::redis_ratio(row);
      entry["push_per_set"] = row.push_per_second / row.redis->set;
      entry["pull_per_get"] = row.pull_per_second / row.redis->get;
    }
    json.push_back(std::move(entry));
  }
  return json.dump(2) + "\n";
}

namespace {

/// "head 8, middle 7, …".
std::string roles_text(const ps::ChaosRoleCounts& counts) {
  std::string text;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    text += fmt::format("{}{} {}", i == 0 ? "" : ", ", to_text(static_cast<ps::ChaosRole>(i)),
                        counts.at(i));
  }
  return text;
}

Json roles_json(const ps::ChaosRoleCounts& counts) {
  Json json = Json::object();
  for (std::size_t i = 0; i < counts.size(); ++i) {
    json[std::string(to_text(static_cast<ps::ChaosRole>(i)))] = counts.at(i);
  }
  return json;
}

std::string chaos_line(std::string_view what, const std::string& promised,
                       const std::string& observed) {
  return fmt::format("{:<44} {:>10} {:>12}\n", what, promised, observed);
}

std::string milliseconds_text(Seconds time) {
  return fmt::format("{:.0f} ms", milliseconds(time));
}

/// Workers record only waits of 20 ms or more.
std::string wait_text(Seconds time) {
  return time.count > 0 ? milliseconds_text(time) : "below 20 ms";
}

std::string loss_text(const std::optional<double>& loss) {
  return loss ? fmt::format("{:.1f} %", 100 * *loss) : "not seen";
}

Json loss_json(const std::optional<double>& loss) {
  return loss ? Json(*loss) : Json();
}

std::string chaos_faults_text(const ps::ChaosResult& r) {
  std::string text =
      fmt::format("{} kills, {} pauses, {} planned restarts and {} moves of shards in {}\n",
                  r.kills, r.pauses, r.restarts, r.moves, to_text(r.elapsed));
  text += fmt::format("killed: {}\npaused: {}\n", roles_text(r.kills_by_role),
                      roles_text(r.pauses_by_role));
  return text + fmt::format("{} of these during moves, {} during rejoins\n\n", r.faults_in_moves,
                            r.faults_in_rejoins);
}

}  // namespace

std::string ps_chaos_text(const ps::ChaosResult& r) {
  const auto count = [](std::uint64_t number) { return fmt::format("{}", number); };
  const std::string delayed = count(r.delaying_kills);
  return chaos_faults_text(r) + chaos_line("", "promised", "observed") +
         chaos_line("acknowledged pushes", "", count(r.acknowledged)) +
         chaos_line("lost", "0", count(r.lost)) + chaos_line("doubled", "0", count(r.doubled)) +
         chaos_line("checked reads", "", count(r.reads)) +
         chaos_line("stale reads", "0", count(r.violations)) +
         chaos_line("kills of servers that delayed a request", "", delayed) +
         chaos_line("failover of those, median", "", milliseconds_text(r.failover_p50)) +
         chaos_line("failover of those, 99th percentile", "", milliseconds_text(r.failover_p99)) +
         chaos_line("throughput other shards lost meanwhile", "", loss_text(r.untouched_loss)) +
         chaos_line("throughput that server's shards lost", "", loss_text(r.touched_loss)) +
         chaos_line("longest wait in a move, 99th percentile", "", wait_text(r.move_p99)) +
         chaos_line("longest wait in a planned restart, 99th percentile", "",
                    wait_text(r.restart_p99)) +
         chaos_line("a worker joins, 99th percentile", "", milliseconds_text(r.join_p99)) +
         chaos_line("push, median", "", fmt::format("{:.2f} ms", milliseconds(r.push_p50)));
}

std::string ps_chaos_json(const ps::ChaosResult& result) {
  const Json json{{"kills", result.kills},
                  {"pauses", result.pauses},
                  {"kills_by_role", roles_json(result.kills_by_role)},
                  {"pauses_by_role", roles_json(result.pauses_by_role)},
                  {"faults_in_moves", result.faults_in_moves},
                  {"faults_in_rejoins", result.faults_in_rejoins},
                  {"moves", result.moves},
                  {"restarts", result.restarts},
                  {"acknowledged", result.acknowledged},
                  {"lost", result.lost},
                  {"doubled", result.doubled},
                  {"reads", result.reads},
                  {"violations", result.violations},
                  {"delaying_kills", result.delaying_kills},
                  {"failover_p50_ms", milliseconds(result.failover_p50)},
                  {"failover_p99_ms", milliseconds(result.failover_p99)},
                  {"untouched_loss", loss_json(result.untouched_loss)},
                  {"touched_loss", loss_json(result.touched_loss)},
                  {"move_p99_ms", milliseconds(result.move_p99)},
                  {"restart_p99_ms", milliseconds(result.restart_p99)},
                  {"join_p99_ms", milliseconds(result.join_p99)},
                  {"push_p50_ms", milliseconds(result.push_p50)},
                  {"elapsed_s", result.elapsed.count}};
  return json.dump(2) + "\n";
}

}  // namespace trireme::report
