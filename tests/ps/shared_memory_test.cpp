// Shared memory between nodes of one host: what arrives, and what a peer can do that writes there what it likes.
#include <array>
#include <cstring>
#include <fstream>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "expect_error.h"
#include "ps/cluster.h"
#include "ps/net/shared_stream.h"
#include "trireme/error.h"

namespace trireme::ps {
namespace {

/// Both ends of a stream, in this process.
struct Ends {
  Ends() {
    std::array<int, 2> pair{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair.data()), 0);
    sockets = {comm::Fd(pair[0]), comm::Fd(pair[1])};
    acceptor = SharedStream::make(sockets[0]);
    offer = acceptor->offer();
    caller = SharedStream::open(offer, sockets[1]);
  }
  std::array<comm::Fd, 2> sockets;  ///< of the acceptor, of the caller
  std::unique_ptr<SharedStream> acceptor;
  SharedMemoryOffer offer;
  std::unique_ptr<SharedStream> caller;
};

void wait_for_bell(const comm::Fd& socket) {
  pollfd waiting{.fd = socket.get(), .events = POLLIN, .revents = 0};
  ASSERT_EQ(::poll(&waiting, 1, 60'000), 1) << "the other side has not rung";
  std::array<std::byte, 16> bells{};
  (void)comm::receive_some(socket, bells);
}

std::byte pattern(std::size_t at) {
  return static_cast<std::byte>(at * 2654435761U >> 13);
}

// Three rings' worth of bytes, in pieces of random sizes, so that both sides have to wait for each other.
TEST(SharedStream, KeepsBytesInOrderAndWakesPeer) {
  Ends ends;
  constexpr std::size_t kBytes = std::size_t{12} << 20;
  std::thread writer([&] {
    std::mt19937 random(1);
    std::vector<std::byte> bytes;
    for (std::size_t sent = 0; sent < kBytes;) {
      bytes.resize(std::min<std::size_t>(1 + random() % 300'000, kBytes - sent));
      for (std::size_t i = 0; i < bytes.size(); ++i) {
        bytes[i] = pattern(sent + i);
      }
      const std::size_t half = bytes.size() / 2;
      const std::array<iovec, 2> pieces{iovec{bytes.data(), half},
                                        iovec{bytes.data() + half, bytes.size() - half}};
      const std::size_t moved = ends.caller->write_pieces(pieces).bytes;
      sent += moved;
      if (moved == 0 && ends.caller->sleep_until_writable()) {
        wait_for_bell(ends.sockets[1]);
      }
    }
  });
  std::mt19937 random(2);
  std::vector<std::byte> bytes(300'000);
  std::size_t wrong = 0;
  for (std::size_t received = 0; received < kBytes;) {
    const iovec piece{bytes.data(), 1 + random() % bytes.size()};
    const std::size_t moved = ends.acceptor->read_pieces({&piece, 1}).bytes;
    for (std::size_t i = 0; i < moved; ++i) {
      wrong += bytes[i] == pattern(received + i) ? 0U : 1U;
    }
    received += moved;
    if (moved == 0 && ends.acceptor->sleep_until_readable()) {
      wait_for_bell(ends.sockets[0]);
    }
  }
  writer.join();
  EXPECT_EQ(wrong, 0U);
}

// The first page is all that the other side can use to mislead this one.
TEST(SharedStream, SurvivesAnyDataInSharedPage) {
  std::mt19937_64 random(3);
  int refused = 0;
  for (int round = 0; round < 300; ++round) {
    const Ends ends;
    const comm::Fd file(
        ::open(fmt::format("/proc/self/fd/{}", ends.offer.descriptor).c_str(), O_RDWR | O_CLOEXEC));
    constexpr std::size_t kPage = 4096;
    void* const page = ::mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    ASSERT_NE(page, MAP_FAILED);
    for (std::size_t at = 64; at < 320; at += 8) {
      const std::uint64_t value = random() >> random() % 64;
      std::memcpy(static_cast<std::byte*>(page) + at, &value, sizeof(value));
    }
    std::vector<std::byte> bytes(5 << 20);
    const iovec piece{bytes.data(), bytes.size()};
    try {
      EXPECT_LE(ends.acceptor->read_pieces({&piece, 1}).bytes, bytes.size());
      EXPECT_LE(ends.acceptor->write_pieces({&piece, 1}).bytes, bytes.size());
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Input);
      ++refused;
    }
    ::munmap(page, kPage);
  }
  EXPECT_GT(refused, 200) << "most random counts are impossible";
}

TEST(SharedStream, CannotBeTruncatedWhileInUse) {
  const Ends ends;
  EXPECT_EQ(::ftruncate(static_cast<int>(ends.offer.descriptor), 4096), -1);
}

TEST(SharedStream, IsOpenedOnlyIfItMatchesOffer) {
  const Ends ends;
  SharedMemoryOffer another = ends.offer;
  ++another.nonce;
  expect_error(ErrorKind::Input, "not what it offered",
               [&] { (void)SharedStream::open(another, ends.sockets[1]); });
  const comm::Fd file(::open("/dev/null", O_RDWR | O_CLOEXEC));
  another = ends.offer;
  another.descriptor = static_cast<std::uint64_t>(file.get());
  expect_error(ErrorKind::Input, "not what it offered",
               [&] { (void)SharedStream::open(another, ends.sockets[1]); });
}

int shared_mappings() {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);) {
    count += line.find("memfd:trireme-ps") != std::string::npos ? 1 : 0;
  }
  return count;
}

void push_and_pull_large_vectors(const TestCluster& cluster, bool shares_memory) {
  ParameterClientOptions options = cluster.client_options();
  options.shares_memory = shares_memory;
  ParameterClient client(options);
  constexpr std::uint32_t kWidth = 3'000'001;  // larger than a ring
  const TableHandle table = client.create_table({.name = "w", .keys = 2, .width = kWidth});
  std::vector<float> gradient(2 * std::size_t{kWidth});
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    gradient[i] = static_cast<float>(i % 1000);
  }
  std::vector<float> values(gradient.size());
  client.push(table, Keys::range(0, 2), gradient).wait();
  client.push_pull(table, Keys::range(0, 2), gradient, values).wait();
  for (std::size_t i = 0; i < values.size(); i += 997) {
    ASSERT_EQ(values[i], 2 * gradient[i]) << "at " << i;
  }
  EXPECT_EQ(shared_mappings() > 0, shares_memory);
}

TEST(SharedMemory, CarriesVectorsBetweenNodesOnOneHost) {
  push_and_pull_large_vectors(TestCluster({.servers = 2, .replicas = 2}), true);
  EXPECT_EQ(shared_mappings(), 0) << "gone with the cluster";
}

TEST(SharedMemory, IsNotUsedIfWorkerDisablesIt) {
  push_and_pull_large_vectors(TestCluster({.servers = 1}), false);
}

TEST(SharedMemory, IsNotUsedWithEncryption) {
  const TestCluster cluster({.servers = 1, .encrypt = Encrypt::Yes});
  ParameterClient client(cluster.client_options());
  const TableHandle table = client.create_table({.name = "w", .keys = 1, .width = 1});
  client.push(table, Keys::range(0, 1), std::vector<float>{1}).wait();
  EXPECT_EQ(shared_mappings(), 0);
}

}  // namespace
}  // namespace trireme::ps
