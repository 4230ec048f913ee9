// What parameter servers report, as tables and JSON. Callable from any thread.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "trireme/parameter_server.h"
#include "trireme/ps_bench.h"
#include "trireme/ps_chaos.h"

namespace trireme::report {

[[nodiscard]] std::string ps_status_text(const ps::ClusterStatus& status);
/// One object: healthy, problems, servers, tables, shards of {epoch, chain, reactors of the chain, learners}.
[[nodiscard]] std::string ps_status_json(const ps::ClusterStatus& status);

/// OpenMetrics text, ready to be scraped from a file.
[[nodiscard]] std::string ps_metrics_text(const std::vector<ps::NodeMetrics>& nodes);

[[nodiscard]] std::string ps_bench_text(const std::vector<ps::PsBenchRow>& rows);
/// An array with an object for each row.
[[nodiscard]] std::string ps_bench_json(const std::vector<ps::PsBenchRow>& rows);

[[nodiscard]] std::string ps_chaos_text(const ps::ChaosResult& result);
/// One object: kills, pauses, acknowledged, lost, doubled, failover_p50_ms, failover_p99_ms, …
[[nodiscard]] std::string ps_chaos_json(const ps::ChaosResult& result);

}  // namespace trireme::report
