// `trireme ps`: parameter servers, their status, their speed, and what they do when processes die.
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/etcd_options.h"
#include "cli/ps_serve.h"
#include "command_line/interrupt.h"
#include "report/ps_text.h"
#include "trireme/error.h"
#include "trireme/message.h"
#include "trireme/parameter_server.h"
#include "trireme/ps_bench.h"
#include "trireme/ps_chaos.h"
#include "trireme/shared_number.h"
#include "trireme/units.h"

namespace trireme::cli {
namespace {

struct StatusArguments {
  std::string coordinator;
  TlsFiles etcd_tls;
  bool json = false;
  bool metrics = false;
  bool encrypt = false;
};

void show_status(const StatusArguments& args) {
  ps::ParameterClient client({.coordinator = args.coordinator,
                              .etcd_tls = args.etcd_tls,
                              .secret = ps_secret(),
                              .encrypt = args.encrypt ? ps::Encrypt::Yes : ps::Encrypt::No,
                              .patience = {10}});
  if (args.metrics) {
    fmt::print("{}", report::ps_metrics_text(client.metrics()));
    return;
  }
  const ps::ClusterStatus status = client.status();
  fmt::print("{}", args.json ? report::ps_status_json(status) : report::ps_status_text(status));
}

void add_status(Command& ps) {
  auto args = std::make_shared<StatusArguments>();
  Command* command = ps.add_subcommand("status", "Show servers, tables and shard placement");
  command
      ->add_option("--coordinator", args->coordinator,
                   "where the coordinator listens, or its --membership")
      ->required();
  add_etcd_tls_options(*command, args->etcd_tls);
  Option* json = command->add_flag("--json", args->json, "print JSON");
  command
      ->add_flag("--metrics", args->metrics, "print what every server has counted, as OpenMetrics")
      ->excludes(json);
  command->add_flag("--encrypt", args->encrypt, "the servers use TLS");
  command->callback([args] { show_status(*args); });
}

/// For options that count.
Check count_from(std::int64_t least) {
  return integer_in(least, std::numeric_limits<std::int64_t>::max());
}

struct PsBenchArguments {
  std::vector<std::string> sizes{"4", "4KiB", "64KiB", "1MiB", "16MiB"};
  std::size_t depth = 8;
  std::string time = "0.5s";
  std::string redis = "/usr/bin/redis-server";
  bool json = false;
};

void bench(const PsBenchArguments& args) {
  ps::PsBenchOptions bench{.sizes = {},
                           .depth = args.depth,
                           .time = parsed("--time", args.time, parse_seconds),
                           .redis = std::filesystem::exists(args.redis) ? args.redis : ""};
  for (const std::string& size : args.sizes) {
    bench.sizes.push_back(parsed("--sizes", size, parse_bytes));
  }
  if (bench.redis.empty()) {
    fmt::print(stderr,
               "trireme: {} does not exist: skipping Redis; install redis-server, or name it "
               "with --redis\n",
               args.redis);
  }
  const std::vector<ps::PsBenchRow> rows = ps::run_ps_bench(bench);
  fmt::print("{}", args.json ? report::ps_bench_json(rows) : report::ps_bench_text(rows));
}

void add_bench(Command& ps) {
  auto args = std::make_shared<PsBenchArguments>();
  Command* command =
      ps.add_subcommand("bench", "Time push and pull against a bare TCP loop and Redis");
  command->add_option("--sizes", args->sizes, "sizes of a key's vector")->delimiter(',');
  command->add_option("--depth", args->depth, "operations in flight, besides one at a time",
                      count_from(1));
  command->add_option("--time", args->time, "measuring time per system, size and depth");
  command->add_option("--redis", args->redis, "the Redis server; skipped if it does not exist");
  command->add_flag("--json", args->json, "print JSON");
  command->callback([args] { bench(*args); });
}

constexpr std::size_t kLongKills = 1000;
constexpr std::uint64_t kLongPushes = 10'000'000;
constexpr std::uint64_t kLongReads = 1'000'000;

struct ChaosArguments {
  ps::ChaosOptions chaos;
  std::string lease = "0.15s";
  bool is_long = false;
  bool json = false;
  bool verbose = false;
};

/// A temporary folder, removed at the end.
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

constexpr StopReply kEndsProcesses{
    .text = "stopping: ending the processes; nothing will be checked (again: stops immediately)"};

void chaos(ChaosArguments args, Outcome& outcome) {
  const TemporaryFolder folder;
  args.chaos.folder = folder.path();
  args.chaos.lease = parsed("--lease", args.lease, parse_seconds);
  args.chaos.program = std::filesystem::read_symlink("/proc/self/exe").string();
  if (args.is_long) {
    args.chaos.kills = kLongKills;
    args.chaos.pushes = kLongPushes;
    args.chaos.reads = kLongReads;
  }
  if (args.verbose) {
    args.chaos.on_event = [](const std::string& event) { fmt::print(stderr, "{}\n", event); };
  }
  SharedNumber stop;
  const InterruptGuard guard(stop, kEndsProcesses);
  args.chaos.should_stop = [&] { return stop.get() != 0; };
  try {
    const ps::ChaosResult result = ps::run_chaos(args.chaos);
    fmt::print("{}", args.json ? report::ps_chaos_json(result) : report::ps_chaos_text(result));
    outcome.exit_code = result.lost + result.doubled + result.violations == 0 ? 0 : 1;
  } catch (const Error& error) {
    if (stop.get() == 0) {
      throw;
    }
    fmt::print(stderr, "trireme: {}\n", error.what());
    outcome.exit_code = exit_code_of(stop.get());
  }
}

void add_chaos(Command& ps, Outcome& outcome) {
  auto args = std::make_shared<ChaosArguments>();
  Command* command =
      ps.add_subcommand("chaos", "Kill and pause processes while workers push; count what is lost");
  command->add_option("--seed", args->chaos.seed, "random seed for the faults", count_from(0));
  command->add_option("--kills", args->chaos.kills, "minimum number of kills", count_from(0));
  command->add_option("--pushes", args->chaos.pushes, "minimum number of acknowledged pushes",
                      count_from(0));
  command->add_option("--reads", args->chaos.reads, "minimum number of checked reads",
                      count_from(0));
  command->add_flag("--long", args->is_long, "1000 kills, 10 million pushes and a million reads");
  command->add_option("--servers", args->chaos.servers, "number of server processes",
                      count_from(1));
  command->add_option("--reactors", args->chaos.reactors, "reactors of each server", count_from(1));
  command->add_option("--workers", args->chaos.workers,
                      "number of workers, which push continuously", count_from(1));
  command->add_option("--replicas", args->chaos.replicas, "copies of each shard", count_from(1));
  command->add_option("--lease", args->lease, "how long a node may be silent");
  command->add_option("--membership", args->chaos.membership,
                      "two coordinators, elected in this etcd://HOST:PORT,.../UNUSED-NAME");
  add_etcd_tls_options(*command, args->chaos.etcd_tls);
  command->add_flag("--json", args->json, "print JSON");
  command->add_flag("--verbose", args->verbose, "print each fault");
  command->callback([args, &outcome] { chaos(*args, outcome); });
}

/// The processes that `chaos` kills; not for people.
void add_chaos_worker(Command& ps) {
  auto options = std::make_shared<ps::ChaosWorkerOptions>();
  auto lease = std::make_shared<std::string>();
  Command* command = ps.add_subcommand("chaos-worker", "A worker of chaos");
  command->hide();
  command->add_option("--coordinator", options->coordinator, "")->required();
  add_etcd_tls_options(*command, options->etcd_tls);
  command->add_option("--folder", options->folder, "")->required();
  command->add_option("--life", options->life, "")->required();
  command->add_option("--seed", options->seed, "")->required();
  command->add_option("--lease", *lease, "")->required();
  command->callback([options, lease] {
    options->lease = parsed("--lease", *lease, parse_seconds);
    options->secret = ps_secret();
    ps::run_chaos_worker(*options);
  });
}

}  // namespace

void add_ps_command(Command& app, Outcome& outcome) {
  Command* command = app.add_subcommand("ps", "Parameter servers: serve, status, bench, chaos");
  command->require_subcommand();
  add_ps_serve(*command, outcome);
  add_status(*command);
  add_bench(*command);
  add_chaos(*command, outcome);
  add_chaos_worker(*command);
}

}  // namespace trireme::cli
