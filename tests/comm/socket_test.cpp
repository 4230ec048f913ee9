#include "comm/net/socket.h"

#include <array>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "comm/net/secret.h"
#include "comm/rendezvous_helpers.h"

namespace trireme::comm {
namespace {

TEST(Address, ParsesAndPrintsHostsAndPorts) {
  EXPECT_EQ(parse_address("node1:4000"), (Address{.host = "node1", .port = 4000}));
  EXPECT_EQ(parse_address("[::1]:123"), (Address{.host = "::1", .port = 123}));
  for (const char* text : {"node1:4000", "10.0.0.1:1", "[::1]:65535", "[fe80::1]:80"}) {
    EXPECT_EQ(to_text(parse_address(text)), text);
  }
}

TEST(Address, RejectsInvalidAddress) {
  for (const char* text : {"", "node1", ":", ":80", "node1:", "node1:0", "node1:65536", "node1:x",
                           "::1:80", "[::1]", "[]:80", "no de:80", "node1:-1", "http://a:80"}) {
    expect_error(ErrorKind::Usage, {"is not an address", "node1:4000"},
                 [&] { (void)parse_address(text); });
  }
}

TEST(Socket, ListensOnLoopbackWithAssignedPort) {
  const LeakCheck leaks;
  const Listener listener = listen_on();
  EXPECT_EQ(listener.address.host, "127.0.0.1");
  EXPECT_GT(listener.address.port, 0);
  EXPECT_NE(::fcntl(listener.socket.get(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST(Socket, TransfersBothWaysWithoutDelay) {
  const LeakCheck leaks;
  const SocketPair pair = connected();
  int no_delay = 0;
  socklen_t length = sizeof(no_delay);
  ASSERT_EQ(getsockopt(pair.client.get(), IPPROTO_TCP, TCP_NODELAY, &no_delay, &length), 0);
  EXPECT_NE(no_delay, 0);
  std::array<std::byte, 5> bytes{};
  send_all(pair.client, bytes_of("hello"), soon());
  receive_all(pair.server, bytes, soon());
  EXPECT_EQ(to_hex(bytes), to_hex(bytes_of("hello")));
  send_all(pair.server, bytes_of("world"), soon());
  receive_all(pair.client, bytes, soon());
  EXPECT_EQ(to_hex(bytes), to_hex(bytes_of("world")));
}

TEST(Socket, TransfersMoreThanItsBuffersHold) {
  const SocketPair pair = connected();
  const std::vector<std::byte> data(std::size_t{20} << 20, std::byte{7});
  std::thread sender([&] { send_all(pair.client, data, soon()); });
  std::vector<std::byte> got(data.size());
  receive_all(pair.server, got, soon());
  sender.join();
  EXPECT_EQ(got, data);
}

TEST(Socket, ConnectsToIpv6AndHostNames) {
  try {
    const Listener listener = listen_on({.host = "::1"});
    EXPECT_TRUE(connect_to(listener.address, soon()).valid());
  } catch (const Error&) {
    GTEST_SKIP() << "this host has no IPv6";
  }
  const Listener listener = listen_on();
  EXPECT_TRUE(connect_to({.host = "localhost", .port = listener.address.port}, soon()).valid());
}

TEST(Socket, ConnectWaitsForLateServer) {
  Address address;
  { address = listen_on().address; }
  Fd client;
  std::thread early([&] { client = connect_to(address, soon()); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const Listener listener = listen_on(address);
  const Fd server = accept_one(listener.socket, soon());
  early.join();
  EXPECT_TRUE(client.valid());
  EXPECT_TRUE(server.valid());
}

TEST(Socket, ConnectGivesUpAtDeadline) {
  const LeakCheck leaks;
  Address address;
  { address = listen_on().address; }
  const Clock::time_point begin = Clock::now();
  expect_error(ErrorKind::System, {"cannot connect to " + to_text(address), "refused"},
               [&] { (void)connect_to(address, deadline_in({0.1})); });
  EXPECT_LT(since(begin).count, 1.0);
}

TEST(Socket, RejectsPortInUse) {
  const Listener first = listen_on();
  expect_error(ErrorKind::System, {"cannot listen on " + to_text(first.address), "in use"},
               [&] { (void)listen_on(first.address); });
  expect_error(ErrorKind::System, {"cannot listen on 192.0.2.1"},
               [] { (void)listen_on({.host = "192.0.2.1"}); });
}

TEST(Socket, WaitsEndAtDeadline) {
  const Listener listener = listen_on();
  expect_error(ErrorKind::System, {"no connection within"},
               [&] { (void)accept_one(listener.socket, deadline_in({0.02})); });
  const SocketPair pair = connected();
  std::array<std::byte, 8> bytes{};
  send_all(pair.client, bytes_of("abc"), soon());
  expect_error(ErrorKind::System, {"127.0.0.1:", "3 of 8 bytes received within"},
               [&] { receive_all(pair.server, bytes, deadline_in({0.02})); });
  const std::vector<std::byte> much(std::size_t{64} << 20);
  expect_error(ErrorKind::System, {"bytes sent within"},
               [&] { send_all(pair.client, much, deadline_in({0.05})); });
}

TEST(Socket, ReportsThatPeerClosed) {
  SocketPair pair = connected();
  send_all(pair.client, bytes_of("abc"), soon());
  pair.client.reset();
  std::array<std::byte, 8> bytes{};
  expect_error(ErrorKind::System, {"closed the connection after 3 of 8 bytes received"},
               [&] { receive_all(pair.server, bytes, soon()); });
  const std::vector<std::byte> much(std::size_t{8} << 20);  // and no SIGPIPE
  expect_error(ErrorKind::System, {"closed the connection"},
               [&] { send_all(pair.server, much, soon()); });
}

}  // namespace
}  // namespace trireme::comm
