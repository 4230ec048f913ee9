#include "comm/c_api_status.h"

#include <exception>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "trireme/comm.h"

namespace trireme::comm {
namespace {

struct LastError {
  std::string message{};
  std::vector<Rank> culprits{};
};
LastError& last_error() {
  thread_local LastError error;
  return error;
}

trireme_status stored(trireme_status status, const char* message, std::vector<Rank> culprits = {}) {
  last_error() = {message, std::move(culprits)};
  return status;
}

trireme_status status_of(CommFault fault) {
  switch (fault) {
    case CommFault::Mismatch:
      return TRIREME_PEER_MISMATCH;
    case CommFault::Died:
      return TRIREME_PEER_DIED;
    case CommFault::Stopped:
      return TRIREME_PEER_STOPPED;
    case CommFault::Left:
      return TRIREME_PEER_LEFT;
    case CommFault::Late:
      return TRIREME_PEER_LATE;
    case CommFault::Corrupt:
      return TRIREME_PEER_CORRUPT;
    case CommFault::Dead:
      return TRIREME_PEER_DEAD;
  }
  return TRIREME_PEER;
}

trireme_status status_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::Usage:
      return TRIREME_USAGE;
    case ErrorKind::Input:
      return TRIREME_INPUT;
    case ErrorKind::System:
      return TRIREME_SYSTEM;
    case ErrorKind::Peer:
      return TRIREME_PEER;
  }
  return TRIREME_BUG;
}

}  // namespace

trireme_status store_current_exception() noexcept {
  try {
    throw;
  } catch (const CommError& error) {
    return stored(status_of(error.fault()), error.what(), error.culprits());
  } catch (const Error& error) {
    return stored(status_of(error.kind()), error.what());
  } catch (const std::bad_alloc&) {
    return stored(TRIREME_SYSTEM, "memory is short");
  } catch (const std::exception& error) {
    return stored(TRIREME_BUG, error.what());
  }
}

}  // namespace trireme::comm

const char* trireme_status_text(trireme_status status) {
  switch (status) {
    case TRIREME_OK:
      return "ok";
    case TRIREME_USAGE:
      return "invalid request";
    case TRIREME_INPUT:
      return "malformed input";
    case TRIREME_SYSTEM:
      return "system failure";
    case TRIREME_PEER_MISMATCH:
      return "ranks made different calls";
    case TRIREME_PEER_DIED:
      return "a rank died";
    case TRIREME_PEER_STOPPED:
      return "a rank stopped";
    case TRIREME_PEER_LEFT:
      return "a rank left";
    case TRIREME_PEER_LATE:
      return "a rank is late";
    case TRIREME_PEER_CORRUPT:
      return "a rank sent damaged data";
    case TRIREME_PEER_DEAD:
      return "the group failed earlier";
    case TRIREME_PEER:
      return "another rank is at fault";
    case TRIREME_BUG:
      return "internal error";
  }
  return "unknown status";
}

const char* trireme_last_error(void) {
  return trireme::comm::last_error().message.c_str();
}

int trireme_last_culprits(int* ranks, int capacity) {
  const std::vector<trireme::Rank>& culprits = trireme::comm::last_error().culprits;
  for (std::size_t i = 0; i < culprits.size() && std::cmp_less(i, capacity); ++i) {
    ranks[i] = culprits[i];
  }
  return static_cast<int>(culprits.size());
}
