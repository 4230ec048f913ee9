// Ranks as processes on several hosts, or what the library takes for hosts.
#pragma once

#include <functional>
#include <vector>

#include "trireme/comm.h"

namespace trireme::fuzz {

/// Whether this process may make namespaces. Tries it in a process of its own.
[[nodiscard]] bool can_make_hosts();

/// Like trireme::launch, with rank r on host hosts[r]. A host is a UTS namespace of its own, whose name
/// makes ranks there see a machine of their own; their traffic stays on the loopback. Needs root.
[[nodiscard]] int launch_on_hosts(const std::vector<int>& hosts,
                                  const std::function<void(World&)>& body,
                                  const WorldOptions& options);

}  // namespace trireme::fuzz
