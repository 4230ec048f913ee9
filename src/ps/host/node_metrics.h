// What the state machines of a coordinator and a server tell about themselves. One thread.
#pragma once

#include <cstdint>
#include <vector>

#include "ps/protocol/coordinator.h"
#include "ps/protocol/server.h"
#include "trireme/ps_metrics.h"

namespace trireme::ps {

void append_metrics(const Coordinator& coordinator, std::uint64_t last_snapshot,
                    std::vector<MetricSample>& samples);
void append_metrics(const Server& server, Micros now, std::vector<MetricSample>& samples);

}  // namespace trireme::ps
