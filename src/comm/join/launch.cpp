// Ranks as processes forked from this one.
#include "trireme/launch.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/enum_names.h"
#include "base/indexed_vector.h"
#include "comm/join/join.h"
#include "comm/rendezvous/tcp_store.h"
#include "comm/rendezvous/tcp_store_server.h"
#include "trireme/comm.h"

namespace trireme {
namespace {

using comm::Fd;

/// A connected pair of sockets. Writing to one whose other end is closed raises no signal.
struct Line {
  Fd child;
  Fd parent;
};

Line make_line() {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    comm::throw_system("cannot create a socket pair", errno);
  }
  return {Fd(ends[0]), Fd(ends[1])};
}

/// The line that the parent writes once its store is listening.
std::string read_line(const Fd& fd) {
  std::string line;
  char letter = 0;
  while (read(fd.get(), &letter, 1) == 1 && letter != '\n') {
    line += letter;
  }
  return line;
}

/// A rank writes this to its pipe when its body has returned. Proves success even if its exit status is lost: SIGCHLD
/// may be ignored, or other code may wait for all children.
constexpr char kSucceeded = 'S';

bool has_succeeded(const Fd& line) {
  char status = 0;
  return recv(line.get(), &status, 1, MSG_DONTWAIT) == 1 && status == kSucceeded;
}

/// "SIGXFSZ (File size limit exceeded)".
std::string signal_text(int number) {
  const char* name = sigabbrev_np(number);
  return name == nullptr ? fmt::format("signal {}", number)
                         : fmt::format("SIG{} ({})", name, sigdescr_np(number));
}

int run_child(Rank rank, Rank ranks, const std::function<void(World&)>& body,
              const WorldOptions& options, const comm::Secret& secret, const Fd& address) {
  try {
    const std::string store_address = read_line(address);
    const comm::Deadline deadline = comm::deadline_in(options.join_timeout);
    comm::TcpStore store({.server = comm::parse_address(store_address),
                          .secret = secret,
                          .encryption = comm::encryption_of(options)},
                         deadline);
    World world(comm::join({rank, ranks, options, store, nullptr, secret, deadline}));
    body(world);
    return 0;
  } catch (const std::exception& error) {
    std::fflush(stdout);
    fmt::print(stderr, "rank {}: {}\n", rank, error.what());
    return 1;
  }
}

/// Forks; never returns in the child.
pid_t start_child(Rank rank, Rank ranks, const std::function<void(World&)>& body,
                  const WorldOptions& options, const comm::Secret& secret, Line& line) {
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) {
    comm::throw_system(fmt::format("cannot start rank {}", rank), errno);
  }
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
      _exit(1);
    }
    line.parent.reset();
    const int code = run_child(rank, ranks, body, options, secret, line.child);
    std::fflush(nullptr);
    if (code == 0) {
      (void)send(line.child.get(), &kSucceeded, 1, MSG_NOSIGNAL);
    }
    _exit(code);
  }
  line.child.reset();
  return child;
}

/// The ranks that were started. Handles only its own children: the program may have others.
class Children {
 public:
  explicit Children(AfterDeath after_death) : after_death_(after_death) {}

  /// `line` is the parent's end of the child's line, and outlives this object.
  void add(Rank rank, pid_t child, const Fd& line) {
    children_.push_back(
        {rank, child, &line, Fd(static_cast<int>(syscall(SYS_pidfd_open, child, 0)))});
  }

  void kill_all() {
    killed_ = true;
    for (const Child& child : children_) {
      // By its descriptor: if SIGCHLD is ignored, the PID may already belong to another process.
      if (child.end.valid()) {
        syscall(SYS_pidfd_send_signal, child.end.get(), SIGKILL, nullptr, 0);
      } else {
        kill(child.pid, SIGKILL);
      }
    }
  }

  /// Waits for all. Once one has failed, or all remaining ones are stopped, gives the others `grace` to end by
  /// themselves. Returns 0 if one succeeded and none failed.
  int wait(Seconds grace) {
    constexpr comm::Deadline kNever = comm::Deadline::max();
    comm::Deadline give_up = kNever;
    while (!children_.empty()) {
      await_change();
      look();
      if (comm::passed(give_up)) {
        kill_all();
      } else if (!must_end() && !all_stopped()) {
        give_up = kNever;
      } else if (give_up == kNever) {
        give_up = comm::deadline_in(grace);
      }
    }
    return failed_ || !succeeded_ ? 1 : 0;
  }

