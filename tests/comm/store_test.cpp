// The stores: what both guarantee, and failures that only TCP has.
#include <atomic>
#include <limits>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "comm/rendezvous/memory_store.h"
#include "comm/rendezvous/tcp_store.h"
#include "comm/rendezvous/tcp_store_server.h"
#include "comm/rendezvous_helpers.h"

namespace trireme::comm {
namespace {

TcpStoreServerOptions server_options(Encryption encryption = Encryption::None) {
  return {.listen = {}, .secret = job_secret(), .encryption = encryption};
}

std::unique_ptr<TcpStore> client_of(const TcpStoreServer& server,
                                    Encryption encryption = Encryption::None) {
  return std::make_unique<TcpStore>(
      TcpStoreOptions{.server = server.address(), .secret = job_secret(), .encryption = encryption},
      soon());
}

enum class Kind { Memory, Tcp, Tls };

/// A store of each kind, with any number of clients.
class AnyStore : public testing::TestWithParam<Kind> {
 protected:
  AnyStore() {
    if (GetParam() != Kind::Memory) {
      server_ = std::make_unique<TcpStoreServer>(server_options(encryption()));
    }
  }
  std::shared_ptr<Store> enter() {
    return server_ == nullptr ? memory_ : std::shared_ptr<Store>(client_of(*server_, encryption()));
  }
  static Encryption encryption() {
    return GetParam() == Kind::Tls ? Encryption::Tls : Encryption::None;
  }

