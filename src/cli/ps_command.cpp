// `trireme ps`: parameter servers, their status, their speed, and what they do when processes die.
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "cli/commands.h"
#include "report/ps_text.h"
#include "trireme/error.h"
#include "trireme/message.h"
#include "trireme/parameter_server.h"
#include "trireme/ps_bench.h"
#include "trireme/ps_chaos.h"
#include "trireme/units.h"

namespace trireme::cli {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  trireme ps chaos --faults 20 --seed 7        kill and pause servers; count what is lost\n"
    "  trireme ps bench --sizes 64KiB,1M            beside a bare TCP loop that also adds\n"
    "  export TRIREME_PS_SECRET='at least 16 characters'\n"
    "  trireme ps serve --role coordinator --listen 127.0.0.1:7000 --min-servers 2 &\n"
    "  trireme ps serve --coordinator 127.0.0.1:7000 --number 0 &\n"
    "  trireme ps serve --coordinator 127.0.0.1:7000 --number 1 &\n"
    "  trireme ps status --coordinator 127.0.0.1:7000";

std::string secret() {
  // Called before any threads start.
  const char* const value = std::getenv(ps::kSecretVariable);  // NOLINT(concurrency-mt-unsafe)
  require(value != nullptr,
          fmt::format("set {} to the secret of the servers: at least 16 characters",
                      ps::kSecretVariable));
  return value;
}

struct ServeOptions {
  std::string role = "server";
  std::string listen = "127.0.0.1:0";
  std::string coordinator;
  std::uint64_t number = 0;
  std::uint32_t shards = 64;
  std::size_t replicas = 2;
  std::size_t min_servers = 1;
  std::string state;
  std::string lease = "0.15s";
  bool encrypt = false;
};

void log_refusal(const std::string& why) {
  fmt::print(stderr, "trireme ps: {}\n", why);
}

/// Until Ctrl-C or SIGTERM.
void wait_for_signal() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  int number = 0;
  sigwait(&signals, &number);
}

/// Before threads start, so that they inherit it.
void block_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

void serve(const ServeOptions& options) {
  block_signals();
  const Seconds lease = parsed("--lease", options.lease, parse_seconds);
  const ps::Encrypt encrypt = options.encrypt ? ps::Encrypt::Yes : ps::Encrypt::No;
  if (options.role == "coordinator") {
    const ps::ParameterCoordinator coordinator({.listen = options.listen,
                                                .secret = secret(),
                                                .encrypt = encrypt,
                                                .lease = lease,
                                                .shards = options.shards,
                                                .replicas = options.replicas,
                                                .min_servers = options.min_servers,
                                                .state_file = options.state,
                                                .on_refused = log_refusal});
    fmt::print("coordinator at {}\n", coordinator.address());
    std::fflush(stdout);
    return wait_for_signal();
  }
  require(!options.coordinator.empty(), "--coordinator: a server needs the coordinator's address");
  const ps::ParameterServer server({.number = options.number,
                                    .listen = options.listen,
                                    .coordinator = options.coordinator,
                                    .secret = secret(),
                                    .encrypt = encrypt,
                                    .lease = lease,
                                    .on_refused = log_refusal});
  fmt::print("server {} at {}\n", options.number, server.address());
  std::fflush(stdout);
  wait_for_signal();
}

void add_serve(CLI::App& ps) {
  auto options = std::make_shared<ServeOptions>();
  CLI::App* command = ps.add_subcommand("serve", "Run a server or the coordinator until Ctrl-C");
  command->add_option("--role", options->role, "server or coordinator")
      ->check(CLI::IsMember({"server", "coordinator"}))
      ->capture_default_str();
  command->add_option("--listen", options->listen, "where to listen; port 0 takes a free one")
      ->capture_default_str();
  command->add_option("--coordinator", options->coordinator,
                      "of a server: where the coordinator listens");
  command->add_option("--number", options->number, "of a server: different for each one")
      ->capture_default_str();
  command
      ->add_option("--shards", options->shards, "of the coordinator: into which tables are divided")
      ->capture_default_str();
  command
      ->add_option("--replicas", options->replicas, "of the coordinator: servers that hold a shard")
      ->capture_default_str();
  command
      ->add_option("--min-servers", options->min_servers,
                   "of the coordinator: servers to wait for before shards are assigned")
      ->capture_default_str();
  command->add_option("--state", options->state,
                      "of the coordinator: the file that survives a restart");
  command->add_option("--lease", options->lease, "how long one may be silent; the same everywhere")
      ->capture_default_str();
  command->add_flag("--encrypt", options->encrypt, "TLS; the same everywhere");
  command->callback([options] { serve(*options); });
}

struct StatusOptions {
  std::string coordinator;
  bool json = false;
  bool encrypt = false;
};

