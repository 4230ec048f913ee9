#include "cli/ps_serve.h"

#include <csignal>
#include <cstdlib>
#include <ctime>
#include <limits>
#include <memory>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "cli/etcd_options.h"
#include "trireme/error.h"
#include "trireme/message.h"
#include "trireme/parameter_server.h"
#include "trireme/ps_chaos.h"
#include "trireme/units.h"

namespace trireme::cli {
namespace {

struct ServeArguments {
  std::string role = "server";
  std::string listen = "127.0.0.1:0";
  std::string coordinator;
  TlsFiles etcd_tls;
  std::uint64_t number = 0;
  std::string reactors = "1";
  std::uint32_t shards = 64;
  std::size_t replicas = 2;
  std::size_t min_servers = 1;
  std::string state;
  std::string membership;
  std::string snapshot;
  std::string snapshot_every = "60s";
  std::string restore;
  std::string lease = "0.15s";
  std::string transport = "auto";
  bool encrypt = false;
};

void log_refusal(const std::string& why) {
  fmt::print(stderr, "trireme ps: {}\n", why);
}

sigset_t end_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  return signals;
}

/// From the thread of a server that cannot continue: ends the program as a signal would, but as a failure.
void stop_program(const std::string& why, Outcome& outcome) {
  fmt::print(stderr, "trireme: {}\n", why);
  outcome.exit_code = 1;
  ::kill(::getpid(), SIGTERM);
}

/// Until Ctrl-C, SIGTERM or stop_program().
void wait_for_signal() {
  const sigset_t signals = end_signals();
  int number = 0;
  sigwait(&signals, &number);
}

ps::SnapshotOptions snapshot_options(const ServeArguments& args) {
  return {.folder = args.snapshot,
          .every = parsed("--snapshot-every", args.snapshot_every, parse_seconds),
          .restore = args.restore};
}

void print_role(ps::CoordinatorRole role, const std::string& address) {
  fmt::print("{} at {}\n", to_text(role), address);
  std::fflush(stdout);
}

void serve_coordinator(const ServeArguments& args, Outcome& outcome) {
  const ps::ParameterCoordinator coordinator(
      {.listen = args.listen,
       .secret = ps_secret(),
       .encrypt = args.encrypt ? ps::Encrypt::Yes : ps::Encrypt::No,
       .lease = parsed("--lease", args.lease, parse_seconds),
       .shards = args.shards,
       .replicas = args.replicas,
       .min_servers = args.min_servers,
       .state_file = args.state,
       .membership = args.membership,
       .etcd_tls = args.etcd_tls,
       .snapshots = snapshot_options(args),
       .on_refused = log_refusal,
       .on_stopped = [&](const std::string& why) { stop_program(why, outcome); },
       .on_role = print_role});
  wait_for_signal();
}

/// Until another signal, if the other servers do not take the shards.
void hand_over_or_signal(ps::ParameterServer& server) {
  constexpr Seconds kLook{0.05};
  const sigset_t signals = end_signals();
  constexpr timespec kNow{};
  while (!server.hand_over(kLook) && sigtimedwait(&signals, nullptr, &kNow) < 0) {
  }
}

void print_addresses(std::uint64_t number, const std::vector<std::string>& addresses) {
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    fmt::print("server {} at {}\n", ps::to_text(ps::ServerReactor{number, i}), addresses[i]);
  }
  std::fflush(stdout);
}

/// Names all that is missing.
void require_server_options(const ServeArguments& args) {
  std::vector<std::string> missing;
  if (args.coordinator.empty()) {
    missing.emplace_back("--coordinator HOST:PORT");
  }
  // NOLINTNEXTLINE(concurrency-mt-unsafe): there are no threads yet
  if (std::getenv(ps::kSecretVariable) == nullptr) {
    missing.push_back(fmt::format(
        "{} in the environment, the secret of at least 16 characters that all nodes share",
        ps::kSecretVariable));
  }
  require(
      missing.empty(),
      fmt::format("a server needs {}; and --number N, different for each server (0 if not given); "
                  "the coordinator is started first, with --role coordinator --listen HOST:PORT",
                  fmt::join(missing, ", and ")));
}

