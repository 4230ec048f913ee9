// What the coordinator and the servers of a parameter server count, as OpenMetrics families. Values; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::ps {

enum class MetricKind : std::uint8_t {
  Counter,  ///< only grows while the process lives
  Gauge,    ///< its current value
};
/// "counter", "gauge".
[[nodiscard]] std::string_view to_text(MetricKind kind);

struct MetricFamily {
  std::string_view name;  ///< without the suffix of counters
  MetricKind kind{};
  std::string_view label;  ///< that its samples have besides the node; "" if none
  std::string_view help;
};
/// In the order in which they are printed.
[[nodiscard]] std::span<const MetricFamily> metric_families();

struct MetricSample {
  std::string family{};
  std::string label{};  ///< the value of the family's label
  double value = 0;
};

/// What one node answered.
struct NodeMetrics {
  std::string node{};  ///< "coordinator" or "server 2"
  bool is_up = false;  ///< it answered in time
  std::vector<MetricSample> samples{};
};

}  // namespace trireme::ps
