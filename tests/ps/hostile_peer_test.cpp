// Peers that send what they should not, to servers that others use meanwhile: they are refused and reported with their
// address, and nobody else notices.
#include <algorithm>
#include <array>
#include <atomic>
#include <random>
#include <thread>
#include <variant>

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "comm/net/channel.h"
#include "comm/net/deadline.h"
#include "ps/cluster.h"
#include "ps/net/shared_stream.h"
#include "ps/protocol/bytes.h"
#include "ps/wire/frame.h"
#include "trireme/error.h"

namespace trireme::ps {
namespace {

using Bytes = std::vector<std::byte>;

comm::Channel connect(const std::string& address, std::string_view secret) {
  return comm::connect_channel(comm::parse_address(address),
                               {.purpose = comm::Purpose::ParameterServer,
                                .secret = comm::Secret::from_text(secret),
                                .peer = {}},
                               comm::deadline_in({60}));
}

void append(Bytes& bytes, std::string_view text) {
  std::ranges::transform(text, std::back_inserter(bytes),
                         [](char c) { return static_cast<std::byte>(c); });
}

Bytes frame(const FrameHeader& header, std::string_view fields) {
  const HeaderBytes head = to_bytes(header);
  Bytes bytes(head.begin(), head.end());
  append(bytes, fields);
  return bytes;
}

/// The first frame of worker 1.
Bytes hello(NodeId to = server_node(0), std::uint64_t host = 0) {
  std::string fields;
  ByteWriter writer(fields);
  writer(Hello{.from = worker_node(1), .to = to, .host = host});
  return frame({.kind = kHelloKind,
                .field_bytes = static_cast<std::uint32_t>(fields.size()),
                .floats = 0,
                .number = 0},
               fields);
}

Bytes after_hello(const Bytes& bytes) {
  Bytes all = hello();
  all.insert(all.end(), bytes.begin(), bytes.end());
  return all;
}

/// Speaks the handshake, then sends these bytes.
void expect_refused(const std::string& address, const Bytes& bytes) {
  comm::Channel channel = connect(address, kTestSecret);
  comm::send_all(channel, bytes, comm::deadline_in({60}));
  std::array<std::byte, 64> answer{};
  EXPECT_THROW((void)comm::receive_some(channel, answer, comm::deadline_in({60})), Error)
      << "the server must close the connection";
}

/// A server that a client pushes ones to, before and after it was attacked.
class HostilePeer : public testing::Test {
 protected:
  void push_once() { client_.push(table_, Keys::range(0, 1), one_).wait(); }
  [[nodiscard]] std::string address() const { return cluster_.server_address(0); }
  [[nodiscard]] std::string coordinator() const { return cluster_.coordinator_address(); }

  /// Pushes once more: all are there, and the server has reported these reasons, in order, each with the peer.
  void expect_unharmed(float pushes, const std::vector<std::string>& reasons) {
    std::vector<float> value(1);
    client_.push_pull(table_, Keys::range(0, 1), one_, value).wait();
    EXPECT_EQ(value[0], pushes + 1);
    cluster_.stop(0);
    ASSERT_EQ(cluster_.refusals.size(), reasons.size());
    for (std::size_t i = 0; i < reasons.size(); ++i) {
      EXPECT_NE(cluster_.refusals[i].find("127.0.0.1:"), std::string::npos);
      EXPECT_NE(cluster_.refusals[i].find(reasons[i]), std::string::npos) << cluster_.refusals[i];
    }
  }

