#include "trireme/page_server.h"

#include <string>

#include <gtest/gtest.h>

#include "comm/local_request.h"
#include "comm/rendezvous_helpers.h"
#include "trireme/error.h"

namespace trireme {
namespace {

int port_of(const PageServer& server) {
  const std::string address = server.address();
  return std::stoi(address.substr(std::string("http://127.0.0.1:").size()));
}

std::string first_line(const std::string& answer) {
  return answer.substr(0, answer.find("\r\n"));
}

TEST(PageServer, RendersPagePerRequest) {
  PageServer server(0);
  int made = 0;
  server.start([&] { return "page " + std::to_string(++made); });
  for (const std::string body : {"page 1", "page 2"}) {
    const std::string answer = get(port_of(server));
    EXPECT_EQ(first_line(answer), "HTTP/1.1 200 OK");
    EXPECT_NE(answer.find("\r\nContent-Length: 6\r\n"), std::string::npos) << answer;
    EXPECT_TRUE(answer.ends_with("\r\n\r\n" + body)) << answer;
  }
}

TEST(PageServer, ServesOnePathForReadRequestsOnly) {
  PageServer server(0);
  server.start([] { return std::string("secret"); });
  const int port = port_of(server);
  const std::string host = "\r\nHost: 127.0.0.1:" + std::to_string(port) + "\r\n\r\n";
  const std::string too_long = "GET /" + std::string(20'000, 'x');
  for (const auto& [text, status] : {
           std::pair{"POST / HTTP/1.1" + host, std::string("405 Method Not Allowed")},
           std::pair{"GET /etc/passwd HTTP/1.1" + host, std::string("404 Not Found")},
           std::pair{std::string("GET / HTTP/1.1\r\n\r\n"), std::string("403 Forbidden")},
           std::pair{std::string("GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n"),
                     std::string("403 Forbidden")},
           std::pair{std::string("\x16\x03\x01nonsense\r\n\r\n"), std::string("400 Bad Request")},
           std::pair{too_long, std::string("400 Bad Request")},
       }) {
    const std::string answer = request(port, text);
    EXPECT_EQ(first_line(answer), "HTTP/1.1 " + status) << text.substr(0, 60);
    EXPECT_EQ(answer.find("secret"), std::string::npos);
  }
}

TEST(PageServer, ShowsWhyPageIsMissing) {
  PageServer server(0);
  server.start([]() -> std::string { throw Error(ErrorKind::Input, "the folder is gone"); });
  const std::string answer = get(port_of(server));
  EXPECT_EQ(first_line(answer), "HTTP/1.1 500 Internal Server Error");
  EXPECT_TRUE(answer.ends_with("the folder is gone")) << answer;
}

/// A client that sends nothing has a deadline, after which the next one is served.
TEST(PageServer, SilentClientDoesNotBlockOthers) {
  PageServer server(0);
  server.start([] { return std::string("page"); });
  const comm::Fd silent = comm::connect_to({.port = static_cast<std::uint16_t>(port_of(server))},
                                           comm::deadline_in({60}));
  EXPECT_EQ(first_line(get(port_of(server))), "HTTP/1.1 200 OK");
}

TEST(PageServer, RejectsPortInUse) {
  const PageServer server(0);
  const int port = port_of(server);
  expect_error(ErrorKind::Usage,
               {"port " + std::to_string(port) + " of 127.0.0.1 is in use; choose another"},
               [&] { const PageServer another(port); });
}

}  // namespace
}  // namespace trireme
