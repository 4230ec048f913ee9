// What the coordinator and the servers make of their public options. Callable from any thread.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "ps/host/event_loop.h"
#include "ps/host/snapshot_files.h"
#include "trireme/parameter_server.h"

namespace trireme::ps {

/// As comm::parse_address(), but port 0 is allowed: any free one.
[[nodiscard]] comm::Address parse_listen_address(const std::string& text);

template <class Options>
[[nodiscard]] EventLoopOptions loop_options(NodeId self, const Options& options,
                                            bool shares_memory) {
  return {.reactor = {.self = self,
                      .listen = parse_listen_address(options.listen),
                      .secret = comm::Secret::from_text(options.secret),
                      .encryption = options.encrypt == Encrypt::Yes ? comm::Encryption::Tls
                                                                    : comm::Encryption::None,
                      .encryption_advice = std::string(kEncryptionAdvice),
                      .shares_memory = shares_memory},
          .refused = options.on_refused,
          .stopped = options.on_stopped};
}

[[nodiscard]] std::shared_ptr<const UpdateRegistry> or_built_in(
    std::shared_ptr<const UpdateRegistry> updates);

[[nodiscard]] std::optional<StoredSnapshot> snapshot_to_restore(const SnapshotOptions& options);

}  // namespace trireme::ps
