#include "cli/ps_serve.h"

#include <csignal>
#include <cstdlib>
#include <memory>

#include <fmt/format.h>
#include <unistd.h>

#include "trireme/error.h"
#include "trireme/message.h"
#include "trireme/parameter_server.h"
#include "trireme/ps_chaos.h"
#include "trireme/units.h"

namespace trireme::cli {
namespace {

struct ServeOptions {
  std::string role = "server";
  std::string listen = "127.0.0.1:0";
  std::string coordinator;
  std::uint64_t number = 0;
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

ps::SnapshotOptions snapshot_options(const ServeOptions& options) {
  return {.folder = options.snapshot,
          .every = parsed("--snapshot-every", options.snapshot_every, parse_seconds),
          .restore = options.restore};
}

void print_role(ps::CoordinatorRole role, const std::string& address) {
  fmt::print("{} at {}\n", role == ps::CoordinatorRole::Active ? "coordinator" : "standby",
             address);
  std::fflush(stdout);
}

void serve_coordinator(const ServeOptions& options, Outcome& outcome) {
  const ps::ParameterCoordinator coordinator(
      {.listen = options.listen,
       .secret = ps_secret(),
       .encrypt = options.encrypt ? ps::Encrypt::Yes : ps::Encrypt::No,
       .lease = parsed("--lease", options.lease, parse_seconds),
       .shards = options.shards,
       .replicas = options.replicas,
       .min_servers = options.min_servers,
       .state_file = options.state,
       .membership = options.membership,
       .snapshots = snapshot_options(options),
       .on_refused = log_refusal,
       .on_stopped = [&](const std::string& why) { stop_program(why, outcome); },
       .on_role = print_role});
  wait_for_signal();
}

void serve_server(const ServeOptions& options, Outcome& outcome) {
  require(!options.coordinator.empty(), "--coordinator: a server needs the coordinator's address");
  const ps::ParameterServer server(
      {.number = options.number,
       .listen = options.listen,
       .coordinator = options.coordinator,
       .secret = ps_secret(),
       .encrypt = options.encrypt ? ps::Encrypt::Yes : ps::Encrypt::No,
       .lease = parsed("--lease", options.lease, parse_seconds),
       .shares_memory = options.transport == "auto",
       .snapshots = snapshot_options(options),
       .on_refused = log_refusal,
       .on_stopped = [&](const std::string& why) { stop_program(why, outcome); }});
  fmt::print("server {} at {}\n", options.number, server.address());
  std::fflush(stdout);
  wait_for_signal();
}

void serve(const ServeOptions& options, Outcome& outcome) {
  const sigset_t signals = end_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);  // threads inherit it
  if (options.role == "coordinator") {
    serve_coordinator(options, outcome);
  } else {
    serve_server(options, outcome);
  }
}

void add_snapshot_options(Command& command, ServeOptions& options) {
  command.add_option("--snapshot", options.snapshot,
                     "the folder of snapshots, the same for the coordinator and all servers");
  command.add_option("--snapshot-every", options.snapshot_every,
                     "of the coordinator: time between the begin of two snapshots");
  command.add_option("--restore", options.restore,
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
  auto options = std::make_shared<ServeOptions>();
  Command* command = ps.add_subcommand("serve", "Run a server or the coordinator until Ctrl-C");
  command->add_option("--role", options->role, "")->choices({"server", "coordinator"});
  command->add_option("--listen", options->listen, "where to listen; port 0 takes a free one");
  command->add_option("--coordinator", options->coordinator,
                      "of a server: where the coordinator listens, or its --membership");
  command->add_option("--number", options->number, "of a server: different for each one");
  command->add_option("--shards", options->shards,
                      "of the coordinator: into which tables are divided; a snapshot has its own");
  command->add_option("--replicas", options->replicas,
                      "of the coordinator: servers that hold a shard");
  command->add_option("--min-servers", options->min_servers,
                      "of the coordinator: servers to wait for before shards are assigned");
  command->add_option("--state", options->state,
                      "of the coordinator: the file that survives a restart");
  command->add_option("--membership", options->membership,
                      "of the coordinator, instead of --state: etcd://HOST:PORT,.../NAME; several "
                      "may be started, of which one is active and the others take over");
  add_snapshot_options(*command, *options);
  command->add_option("--lease", options->lease, "how long one may be silent; the same everywhere");
  command
      ->add_option("--transport", options->transport,
                   "of a server: auto shares memory with nodes of its host, tcp does not")
      ->choices({"auto", "tcp"});
  command->add_flag("--encrypt", options->encrypt, "TLS; the same everywhere");
  command->callback([options, &outcome] { serve(*options, outcome); });
}

}  // namespace trireme::cli
