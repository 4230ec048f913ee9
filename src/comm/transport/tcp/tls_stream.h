// A Stream over an encrypted connection.
#pragma once

#include <memory>

#include "comm/transport/tcp/connection.h"
#include "comm/wire/stream.h"
#include "trireme/schedule.h"

namespace trireme::comm {

/// `peer` is for messages. One thread at a time, as all streams.
[[nodiscard]] std::unique_ptr<Stream> make_tls_stream(std::shared_ptr<Connection> connection,
                                                      Rank peer);

}  // namespace trireme::comm
