// Network: hosts on one machine. Each host is a network namespace with one address; all are plugged into a switch, a
// bridge in a namespace of its own. The namespaces have no name and no route to the outside: they end with the last
// descriptor and process in them, however the test ends, and nothing leaves them.
//
// Needs root, iproute2 and a kernel that allows namespaces. Make and use it from one thread.
#pragma once

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <functional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "comm/net/fd.h"
#include "comm/net/secret.h"
#include "shared.h"
#include "trireme/comm.h"

namespace trireme::test {

struct NetworkOptions {
  int hosts = 2;
  /// The maximum send rate of each host, in bits per second; 0: unlimited.
  double rate = 0;
};

class Network {
 public:
  /// How much a host with a rate may send at once.
  static constexpr std::int64_t kBurstBytes = std::int64_t{256} << 10;

  /// Throws std::runtime_error saying what the machine does not allow.
  explicit Network(const NetworkOptions& options = {}) : switch_(make_namespace()) {
    command(switch_, "ip link add switch type bridge && ip link set switch up");
    for (int h = 0; h < options.hosts; ++h) {
      hosts_.push_back(make_namespace());
      plug_in(h, options.rate);
    }
  }

  [[nodiscard]] int hosts() const { return static_cast<int>(hosts_.size()); }
  /// "10.77.0.1" is host 0.
  [[nodiscard]] static std::string address(int host) { return fmt::format("10.77.0.{}", host + 1); }

  /// Moves the calling thread to the host, permanently.
  void enter(int host) const { enter(hosts_[host]); }

  /// Disconnects the host at the switch, or reconnects it. The host's own link stays up: one that went down and came up
  /// again would send nothing for up to another second, because Linux handles link changes only that often.
  void unplug(int host) const {
    command(switch_, fmt::format("ip link set port{} nomaster", host));
  }
  void plug_back(int host) const {
    command(switch_, fmt::format("ip link set port{} master switch", host));
  }

  /// What the host has sent, in bytes, including Ethernet, IP and TCP headers.
  [[nodiscard]] std::int64_t sent_bytes(int host) const {
    std::int64_t bytes = -1;
    on_thread(hosts_[host], [&] { bytes = read_sent_bytes(); });
    return bytes;
  }

