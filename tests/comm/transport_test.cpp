// The network transports in isolation: two ranks in this process. How worlds use them is covered by the tests that run
// on every transport.
#include "comm/transport/transport.h"

#include <array>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "comm/net/secret.h"
#include "comm/network_parts.h"
#include "comm/numbered_bytes.h"
#include "comm/rendezvous_helpers.h"

namespace trireme::comm {
namespace {

using std::chrono::milliseconds;

enum class Wire : std::uint8_t { Tcp, Tls, Ucx };

std::string name_of(const testing::TestParamInfo<Wire>& info) {
  switch (info.param) {
    case Wire::Tcp:
      return "Tcp";
    case Wire::Tls:
      return "Tls";
    case Wire::Ucx:
      return "Ucx";
  }
  return "?";
}

class NetworkTransport : public testing::TestWithParam<Wire> {
 protected:
  void SetUp() override {
    if (GetParam() == Wire::Ucx && !has_ucx()) {
      GTEST_SKIP() << "this build has no transport ucx";
    }
  }

  [[nodiscard]] static std::unique_ptr<Transport> make(NetworkParts parts) {
    parts.options.encrypt = GetParam() == Wire::Tls;
    return GetParam() == Wire::Ucx ? make_ucx_transport(parts) : make_tcp_transport(parts);
  }

  /// Two ranks that know one another.
  void connect() {
    const Secret secret = Secret::random();
    zero_ = make(parts_of(0, secret));
    one_ = make(parts_of(1, secret));
    std::thread answering([&] { one_->connect({{0, zero_->address()}}, soon()); });
    zero_->connect({{1, one_->address()}}, soon());
    answering.join();
    from_ = std::move(zero_->streams(1).at(0));
    to_ = std::move(one_->streams(0).at(0));
  }

  /// Both leave at the same time, because each waits briefly for the other to take its last bytes.
  void leave() {
    from_.reset();
    to_.reset();
    std::thread leaving([&] { one_.reset(); });
    zero_.reset();
    leaving.join();
  }

