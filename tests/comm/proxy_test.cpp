// Faulty networks and strangers: a proxy between two ranks that delays, changes or cuts the traffic, and callers that
// do not belong to the job.
#include "comm/proxy.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "comm/join/join.h"
#include "comm/network_parts.h"
#include "comm/proxied_pair.h"
#include "comm/rendezvous/memory_store.h"
#include "comm/rendezvous/tcp_store.h"
#include "comm/rendezvous/tcp_store_server.h"
#include "comm/rendezvous_helpers.h"
#include "comm/timed.h"
#include "trireme/comm.h"

namespace trireme::comm {
namespace {

TEST_F(Proxied, ToleratesDelay) {
  Pair pair({.delay = {0.01}}, {.deadline = kPatient});
  for (const Ending& ending : pair.run([](World& world) {
         allreduce_ones(world, 10);
         allreduce_ones(world, kLong);
       })) {
    EXPECT_TRUE(ending.well()) << ending.message;
    EXPECT_GT(ending.after, 0.03);
  }
}

/// A rank that is done says goodbye on its first connection, while its data is in flight on another.
TEST_F(Proxied, WaitsForDataSentBeforeGoodbye) {
  Pair pair({.delay = {0.3}, .delayed = 1}, {.deadline = kPatient, .connections = 2});
  for (const Ending& ending : pair.run([](World& world) { allreduce_ones(world, kLong); })) {
    EXPECT_TRUE(ending.well()) << ending.message;
  }
}

TEST_F(Proxied, ReadsByteByByte) {
  Pair pair({.dribble = 400}, {.deadline = kPatient});
  for (const Ending& ending : pair.run([](World& world) { allreduce_ones(world, 1000); })) {
    EXPECT_TRUE(ending.well()) << ending.message;
  }
}

void expect_damage_found(const TrafficSpot& spot, unsigned bit) {
  Pair pair({.flip = spot, .bit = bit});
  const std::array<Ending, 2> endings = pair.run([](World& world) {
    for (int i = 0; i < 50; ++i) {  // the second connection gets little traffic
      allreduce_ones(world, kLong);
    }
  });
  const std::size_t receiver = spot.way == Way::ToServer ? 1 : 0;
  const std::string where =
      fmt::format("bit {} of byte {} of connection {}, {}: rank 0: {}; rank 1: {}", bit, spot.byte,
                  spot.connection, spot.way == Way::ToServer ? "to rank 1" : "to rank 0",
                  endings[0].message, endings[1].message);
  EXPECT_TRUE(pair.has_struck()) << where;
  for (const Ending& ending : endings) {
    EXPECT_TRUE(ending.fault.has_value()) << where;
    EXPECT_LT(ending.after, 1.5) << where;
  }
  EXPECT_TRUE(endings[receiver].fault == CommFault::Corrupt ||
              endings[receiver].fault == CommFault::Died)
      << where;
  EXPECT_EQ(endings[receiver].culprits, std::vector<Rank>{static_cast<Rank>(1 - receiver)})
      << where;
  EXPECT_NE(endings[receiver].message.find("damaged"), std::string::npos) << where;
}

TEST_F(Proxied, DetectsDamagedData) {
  for (const std::size_t connection : {std::size_t{0}, std::size_t{1}}) {
    for (const Way way : {Way::ToServer, Way::ToClient}) {
      for (const std::size_t byte : {std::size_t{5000}, std::size_t{300000}}) {
        expect_damage_found(data_spot(connection, way, byte), 3);
      }
    }
  }
}

/// The first header on each connection: damage there must be detected, too, whatever it would mean. The bytes belong
/// to: magic, topic, padding, context, number, fingerprint, total (low and high), offset (low and high), length,
/// serial, checksum.
TEST_F(Proxied, DetectsDamagedHeaders) {
  Way way = Way::ToServer;
  for (const std::size_t connection : {std::size_t{0}, std::size_t{1}}) {
    for (const std::size_t byte : {0, 4, 6, 9, 17, 26, 33, 37, 41, 45, 50, 53, 58}) {
      expect_damage_found(data_spot(connection, way, byte), static_cast<unsigned>(byte % 8));
      way = way == Way::ToServer ? Way::ToClient : Way::ToServer;
    }
  }
}

/// The message is unexpected, and its damaged header claims a length of 32 TiB.
TEST_F(Proxied, DetectsDamagedLengthOfEarlyMessage) {
  Pair pair({.flip = data_spot(0, Way::ToServer, 37), .bit = 5});
  const std::array<Ending, 2> endings = pair.run([](World& world) {
    std::vector<std::int32_t> data(100);
    if (world.rank() == 0) {
      world.all().send<std::int32_t>(data, 1);
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      world.all().receive<std::int32_t>(data, 0);
    }
    world.all().barrier();
  });
  EXPECT_TRUE(endings[0].fault.has_value()) << endings[0].message;
  EXPECT_NE(endings[1].message.find("damaged"), std::string::npos) << endings[1].message;
}

void expect_cut_noticed(const TrafficSpot& spot, const Pair::Body& body) {
  Pair pair({.close = spot});
  const std::array<Ending, 2> endings = pair.run(body);
  const std::string where =
      fmt::format("byte {} of connection {}: rank 0: {}; rank 1: {}", spot.byte, spot.connection,
                  endings[0].message, endings[1].message);
  EXPECT_TRUE(pair.has_struck()) << where;
  for (std::size_t r = 0; r < 2; ++r) {
    EXPECT_TRUE(endings[r].fault == CommFault::Died || endings[r].fault == CommFault::Stopped ||
                endings[r].fault == CommFault::Left)
        << where;
    EXPECT_EQ(endings[r].culprits, std::vector<Rank>{static_cast<Rank>(1 - r)}) << where;
    EXPECT_LT(endings[r].after, 1.5) << where;
  }
}

TEST_F(Proxied, DetectsCloseMidMessage) {
  for (const std::size_t connection : {std::size_t{0}, std::size_t{1}}) {
    for (const Way way : {Way::ToServer, Way::ToClient}) {
      for (const std::size_t byte : {std::size_t{20}, std::size_t{300000}}) {
        expect_cut_noticed(data_spot(connection, way, byte), [](World& world) {
          for (int i = 0; i < 3; ++i) {
            allreduce_ones(world, kLong);
          }
        });
      }
    }
  }
}

/// The same if only one side sends: the other must not wait for data that can no longer arrive.
TEST_F(Proxied, DetectsCloseDuringBroadcast) {
  for (const std::size_t connection : {std::size_t{0}, std::size_t{1}}) {
    expect_cut_noticed(data_spot(connection, Way::ToClient, 200000), [](World& world) {
      std::vector<std::int32_t> data(kLong);
      world.all().run(broadcast<std::int32_t>(data, 1));
      world.all().barrier();
    });
  }
}

/// Closes one of three connections during short calls; returns how long the slower rank took to detect it.
double seconds_until_noticed(std::size_t connection, bool encrypt) {
  Pair pair({}, {.deadline = {10.0}, .encrypt = encrypt, .connections = 3});
  std::atomic<Clock::time_point> cut{};
  std::array<double, 2> noticed{};
  const std::array<Ending, 2> endings = pair.run([&](World& world) {
    allreduce_ones(world, kLong);
    if (world.rank() == 0) {
      cut = Clock::now();
      pair.proxy().cut(connection);
    }
    try {
      for (const Deadline end = deadline_in({3.0}); !passed(end);) {
        std::vector<std::int32_t> data(10, 1);
        world.all().run(allreduce<std::int32_t>(data));
      }
    } catch (const CommError&) {
      noticed[world.rank()] = since(cut.load()).count;
      throw;
    }
  });
  for (std::size_t r = 0; r < 2; ++r) {
    EXPECT_EQ(endings[r].culprits, std::vector<Rank>{static_cast<Rank>(1 - r)})
        << endings[r].message;
  }
  return std::ranges::max(noticed);
}

/// Short calls use only the first connection, which stays; the other is closed while it is idle. Both ranks must detect
/// that soon, long before a deadline, or the next long message would be lost.
TEST_F(Proxied, DetectsCloseBetweenPiecesImmediately) {
  constexpr double kBound = kSanitized ? 1.0 : 0.1;
  for (const bool encrypt : {false, true}) {
    for (const std::size_t connection : {std::size_t{0}, std::size_t{1}, std::size_t{2}}) {
      EXPECT_LT(test::fastest_of_three(kBound,
                                       [&] { return seconds_until_noticed(connection, encrypt); }),
                kBound)
          << "connection " << connection;
    }
  }
}

/// A piece of a long message has not started when its connection closes.
TEST_F(Proxied, DetectsCloseBeforePieceOfLongMessageImmediately) {
  constexpr std::size_t kPiece = 64 + (std::size_t{256} << 10);
  for (const Way way : {Way::ToServer, Way::ToClient}) {
    Pair pair({.close = data_spot(1, way, 4 * kPiece)}, {.deadline = {5.0}});
    for (const Ending& ending : pair.run([](World& world) {
           for (int i = 0; i < 3; ++i) {
             allreduce_ones(world, kLong);
           }
         })) {
      EXPECT_TRUE(ending.fault.has_value()) << ending.message;
      EXPECT_LT(ending.after, 1.5) << ending.message;
    }
    EXPECT_TRUE(pair.has_struck());
  }
}

/// Rank 1 is alive but does not join a call. Returns how that ends for rank 0.
Ending wait_until_timeout(Seconds deadline) {
  Pair pair({}, {.deadline = deadline});
  std::atomic<bool> over = false;
  const std::array<Ending, 2> endings = pair.run([&](World& world) {
    allreduce_ones(world, 10);
    const Deadline end = deadline_in({40 * deadline.count});
    while (world.rank() == 1 && !over && !passed(end)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    if (world.rank() == 0) {
      try {
        allreduce_ones(world, 10);
      } catch (...) {
        over = true;
        throw;
      }
    }
  });
  return endings[0];
}

/// A connection that carries only heartbeats must not extend the patience forever.
TEST_F(Proxied, LateRankIsReported) {
  constexpr Seconds kDeadline{0.2};
  Ending ending = wait_until_timeout(kDeadline);
  for (int i = 0; i < 2 && ending.fault == CommFault::Stopped; ++i) {
    ending = wait_until_timeout(kDeadline);  // it was stopped: the machine gave it no time
  }
  EXPECT_EQ(ending.fault, CommFault::Late) << ending.message;
  EXPECT_EQ(ending.culprits, std::vector<Rank>{1});
  EXPECT_GT(ending.after, 30 * kDeadline.count);
  EXPECT_LT(ending.after, 35 * kDeadline.count);
}

/// A currently free port of this host.
Address free_address() {
  return listen_on().address;
}

/// Rank 1 reaches the store through a proxy; rank 0 serves it.
std::array<std::string, 2> join_through(const Meddling& meddling) {
  const Address address = free_address();
  const Proxy proxy(address, meddling);
  const std::string secret = Secret::random().hex();
  std::array<std::string, 2> errors;
  const auto run_rank = [&](Rank rank) {
    try {
      World world = trireme::join({.rank = rank,
                                   .size = 2,
                                   .store = to_text(rank == 0 ? address : proxy.address()),
                                   .secret = secret},
                                  {.transport = TransportKind::Tcp});
      allreduce_ones(world, 1000);
    } catch (const std::exception& error) {
      errors[rank] = error.what();
    }
  };
  std::thread one(run_rank, 1);
  run_rank(0);
  one.join();
  return errors;
}

TEST_F(Proxied, StoreIsReachableOverBadLink) {
  for (const Meddling& meddling : {Meddling{.delay = {0.01}}, Meddling{.dribble = 600}}) {
    const std::array<std::string, 2> errors = join_through(meddling);
    EXPECT_EQ(errors[0], "");
    EXPECT_EQ(errors[1], "");
  }
}

TEST_F(Proxied, ReportsUnreachableStore) {
  const Secret secret = Secret::random();
  const TcpStoreServer server({.listen = {}, .secret = secret});
  const Proxy proxy(server.address(), {.close = TrafficSpot{.way = Way::ToClient, .byte = 1000}});
  TcpStore store({.server = proxy.address(), .secret = secret}, soon());
  store.set("key", std::string(5000, 'x'));
  expect_error(ErrorKind::System, {to_text(proxy.address())},
               [&] { (void)store.get("key", soon()); });
}

// Foreign peers.

/// A stranger that connects and does not belong to the job.
struct Stranger {
  std::string name;
  std::function<void(const Fd& socket)> act;
};

std::vector<std::byte> hello(Purpose purpose) {
  HandshakeOptions options = options_for(Side::Client);
  options.purpose = purpose;
  const Handshake client(options);
  return {client.to_send().begin(), client.to_send().end()};
}

/// Sends what it can before it is disconnected.
void say(const Fd& socket, std::span<const std::byte> bytes) {
  try {
    send_all(socket, bytes, deadline_in({5.0}));
  } catch (const Error&) {
    return;
  }
}

/// Begins as one of us but cannot prove it: after the server's answer it sends this instead of a proof.
void pretend(const Fd& socket, Purpose purpose, std::size_t bytes) {
  say(socket, hello(purpose));
  std::vector<std::byte> answer(77);
  receive_all(socket, answer, soon());
  std::vector<std::byte> proof = hello(purpose);  // the head is valid, the rest is not
  proof.resize(std::max(bytes, proof.size()));
  say(socket, proof);
}

std::vector<Stranger> strangers(Purpose purpose) {
  const Purpose other = purpose == Purpose::Data ? Purpose::Store : Purpose::Data;
  constexpr std::size_t kFlood = std::size_t{1} << 20;
  return {
      {"garbage", [](const Fd& s) { say(s, bytes_of("GET / HTTP/1.1\r\n\r\n")); }},
      {"flood", [](const Fd& s) { say(s, std::vector<std::byte>(kFlood)); }},
      {"another version",
       [=](const Fd& s) {
         std::vector<std::byte> bytes = hello(purpose);
         bytes[8] = std::byte{99};
         say(s, bytes);
       }},
      {"another purpose", [=](const Fd& s) { say(s, hello(other)); }},
      {"wrong proof", [=](const Fd& s) { pretend(s, purpose, 45); }},
      {"flood instead of a proof", [=](const Fd& s) { pretend(s, purpose, kFlood); }},
  };
}

/// How long until the server closed the connection, in seconds; infinity if it did not.
double time_to_refuse(const Stranger& stranger, const Fd& socket) {
  const Clock::time_point begin = Clock::now();
  stranger.act(socket);
  const bool closed = gets_closed(socket, deadline_in({5.0}));
  return closed ? since(begin).count : std::numeric_limits<double>::infinity();
}

/// The machine may be busy: the best of a few attempts counts.
void expect_refused(const Stranger& stranger, const Address& server) {
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 3 && best > 0.1; ++i) {
    best = std::min(best, time_to_refuse(stranger, connect_to(server, soon())));
  }
  EXPECT_LT(best, 0.1) << stranger.name;
}

TEST(ForeignPeers, RanksRejectThemAndStillConnect) {
  const Secret secret = Secret::random();
  const auto one = make_tcp_transport(parts_of(1, secret));
  std::thread answering([&] { one->connect({{.rank = 0}}, soon()); });
  const Address server = parse_address(one->address());
  for (const Stranger& stranger : strangers(Purpose::Data)) {
    expect_refused(stranger, server);
  }
  const auto impostor = make_tcp_transport(parts_of(0, Secret::random()));
  expect_error(ErrorKind::Peer, {"secret"}, [&] {
    impostor->connect({{1, one->address()}}, soon());
  });

  const auto zero = make_tcp_transport(parts_of(0, secret));
  zero->connect({{1, one->address()}}, soon());
  answering.join();
  const auto from = zero->streams(1);
  const auto to = one->streams(0);
  ASSERT_EQ(from.size(), to.size());
  for (std::size_t k = 0; k < from.size(); ++k) {
    const std::array<std::byte, 1> sent{static_cast<std::byte>(k + 7)};
    EXPECT_EQ(from[k]->write(sent, {}), 1U);
    std::array<std::byte, 1> got{};
    EXPECT_TRUE(becomes_true([&] { return to[k]->read(got) == 1; }));
    EXPECT_EQ(got, sent);
  }
}

TEST(ForeignPeers, StoreRejectsThemAndStillServes) {
  const Secret secret = Secret::random();
  const TcpStoreServer server({.listen = {}, .secret = secret});
  for (const Stranger& stranger : strangers(Purpose::Store)) {
    expect_refused(stranger, server.address());
  }
  TcpStore store({.server = server.address(), .secret = secret}, soon());
  store.set("key", "value");
  EXPECT_EQ(store.get("key", soon()), "value");
}

/// All of them at once while a world forms, and some that send nothing and stay.
TEST(ForeignPeers, DoNotPreventWorldFromForming) {
  MemoryStore store;
  std::vector<Fd> silent;
  std::vector<std::thread> callers;
  DetourStore detour(store, [&](const std::string& text) {
    const Address address = parse_address(text);
    for (int i = 0; i < 20; ++i) {
      silent.push_back(connect_to(address, soon()));
    }
    for (const Stranger& stranger : strangers(Purpose::Data)) {
      callers.emplace_back([stranger, socket = connect_to(address, soon())] {
        try {
          EXPECT_LT(time_to_refuse(stranger, socket), 5.0) << stranger.name;
        } catch (const Error&) {
          return;  // disconnected in the middle
        }
      });
    }
    return text;
  });
  const Secret secret = Secret::random();
  const WorldOptions options{.transport = TransportKind::Tcp};
  const auto run_rank = [&](Rank rank) {
    Store& own = rank == 1 ? static_cast<Store&>(detour) : store;
    World world(join({rank, 2, options, own, nullptr, secret}));
    allreduce_ones(world, 1000);
  };
  std::thread one([&] { EXPECT_NO_THROW(run_rank(1)); });
  EXPECT_NO_THROW(run_rank(0));
  one.join();
  for (std::thread& caller : callers) {
    caller.join();
  }
}

}  // namespace
}  // namespace trireme::comm