void serve_server(const ServeArguments& args, Outcome& outcome) {
  require_server_options(args);
  ps::ParameterServer server(
      {.number = args.number,
       .reactors = parsed("--reactors", args.reactors, ps::parse_reactors),
       .listen = args.listen,
       .coordinator = args.coordinator,
       .etcd_tls = args.etcd_tls,
       .secret = ps_secret(),
       .encrypt = args.encrypt ? ps::Encrypt::Yes : ps::Encrypt::No,
       .lease = parsed("--lease", args.lease, parse_seconds),
       .shares_memory = args.transport == "auto",
       .snapshots = snapshot_options(args),
       .on_refused = log_refusal,
       .on_stopped = [&](const std::string& why) { stop_program(why, outcome); }});
  print_addresses(args.number, server.addresses());
  wait_for_signal();
  if (outcome.exit_code == 0) {
    hand_over_or_signal(server);
  }
}

void serve(const ServeArguments& args, Outcome& outcome) {
  const sigset_t signals = end_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);  // threads inherit it
  if (args.role == "coordinator") {
    serve_coordinator(args, outcome);
  } else {
    serve_server(args, outcome);
  }
}

void add_snapshot_options(Command& command, ServeArguments& args) {
  command.add_option("--snapshot", args.snapshot,
                     "the folder of snapshots, the same for the coordinator and all servers");
  command.add_option("--snapshot-every", args.snapshot_every,
                     "for the coordinator: time between snapshots");
  command.add_option("--restore", args.restore,
                     "start a new cluster from the last snapshot in this folder, or from this one");
}

}  // namespace

std::string ps_secret() {
  // Called before any threads start.
  const char* const value = std::getenv(ps::kSecretVariable);  // NOLINT(concurrency-mt-unsafe)
  require(value != nullptr,
          fmt::format("set {} to the secret of the servers: at least 16 characters",
                      ps::kSecretVariable));
  return value;
}

void add_ps_serve(Command& ps, Outcome& outcome) {
  auto args = std::make_shared<ServeArguments>();
  Command* command = ps.add_subcommand("serve", "Run a server or the coordinator until Ctrl-C");
  command->add_option("--role", args->role, "")->choices({"server", "coordinator"});
  command->add_option("--listen", args->listen,
                      "where to listen; port 0 takes a free one; further reactors of a server take "
                      "the next ports");
  command->add_option("--coordinator", args->coordinator,
                      "for a server: where the coordinator listens, or its --membership");
  command->add_option("--number", args->number, "for a server: different for each one",
                      integer_in(0, std::numeric_limits<std::uint32_t>::max() - 1));
  command->add_option("--reactors", args->reactors,
                      "for a server: threads, each with its own shards; auto: one per core");
  command->add_option("--shards", args->shards,
                      "for the coordinator: number of shards of the tables; a snapshot has its own",
                      integer_in(1, 1 << 16));
  command->add_option("--replicas", args->replicas,
                      "for the coordinator: servers that hold a shard", integer_in(1, 8));
  command->add_option("--min-servers", args->min_servers,
                      "for the coordinator: servers to wait for before shards are assigned",
                      integer_in(1, std::numeric_limits<std::uint32_t>::max()));
  command->add_option("--state", args->state,
                      "for the coordinator: the file that survives a restart");
  command->add_option("--membership", args->membership,
                      "for the coordinator, instead of --state: etcd://HOST:PORT,.../NAME, or "
                      "etcd+tls://...; several may be started, of which one is active and the "
                      "others take over");
  add_etcd_tls_options(*command, args->etcd_tls);
  add_snapshot_options(*command, *args);
  command->add_option("--lease", args->lease,
                      "how long a node may be silent; the same on all nodes");
  command
      ->add_option("--transport", args->transport,
                   "for a server: auto shares memory with nodes of its host, tcp does not")
      ->choices({"auto", "tcp"});
  command->add_flag("--encrypt", args->encrypt, "encrypt with TLS 1.3; the same on all nodes");
  command->callback([args, &outcome] { serve(*args, outcome); });
}

}  // namespace trireme::cli
