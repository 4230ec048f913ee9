// Ranks as processes on several hosts, or what the library considers hosts.
#pragma once

#include <functional>
#include <vector>

#include "trireme/comm.h"

namespace trireme::fuzz {

/// Whether this process may create namespaces. Tries it in a separate process.
[[nodiscard]] bool can_make_hosts();

/// Like trireme::launch, with rank r on host hosts[r]. A host is a UTS namespace, whose name makes its ranks appear to
/// be on a separate machine; their traffic stays on the loopback. Needs root.
[[nodiscard]] int launch_on_hosts(const std::vector<int>& hosts,
                                  const std::function<void(World&)>& body,
                                  const WorldOptions& options);

}  // namespace trireme::fuzz
