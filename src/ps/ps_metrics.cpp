#include "trireme/ps_metrics.h"

#include <array>

namespace trireme::ps {
namespace {

using enum MetricKind;

constexpr std::array kFamilies{
    MetricFamily{"up", Gauge, "", "Whether the node answered."},
    MetricFamily{"messages_received", Counter, "message", "Messages received, by kind."},
    MetricFamily{"messages_sent", Counter, "message", "Messages sent, by kind."},
    MetricFamily{"values_received_bytes", Counter, "", "Bytes of vectors received."},
    MetricFamily{"values_sent_bytes", Counter, "", "Bytes of vectors sent."},
    MetricFamily{"peers_refused", Counter, "",
                 "Peers that were refused or sent something malformed."},
    MetricFamily{"replicas", Gauge, "role", "Shards held, by the place in their chain."},
    MetricFamily{"unsynced_replicas", Gauge, "", "Shards whose state is not complete here yet."},
    MetricFamily{"applied_pushes", Gauge, "shard", "Index of the last push applied to a shard."},
    MetricFamily{"lease_valid", Gauge, "", "Whether the server may answer pulls."},
    MetricFamily{"healthy", Gauge, "", "Whether every shard has all its replicas."},
    MetricFamily{"servers_alive", Gauge, "", "Servers whose lease is valid."},
    MetricFamily{"workers", Gauge, "", "Workers that send heartbeats."},
    MetricFamily{"epoch", Gauge, "shard", "Epoch of a shard."},
    MetricFamily{"slowest_clock", Gauge, "table", "Iterations completed by the slowest worker."},
    MetricFamily{"snapshot", Gauge, "", "Number of the last complete snapshot; 0: none."},
};

}  // namespace

std::string_view to_text(MetricKind kind) {
  return kind == Counter ? "counter" : "gauge";
}

std::span<const MetricFamily> metric_families() {
  return kFamilies;
}

}  // namespace trireme::ps
