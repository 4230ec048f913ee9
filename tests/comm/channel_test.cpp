#include "comm/net/channel.h"

#include <algorithm>
#include <array>
#include <random>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "comm/net/tls.h"
#include "comm/rendezvous_helpers.h"

namespace trireme::comm {
namespace {

/// Opens a channel on each end of a connection at once; returns the errors, or "".
struct Opened {
  Channel client;
  Channel server;
  std::string client_error{};
  std::string server_error{};
};
Opened open_both(const HandshakeOptions& client, const HandshakeOptions& server) {
  SocketPair pair = connected();
  Opened opened{.client = Channel(std::move(pair.client), client),
                .server = Channel(std::move(pair.server), server)};
  const auto try_open = [](Channel& channel) -> std::string {
    try {
      open(channel, soon());
      return "";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Peer) << error.what();
      return error.what();
    }
  };
  std::thread other([&] { opened.server_error = try_open(opened.server); });
  opened.client_error = try_open(opened.client);
  other.join();
  return opened;
}

class ChannelMode : public testing::TestWithParam<Encryption> {
 protected:
  static HandshakeOptions options(Side side) {
    HandshakeOptions result = options_for(side);
    result.encryption = GetParam();
    return result;
  }
};

std::vector<std::byte> receive_exactly(Channel& channel, std::size_t bytes) {
  std::vector<std::byte> got(bytes);
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t more = receive_some(channel, std::span(got).subspan(done), soon());
    if (more == 0) {
      throw Error(ErrorKind::Peer, "silence");
    }
    done += more;
  }
  return got;
}

TEST_P(ChannelMode, CarriesBytesBothWays) {
  const LeakCheck leaks;
  Opened both = open_both(options(Side::Client), options(Side::Server));
  ASSERT_EQ(both.client_error, "");
  ASSERT_EQ(both.server_error, "");
  std::vector<std::byte> data(std::size_t{6} << 20);
  std::mt19937_64 random(7);
  for (std::byte& byte : data) {
    byte = static_cast<std::byte>(random());
  }
  std::thread server([&] {
    const std::vector<std::byte> got = receive_exactly(both.server, data.size());
    send_all(both.server, got, soon());
  });
  send_all(both.client, data, soon());
  EXPECT_EQ(receive_exactly(both.client, data.size()), data);
  server.join();
}

TEST_P(ChannelMode, ServerMaySendFirst) {
  Opened both = open_both(options(Side::Client), options(Side::Server));
  std::thread server([&] { send_all(both.server, bytes_of("hi"), soon()); });
  EXPECT_EQ(to_hex(receive_exactly(both.client, 2)), to_hex(bytes_of("hi")));
  server.join();
}

TEST_P(ChannelMode, ReportsPeerDisconnect) {
  Opened both = open_both(options(Side::Client), options(Side::Server));
  std::thread server([&] {
    send_all(both.server, bytes_of("bye"), soon());
    const Channel ended = std::move(both.server);
  });
  (void)receive_exactly(both.client, 3);
  server.join();
  expect_error(ErrorKind::System, {"closed the connection"},
               [&] { (void)receive_exactly(both.client, 1); });
}

TEST_P(ChannelMode, WaitsEndAtDeadline) {
  Opened both = open_both(options(Side::Client), options(Side::Server));
  std::array<std::byte, 4> bytes{};
  EXPECT_EQ(receive_some(both.client, bytes, deadline_in({0.02})), 0U);
  const std::vector<std::byte> much(std::size_t{64} << 20);
  expect_error(ErrorKind::System, {GetParam() == Encryption::Tls ? "0 of" : "accepts no more data"},
               [&] { send_all(both.client, much, deadline_in({0.05})); });
}

INSTANTIATE_TEST_SUITE_P(Modes, ChannelMode, testing::Values(Encryption::None, Encryption::Tls),
                         [](const auto& mode) {
                           return mode.param == Encryption::Tls ? "Tls" : "Plain";
                         });

