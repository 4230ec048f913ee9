// Secrets and the handshake, without a socket.
#include <array>
#include <random>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "comm/net/handshake.h"
#include "comm/net/secret.h"
#include "comm/rendezvous_helpers.h"

namespace trireme::comm {
namespace {

TEST(Secret, HexRoundTrips) {
  const Secret secret = Secret::random();
  EXPECT_EQ(secret.hex().size(), 64U);
  EXPECT_EQ(Secret::from_hex(secret.hex()).hex(), secret.hex());
  EXPECT_NE(Secret::random().hex(), secret.hex());
}

TEST(Secret, RejectsBadHexWithoutEchoingIt) {
  const std::string nearly = Secret::random().hex().substr(1) + "g";
  for (const std::string& text : {std::string(), std::string("abc"), nearly, nearly + "00"}) {
    try {
      (void)Secret::from_hex(text);
      FAIL() << "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Usage);
      EXPECT_TRUE(text.size() < 32 || std::string(error.what()).find(text) == std::string::npos);
    }
  }
}

TEST(Secret, DerivesFromPassphrase) {
  const Secret a = Secret::from_text("correct horse battery staple");
  EXPECT_EQ(a.hex(), Secret::from_text("correct horse battery staple").hex());
  EXPECT_NE(a.hex(), Secret::from_text("correct horse battery staples").hex());
  expect_error(ErrorKind::Usage, {"at least 16"}, [] { (void)Secret::from_text("password"); });
}

TEST(Secret, WipesMemoryOnDestruction) {
  alignas(Secret) std::array<std::byte, sizeof(Secret)> place{};
  const auto* secret = new (place.data()) Secret(Secret::random());
  secret->~Secret();
  EXPECT_EQ(place, (std::array<std::byte, sizeof(Secret)>{}));
}

TEST(Hmac, MatchesRfc4231Vectors) {
  const std::vector<std::byte> key(20, std::byte{0x0b});
  EXPECT_EQ(to_hex(hmac_sha256(key, {bytes_of("Hi "), bytes_of("There")})),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(to_hex(hmac_sha256(bytes_of("Jefe"), {bytes_of("what do ya want for nothing?")})),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

TEST(Hmac, ComparesEveryByte) {
  Digest a{};
  fill_random(a);
  EXPECT_TRUE(same(a, Digest(a)));
  for (std::size_t i = 0; i < a.size(); ++i) {
    Digest b = a;
    b[i] ^= std::byte{1};
    EXPECT_FALSE(same(a, b)) << i;
  }
}

/// Lets two sides exchange pieces of at most `piece` bytes until neither has more to send.
void converse(Handshake& a, Handshake& b, std::size_t piece) {
  const auto pass = [&](Handshake& from, Handshake& to) {
    const std::size_t bytes = std::min({from.to_send().size(), to.wanted(), piece});
    const std::vector<std::byte> copy(from.to_send().begin(),
                                      from.to_send().begin() + static_cast<std::ptrdiff_t>(bytes));
    from.sent(bytes);
    to.take(copy);
    return bytes > 0;
  };
  for (bool moved = true; moved;) {
    moved = pass(a, b);
    moved = pass(b, a) || moved;
  }
}

TEST(Handshake, SucceedsWithArbitraryFragmentation) {
  for (const std::size_t piece : {1, 2, 7, 64}) {
    Handshake client(options_for(Side::Client));
    Handshake server(options_for(Side::Server));
    converse(client, server, piece);
    EXPECT_EQ(client.state(), Handshake::State::Done) << client.problem();
    EXPECT_EQ(server.state(), Handshake::State::Done) << server.problem();
    EXPECT_EQ(client.session_key(), server.session_key());
    EXPECT_EQ(client.taken() + server.taken(), 180U);
  }
}

TEST(Handshake, DerivesFreshKeyPerSession) {
  std::set<Digest> keys;
  for (int i = 0; i < 8; ++i) {
    Handshake client(options_for(Side::Client));
    Handshake server(options_for(Side::Server));
    converse(client, server, 64);
    keys.insert(client.session_key());
  }
  EXPECT_EQ(keys.size(), 8U);
}

/// Both sides refuse; returns their reasons.
std::pair<std::string, std::string> both_refuse(const HandshakeOptions& a,
                                                const HandshakeOptions& b) {
  Handshake client(a);
  Handshake server(b);
  converse(client, server, 64);
  EXPECT_EQ(client.state(), Handshake::State::Refused);
  EXPECT_EQ(server.state(), Handshake::State::Refused);
  return {client.problem(), server.problem()};
}

TEST(Handshake, ReportsSecretMismatchToBothSides) {
  HandshakeOptions other = options_for(Side::Client);
  other.secret = Secret::random();
  const auto [client, server] = both_refuse(other, options_for(Side::Server));
  EXPECT_EQ(client,
            "the server has another secret than this side; give every rank of the job the same "
            "one, and check the address");
  EXPECT_EQ(server,
            "the client refused this connection: its secret differs; give every rank of the job "
            "the same one, and check the address");
}

TEST(Handshake, ReportsPurposeMismatchToBothSides) {
  HandshakeOptions other = options_for(Side::Client);
  other.purpose = Purpose::Data;
  const auto [client, server] = both_refuse(other, options_for(Side::Server));
  EXPECT_NE(client.find("it serves another purpose"), std::string::npos) << client;
  EXPECT_NE(server.find("connects for data, this side for a store"), std::string::npos) << server;
}

TEST(Handshake, ReportsEncryptionMismatchToBothSides) {
  HandshakeOptions other = options_for(Side::Client);
  other.encryption = Encryption::Tls;
  const auto [client, server] = both_refuse(other, options_for(Side::Server));
  EXPECT_EQ(client,
            "the server does not encrypt, this side does; set WorldOptions::encrypt alike on every "
            "rank");
  EXPECT_EQ(
      server,
      "the client encrypts, this side does not; set WorldOptions::encrypt alike on every rank");
}

/// A stranger without the secret cannot convince a side that the job's ranks disagree.
TEST(Handshake, AuthenticatesMismatchReports) {
  for (const bool has_secret : {true, false}) {
    HandshakeOptions other = options_for(Side::Client);
    other.encryption = Encryption::Tls;
    other.secret = has_secret ? other.secret : Secret::random();
    Handshake client(other);
    Handshake server(options_for(Side::Server));
    converse(client, server, 64);
    EXPECT_EQ(client.disagrees(), has_secret);
    EXPECT_EQ(server.disagrees(), has_secret);
    EXPECT_EQ(server.state(), Handshake::State::Refused);
  }
}

TEST(Handshake, VersionMismatchNamesBothVersions) {
  Handshake server(options_for(Side::Server));
  feed(server, hello_of_version(9));
  EXPECT_EQ(server.state(), Handshake::State::Refused);
  EXPECT_EQ(server.problem(),
            "the client speaks version 9 of the Trireme protocol, this side version 1; run the "
            "same Trireme on every rank");
  EXPECT_EQ(server.to_send().size(), 13U);
}

TEST(Handshake, RejectsForeignPeerAtFirstWrongByte) {
  Handshake server(options_for(Side::Server));
  server.take(bytes_of("GET /"));
  EXPECT_EQ(server.problem(), "the client is not a Trireme peer (first bytes 47 45 54 20 2f)");
  Handshake client(options_for(Side::Client));
  client.take(bytes_of("T"));
  EXPECT_EQ(client.state(), Handshake::State::Going);
  client.take(bytes_of("h"));
  EXPECT_EQ(client.problem(), "the server is not a Trireme peer (first bytes 54 68)");
}

TEST(Handshake, ResistsReflection) {
  Handshake one(options_for(Side::Client));
  Handshake two(options_for(Side::Client));
  converse(one, two, 64);
  EXPECT_NE(one.state(), Handshake::State::Done);
  EXPECT_NE(two.state(), Handshake::State::Done);
}

TEST(Handshake, ResistsReplay) {
  Handshake client(options_for(Side::Client));
  std::vector<std::byte> recorded;
  Handshake first(options_for(Side::Server));
  const auto listen = [&](Handshake& from, Handshake& to, bool record) {
    while (!from.to_send().empty() && to.wanted() > 0) {
      const std::size_t bytes = std::min(from.to_send().size(), to.wanted());
      const auto part = from.to_send().first(bytes);
      if (record) {
        recorded.insert(recorded.end(), part.begin(), part.end());
      }
      to.take(part);
      from.sent(bytes);
    }
  };
  listen(client, first, true);
  listen(first, client, false);
  listen(client, first, true);
  ASSERT_EQ(first.state(), Handshake::State::Done);
  Handshake second(options_for(Side::Server));
  feed(second, recorded);
  EXPECT_EQ(second.state(), Handshake::State::Refused);
  EXPECT_NE(second.problem().find("another secret"), std::string::npos) << second.problem();
}

/// Changing any byte of a valid exchange makes the side that reads it refuse.
TEST(Handshake, DetectsEveryChangedByte) {
  for (std::size_t changed = 0; changed < 45; ++changed) {
    Handshake client(options_for(Side::Client));
    Handshake server(options_for(Side::Server));
    std::vector<std::byte> hello(client.to_send().begin(), client.to_send().end());
    client.sent(hello.size());
    hello[changed] ^= std::byte{0x20};
    feed(server, hello);
    converse(client, server, 64);
    EXPECT_EQ(server.state(), Handshake::State::Refused) << changed;
    EXPECT_EQ(client.state(), Handshake::State::Refused) << changed;
  }
}

TEST(Handshake, NeverAcceptsRandomBytes) {
  std::mt19937_64 random(20240607);
  for (int round = 0; round < 3000; ++round) {
    Handshake side(options_for(round % 2 == 0 ? Side::Server : Side::Client));
    // Every other exchange begins correctly, so that the later parts get tested, too.
    std::vector<std::byte> stream;
    if (round % 4 < 2) {
      stream = hello_of_version(1);
      stream.resize(random() % (stream.size() + 1));
    }
    while (stream.size() < 200) {
      stream.push_back(static_cast<std::byte>(random()));
    }
    feed(side, stream, 1 + random() % 64);
    ASSERT_EQ(side.state(), Handshake::State::Refused);
    ASSERT_FALSE(side.problem().empty());
    ASSERT_LE(side.to_send().size(), 45U + 77U + 13U);
  }
}

}  // namespace
}  // namespace trireme::comm
