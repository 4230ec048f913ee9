#include "trireme/local_servers.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <exception>
#include <functional>
#include <random>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/bytes_moved.h"
#include "base/enum_names.h"
#include "comm/net/fd.h"
#include "trireme/message.h"
#include "trireme/parameter_server.h"

namespace trireme::ps {
namespace {

using comm::Fd;

std::string random_secret() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", device(), device(), device(), device());
}

/// Until the end of input. Empty if the writer failed.
std::string read_all(const Fd& fd) {
  std::string text;
  std::array<char, 256> bytes{};
  for (ssize_t count = 1; count > 0;) {
    count = ::read(fd.get(), bytes.data(), bytes.size());
    text.append(bytes.data(), bytes_moved(count));
    count = count < 0 && errno == EINTR ? 1 : count;
  }
  return text;
}

/// Starts something that listens, and returns where. It runs until the process ends.
using Start = std::function<std::string()>;

/// In the child. Ctrl-C is for the program that started it, which may still need it to save its work.
[[noreturn]] void run_child(const Start& start, Fd to_parent) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    std::signal(number, SIG_IGN);
  }
  try {
    const std::string address = start();
    (void)!::write(to_parent.get(), address.data(), address.size());
    to_parent.reset();
    for (;;) {
      ::pause();
    }
  } catch (const std::exception&) {
    ::_exit(1);
  }
}

}  // namespace

/// The coordinator or a server, as threads of this process or as a process.
class LocalServers::Node {
 public:
  explicit Node(std::unique_ptr<ParameterCoordinator> coordinator)
      : coordinator_(std::move(coordinator)), address_(coordinator_->address()) {}
  explicit Node(std::unique_ptr<ParameterServer> server)
      : server_(std::move(server)), address_(server_->address()) {}

  /// Forks.
  Node(const std::string& what, const Start& start) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
      comm::throw_system("cannot make a pipe", errno);
    }
    const Fd from_child(ends[0]);
    Fd to_parent(ends[1]);
    const pid_t parent = ::getpid();
    process_ = ::fork();
    if (process_ < 0) {
      comm::throw_system(fmt::format("cannot start {}", what), errno);
    }
    if (process_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) {
        ::_exit(1);
      }
      run_child(start, std::move(to_parent));
    }
    to_parent.reset();
    address_ = read_all(from_child);
    if (address_.empty()) {
      stop();
      throw Error(ErrorKind::System, fmt::format("{} failed to start", what));
    }
  }
  ~Node() { stop(); }
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  [[nodiscard]] const std::string& address() const { return address_; }
  [[nodiscard]] pid_t process() const { return process_; }

 private:
  void stop() const {
    if (process_ > 0) {
      ::kill(process_, SIGKILL);
      ::waitpid(process_, nullptr, 0);
    }
  }

  std::unique_ptr<ParameterCoordinator> coordinator_;
  std::unique_ptr<ParameterServer> server_;
  pid_t process_ = 0;
  std::string address_;
};

LocalServers::LocalServers(const LocalServersOptions& options) : secret_(random_secret()) {
  require(options.servers >= 1 && options.replicas >= 1 && options.replicas <= options.servers,
          fmt::format("{} parameter servers with {} replicas: use 1 server or more, and at most "
                      "as many replicas as servers",
                      options.servers, options.replicas));
  const bool as_threads = options.run == LocalServersOptions::Run::Threads;
  const auto make_coordinator = [&] {
    return std::make_unique<ParameterCoordinator>(
        ParameterCoordinatorOptions{.secret = secret_,
                                    .lease = options.lease,
                                    .shards = options.shards,
                                    .replicas = options.replicas,
                                    .min_servers = options.servers});
  };
  nodes_.push_back(as_threads ? std::make_unique<Node>(make_coordinator())
                              : std::make_unique<Node>("the coordinator", [&] {
                                  return make_coordinator().release()->address();
                                }));
  coordinator_ = nodes_.front()->address();
  for (std::size_t number = 0; number < options.servers; ++number) {
    const auto make_server = [&] {
      return std::make_unique<ParameterServer>(ParameterServerOptions{.number = number,
                                                                      .coordinator = coordinator_,
                                                                      .secret = secret_,
                                                                      .lease = options.lease});
    };
    nodes_.push_back(as_threads
                         ? std::make_unique<Node>(make_server())
                         : std::make_unique<Node>(fmt::format("parameter server {}", number), [&] {
                             return make_server().release()->address();
                           }));
  }
}

LocalServers::~LocalServers() = default;

std::vector<pid_t> LocalServers::processes() const {
  std::vector<pid_t> processes;
  for (std::size_t i = 1; i < nodes_.size(); ++i) {
    if (nodes_[i]->process() > 0) {
      processes.push_back(nodes_[i]->process());
    }
  }
  return processes;
}

std::string_view to_text(LocalServersOptions::Run run) {
  static constexpr auto kNames = enum_names<LocalServersOptions::Run>("threads", "processes");
  return kNames[run];
}

}  // namespace trireme::ps
