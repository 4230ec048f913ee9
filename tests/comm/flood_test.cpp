// Listeners that a stranger floods with idle connections: ranks can still join.
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/resource.h>

#include "comm/net/socket.h"
#include "comm/processes.h"
#include "comm/rendezvous_helpers.h"
#include "comm/run_ranks.h"
#include "comm/transport/transport.h"
#include "trireme/comm.h"

namespace trireme::comm {
namespace {

using test::Process;
using test::WorldCase;

/// The ranks' descriptor limit; the flood is more than twice that.
constexpr rlim_t kDescriptors = 256;
constexpr int kIdleConnections = 600;

void limit_descriptors(rlim_t most) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = std::min(limit.rlim_max, most);
  setrlimit(RLIMIT_NOFILE, &limit);
}

/// A process that holds idle connections.
class Flood {
 public:
  /// Returns when all are connected.
  explicit Flood(const Address& address)
      : ready_(eventfd(0, EFD_CLOEXEC)), process_([&] {
          limit_descriptors(2 * kIdleConnections);
          std::vector<Fd> idle;
          for (int i = 0; i < kIdleConnections; ++i) {
            idle.push_back(connect_to(address, deadline_in({60.0})));
          }
          eventfd_write(ready_.get(), 1);
          pause();
          return "";
        }) {
    eventfd_t number = 0;
    eventfd_read(ready_.get(), &number);
  }

 private:
  Fd ready_;
  Process process_;
};

class FloodedStore : public testing::TestWithParam<WorldCase> {};

TEST_P(FloodedStore, StillLetsRanksJoin) {
  const Address store = listen_on().address;
  const std::string secret = Secret::random().hex();
  const auto start = [&](Rank rank) {
    return Process([=, options = GetParam().options] {
      limit_descriptors(kDescriptors);
      World world = trireme::join(
          {.rank = rank, .size = 2, .store = to_text(store), .secret = secret}, options);
      std::vector<std::int64_t> data(1000, rank + 1);
      world.all().run(allreduce<std::int64_t>(data));
      return std::to_string(data.front());
    });
  };
  Process zero = start(0);
  const Flood flood(store);
  Process one = start(1);
  EXPECT_EQ(zero.result(), "3");
  EXPECT_EQ(one.result(), "3");
}

INSTANTIATE_TEST_SUITE_P(
    Ways, FloodedStore,
    testing::Values(WorldCase{"shm", {.transport = TransportKind::SharedMemory}},
                    WorldCase{"tcp", {.transport = TransportKind::Tcp}},
                    WorldCase{"tls", {.transport = TransportKind::Tcp, .encrypt = true}}),
    [](const auto& param) { return param.param.name; });

/// Connects two ranks whose listeners are flooded. Returns "" or the problem.
std::string connect_flooded(bool encrypt) {
  const Secret secret = Secret::random();
  const auto make = [&](Rank rank) {
    return make_tcp_transport(
        {.rank = rank, .ranks = 2, .options = {.encrypt = encrypt}, .secret = secret});
  };
  const auto zero = make(0);
  const auto one = make(1);
  const Flood flood(parse_address(one->address()));
  limit_descriptors(kDescriptors);
  std::string problem;
  std::thread answering([&] {
    try {
      one->connect({{.rank = 0}}, deadline_in({60.0}));
    } catch (const std::exception& error) {
      problem = error.what();
    }
  });
  try {
    zero->connect({{1, one->address()}}, deadline_in({60.0}));
  } catch (const std::exception& error) {
    answering.join();
    return error.what() + std::string("; ") + problem;
  }
  answering.join();
  return problem;
}

TEST(FloodedRank, StillAcceptsConnections) {
  for (const bool encrypt : {false, true}) {
    Process ranks([&] { return connect_flooded(encrypt); });
    EXPECT_EQ(ranks.result(), "");
  }
}

}  // namespace
}  // namespace trireme::comm