 private:
  static comm::Fd make_namespace() {
    comm::Fd made;
    on_new_thread([&] {
      if (unshare(CLONE_NEWNET) != 0) {
        throw std::runtime_error("network namespaces are not permitted: " +
                                 comm::error_text(errno));
      }
      made = comm::Fd(open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
    });
    return made;
  }

  static void enter(const comm::Fd& there) {
    if (setns(there.get(), CLONE_NEWNET) != 0) {
      throw std::runtime_error("cannot enter a network namespace: " + comm::error_text(errno));
    }
  }

  /// Runs the body on a separate thread, so that the namespace of this one does not change.
  static void on_new_thread(const std::function<void()>& body) {
    std::exception_ptr error;
    std::thread([&] {
      try {
        body();
      } catch (...) {
        error = std::current_exception();
      }
    }).join();
    if (error) {
      std::rethrow_exception(error);
    }
  }
  static void on_thread(const comm::Fd& there, const std::function<void()>& body) {
    on_new_thread([&] {
      enter(there);
      body();
    });
  }

  static void command(const comm::Fd& there, const std::string& line) {
    on_thread(there, [&] {
      const std::string whole = "PATH=$PATH:/usr/sbin:/sbin; { " + line + "; } 2>&1";
      FILE* pipe = popen(whole.c_str(), "re");
      std::string output;
      for (int c = pipe == nullptr ? EOF : std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) {
        output += static_cast<char>(c);
      }
      if (pipe == nullptr || pclose(pipe) != 0) {
        throw std::runtime_error(fmt::format("'{}' failed: {}", line, output));
      }
    });
  }

  void plug_in(int host, double rate) {
    const comm::Fd& there = hosts_[host];
    command(switch_,
            fmt::format("ip link add port{0} type veth peer name eth0 netns /proc/{1}/fd/{2}"
                        " && ip link set port{0} master switch && ip link set port{0} up",
                        host, getpid(), there.get()));
    // Without IPv6 addresses there is no traffic except that of the tests, and a little ARP.
    command(there, fmt::format("ip link set lo up && ip link set eth0 addrgenmode none && ip addr "
                               "add {}/24 dev eth0 && ip link set eth0 up",
                               address(host)));
    if (rate > 0) {
      command(there,
              fmt::format("tc qdisc add dev eth0 root tbf rate {:.0f}bit burst {} latency 1s", rate,
                          kBurstBytes));
    }
  }

  static std::int64_t read_sent_bytes() {
    std::ifstream devices("/proc/thread-self/net/dev");
    for (std::string line; std::getline(devices, line);) {
      const std::size_t at = line.find("eth0:");
      std::array<std::int64_t, 9> numbers{};  // eight of what was received, then bytes sent
      if (at != std::string::npos) {
        std::istringstream rest(line.substr(at + 5));
        for (std::int64_t& number : numbers) {
          rest >> number;
        }
        return numbers.back();
      }
    }
    throw std::runtime_error("the host has no network device");
  }

  comm::Fd switch_;
  std::vector<comm::Fd> hosts_;
};

/// Why there can be no Network here, or "". Tried once.
inline const std::string& why_no_network() {
  static const std::string why = [] {
    if (geteuid() != 0) {
      return std::string("hosts as network namespaces need root");
    }
    try {
      const Network trial({.hosts = 1, .rate = 1e9});
      return std::string();
    } catch (const std::exception& error) {
      return std::string("no hosts as network namespaces here: ") + error.what();
    }
  }();
  return why;
}

/// Ranks as processes on the hosts of a network.
struct HostRun {
  const Network& network;
  /// Which host each rank is on.
  std::vector<int> placement;
  std::function<void(World&)> body;
  WorldOptions options{};
  /// Runs in the test's own process while the ranks run.
  std::function<void()> while_running{};
  /// Ranks that have not ended by then are killed.
  Seconds at_most{30.0};
};

namespace detail {

inline int run_rank(const HostRun& run, Rank rank, const std::string& secret) {
  try {
    const int host = run.placement[rank];
    run.network.enter(host);
    WorldOptions options = run.options;
    options.bind = Network::address(host);
    World world = join({.rank = rank,
                        .size = static_cast<Rank>(run.placement.size()),
                        .store = Network::address(run.placement[0]) + ":4000",
                        .secret = secret},
                       options);
    run.body(world);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "rank {}: {}\n", rank, error.what());
    return 1;
  }
}

/// Children that are killed if nobody waited for them.
class RankProcesses {
 public:
  RankProcesses() = default;
  ~RankProcesses() {
    for (const pid_t child : children_) {
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
    }
  }
  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;

  void start(const std::function<int()>& body) {
    const pid_t parent = getpid();
    const pid_t child = fork();
    if (child < 0) {
      throw std::runtime_error("cannot start a rank: " + comm::error_text(errno));
    }
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      const int code = getppid() == parent ? body() : 1;
      std::fflush(nullptr);
      _exit(code);
    }
    children_.push_back(child);
  }

  /// Whether all succeeded in time.
  [[nodiscard]] bool wait(Seconds at_most) {
    const auto end =
        std::chrono::steady_clock::now() + std::chrono::duration<double>(at_most.count);
    bool well = true;
    while (!children_.empty() && std::chrono::steady_clock::now() < end) {
      std::erase_if(children_, [&](pid_t child) {
        int status = 0;
        const bool ended = waitpid(child, &status, WNOHANG) == child;
        well = well && (!ended || (WIFEXITED(status) && WEXITSTATUS(status) == 0));
        return ended;
      });
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return well && children_.empty();
  }

 private:
  std::vector<pid_t> children_;
};

}  // namespace detail

/// Runs the body on every rank. True if all returned; a rank's error is written to standard error.
[[nodiscard]] inline bool run_on_hosts(const HostRun& run) {
  std::fflush(nullptr);
  const std::string secret = comm::Secret::random().hex();
  detail::RankProcesses ranks;
  for (Rank r = 0; r < static_cast<Rank>(run.placement.size()); ++r) {
    ranks.start([&] { return detail::run_rank(run, r, secret); });
  }
  if (run.while_running) {
    run.while_running();
  }
  return ranks.wait(run.at_most);
}

}  // namespace trireme::test
