// run_ranks: the same body on threads, on processes with shared memory, and on processes with TCP or
// UCX.
#pragma once

#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "trireme/comm.h"

namespace trireme::test {

/// In a rank (which may be another process) a failed expectation is an exception.
inline void require(bool condition, const std::string& what) {
  if (!condition) {
    throw std::runtime_error(what);
  }
}

/// Runs the body on every rank; fails the test if one throws.
inline void run_ranks(TransportKind kind, Rank ranks, const std::function<void(World&)>& body,
                      WorldOptions options = {}) {
  options.transport = kind;
  if (kind == TransportKind::InProcess) {
    try {
      run_threads(ranks, body, options);
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
    return;
  }
  EXPECT_EQ(launch(ranks, body, options), 0) << name(kind) << ", " << ranks << " ranks";
}

/// Those that this build has.
inline std::vector<TransportKind> transports() {
  std::vector<TransportKind> all{TransportKind::InProcess, TransportKind::SharedMemory,
                                 TransportKind::Tcp, TransportKind::Ucx};
  std::erase_if(all, [](TransportKind kind) { return !is_built(kind); });
  return all;
}
/// Those of them whose ranks are processes.
inline std::vector<TransportKind> process_transports() {
  std::vector<TransportKind> all = transports();
  std::erase(all, TransportKind::InProcess);
  return all;
}
/// Those of them that send bytes through the system.
inline std::vector<TransportKind> networks() {
  std::vector<TransportKind> all{TransportKind::Tcp, TransportKind::Ucx};
  std::erase_if(all, [](TransportKind kind) { return !is_built(kind); });
  return all;
}
inline bool is_network(TransportKind kind) {
  return kind == TransportKind::Tcp || kind == TransportKind::Ucx;
}

}  // namespace trireme::test