 private:
  struct Child {
    Rank rank = 0;
    pid_t pid = 0;
    const Fd* line = nullptr;
    Fd end;  ///< readable when it has ended
    bool stopped = false;
  };

  /// Those that are left, because one has failed.
  [[nodiscard]] bool must_end() const { return failed_ && after_death_ == AfterDeath::EndOthers; }
  [[nodiscard]] bool all_stopped() const {
    return std::ranges::all_of(children_, [](const Child& child) { return child.stopped; });
  }

  /// Waits until one ends; polls from time to time because a stop raises no event.
  void await_change() const {
    constexpr int kLookMilliseconds = 50;
    std::vector<pollfd> ends;
    for (const Child& child : children_) {
      ends.push_back({child.end.get(), POLLIN, 0});
    }
    poll(ends.data(), ends.size(), kLookMilliseconds);
  }

  void look() {
    std::erase_if(children_, [this](Child& child) { return has_ended(child); });
  }

  [[nodiscard]] bool has_ended(Child& child) {
    int status = 0;
    const pid_t changed = waitpid(child.pid, &status, WNOHANG | WUNTRACED | WCONTINUED);
    if (changed < 0 && errno == ECHILD) {
      note_lost_status(child);
      return true;
    }
    if (changed != child.pid) {
      return false;
    }
    if (WIFSTOPPED(status) || WIFCONTINUED(status)) {
      child.stopped = WIFSTOPPED(status);
      return false;
    }
    note_status(child, status);
    return true;
  }

  void note_status(const Child& child, int status) {
    const bool is_expendable = WIFSIGNALED(status) && after_death_ == AfterDeath::OthersContinue;
    const bool has_returned = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    succeeded_ = succeeded_ || has_returned;
    failed_ = failed_ || !(has_returned || is_expendable);
    const bool by_us = killed_ && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    if (WIFSIGNALED(status) && !by_us) {
      fmt::print(stderr, "rank {} was killed by {}\n", child.rank, signal_text(WTERMSIG(status)));
    }
  }

  /// It has ended, but the system does not report how.
  void note_lost_status(const Child& child) {
    if (has_succeeded(*child.line)) {
      succeeded_ = true;
      return;
    }
    failed_ = true;
    if (!killed_) {
      fmt::print(stderr,
                 "rank {} ended without success; its exit status is lost (SIGCHLD is ignored, or "
                 "other code waits for all children)\n",
                 child.rank);
    }
  }

  AfterDeath after_death_;
  std::vector<Child> children_;
  bool succeeded_ = false;  ///< one of them
  bool failed_ = false;
  bool killed_ = false;  ///< by this process
};

}  // namespace

std::string_view to_text(AfterDeath after_death) {
  static constexpr auto kNames = enum_names<AfterDeath>("end others", "others continue");
  return kNames[after_death];
}

int launch(Rank ranks, const std::function<void(World&)>& body, const WorldOptions& options) {
  return launch(ranks, body, options, AfterDeath::EndOthers);
}

int launch(Rank ranks, const std::function<void(World&)>& body, const WorldOptions& options,
           AfterDeath after_death) {
  if (ranks < 1) {
    throw Error(ErrorKind::Usage, fmt::format("{} ranks; there must be at least one", ranks));
  }
  if (options.transport == TransportKind::InProcess) {
    throw Error(ErrorKind::Usage, "launch() starts processes; run_threads() is for in-process");
  }
  std::fflush(nullptr);
  const comm::Secret secret = comm::Secret::random();
  IndexedVector<Rank, Line> lines(ranks);
  Children children(after_death);  // after `lines`, which it refers to
  try {
    for (Rank r = 0; r < ranks; ++r) {
      Line& line = lines[r];
      line = make_line();
      children.add(r, start_child(r, ranks, body, options, secret, line), line.parent);
    }
    const comm::TcpStoreServer server(
        {.listen = {}, .secret = secret, .encryption = comm::encryption_of(options)});
    const std::string text = to_text(server.address()) + "\n";
    for (const Line& line : lines) {
      (void)send(line.parent.get(), text.data(), text.size(), MSG_NOSIGNAL);
    }
    return children.wait({4 * options.deadline.count});
  } catch (...) {
    children.kill_all();
    (void)children.wait({0});
    throw;
  }
}

}  // namespace trireme
