// HostsOfRun: the hosts of one run as network namespaces, if the machine permits them; otherwise the only host is this
// machine. Used by one thread.
#pragma once

#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "comm/fault_fuzz/scenario.h"
#include "comm/netns.h"

namespace trireme::fault_fuzz {

class HostsOfRun {
 public:
  /// Throws std::runtime_error if the scenario needs namespaces that the machine does not permit.
  explicit HostsOfRun(int hosts) {
    if (!test::why_no_network().empty()) {
      if (hosts > 1) {
        throw std::runtime_error(test::why_no_network());
      }
      return;
    }
    network_.emplace(test::NetworkOptions{.hosts = hosts});
    for (int h = 0; h < hosts; ++h) {
      fix_neighbors(h);
    }
  }

  /// Moves the calling process to the host.
  void enter(int host) const {
    if (network_) {
      network_->enter(host);
    }
  }
  [[nodiscard]] std::string address(int host) const {
    return network_ ? test::Network::address(host) : "127.0.0.1";
  }
  /// Where the rank on `host` that serves the store can listen.
  [[nodiscard]] std::string store_address(int host) const {
    return fmt::format("{}:{}", address(host), network_ ? 4000 : free_port());
  }

  void cut(int host) const { network_->unplug(host); }
  void heal(int host) const { network_->plug_back(host); }
  void slow_down(int host) const {
    run_on(host,
           fmt::format("tc qdisc replace dev eth0 root tbf rate {:.0f}bit burst {} latency 50ms",
                       Fault::kSlowBitsPerSecond, test::Network::kBurstBytes));
  }
  void speed_up(int host) const { run_on(host, "tc qdisc del dev eth0 root"); }

 private:
  static std::string hardware_address(int host) {
    return fmt::format("02:00:00:00:00:{:02x}", host);
  }

  /// Hosts have static ARP entries. Otherwise the first packet after an interruption waits for the kernel to resolve
  /// them again, which it does once a second.
  void fix_neighbors(int host) const {
    run_on(host, fmt::format("ip link set eth0 address {}", hardware_address(host)));
    for (int other = 0; other < network_->hosts(); ++other) {
      if (other != host) {
        run_on(host, fmt::format("ip neigh replace {} lladdr {} dev eth0 nud permanent",
                                 test::Network::address(other), hardware_address(other)));
      }
    }
  }

  void run_on(int host, const std::string& command) const {
    int status = -1;
    std::exception_ptr error;
    std::thread([&] {
      try {
        network_->enter(host);
        const std::string line = "PATH=$PATH:/usr/sbin:/sbin " + command;
        status = std::system(line.c_str());  // NOLINT(concurrency-mt-unsafe): one at a time
      } catch (...) {
        error = std::current_exception();
      }
    }).join();
    if (error) {
      std::rethrow_exception(error);
    }
    if (status != 0) {
      throw std::runtime_error(fmt::format("'{}' failed on host {}", command, host));
    }
  }

  static int free_port() {
    const comm::Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    if (bind(socket.get(), reinterpret_cast<sockaddr*>(&address), length) != 0 ||
        getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0) {
      throw std::runtime_error("cannot find a free port: " + comm::error_text(errno));
    }
    return ntohs(address.sin_port);
  }

  std::optional<test::Network> network_;
};

}  // namespace trireme::fault_fuzz