  std::unique_ptr<Transport> zero_;
  std::unique_ptr<Transport> one_;
  std::unique_ptr<Stream> from_;  ///< of rank 0
  std::unique_ptr<Stream> to_;    ///< of rank 1
};
INSTANTIATE_TEST_SUITE_P(Wires, NetworkTransport, testing::Values(Wire::Tcp, Wire::Tls, Wire::Ucx),
                         name_of);

TEST_P(NetworkTransport, BytesArriveInOrder) {
  connect();
  constexpr std::size_t kHead = 64;
  const std::vector<std::byte> sent = numbered_bytes(5'000'011);
  std::vector<std::byte> got(sent.size());
  std::size_t written = 0;
  std::size_t read = 0;
  const Deadline give_up = soon();
  while (read < got.size() && !passed(give_up)) {
    const std::span<const std::byte> rest = std::span(sent).subspan(written);
    const std::size_t head = written < kHead ? kHead - written : 0;
    written += from_->write(rest.first(head), rest.subspan(head));
    read += to_->read(std::span(got).subspan(read, std::min<std::size_t>(got.size() - read, 9973)));
    zero_->poll(milliseconds(0));
    one_->poll(milliseconds(0));
  }
  EXPECT_TRUE(got == sent) << read << " bytes received";
}

/// A reader that does not read stops the writer: unread bytes do not pile up.
TEST_P(NetworkTransport, UnreadBytesBlockWriter) {
  connect();
  const std::vector<std::byte> piece(256 << 10);
  std::size_t written = 0;
  for (int idle = 0; idle < 2000 && written < std::size_t{256} << 20;) {
    const std::size_t now = from_->write(piece, {});
    written += now;
    idle = now > 0 ? 0 : idle + 1;
    zero_->poll(milliseconds(0));
    one_->poll(milliseconds(0));
  }
  EXPECT_LT(written, std::size_t{64} << 20);
}

TEST_P(NetworkTransport, ReportsPeerExitAfterItsData) {
  connect();
  const std::vector<std::byte> sent = numbered_bytes(100'000);
  ASSERT_EQ(to_->write(sent, {}), sent.size());
  to_.reset();
  std::thread leaving([&] { one_.reset(); });
  std::vector<std::byte> got(sent.size());
  std::size_t read = 0;
  bool closed = false;
  const Deadline give_up = soon();
  while (!closed && !passed(give_up)) {
    try {
      std::array<std::byte, 4096> some{};
      const std::size_t now = from_->read(some);
      ASSERT_LE(read + now, got.size());
      std::copy_n(some.begin(), now, got.begin() + static_cast<std::ptrdiff_t>(read));
      read += now;
      zero_->poll(milliseconds(1));
    } catch (const Closed&) {
      closed = true;
    }
  }
  leaving.join();
  EXPECT_TRUE(closed);
  EXPECT_TRUE(got == sent) << read << " bytes received";
  expect_error(ErrorKind::Peer, {"broke"}, [&] {  // the first bytes may still be lost silently
    while (!passed(give_up)) {
      (void)from_->write(sent, {});
    }
  });
}

/// The end arrived with the last bytes, and one poll() saw both: none reports the end again.
TEST_P(NetworkTransport, DetectsExitThatArrivesWithLastBytes) {
  connect();
  const std::vector<std::byte> sent = numbered_bytes(64);
  ASSERT_EQ(to_->write(sent, {}), sent.size());
  to_.reset();
  std::thread leaving([&] { one_.reset(); });
  const Deadline give_up = soon();
  for (int i = 0; i < 20; ++i) {
    zero_->poll(milliseconds(5));
  }
  std::vector<std::byte> got(sent.size());
  std::size_t read = 0;
  const auto read_on = [&] {
    while (!passed(give_up)) {
      std::array<std::byte, 64> next{};
      const bool has_all = read == got.size();
      read += from_->read(has_all ? std::span<std::byte>(next) : std::span(got).subspan(read));
      zero_->poll(milliseconds(1));
    }
  };
  EXPECT_THROW(read_on(), Closed);
  EXPECT_TRUE(got == sent) << read << " bytes received";
  leaving.join();
}

TEST_P(NetworkTransport, WakeEndsSleep) {
  connect();
  zero_->poll(milliseconds(1));
  zero_->wake();
  const Clock::time_point begin = Clock::now();
  for (int i = 0; i < 3; ++i) {  // some may end at once, for other reasons
    zero_->poll(milliseconds(i == 0 ? 10'000 : 1));
  }
  EXPECT_LT(since(begin).count, 5.0);
}

TEST_P(NetworkTransport, RejectsRankWithWrongSecret) {
  const auto zero = make(parts_of(0, Secret::random()));
  const auto one = make(parts_of(1, Secret::random()));
  std::thread answering([&] {
    expect_error(ErrorKind::Peer, {}, [&] {
      one->connect({{0, zero->address()}}, deadline_in({3.0}));
    });
  });
  expect_error(ErrorKind::Peer, {"rank 1", "secret"}, [&] {
    zero->connect({{1, one->address()}}, soon());
  });
  answering.join();
}

TEST_P(NetworkTransport, WaitsForSilentRankUntilDeadline) {
  const Secret secret = Secret::random();
  const auto one = make(parts_of(1, secret));
  const auto zero = make(parts_of(0, secret));
  expect_error(ErrorKind::Peer, {"0 of", "other ranks"}, [&] {
    zero->connect({{1, one->address()}}, deadline_in({0.2}));
  });
}

TEST(Ucx, RejectsForeignAddresses) {
  if (!has_ucx()) {
    GTEST_SKIP() << "this build has no transport ucx";
  }
  const auto zero = make_ucx_transport(parts_of(0, Secret::random()));
  for (const char* address : {"", "127.0.0.1:4000", "ucx:", "ucx:xy"}) {
    expect_error(ErrorKind::Peer, {"invalid UCX address"}, [&] {
      zero->connect({{1, address}}, soon());
    });
  }
}

TEST_P(NetworkTransport, ReportsBindAddressNotOfThisMachine) {
  NetworkParts parts = parts_of(0, Secret::random());
  parts.options.bind = "192.0.2.1";
  expect_error(ErrorKind::System, {"192.0.2.1"}, [&] { (void)make(parts); });
}

TEST_P(NetworkTransport, LeaksNoDescriptors) {
  connect();
  leave();
  const LeakCheck leaks;
  connect();
  leave();
}

/// The addresses at which this process listens, in the format of /proc: "0100007F" for 127.0.0.1.
std::set<std::string> listening_addresses() {
  std::set<std::string> own;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    own.insert(std::filesystem::read_symlink(entry, gone).string());
  }
  std::set<std::string> addresses;
  for (const char* table : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    std::ifstream file(table);
    std::string line;
    while (std::getline(file, line)) {
      std::istringstream words(line);
      std::array<std::string, 10> word;  // number, local, remote, state, …, inode
      for (std::string& one : word) {
        words >> one;
      }
      if (word[3] == "0A" && own.contains("socket:[" + word[9] + "]")) {
        addresses.insert(word[1].substr(0, word[1].find(':')));
      }
    }
  }
  return addresses;
}

TEST_P(NetworkTransport, ListensOnLoopbackOnly) {
  ASSERT_EQ(listening_addresses(), std::set<std::string>{});
  const auto zero = make(parts_of(0, Secret::random()));
  EXPECT_EQ(listening_addresses(), std::set<std::string>{"0100007F"});
}

}  // namespace
}  // namespace trireme::comm
