#include "comm/net/address.h"

#include <optional>

#include <fmt/format.h>

#include "base/text.h"
#include "trireme/error.h"

namespace trireme::comm {

Address parse_address(std::string_view text) {
  const auto refuse = [&](std::string_view why) {
    throw Error(ErrorKind::Usage,
                fmt::format("'{}' is not an address: {}; write it like node1:4000 "
                            "or [::1]:4000",
                            text, why));
  };
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) {
    refuse("it has no port");
  }
  std::string_view host = text.substr(0, colon);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find_first_of(":[]") != std::string_view::npos) {
    refuse("an IPv6 address belongs in brackets");
  }
  if (host.empty() || host.find_first_of(" \t\r\n/") != std::string_view::npos) {
    refuse("it has no host");
  }
  const std::optional<std::int64_t> port = parse_integer(text.substr(colon + 1));
  if (!port || *port < 1 || *port > 65535) {
    refuse(fmt::format("port '{}' is not 1 to 65535", text.substr(colon + 1)));
  }
  return {.host = std::string(host), .port = static_cast<std::uint16_t>(*port)};
}

std::string to_text(const Address& address) {
  const bool brackets = address.host.find(':') != std::string::npos;
  return brackets ? fmt::format("[{}]:{}", address.host, address.port)
                  : fmt::format("{}:{}", address.host, address.port);
}

}  // namespace trireme::comm
