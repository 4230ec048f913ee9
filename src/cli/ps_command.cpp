// `trireme ps`: parameter servers, their status, their speed, and what they do when processes die.
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/ps_serve.h"
#include "report/ps_text.h"
#include "trireme/error.h"
#include "trireme/message.h"
#include "trireme/parameter_server.h"
#include "trireme/ps_bench.h"
#include "trireme/ps_chaos.h"
#include "trireme/units.h"

namespace trireme::cli {
namespace {

struct StatusOptions {
  std::string coordinator;
  bool json = false;
  bool metrics = false;
  bool encrypt = false;
};

void show_status(const StatusOptions& options) {
  ps::ParameterClient client({.coordinator = options.coordinator,
                              .secret = ps_secret(),
                              .encrypt = options.encrypt ? ps::Encrypt::Yes : ps::Encrypt::No,
                              .patience = {10}});
  if (options.metrics) {
    fmt::print("{}", report::ps_metrics_text(client.metrics()));
    return;
  }
  const ps::ClusterStatus status = client.status();
  fmt::print("{}", options.json ? report::ps_status_json(status) : report::ps_status_text(status));
}

void add_status(Command& ps) {
  auto options = std::make_shared<StatusOptions>();
  Command* command = ps.add_subcommand("status", "Show servers, tables and where the shards are");
  command
      ->add_option("--coordinator", options->coordinator,
                   "where the coordinator listens, or its --membership")
      ->required();
  Option* json = command->add_flag("--json", options->json, "print JSON");
  command
      ->add_flag("--metrics", options->metrics,
                 "print what every server has counted, as OpenMetrics")
      ->excludes(json);
  command->add_flag("--encrypt", options->encrypt, "the servers use TLS");
  command->callback([options] { show_status(*options); });
}

struct BenchOptions {
  std::vector<std::string> sizes{"4", "4KiB", "64KiB", "1MiB", "16MiB"};
  std::size_t depth = 8;
  std::string time = "0.5s";
  std::string redis = "/usr/bin/redis-server";
  bool json = false;
};

void bench(const BenchOptions& options) {
  ps::PsBenchOptions bench{.sizes = {},
                           .depth = options.depth,
                           .time = parsed("--time", options.time, parse_seconds),
                           .redis = std::filesystem::exists(options.redis) ? options.redis : ""};
  for (const std::string& size : options.sizes) {
    bench.sizes.push_back(parsed("--sizes", size, parse_bytes));
  }
  const std::vector<ps::PsBenchRow> rows = ps::run_ps_bench(bench);
  fmt::print("{}", options.json ? report::ps_bench_json(rows) : report::ps_bench_text(rows));
}

void add_bench(Command& ps) {
  auto options = std::make_shared<BenchOptions>();
  Command* command =
      ps.add_subcommand("bench", "Time push and pull beside a bare TCP loop and Redis");
  command->add_option("--sizes", options->sizes, "of the vector of a key")->delimiter(',');
  command->add_option("--depth", options->depth, "operations in flight, besides one at a time");
  command->add_option("--time", options->time, "for each contender, size and depth");
  command->add_option("--redis", options->redis, "the Redis server; left out if it does not exist");
  command->add_flag("--json", options->json, "print JSON");
  command->callback([options] { bench(*options); });
}

constexpr std::size_t kLongKills = 1000;
constexpr std::uint64_t kLongPushes = 10'000'000;

struct ChaosCommandOptions {
  ps::ChaosOptions chaos;
  std::string lease = "0.15s";
  bool is_long = false;
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
  options.chaos.program = std::filesystem::read_symlink("/proc/self/exe").string();
  if (options.is_long) {
    options.chaos.kills = kLongKills;
    options.chaos.pushes = kLongPushes;
  }
  if (options.verbose) {
    options.chaos.on_event = [](const std::string& event) { fmt::print(stderr, "{}\n", event); };
  }
  const ps::ChaosResult result = ps::run_chaos(options.chaos);
  fmt::print("{}", options.json ? report::ps_chaos_json(result) : report::ps_chaos_text(result));
  outcome.exit_code = result.lost + result.doubled + result.violations == 0 ? 0 : 1;
}

void add_chaos(Command& ps, Outcome& outcome) {
  auto options = std::make_shared<ChaosCommandOptions>();
  Command* command =
      ps.add_subcommand("chaos", "Kill and pause processes while workers push; count what is lost");
  command->add_option("--seed", options->chaos.seed, "of the faults");
  command->add_option("--kills", options->chaos.kills, "at least");
  command->add_option("--pushes", options->chaos.pushes, "that are acknowledged, at least");
  command->add_flag("--long", options->is_long, "1000 kills and 10 million pushes");
  command->add_option("--servers", options->chaos.servers, "processes");
  command->add_option("--workers", options->chaos.workers, "that push all the time");
  command->add_option("--replicas", options->chaos.replicas, "of each shard");
  command->add_option("--lease", options->lease, "how long one may be silent");
  command->add_option("--membership", options->chaos.membership,
                      "two coordinators, elected in this etcd://HOST:PORT,.../UNUSED-NAME");
  command->add_flag("--json", options->json, "print JSON");
  command->add_flag("--verbose", options->verbose, "print each fault");
  command->callback([options, &outcome] { chaos(*options, outcome); });
}

/// The processes that `chaos` kills; not for people.
void add_chaos_worker(Command& ps) {
  auto options = std::make_shared<ps::ChaosWorkerOptions>();
  auto lease = std::make_shared<std::string>();
  Command* command = ps.add_subcommand("chaos-worker", "A worker of chaos");
  command->hide();
  command->add_option("--coordinator", options->coordinator, "")->required();
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
