// Stub of the UCX transport, for builds without the library.
#include "comm/transport/transport.h"
#include "trireme/error.h"

namespace trireme::comm {

bool has_ucx() {
  return false;
}

void restore_ucx_signal_handlers() {}

std::unique_ptr<Transport> make_ucx_transport(const NetworkParts& /*parts*/) {
  throw Error(ErrorKind::Usage,
              "this build has no transport ucx; install libucx-dev and build again, or use "
              "automatic, shm or tcp");
}

}  // namespace trireme::comm
