// Encrypted connections: collectives over them, who is rejected, and what a man in the middle can see or change.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <exception>
#include <limits>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "comm/proxied_pair.h"
#include "comm/rendezvous/tcp_store.h"
#include "comm/rendezvous/tcp_store_server.h"
#include "comm/rendezvous_helpers.h"
#include "comm/run_ranks.h"
#include "comm/timed.h"

namespace trireme::comm {
namespace {

using test::require;
using test::run_ranks;

WorldOptions encrypted(int connections = 2, Seconds deadline = {2.0}) {
  return {.deadline = deadline,
          .transport = TransportKind::Tcp,
          .encrypt = true,
          .connections = connections};
}

/// Settings of a store that this test serves.
TcpStoreServerOptions served(const Secret& secret, Encryption encryption = Encryption::Tls) {
  return {.listen = {}, .secret = secret, .encryption = encryption};
}

/// Sums and blocks of several calls.
void do_collectives(World& world, std::size_t count) {
  const auto p = static_cast<std::int64_t>(world.size());
  std::vector<std::int64_t> data(count);
  std::vector<std::int64_t> sums(count);
  std::iota(data.begin(), data.end(), world.rank());
  for (std::size_t i = 0; i < count; ++i) {
    sums[i] = static_cast<std::int64_t>(i) * p + p * (p - 1) / 2;
  }
  world.all().run(allreduce<std::int64_t>(data));
  require(data == sums, fmt::format("allreduce of {}", count));
  const std::vector<std::int64_t> mine(count, world.rank());
  std::vector<std::int64_t> all(count * static_cast<std::size_t>(p));
  std::vector<std::int64_t> blocks;
  for (std::int64_t r = 0; r < p; ++r) {
    blocks.insert(blocks.end(), count, r);
  }
  world.all().run(allgather<std::int64_t>(mine, all));
  require(all == blocks, fmt::format("allgather of {}", count));
  world.all().run(broadcast<std::int64_t>(all, world.size() - 1));
  require(all == blocks, fmt::format("broadcast of {}", count));
  world.all().barrier();
}

TEST(Encrypted, CollectivesMatchReference) {
  for (const Rank ranks : {2, 3}) {
    for (const int connections : {1, 3}) {
      run_ranks(
          TransportKind::Tcp, ranks,
          [](World& world) {
            for (const std::size_t count : {0, 1, 1009, 300'007}) {
              do_collectives(world, count);
            }
          },
          encrypted(connections));
    }
  }
}

/// More in each direction than all buffers on the path hold, so that both sides have to wait in both directions.
TEST(Encrypted, LongMessagesArrive) {
  run_ranks(
      TransportKind::Tcp, 2,
      [](World& world) {
        const auto pattern = [](Rank rank) {
          std::vector<std::uint32_t> words(std::size_t{12} << 20);
          std::iota(words.begin(), words.end(), static_cast<std::uint32_t>(rank) * 0x0f0f0f0fU);
          std::vector<std::uint8_t> bytes(4 * words.size());
          std::memcpy(bytes.data(), words.data(), bytes.size());
          return bytes;
        };
        const Rank other = 1 - world.rank();
        const std::vector<std::uint8_t> out = pattern(world.rank());
        std::vector<std::uint8_t> in(out.size());
        Pending receiving = world.all().start_receive<std::uint8_t>(in, other);
        Pending sending =
            world.all().start_send<std::uint8_t>(std::span<const std::uint8_t>(out), other);
        sending.wait();
        receiving.wait();
        require(in == pattern(other), "wrong bytes");
      },
      encrypted());
}

/// Shared memory is unaffected; only the store is encrypted.
TEST(Encrypted, RanksOnOneHostShareMemory) {
  WorldOptions options = encrypted();
  options.transport = TransportKind::Automatic;
  EXPECT_EQ(launch(
                2,
                [](World& world) {
                  require(world.reaches(1 - world.rank()) == "shm", "does not use shared memory");
                  do_collectives(world, 1000);
                },
                options),
            0);
}

// Joining.

/// How each rank's attempt to join ended, and how long after the last one had started.
struct Attempt {
  std::string error{};
  double after = 0;
};

/// Ranks that join through a store of rank 0, each with or without encryption; the last joins when the others are
/// waiting.
std::vector<Attempt> try_join(const std::vector<bool>& encrypt) {
  const std::string store = to_text(listen_on().address);
  const std::string secret = Secret::random().hex();
  std::vector<Attempt> attempts(encrypt.size());
  std::atomic<Clock::time_point> complete{};
  std::vector<std::thread> ranks;
  for (std::size_t r = 0; r < encrypt.size(); ++r) {
    if (r + 1 == encrypt.size()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      complete = Clock::now();
    }
    ranks.emplace_back([&, r] {
      try {
        World world = trireme::join(
            {.rank = static_cast<Rank>(r),
             .size = static_cast<Rank>(encrypt.size()),
             .store = store,
             .secret = secret},
            {.deadline = {0.5}, .transport = TransportKind::Tcp, .encrypt = encrypt[r]});
        do_collectives(world, 1000);
      } catch (const std::exception& error) {
        attempts[r].error = error.what();
      }
      attempts[r].after = since(complete.load()).count;
    });
  }
  for (std::thread& rank : ranks) {
    rank.join();
  }
  return attempts;
}

TEST(Encrypted, RanksJoinWithSecret) {
  for (const Attempt& attempt : try_join({true, true, true})) {
    EXPECT_EQ(attempt.error, "");
  }
}

TEST(Encrypted, RejectsRanksWithWrongSecret) {
  const TcpStoreServer server(served(Secret::random()));
  const Clock::time_point begin = Clock::now();
  expect_error(ErrorKind::Peer, {to_text(server.address()), "another secret"}, [&] {
    (void)trireme::join({.rank = 1,
                         .size = 2,
                         .store = to_text(server.address()),
                         .secret = Secret::random().hex()},
                        encrypted());
  });
  EXPECT_LT(since(begin).count, 1.0);
}

bool is_told(const Attempt& attempt) {
  return attempt.error.find("set WorldOptions::encrypt alike on every rank") != std::string::npos;
}

/// On a busy machine a rank may not be waiting yet when the store's rank ends; it then reports that it lost the store.
TEST(Encrypted, ReportsSettingMismatchToAllRanks) {
  constexpr double kBound = kSanitized ? 1.0 : 0.1;
  for (const bool first : {true, false}) {
    std::vector<Attempt> attempts;
    const double slowest = test::fastest_of_three(kBound, [&] {
      attempts = try_join({first, first, !first});
      return std::ranges::all_of(attempts, is_told)
                 ? std::ranges::max(attempts, {}, &Attempt::after).after
                 : std::numeric_limits<double>::infinity();
    });
    EXPECT_LT(slowest, kBound) << attempts.front().error << "; " << attempts.back().error;
  }
}

/// The error of a rank that waits for one with different settings.
TEST(Encrypted, StoreNotifiesWaiters) {
  const Secret secret = Secret::random();
  const TcpStoreServer server(served(secret));
  const TcpStoreOptions good{
      .server = server.address(), .secret = secret, .encryption = Encryption::Tls};
  TcpStore waiting(good, soon());
  std::thread other([&] {
    expect_error(ErrorKind::System, {"does not encrypt, this side does"},
                 [&] { (void)waiting.get("world/rank/1", soon()); });
  });
  expect_error(ErrorKind::Peer, {"encrypts, this side does not"},
               [&] { TcpStore({.server = server.address(), .secret = secret}, soon()); });
  other.join();
  TcpStore late(good, soon());
  expect_error(ErrorKind::System, {"does not encrypt"}, [&] { late.set("key", "value"); });
}

/// A stranger without the secret who claims different encryption disturbs no rank.
TEST(Encrypted, ForeignClientsCannotStopStore) {
  const Secret secret = Secret::random();
  const TcpStoreServer server(served(secret));
  EXPECT_THROW(TcpStore({.server = server.address(), .secret = Secret::random()}, soon()), Error);
  TcpStore store({.server = server.address(), .secret = secret, .encryption = Encryption::Tls},
                 soon());
  store.set("key", "value");
  EXPECT_EQ(store.get("key", soon()), "value");
}

/// Connections between ranks, too, if the ranks found one another in another way.
TEST(Encrypted, MismatchedConnectionsFailOnBothSides) {
  const Secret secret = Secret::random();
  for (const bool first : {true, false}) {
    const auto parts = [&](Rank rank, bool encrypt) {
      return NetworkParts{
          .rank = rank, .ranks = 2, .options = {.encrypt = encrypt}, .secret = secret};
    };
    const auto zero = make_tcp_transport(parts(0, first));
    const auto one = make_tcp_transport(parts(1, !first));
    const Clock::time_point begin = Clock::now();
    std::thread answering([&] {
      expect_error(ErrorKind::Peer, {"set WorldOptions::encrypt alike"},
                   [&] { one->connect({{.rank = 0}}, soon()); });
    });
    expect_error(ErrorKind::Peer, {"rank 1 at", "set WorldOptions::encrypt alike"}, [&] {
      zero->connect({{1, one->address()}}, soon());
    });
    answering.join();
    EXPECT_LT(since(begin).count, 1.0);
  }
}

TEST(Encrypted, RequiresSecret) {
  expect_error(ErrorKind::Usage, {"encrypt", "JoinOptions::secret", "openssl rand -hex 32"}, [] {
    (void)trireme::join({.rank = 0, .size = 2, .store = "127.0.0.1:4000"}, {.encrypt = true});
  });
}

// A man in the middle.

constexpr std::string_view kWords = "confidential words; ";

/// In both directions: short and long messages made of the words.
void send_words(World& world) {
  for (const std::size_t repeats : {std::size_t{5}, std::size_t{100'000}}) {
    std::vector<std::uint8_t> data(repeats * kWords.size());
    for (std::size_t i = 0; i < data.size(); ++i) {
      data[i] = static_cast<std::uint8_t>(kWords[i % kWords.size()]);
    }
    for (const Rank root : {0, 1}) {
      std::vector<std::uint8_t> got =
          world.rank() == root ? data : std::vector<std::uint8_t>(data.size());
      world.all().run(broadcast<std::uint8_t>(got, root));
      require(got == data, "wrong words");
    }
  }
}

class ManInTheMiddle : public Proxied {};

TEST_F(ManInTheMiddle, RankTrafficIsUnreadable) {
  for (const bool encrypt : {false, true}) {
    WorldOptions options = encrypted();
    options.encrypt = encrypt;
    Pair pair({.record = true}, options);
    for (const Ending& ending : pair.run(send_words)) {
      EXPECT_TRUE(ending.well()) << ending.message;
    }
    EXPECT_GT(pair.proxy().passed().size(), 200'000 * kWords.size());
    EXPECT_EQ(pair.proxy().passed().contains(kWords), !encrypt);
  }
}

TEST_F(ManInTheMiddle, StoreTrafficIsUnreadable) {
  const Secret secret = Secret::random();
  for (const Encryption encryption : {Encryption::None, Encryption::Tls}) {
    const TcpStoreServer server(served(secret, encryption));
    const Proxy proxy(server.address(), {.record = true});
    TcpStore store({.server = proxy.address(), .secret = secret, .encryption = encryption}, soon());
    std::string value;
    for (int i = 0; i < 50'000; ++i) {
      value += kWords;
    }
    store.set("key", value);
    EXPECT_EQ(store.get("key", soon()), value);
    EXPECT_EQ(proxy.passed().contains(kWords), encryption == Encryption::None);
  }
}

TEST_F(ManInTheMiddle, DetectsTamperedData) {
  for (const std::size_t connection : {std::size_t{0}, std::size_t{1}}) {
    for (const Way way : {Way::ToServer, Way::ToClient}) {
      for (const std::size_t byte : {std::size_t{5000}, std::size_t{300'000}}) {
        Pair pair({.flip = data_spot(connection, way, byte), .bit = 3}, encrypted(2, {0.5}));
        const std::array<Ending, 2> endings = pair.run([](World& world) {
          for (int i = 0; i < 50; ++i) {  // the second connection gets little traffic
            allreduce_ones(world, kLong);
          }
        });
        const std::string where =
            fmt::format("byte {} of connection {}: rank 0: {}; rank 1: {}", byte, connection,
                        endings[0].message, endings[1].message);
        EXPECT_TRUE(pair.has_struck()) << where;
        const std::size_t receiver = way == Way::ToServer ? 1 : 0;
        EXPECT_EQ(endings[receiver].fault, CommFault::Corrupt) << where;
        EXPECT_NE(endings[receiver].message.find("changed in transit"), std::string::npos) << where;
        for (std::size_t r = 0; r < 2; ++r) {
          EXPECT_TRUE(endings[r].fault.has_value()) << where;
          EXPECT_EQ(endings[r].culprits, std::vector<Rank>{static_cast<Rank>(1 - r)}) << where;
          EXPECT_LT(endings[r].after, 1.5) << where;
        }
      }
    }
  }
}

TEST_F(ManInTheMiddle, ToleratesDelayAndFragmentation) {
  for (const Meddling& meddling : {Meddling{.delay = {0.005}}, Meddling{.dribble = 900}}) {
    Pair pair(meddling, encrypted(2, kPatient));
    for (const Ending& ending : pair.run([](World& world) {
           allreduce_ones(world, 1000);
           allreduce_ones(world, kLong);
         })) {
      EXPECT_TRUE(ending.well()) << ending.message;
    }
  }
}

}  // namespace
}  // namespace trireme::comm