 private:
  TestCluster cluster_{{.servers = 1}};
  ParameterClient client_{cluster_.client_options()};
  TableHandle table_ = client_.create_table({.name = "w", .keys = 1, .width = 1});
  std::vector<float> one_{1};
};

TEST_F(HostilePeer, WithoutSecretIsRejected) {
  push_once();
  EXPECT_THROW((void)connect(address(), "another secret of someone"), Error);
  expect_unharmed(1, {""});
}

TEST_F(HostilePeer, WithGarbageIsRejected) {
  push_once();
  std::mt19937 random(1);
  std::vector<std::string> reasons;
  for (int i = 0; i < 20; ++i) {
    Bytes garbage(200);
    std::ranges::generate(garbage, [&] { return static_cast<std::byte>(random()); });
    expect_refused(address(), i % 2 == 0 ? garbage : after_hello(garbage));
    reasons.emplace_back("malformed frame");
  }
  expect_unharmed(1, reasons);
}

TEST_F(HostilePeer, WithDamagedOrReplayedFrameIsRejected) {
  push_once();
  Bytes damaged = frame({.kind = 0, .field_bytes = 0, .floats = 0, .number = 1}, "");
  damaged[12] ^= std::byte{1};
  expect_refused(address(), after_hello(damaged));
  expect_refused(address(), after_hello(hello()));
  const FrameHeader too_large{
      .kind = 0, .field_bytes = kMaxFieldBytes + 1, .floats = 0, .number = 1};
  expect_refused(address(), after_hello(frame(too_large, "")));
  expect_refused(address(), frame({.kind = 0, .field_bytes = 0, .floats = 0, .number = 0}, ""));
  expect_unharmed(1, {"damaged", "replayed", "too many", "not a hello"});
}

TEST_F(HostilePeer, WithInvalidFieldsIsRejected) {
  push_once();
  std::mt19937 random(2);
  std::vector<std::string> reasons;
  for (std::size_t kind = 0; kind < std::variant_size_v<Message>; ++kind) {
    std::string fields(5, '\0');  // shorter or longer than those of any message
    std::ranges::generate(fields, [&] { return static_cast<char>(random()); });
    const FrameHeader header{.kind = static_cast<std::uint8_t>(kind),
                             .field_bytes = static_cast<std::uint32_t>(fields.size()),
                             .floats = 0,
                             .number = 1};
    expect_refused(address(), after_hello(frame(header, fields)));
    reasons.emplace_back("malformed message");
  }
  expect_unharmed(1, reasons);
}

TEST_F(HostilePeer, OfCoordinatorIsRejected) {
  push_once();
  std::mt19937 random(3);
  const Bytes greeting = hello(NodeId::Coordinator);
  for (std::size_t kind = 0; kind < std::variant_size_v<Message>; ++kind) {
    std::string fields(5, '\0');
    std::ranges::generate(fields, [&] { return static_cast<char>(random()); });
    Bytes bytes = greeting;
    const Bytes more = frame({.kind = static_cast<std::uint8_t>(kind),
                              .field_bytes = static_cast<std::uint32_t>(fields.size()),
                              .floats = 0,
                              .number = 1},
                             fields);
    bytes.insert(bytes.end(), more.begin(), more.end());
    expect_refused(coordinator(), bytes);
  }
  expect_unharmed(1, {});
}

/// A coordinator that knows the secret and sends garbage to whoever calls.
class HostileCoordinator {
 public:
  HostileCoordinator() : thread_([this] { run(); }) {}
  ~HostileCoordinator() {
    stopping_ = true;
    thread_.join();
  }
  HostileCoordinator(const HostileCoordinator&) = delete;
  HostileCoordinator& operator=(const HostileCoordinator&) = delete;
  [[nodiscard]] std::string address() const { return comm::to_text(listener_.address); }
  [[nodiscard]] int answered() const { return answered_; }

 private:
  void run() {
    std::mt19937 random(5);
    while (!stopping_) {
      try {
        comm::Channel channel(comm::accept_one(listener_.socket, comm::deadline_in({0.1})),
                              {.side = comm::Side::Server,
                               .purpose = comm::Purpose::ParameterServer,
                               .secret = comm::Secret::from_text(kTestSecret),
                               .peer = {}});
        comm::open(channel, comm::deadline_in({10}));
        comm::send_all(channel, garbage(random), comm::deadline_in({10}));
        ++answered_;
      } catch (const Error&) {
        continue;  // nobody has called
      }
    }
  }
  /// Noise, or a message with a true header and noise for fields.
  [[nodiscard]] Bytes garbage(std::mt19937& random) const {
    std::string noise(answered_ % 2 == 0 ? 64 : 9, '\0');
    std::ranges::generate(noise, [&] { return static_cast<char>(random()); });
    if (answered_ % 2 == 0) {
      Bytes bytes;
      append(bytes, noise);
      return bytes;
    }
    const auto kinds = std::variant_size_v<Message>;
    return frame({.kind = static_cast<std::uint8_t>(static_cast<unsigned>(answered_) / 2 % kinds),
                  .field_bytes = static_cast<std::uint32_t>(noise.size()),
                  .floats = 0,
                  .number = 0},
                 noise);
  }

