// run_ranks: the same body on threads, on processes with shared memory, and on processes with TCP or UCX.
#pragma once

#include <algorithm>
#include <functional>
#include <ostream>
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

/// The fault of the exception that `body` throws.
inline CommFault fault_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const CommError& error) {
    return error.fault();
  }
  throw std::runtime_error("no CommError was thrown");
}

/// Runs the body on every rank; returns what a rank threw, or nothing.
inline std::string try_ranks(TransportKind kind, Rank ranks,
                             const std::function<void(World&)>& body, WorldOptions options = {}) {
  options.transport = kind;
  try {
    if (kind == TransportKind::InProcess) {
      run_threads(ranks, body, options);
    } else if (launch(ranks, body, options) != 0) {
      return "a rank failed";
    }
  } catch (const std::exception& error) {
    return error.what();
  }
  return {};
}

/// The same; fails the test if one throws.
inline void run_ranks(TransportKind kind, Rank ranks, const std::function<void(World&)>& body,
                      const WorldOptions& options = {}) {
  EXPECT_EQ(try_ranks(kind, ranks, body, options), "")
      << to_text(kind) << ", " << ranks << " ranks";
}

/// The same with deadlines that a busy machine may miss, until one is met. The last should be a second or more, which a
/// process on an overloaded machine may have to wait for its turn.
inline void run_ranks_with(const std::vector<double>& deadlines, TransportKind kind, Rank ranks,
                           const std::function<void(World&, double deadline)>& body) {
  std::string problem = "no deadline";
  for (const double deadline : deadlines) {
    problem = try_ranks(kind, ranks, [&](World& world) { body(world, deadline); },
                        {.deadline = {deadline}});
    if (problem.empty()) {
      return;
    }
  }
  ADD_FAILURE() << to_text(kind) << ", " << ranks << " ranks: " << problem;
}

/// The transports that this build has.
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
/// Those of them that use sockets.
inline std::vector<TransportKind> networks() {
  std::vector<TransportKind> all{TransportKind::Tcp, TransportKind::Ucx};
  std::erase_if(all, [](TransportKind kind) { return !is_built(kind); });
  return all;
}
inline bool is_network(TransportKind kind) {
  return kind == TransportKind::Tcp || kind == TransportKind::Ucx;
}

/// The transport's name, as part of a test's name.
inline std::string transport_name(const testing::TestParamInfo<TransportKind>& param) {
  std::string text(to_text(param.param));
  std::ranges::replace(text, '-', '_');
  return text;
}

/// How ranks reach one another.
struct WorldCase {
  std::string name;
  WorldOptions options;
};

// NOLINTNEXTLINE(readability-identifier-naming): googletest's name
inline void PrintTo(const WorldCase& one, std::ostream* out) {
  *out << one.name;
}

}  // namespace trireme::test