void show_status(const StatusOptions& options) {
  ps::ParameterClient client({.coordinator = options.coordinator,
                              .secret = secret(),
                              .encrypt = options.encrypt ? ps::Encrypt::Yes : ps::Encrypt::No,
                              .patience = {10}});
  const ps::ClusterStatus status = client.status();
  fmt::print("{}", options.json ? report::ps_status_json(status) : report::ps_status_text(status));
}

void add_status(CLI::App& ps) {
  auto options = std::make_shared<StatusOptions>();
  CLI::App* command = ps.add_subcommand("status", "Show servers, tables and where the shards are");
  command->add_option("--coordinator", options->coordinator, "where the coordinator listens")
      ->required();
  command->add_flag("--json", options->json, "print JSON");
  command->add_flag("--encrypt", options->encrypt, "the servers use TLS");
  command->callback([options] { show_status(*options); });
}

struct BenchOptions {
  std::vector<std::string> sizes{"4", "4KiB", "64KiB", "1MiB", "16MiB"};
  std::size_t depth = 8;
  std::size_t replicas = 1;
  std::string time = "0.5s";
  bool json = false;
};

void bench(const BenchOptions& options) {
  ps::PsBenchOptions bench{.sizes = {},
                           .depth = options.depth,
                           .replicas = options.replicas,
                           .time = parsed("--time", options.time, parse_seconds)};
  for (const std::string& size : options.sizes) {
    bench.sizes.push_back(parsed("--sizes", size, parse_bytes));
  }
  const std::vector<ps::PsBenchRow> rows = ps::run_ps_bench(bench);
  fmt::print("{}", options.json ? report::ps_bench_json(rows)
                                : report::ps_bench_text(rows, options.depth));
}

void add_bench(CLI::App& ps) {
  auto options = std::make_shared<BenchOptions>();
  CLI::App* command = ps.add_subcommand("bench", "Time push and pull beside a bare TCP loop");
  command->add_option("--sizes", options->sizes, "of the vector of a key")->delimiter(',');
  command->add_option("--depth", options->depth, "operations in flight")->capture_default_str();
  command->add_option("--replicas", options->replicas, "servers that hold the vector")
      ->capture_default_str();
  command->add_option("--time", options->time, "for each measurement")->capture_default_str();
  command->add_flag("--json", options->json, "print JSON");
  command->callback([options] { bench(*options); });
}

struct ChaosCommandOptions {
  ps::ChaosOptions chaos;
  std::string lease = "0.15s";
  bool json = false;
  bool verbose = false;
};

/// A folder of its own, removed at the end.
class TemporaryFolder {
 public:
  TemporaryFolder()
      : path_(std::filesystem::temp_directory_path() / fmt::format("trireme-ps-{}", getpid())) {
    std::filesystem::create_directory(path_);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  [[nodiscard]] std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

void chaos(ChaosCommandOptions options, Outcome& outcome) {
  const TemporaryFolder folder;
  options.chaos.folder = folder.path();
  options.chaos.lease = parsed("--lease", options.lease, parse_seconds);
  options.chaos.serve_command = {std::filesystem::read_symlink("/proc/self/exe").string(), "ps",
                                 "serve"};
  if (options.verbose) {
    options.chaos.on_event = [](const std::string& event) { fmt::print(stderr, "{}\n", event); };
  }
  const ps::ChaosResult result = ps::run_chaos(options.chaos);
  fmt::print("{}", options.json ? report::ps_chaos_json(result) : report::ps_chaos_text(result));
  outcome.exit_code = result.lost + result.doubled == 0 ? 0 : 1;
}

void add_chaos(CLI::App& ps, Outcome& outcome) {
  auto options = std::make_shared<ChaosCommandOptions>();
  CLI::App* command =
      ps.add_subcommand("chaos", "Kill and pause servers while workers push; count what is lost");
  command->add_option("--seed", options->chaos.seed, "of the faults")->capture_default_str();
  command->add_option("--faults", options->chaos.faults, "kills and pauses")->capture_default_str();
  command->add_option("--servers", options->chaos.servers, "processes")->capture_default_str();
  command->add_option("--workers", options->chaos.workers, "that push all the time")
      ->capture_default_str();
  command->add_option("--replicas", options->chaos.replicas, "of each shard")
      ->capture_default_str();
  command->add_option("--lease", options->lease, "how long one may be silent")
      ->capture_default_str();
  command->add_flag("--json", options->json, "print JSON");
  command->add_flag("--verbose", options->verbose, "print each fault");
  command->callback([options, &outcome] { chaos(*options, outcome); });
}

}  // namespace

void add_ps_command(CLI::App& app, Outcome& outcome) {
  CLI::App* command = app.add_subcommand("ps", "Parameter servers: serve, status, bench, chaos");
  command->require_subcommand(1);
  command->footer(kExamples);
  add_serve(*command);
  add_status(*command);
  add_bench(*command);
  add_chaos(*command, outcome);
}

}  // namespace trireme::cli