 private:
  LeakCheck leaks_;
  std::shared_ptr<Store> memory_ = std::make_shared<MemoryStore>();
  std::unique_ptr<TcpStoreServer> server_;
};

TEST_P(AnyStore, StoresArbitraryBytes) {
  const auto a = enter();
  const auto b = enter();
  const std::string value("\0\n\xff value", 9);
  a->set("key", value);
  EXPECT_EQ(b->get("key", soon()), value);
  b->set("key", "");
  EXPECT_EQ(a->get("key", soon()), "");
}

TEST_P(AnyStore, StoresLongestValueAndRejectsLonger) {
  const auto store = enter();
  std::string value(kLongestValue, 'x');
  value.back() = 'y';
  store->set("key", value);
  EXPECT_EQ(enter()->get("key", soon()), value);
  value.push_back('z');
  expect_error(ErrorKind::Usage, {"'key' has 16777217 bytes", "16777216"},
               [&] { store->set("key", value); });
  expect_error(ErrorKind::Usage, {"a key of 0 bytes"}, [&] { store->set("", "x"); });
  expect_error(ErrorKind::Usage, {"a key of 1025 bytes"},
               [&] { (void)store->get(std::string(1025, 'k'), soon()); });
  store->set(std::string(1024, 'k'), "still here");
}

TEST_P(AnyStore, GetWaitsForKey) {
  const auto waiting = enter();
  std::string got;
  std::thread waiter([&] { got = waiting->get("late", soon()); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  enter()->set("late", "here");
  waiter.join();
  EXPECT_EQ(got, "here");
}

TEST_P(AnyStore, GetTimesOutAndStoreContinues) {
  const auto store = enter();
  for (int i = 0; i < 3; ++i) {
    expect_error(ErrorKind::Peer, {"key 'missing' was not set within"},
                 [&] { (void)store->get("missing", deadline_in({0.01})); });
  }
  store->set("missing", "1");
  EXPECT_EQ(store->get("missing", soon()), "1");
  EXPECT_EQ(store->add("missing", 41), 42);
}

TEST_P(AnyStore, AddCountsAndRejectsNonNumbers) {
  const auto store = enter();
  EXPECT_EQ(store->add("count", 5), 5);
  EXPECT_EQ(store->add("count", -7), -2);
  EXPECT_EQ(store->get("count", soon()), "-2");
  store->set("word", "seven");
  expect_error(ErrorKind::Usage, {"cannot add 1 to key 'word'", "'seven'"},
               [&] { store->add("word", 1); });
  store->add("large", std::numeric_limits<std::int64_t>::max());
  expect_error(ErrorKind::Usage, {"more than 64 bits"}, [&] { store->add("large", 1); });
  EXPECT_EQ(store->add("count", 0), -2);
}

TEST_P(AnyStore, InsertKeepsFirstValue) {
  const auto store = enter();
  EXPECT_EQ(store->insert("key", ""), "");
  EXPECT_EQ(store->insert("key", "second"), "");
  store->set("other", "set");
  EXPECT_EQ(store->insert("other", "inserted"), "set");
  EXPECT_EQ(store->get("other", soon()), "set");
  expect_error(ErrorKind::Usage, {"a key of 0 bytes"}, [&] { store->insert("", "value"); });
  std::thread waiter([&] { EXPECT_EQ(enter()->get("late", soon()), "here"); });
  EXPECT_EQ(store->insert("late", "here"), "here");
  waiter.join();
}

/// If many insert at the same moment one wins, and all see the same winner.
TEST_P(AnyStore, InsertHasOneWinner) {
  constexpr int kClients = 8;
  std::atomic<int> winners = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kClients; ++i) {
    threads.emplace_back([&, i] {
      const auto store = enter();
      for (int round = 0; round < 50; ++round) {
        const std::string key = "round " + std::to_string(round);
        const std::string present = store->insert(key, std::to_string(i));
        winners += present == std::to_string(i);
        EXPECT_EQ(present, store->get(key, soon()));
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(winners, 50);
}

TEST_P(AnyStore, ServesConcurrentClients) {
  constexpr int kClients = 24;
  constexpr int kRounds = 20;
  std::atomic<int> good = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kClients; ++i) {
    threads.emplace_back([&, i] {
      const auto store = enter();
      for (int round = 0; round < kRounds; ++round) {
        // Each waits for its neighbor's key of this round; all draw tickets.
        const std::string prefix = std::to_string(round) + "/";
        store->set(prefix + std::to_string(i), std::to_string(i * round));
        store->add("tickets", 1);
        const int next = (i + 1) % kClients;
        good += store->get(prefix + std::to_string(next), soon()) == std::to_string(next * round);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(good, kClients * kRounds);
  EXPECT_EQ(enter()->add("tickets", 0), kClients * kRounds);
}

INSTANTIATE_TEST_SUITE_P(Kinds, AnyStore, testing::Values(Kind::Memory, Kind::Tcp, Kind::Tls),
                         [](const auto& kind) {
                           return kind.param == Kind::Memory ? "Memory"
                                  : kind.param == Kind::Tcp  ? "Tcp"
                                                             : "Tls";
                         });

/// Whether the server has dropped a client with this word in the reason.
bool refused_with(const TcpStoreServer& server, const std::string& word) {
  return becomes_true([&] {
    for (const std::string& refusal : server.refusals()) {
      if (refusal.find(word) != std::string::npos) {
        return true;
      }
    }
    return false;
  });
}

TEST(TcpStore, ReportsSecretMismatchOnBothSides) {
  const LeakCheck leaks;
  const TcpStoreServer server(server_options());
  const Clock::time_point begin = Clock::now();
  expect_error(ErrorKind::Peer, {"store " + to_text(server.address()), "another secret"}, [&] {
    const TcpStore store({.server = server.address(), .secret = Secret::random()}, soon());
  });
  EXPECT_LT(since(begin).count, 1.0);
  EXPECT_TRUE(refused_with(server, "its secret differs"));
}

TEST(TcpStore, RejectsForeignClientsWhileServingOthers) {
  const LeakCheck leaks;
  TcpStoreServerOptions options = server_options();
  options.handshake_patience = {0.3};
  const TcpStoreServer server(options);
  const auto good = client_of(server);
  const Fd silent = connect_to(server.address(), soon());
  const Fd garbage = connect_to(server.address(), soon());
  const Fd old = connect_to(server.address(), soon());
  const Fd half = connect_to(server.address(), soon());
  send_all(garbage, bytes_of("SSH-2.0-OpenSSH_9.2\r\n"), soon());
  send_all(old, hello_of_version(77), soon());
  send_all(half, bytes_of("TRIREME"), soon());
  const Clock::time_point begin = Clock::now();
  good->set("key", "value");
  EXPECT_LT(since(begin).count, 1.0);
  EXPECT_TRUE(gets_closed(garbage, deadline_in({1.0})));
  EXPECT_TRUE(gets_closed(old, deadline_in({1.0})));
  EXPECT_TRUE(refused_with(server, "not a Trireme peer (first bytes 53 53 48 2d"));
  EXPECT_TRUE(refused_with(server, "version 77"));
  EXPECT_TRUE(gets_closed(silent, soon()));
  EXPECT_TRUE(gets_closed(half, soon()));
  EXPECT_TRUE(refused_with(server, "did not finish the handshake within 300 ms"));
  EXPECT_EQ(good->get("key", soon()), "value");
}

std::int64_t peak_memory_kib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

TEST(TcpStore, ClosesOnFloodBeforeHandshakeCompletes) {
  const LeakCheck leaks;
  const TcpStoreServer server(server_options());
  std::vector<std::byte> flood = hello_of_version(1);  // begins correctly
  flood.resize(std::size_t{32} << 20, std::byte{'T'});
  const std::int64_t before = peak_memory_kib();
  const Fd socket = connect_to(server.address(), soon());
  const Clock::time_point begin = Clock::now();
  expect_error(ErrorKind::System, {"closed the connection"},
               [&] { send_all(socket, flood, soon()); });
  EXPECT_LT(since(begin).count, 1.0);
  if (!kSanitized) {
    EXPECT_LT(peak_memory_kib() - before, 8 << 10);
  }
  EXPECT_TRUE(refused_with(server, "not a Trireme peer (first bytes 54 54"));
}

/// A client that has proved the secret and then sends anything it likes.
Channel rogue_of(const TcpStoreServer& server) {
  Channel channel(connect_to(server.address(), soon()), options_for(Side::Client));
  open(channel, soon());
  return channel;
}

TEST(TcpStore, DisconnectsMemberThatSendsGarbageWithReason) {
  const LeakCheck leaks;
  const TcpStoreServer server(server_options());
  const auto good = client_of(server);
  Channel rogue = rogue_of(server);
  send_all(rogue, bytes_of("\xff\xff\xff\xff garbage"), soon());
  FrameReader reader;
  std::vector<std::byte> bytes(1000);
  reader.add(std::span(bytes).first(receive_some(rogue, bytes, soon())));
  const Reply last = decode_reply(reader.next().value());
  EXPECT_EQ(last.id, 0U);
  EXPECT_NE(last.body.find("4294967295 bytes are announced"), std::string::npos) << last.body;
  EXPECT_TRUE(gets_closed(rogue.socket(), soon()));
  EXPECT_TRUE(refused_with(server, "4294967295 bytes are announced"));
  EXPECT_EQ(good->add("alive", 1), 1);
}

TEST(TcpStore, GivesReasonDespitePendingInput) {
  const TcpStoreServer server(server_options());
  TcpStore store({.server = server.address(), .secret = job_secret()}, soon());
  Channel rogue = rogue_of(server);
  send_all(rogue, bytes_of(std::string(50000, '\xff')), soon());
  std::vector<std::byte> bytes(1000);
  EXPECT_GT(receive_some(rogue, bytes, soon()), 0U);
  EXPECT_EQ(store.add("alive", 1), 1);
}

TEST(TcpStore, SurvivesRandomFramesFromMembers) {
  const LeakCheck leaks;
  const TcpStoreServer server(server_options());
  const auto good = client_of(server);
  std::mt19937_64 random(11);
  for (int i = 0; i < 100; ++i) {
    Channel rogue = rogue_of(server);
    std::string bytes(random() % 300, '\0');
    for (char& byte : bytes) {
      byte = static_cast<char>(random());
    }
    if (!bytes.empty() && i % 2 == 0) {  // a length that may be valid
      bytes.replace(0, std::min<std::size_t>(4, bytes.size()), std::string("\x20\0\0\0", 4));
    }
    send_all(rogue, bytes_of(bytes), soon());
  }
  EXPECT_EQ(good->add("alive", 1), 1);
}

TEST(TcpStore, ThrottlesMemberThatDoesNotReceive) {
  constexpr std::uint32_t kAsks = kSanitized ? 5 : 16;  // of 16 MiB each
  const LeakCheck leaks;
  const TcpStoreServer server(server_options());
  const auto good = client_of(server);
  good->set("large", std::string(kLongestValue, 'x'));
  Channel rogue = rogue_of(server);
  std::string asks;
  for (std::uint32_t id = 1; id <= kAsks; ++id) {
    asks += encode(Request{.id = id, .what = Request::What::Get, .key = "large", .value = {}});
  }
  const std::int64_t before = peak_memory_kib();
  send_all(rogue, bytes_of(asks), soon());
  for (int i = 0; i < 20; ++i) {
    good->add("alive", 1);
  }
  if (!kSanitized) {
    EXPECT_LT(peak_memory_kib() - before, 160 << 10);
  }
  // Once it receives, it gets all of them.
  FrameReader reader;
  std::vector<std::byte> bytes(std::size_t{1} << 20);
  for (std::uint32_t id = 1; id <= kAsks;) {
    const std::size_t got = receive_some(rogue, bytes, soon());
    ASSERT_GT(got, 0U);
    reader.add(std::span(bytes).first(got));
    while (const auto frame = reader.next()) {
      ASSERT_EQ(decode_reply(*frame).id, id++);
    }
  }
}

TEST(TcpStore, ReportsServerDisconnect) {
  const LeakCheck leaks;
  auto server = std::make_unique<TcpStoreServer>(server_options());
  const std::string address = to_text(server->address());
  const auto store = client_of(*server);
  std::thread end([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    server.reset();
  });
  expect_error(ErrorKind::System, {"lost the store at " + address, "closed the connection"},
               [&] { (void)store->get("never", soon()); });
  end.join();
  expect_error(ErrorKind::System, {"lost the store at " + address},
               [&] { store->set("key", "value"); });
}

TEST(TcpStore, DetectsKilledServerProcess) {
  const LeakCheck leaks;
  const Listener report = listen_on();
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const TcpStoreServer server(server_options());
    const Fd parent = connect_to(report.address, soon());
    send_all(parent, std::as_bytes(std::span(&server.address().port, 1)), soon());
    ::pause();
    ::_exit(0);
  }
  Address address;
  const Fd socket = accept_one(report.socket, soon());
  receive_all(socket, std::as_writable_bytes(std::span(&address.port, 1)), soon());
  TcpStore store({.server = address, .secret = job_secret()}, soon());
  EXPECT_EQ(store.add("count", 1), 1);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  const Clock::time_point begin = Clock::now();
  expect_error(ErrorKind::System, {"lost the store at " + to_text(address)},
               [&] { (void)store.get("never", soon()); });
  EXPECT_LT(since(begin).count, 1.0);
}

TEST(TcpStore, WaitsForServerOnlyUntilDeadline) {
  Address address;
  { address = listen_on().address; }
  expect_error(ErrorKind::System, {"cannot connect to " + to_text(address)}, [&] {
    const TcpStore store({.server = address, .secret = job_secret()}, deadline_in({0.05}));
  });
  const Listener mute = listen_on();
  expect_error(ErrorKind::Peer, {to_text(mute.address), "did not finish the handshake"}, [&] {
    const TcpStore store({.server = mute.address, .secret = job_secret()}, deadline_in({0.05}));
  });
}

TEST(TcpStoreServer, StopsPromptlyWithAnyClients) {
  const LeakCheck leaks;
  auto server = std::make_unique<TcpStoreServer>(server_options());
  const Fd silent = connect_to(server->address(), soon());
  const auto idle = client_of(*server);
  const auto waiting = client_of(*server);
  std::thread waiter([&] { EXPECT_THROW((void)waiting->get("never", soon()), Error); });
  const Clock::time_point begin = Clock::now();
  server.reset();
  EXPECT_LT(since(begin).count, 1.0);
  waiter.join();
}

}  // namespace
}  // namespace trireme::comm