  comm::Listener listener_ = comm::listen_on();
  std::atomic<bool> stopping_ = false;
  std::atomic<int> answered_ = 0;
  std::thread thread_;
};

TEST(HostileCoordinator, DoesNotHarmClient) {
  const HostileCoordinator coordinator;
  EXPECT_THROW(
      {
        const ParameterClient client(
            {.coordinator = coordinator.address(), .secret = kTestSecret, .patience = {3}});
      },
      Error);
  EXPECT_GT(coordinator.answered(), 10);
}

// A server that restarts leaves its port to others; what is meant for it must not be taken for theirs.
TEST_F(HostilePeer, AddressingAnotherServerIsRejected) {
  push_once();
  expect_refused(address(), hello(server_node(7)));
  expect_unharmed(1, {"it is for server 7, but this is server 0"});
}

/// A peer that shares memory with the server.
struct SharedPeer {
  explicit SharedPeer(const std::string& address) : channel(connect(address, kTestSecret)) {
    const comm::Deadline deadline = comm::deadline_in({60});
    comm::send_all(channel, hello(server_node(0), shared_memory_host()), deadline);
    std::array<std::byte, kHeaderBytes + 3 * sizeof(std::uint64_t)> frame{};
    for (std::size_t got = 0; got < frame.size();) {
      got += comm::receive_some(channel, std::span(frame).subspan(got), deadline);
    }
    ByteReader reader(std::string_view(reinterpret_cast<const char*>(frame.data()), frame.size())
                          .substr(kHeaderBytes));
    reader(offer);
    stream = SharedStream::open(offer, channel.socket());
    const std::string path =
        fmt::format("/proc/self/fd/{}", offer.descriptor);  // of this process, too
    file = comm::Fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    comm::send_all(channel, frame_of_switch(), deadline);
  }
  static Bytes frame_of_switch() {
    return frame({.kind = kSwitchKind, .field_bytes = 1, .floats = 0, .number = 1}, "\1");
  }
  void expect_closed() {
    std::array<std::byte, 4096> answer{};
    const comm::Deadline deadline = comm::deadline_in({60});
    EXPECT_THROW(
        for (;;) {
          if (comm::receive_some(channel, answer, deadline) == 0) {
            return;
          }
        },
        Error)
        << "the server must close the connection";
  }

  comm::Channel channel;
  SharedMemoryOffer offer;
  std::unique_ptr<SharedStream> stream;
  comm::Fd file;  ///< the memory once more
};

TEST_F(HostilePeer, WithGarbageInSharedMemoryIsRejected) {
  push_once();
  std::mt19937 random(4);
  std::vector<std::string> reasons;
  for (int i = 0; i < 10; ++i) {
    SharedPeer peer(address());
    Bytes garbage(200);
    std::ranges::generate(garbage, [&] { return static_cast<std::byte>(random()); });
    const iovec piece{garbage.data(), garbage.size()};
    ASSERT_EQ(peer.stream->write_pieces({&piece, 1}).bytes, garbage.size());
    peer.expect_closed();
    reasons.emplace_back("malformed frame");
  }
  expect_unharmed(1, reasons);
}

TEST_F(HostilePeer, WithImpossibleCountInSharedMemoryIsRejected) {
  push_once();
  SharedPeer peer(address());
  const std::uint64_t count = std::uint64_t{1} << 60;
  constexpr off_t kWrittenByCaller = 192;
  ASSERT_EQ(::pwrite(peer.file.get(), &count, sizeof(count), kWrittenByCaller), 8);
  comm::send_all(peer.channel, Bytes(1), comm::deadline_in({60}));  // a bell
  peer.expect_closed();
  expect_unharmed(1, {"an impossible count of bytes"});
}

// A worker that dies in the middle of a frame is no attacker; nothing of the frame is applied.
TEST_F(HostilePeer, StoppingMidFrameChangesNothing) {
  push_once();
  const Encoded push = encode(Push{.shard = {},
                                   .epoch = 1,
                                   .worker = worker_node(1),
                                   .sequence = 1,
                                   .table = {},
                                   .keys = {.begin = 0, .end = 1},
                                   .values = {}});
  const Bytes whole =
      after_hello(frame({.kind = push.kind,
                         .field_bytes = static_cast<std::uint32_t>(push.fields.size()),
                         .floats = 1 << 20,
                         .number = 1},
                        push.fields));
  for (std::size_t size = 0; size <= whole.size(); size += 7) {
    comm::Channel channel = connect(address(), kTestSecret);
    comm::send_all(channel, std::span(whole).first(size), comm::deadline_in({60}));
  }
  expect_unharmed(1, {});
}

}  // namespace
}  // namespace trireme::ps