TEST(Channel, TlsHidesPayload) {
  // A relay that records everything that passes.
  const Listener front = listen_on();
  HandshakeOptions client_options = options_for(Side::Client);
  HandshakeOptions server_options = options_for(Side::Server);
  client_options.encryption = server_options.encryption = Encryption::Tls;
  Channel client(connect_to(front.address, soon()), client_options);
  Fd client_side = accept_one(front.socket, soon());
  SocketPair behind = connected();
  Channel server(std::move(behind.server), server_options);
  const std::string word = "confidential words";
  std::string seen;
  std::thread relay([&] {
    std::array<std::byte, 4096> bytes{};
    const auto pass = [&](const Fd& from, const Fd& to) {
      const Transfer got = receive_some(from, bytes);
      if (got.outcome == Transfer::Outcome::Moved) {
        const auto part = std::span(bytes).first(got.bytes);
        seen.append(reinterpret_cast<const char*>(part.data()), part.size());
        send_all(to, part, soon());
      }
      return got.outcome != Transfer::Outcome::Closed;
    };
    while (pass(client_side, behind.client) && pass(behind.client, client_side)) {
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  });
  std::string heard;
  std::thread other([&] {
    open(server, soon());
    const auto got = receive_exactly(server, word.size());
    heard.assign(reinterpret_cast<const char*>(got.data()), got.size());
    const Channel ended = std::move(server);
  });
  open(client, soon());
  send_all(client, bytes_of(word), soon());
  other.join();
  relay.join();
  EXPECT_EQ(heard, word);
  EXPECT_GT(seen.size(), 180U + word.size());
  EXPECT_EQ(seen.find(word), std::string::npos);
}

/// In both directions at once, with frequent key changes.
TEST(Channel, ContinuesAfterRekeying) {
  SocketPair pair = connected();
  constexpr std::uint64_t kRecordsPerKey = 3;
  const Digest key{};
  Tls client(pair.client, Side::Client, key, kRecordsPerKey);
  Tls server(pair.server, Side::Server, key, kRecordsPerKey);
  std::vector<std::byte> data(std::size_t{8} << 20);
  std::mt19937_64 random(11);
  for (std::byte& byte : data) {
    byte = static_cast<std::byte>(random());
  }
  struct End {
    Tls& tls;
    std::size_t sent = 0;
    std::vector<std::byte> got{};
  };
  std::array<End, 2> ends{End{client}, End{server}};
  std::vector<std::byte> chunk(100'000);
  const auto is_done = [&](const End& end) {
    return end.sent == data.size() && end.got.size() == data.size();
  };
  for (const Deadline until = soon(); !std::ranges::all_of(ends, is_done) && !passed(until);) {
    for (End& end : ends) {
      end.sent += end.tls.write(std::span(data).subspan(end.sent)).bytes;
      const std::size_t got = end.tls.read(chunk).bytes;
      end.got.insert(end.got.end(), chunk.begin(),
                     chunk.begin() + static_cast<std::ptrdiff_t>(got));
    }
  }
  EXPECT_EQ(ends[0].got, data);
  EXPECT_EQ(ends[1].got, data);
}

TEST(Channel, RejectsTlsWithoutKey) {
  SocketPair pair = connected();
  Digest key{};
  Tls client(pair.client, Side::Client, key);
  key[0] = std::byte{1};
  Tls server(pair.server, Side::Server, key);
  std::array<std::byte, 8> bytes{};
  expect_error(ErrorKind::Peer, {"TLS cannot"}, [&] {
    for (const Deadline end = soon(); !passed(end);) {
      (void)client.write(bytes);
      (void)server.read(bytes);
    }
  });
}

TEST(Channel, ReportsSecretMismatchOnBothSides) {
  const LeakCheck leaks;
  HandshakeOptions other = options_for(Side::Client);
  other.secret = Secret::random();
  const Opened both = open_both(other, options_for(Side::Server));
  EXPECT_NE(both.client_error.find("another secret"), std::string::npos) << both.client_error;
  EXPECT_NE(both.server_error.find("its secret differs"), std::string::npos) << both.server_error;
}

/// The server's answer to a client that sends these bytes, and perhaps closes; it must come at
/// once. The fastest of three attempts counts, because this machine may be busy.
std::string answer_to(std::span<const std::byte> sent, bool then_close) {
  std::string message;
  double quickest = 1e9;
  for (int i = 0; i < 3; ++i) {
    SocketPair pair = connected();
    send_all(pair.client, sent, soon());
    if (then_close) {
      pair.client.reset();
    }
    Channel server(std::move(pair.server), options_for(Side::Server));
    const Clock::time_point begin = Clock::now();
    try {
      open(server, soon());
    } catch (const Error& error) {
      message = error.what();
    }
    quickest = std::min(quickest, since(begin).count);
  }
  EXPECT_LT(quickest, 0.1) << message;
  return message;
}

TEST(Channel, RejectsImmediately) {
  const LeakCheck leaks;
  std::vector<std::byte> first_20 = hello_of_version(1);
  first_20.resize(20);
  EXPECT_NE(answer_to(bytes_of("GET / HTTP/1.1\r\n\r\n"), false).find("not a Trireme peer"),
            std::string::npos);
  EXPECT_NE(answer_to(hello_of_version(3), false).find("version 3"), std::string::npos);
  EXPECT_NE(
      answer_to(first_20, true).find("closed the connection in the handshake, after 20 bytes"),
      std::string::npos);
  EXPECT_NE(answer_to({}, true).find("after 0 bytes"), std::string::npos);
}

TEST(Channel, TellsClientAboutVersionMismatch) {
  SocketPair pair = connected();
  send_all(pair.client, hello_of_version(3), soon());
  Channel server(std::move(pair.server), options_for(Side::Server));
  EXPECT_THROW(open(server, soon()), Error);
  std::array<std::byte, 13> refusal{};
  receive_all(pair.client, refusal, soon());  // not lost although the server closed at once
  EXPECT_EQ(refusal[8], std::byte{1});
  EXPECT_EQ(refusal[12], std::byte{0x82});
}

TEST(Channel, SilentPeerTimesOut) {
  SocketPair pair = connected();
  Channel server(std::move(pair.server), options_for(Side::Server));
  expect_error(ErrorKind::Peer, {"127.0.0.1:", "did not finish the handshake within"}, [&] {
    HandshakeOptions anonymous = options_for(Side::Client);
    anonymous.peer = "";
    Channel client(std::move(pair.client), anonymous);
    open(client, deadline_in({0.03}));
  });
}

}  // namespace
}  // namespace trireme::comm
