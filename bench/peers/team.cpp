#include "team.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <system_error>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "page.h"

namespace peers {
namespace {

using Clock = std::chrono::steady_clock;
namespace fs = std::filesystem;

volatile std::sig_atomic_t g_interrupted = 0;  // NOLINT: only a global can be set by a signal

int check(int result, const char* what) {
  if (result < 0) {
    throw std::system_error(errno, std::generic_category(), what);
  }
  return result;
}

/// Bound to cores, in turn; yields while waiting if there are not enough.
std::vector<std::string> openmpi(const Library& library, int ranks, const fs::path& page) {
  std::vector<std::string> command{"mpirun.openmpi", "-n", std::to_string(ranks)};
  const auto add = [&](std::initializer_list<std::string> words) {
    command.insert(command.end(), words);
  };
  if (getuid() == 0) {
    add({"--allow-run-as-root"});
  }
  if (ranks <= cores()) {
    add({"--bind-to", "core"});
  } else {
    add({"--oversubscribe", "--bind-to", "core:overload-allowed", "--mca", "mpi_yield_when_idle",
         "1"});
  }
  if (library.wire == Library::Wire::Tcp) {
    add({"--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo"});
  }
  add({program_of(library), page});
  return command;
}

std::vector<std::string> mpich(const Library& library, int ranks, const fs::path& page) {
  std::vector<std::string> command{"mpirun.mpich", "-n", std::to_string(ranks)};
  if (ranks <= cores()) {
    command.insert(command.end(), {"-bind-to", "core"});
  } else {
    command.insert(command.end(), {"-genv", "PEERS_YIELD", "1"});  // see mpich_yield.cpp
  }
  command.insert(command.end(), {program_of(library), page});
  return command;
}

/// `files` is the team's directory.
std::vector<std::string> command_of(const Library& library, int ranks, const fs::path& files) {
  const fs::path page = files / "page";
  if (library.program == "peer_openmpi") {
    return openmpi(library, ranks, page);
  }
  if (library.program == "peer_mpich") {
    return mpich(library, ranks, page);
  }
  if (library.program == "peer_gloo") {
    return {program_of(library), page, std::to_string(ranks), files / "store"};
  }
  const std::size_t variant = std::min(library.name.find('-'), library.name.size());
  return {program_of(library), page, std::to_string(ranks),
          fmt::format("trireme{}", library.name.substr(variant))};
}

void make_page(const fs::path& path) {
  std::ofstream(path, std::ios::binary).close();
  fs::resize_file(path, sizeof(PageLayout));
}

bool wait_for(pid_t process, std::chrono::milliseconds at_most) {
  for (const auto deadline = Clock::now() + at_most; Clock::now() < deadline;) {
    if (waitpid(process, nullptr, WNOHANG) != 0) {
      return true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

void end(pid_t process) {
  using std::chrono::seconds;
  if (wait_for(process, seconds(g_interrupted != 0 ? 0 : 5))) {
    return;
  }
  kill(process, SIGTERM);  // mpirun forwards it to its ranks
  if (!wait_for(process, seconds(5))) {
    kill(-process, SIGKILL);
    waitpid(process, nullptr, 0);
  }
}

/// The last lines of a file, on one line.
std::string tail(const fs::path& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    if (line.find_first_not_of(" -") != std::string::npos) {
      lines.push_back(line);
    }
  }
  const std::size_t first = lines.size() > 4 ? lines.size() - 4 : 0;
  return fmt::format(
      "{}", fmt::join(lines.begin() + static_cast<std::ptrdiff_t>(first), lines.end(), "; "));
}

}  // namespace

const std::vector<Library>& all_libraries() {
  using Side = Library::Side;
  using Wire = Library::Wire;
  static const std::vector<Library> libraries{
      {"openmpi", "peer_openmpi", Side::Peer, Wire::Memory},
      {"mpich", "peer_mpich", Side::Peer, Wire::Memory},
      {"gloo", "peer_gloo", Side::Peer, Wire::Tcp},
      {"openmpi-tcp", "peer_openmpi", Side::Peer, Wire::Tcp},
      {"before", "peer_trireme_before", Side::Peer, Wire::Memory},
      {"before-shared", "peer_trireme_before", Side::Peer, Wire::Memory},
      {"before-tcp", "peer_trireme_before", Side::Peer, Wire::Tcp},
      {"trireme", "peer_trireme", Side::Ours, Wire::Memory},
      {"trireme-shared", "peer_trireme", Side::Ours, Wire::Memory},
      {"trireme-tcp", "peer_trireme", Side::Ours, Wire::Tcp},
  };
  return libraries;
}

void catch_signals() {
  struct sigaction action {};
  action.sa_handler = [](int) { g_interrupted = 1; };
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    sigaction(signal, &action, nullptr);
  }
  std::signal(SIGPIPE, SIG_IGN);  // a team that died is detected when it does not answer
}

void check_signals() {
  if (g_interrupted != 0) {
    throw Interrupted();
  }
}

void adopt_orphans() {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
}

void bury_orphans() {
  for (const auto deadline = Clock::now() + std::chrono::seconds(1); Clock::now() < deadline;) {
    const pid_t ended = waitpid(-1, nullptr, WNOHANG);
    if (ended < 0) {
      return;  // there are none
    }
    if (ended == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
}

Scratch::Scratch() {
  std::string pattern = "/dev/shm/trireme-peers-XXXXXX";
  if (mkdtemp(pattern.data()) == nullptr) {
    throw std::system_error(errno, std::generic_category(), pattern);
  }
  path_ = pattern;
}

Scratch::~Scratch() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

fs::path program_of(const Library& library) {
  return fs::read_symlink("/proc/self/exe").parent_path() / library.program;
}

int cores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  sched_getaffinity(0, sizeof allowed, &allowed);
  return CPU_COUNT(&allowed);
}

Team::Team(const Library& library, int ranks, const Scratch& scratch)
    : name_(fmt::format("{}, {} ranks", library.name, ranks)),
      files_(scratch.path() / fmt::format("{}-{}", library.name, ranks)) {
  fs::remove_all(files_);  // left by a team that failed
  fs::create_directories(files_ / "store");
  make_page(files_ / "page");
  start(command_of(library, ranks, files_));
  try {
    if (read_line(std::chrono::seconds(30)) != "ready") {
      fail("did not start");
    }
  } catch (...) {
    stop();
    throw;
  }
}

Team::~Team() {
  stop();
}

void Team::stop() noexcept {
  close(to_);
  close(from_);
  end(process_);
}

void Team::start(const std::vector<std::string>& command) {
  std::array<int, 2> to{};
  std::array<int, 2> from{};
  check(pipe2(to.data(), O_CLOEXEC), "pipe");
  check(pipe2(from.data(), O_CLOEXEC), "pipe");
  std::vector<const char*> words;
  words.reserve(command.size() + 1);
  for (const std::string& word : command) {
    words.push_back(word.c_str());
  }
  words.push_back(nullptr);
  const std::string log = files_ / "stderr";
  process_ = check(fork(), "fork");
  if (process_ == 0) {
    setsid();  // Ctrl-C is for the driver, which then ends its teams
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    dup2(to[0], STDIN_FILENO);
    dup2(from[1], STDOUT_FILENO);
    dup2(open(log.c_str(), O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600), STDERR_FILENO);
    execvp(words[0], const_cast<char**>(words.data()));  // NOLINT: execvp does not change them
    fmt::print(stderr, "{}: {}\n", words[0], std::generic_category().message(errno));
    _exit(127);
  }
  close(to[0]);
  close(from[1]);
  to_ = to[1];
  from_ = from[0];
}

Timing Team::ask(const Request& request) {
  const std::string line = fmt::format("{} {} {} {}\n", to_text(request.operation), request.bytes,
                                       request.repeats, request.milliseconds);
  if (write(to_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    fail("is gone");
  }
  const auto answer = nlohmann::json::parse(read_line(std::chrono::seconds(120)));
  if (answer.contains("error")) {
    fail(answer["error"]);
  }
  return {answer.at("isolated"), answer.at("back_to_back")};
}

std::string Team::read_line(std::chrono::seconds at_most) {
  const auto deadline = Clock::now() + at_most;
  while (unread_.find('\n') == std::string::npos) {
    check_signals();
    if (Clock::now() > deadline) {
      fail(fmt::format("did not answer within {} s", at_most.count()));
    }
    pollfd ready{.fd = from_, .events = POLLIN, .revents = 0};
    if (poll(&ready, 1, 500) <= 0) {
      continue;
    }
    std::array<char, 4096> buffer;
    const ssize_t got = read(from_, buffer.data(), buffer.size());
    if (got <= 0) {
      fail("ended");
    }
    unread_.append(buffer.data(), got);
  }
  const std::size_t length = unread_.find('\n');
  std::string line = unread_.substr(0, length);
  unread_.erase(0, length + 1);
  return line;
}

void Team::fail(const std::string& why) const {
  const std::string said = tail(files_ / "stderr");
  throw std::runtime_error(fmt::format("{} {}{}{}", name_, why, said.empty() ? "" : ": ", said));
}

}  // namespace peers
