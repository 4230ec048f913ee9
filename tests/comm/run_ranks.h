// run_ranks: the same body on threads, on processes with shared memory, and on processes with TCP.
#pragma once

#include <functional>
#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

#include "trireme/comm.h"

namespace trireme::test {

/// In a rank (which may be another process) a failed expectation is an exception.
inline void require(bool condition, const std::string& what) {
  if (!condition) {
    throw std::runtime_error(what);
  }
}

/// Runs the body on every rank; fails the test if one throws. The transports: in-process, shm, tcp.
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

inline constexpr TransportKind kTransports[] = {TransportKind::InProcess,
                                                TransportKind::SharedMemory, TransportKind::Tcp};

}  // namespace trireme::test
