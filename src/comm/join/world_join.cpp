// Joining a world that was started externally: how the ranks find the store that rank 0 serves.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include <fmt/format.h>

#include "comm/join/join.h"
#include "comm/rendezvous/launch_variables.h"
#include "comm/rendezvous/meeting.h"
#include "comm/rendezvous/memory_store.h"
#include "comm/rendezvous/roster.h"
#include "comm/rendezvous/tcp_store.h"
#include "comm/rendezvous/tcp_store_server.h"
#include "trireme/comm.h"

namespace trireme {
namespace {

using comm::deadline_in;

/// A rank that is about to join, and its deadline for the others.
struct Newcomer {
  const comm::LaunchInfo& launch;
  const WorldOptions& options;
  comm::Deadline deadline = deadline_in(options.join_timeout);
};

/// Reports a failure to find rank 0's store: at the deadline, that rank 0 has not joined.
[[noreturn]] void throw_not_reached(const Newcomer& self, const Error& error) {
  constexpr std::chrono::milliseconds kLastPause(100);  // between two attempts
  if (self.launch.rank == 0 || comm::Clock::now() + kLastPause < self.deadline) {
    throw Error(error.kind(), error.what());
  }
  throw Error(error.kind(),
              fmt::format("rank {} waited {}; rank 0 of {} has not joined: {}", self.launch.rank,
                          to_text(self.options.join_timeout), self.launch.size, error.what()));
}

comm::TcpStoreOptions store_options(const Newcomer& self, const comm::Meeting& meeting) {
  return {.server = meeting.store,
          .secret = meeting.secret,
          .encryption = comm::encryption_of(self.options)};
}

/// Connects to the store, which rank 0 serves.
std::unique_ptr<comm::TcpStore> enter_store(const Newcomer& self, const comm::Meeting& meeting) {
  try {
    return std::make_unique<comm::TcpStore>(store_options(self, meeting), self.deadline);
  } catch (const comm::Disagreement& error) {
    const bool encrypts = self.options.encrypt;
    throw Error(
        ErrorKind::Usage,
        fmt::format("rank {} was started with encrypt = {}, rank 0 with {}: {}", self.launch.rank,
                    encrypts ? "on" : "off", encrypts ? "off" : "on", error.what()));
  } catch (const Error& error) {
    throw_not_reached(self, error);
  }
}

/// The last thing a rank does in the store is to sign off. Rank 0, which serves it, waits for all others.
void leave_store(const Newcomer& self, comm::Store& store, comm::Deadline deadline) {
  if (store.add("world/done", 1) == self.launch.size) {
    store.set("world/over", "yes");
  }
  if (self.launch.serves_store()) {
    (void)store.get("world/over", deadline);
  }
}

/// How many ranks must learn of a failure: all, or those that joined in time if some did not.
std::int64_t ranks_to_hear(const Newcomer& self, comm::Store& store) {
  return comm::passed(self.deadline) ? store.add("world/entered", 0) : self.launch.size;
}

/// The same after a failure. Rank 0 waits for the others to learn of it, but not for long.
void leave_failed_store(const Newcomer& self, comm::Store& store) noexcept {
  constexpr Seconds kPatience{5.0};
  constexpr std::chrono::milliseconds kPause(5);
  try {
    const comm::Deadline give_up = deadline_in(kPatience);
    store.add("world/done", 1);
    while (self.launch.serves_store() && !comm::passed(give_up) &&
           store.add("world/done", 0) < ranks_to_hear(self, store)) {
      std::this_thread::sleep_for(kPause);
    }
  } catch (const std::exception&) {  // the earlier failure counts
  }
}

/// A world whose ranks meet in a store that rank 0 serves.
World meet(const Newcomer& self, const comm::Meeting& meeting) {
  const std::unique_ptr<comm::TcpStore> store = enter_store(self, meeting);
  store->add("world/entered", 1);
  try {
    World world(comm::join({self.launch.rank, self.launch.size, self.options, *store, nullptr,
                            meeting.secret, self.deadline}));
    leave_store(self, *store, deadline_in(self.options.join_timeout));
    return world;
  } catch (const comm::RankTaken&) {
    store->add("world/entered", -1);
    throw;
  } catch (const std::exception&) {
    leave_failed_store(self, *store);
    throw;
  }
}

/// Another process is listening where this rank 0 is to serve the store. Returns if that is not another rank 0 of the
/// same job.
void check_for_other_rank_zero(const Newcomer& self, const comm::Meeting& meeting) {
  const comm::Deadline deadline = std::min(self.deadline, deadline_in({5.0}));
  std::unique_ptr<comm::TcpStore> store;
  try {
    store = std::make_unique<comm::TcpStore>(store_options(self, meeting), deadline);
  } catch (const Error&) {
    return;
  }
  comm::report_rank_taken(*store, 0, deadline);
}

/// Rank 0 starts serving the store.
std::unique_ptr<comm::TcpStoreServer> serve(const Newcomer& self, const comm::Meeting& meeting) {
  try {
    return std::make_unique<comm::TcpStoreServer>(
        comm::TcpStoreServerOptions{.listen = meeting.store,
                                    .secret = meeting.secret,
                                    .encryption = comm::encryption_of(self.options)});
  } catch (const comm::AddressInUse&) {
    check_for_other_rank_zero(self, meeting);
    throw;
  }
}

/// If all ranks know the store's address.
World meet_at(const Newcomer& self, const comm::Meeting& meeting) {
  std::unique_ptr<comm::TcpStoreServer> server;
  if (self.launch.serves_store()) {
    server = serve(self, meeting);
  }
  return meet(self, meeting);
}

std::unique_ptr<comm::MeetingHost> host_meeting(const Newcomer& self,
                                                const comm::MeetingPlace& place) {
  try {
    return std::make_unique<comm::MeetingHost>(place, comm::encryption_of(self.options));
  } catch (const comm::MeetingTaken&) {
    check_for_other_rank_zero(self, comm::await_meeting(place, deadline_in({1.0})));
    throw;
  }
}

/// If rank 0 writes the store's address to a meeting file.
World meet_by_file(const Newcomer& self, const comm::MeetingSearch& search) {
  if (self.launch.serves_store()) {
    const std::unique_ptr<comm::MeetingHost> host =
        host_meeting(self, {comm::make_meeting_folder(search.folders), search.job});
    return meet(self, host->meeting());
  }
  const comm::Meeting meeting = [&] {
    try {
      return comm::await_meeting(search, self.deadline);
    } catch (const Error& error) {
      throw_not_reached(self, error);
    }
  }();
  return meet(self, meeting);
}

}  // namespace

World join(const JoinOptions& where, const WorldOptions& options) {
  if (where.secret.empty()) {
    throw Error(ErrorKind::Usage,
                fmt::format("no secret to {} connections with: set JoinOptions::secret to 64 "
                            "hexadecimal digits, the same on all ranks (openssl rand -hex 32)",
                            options.encrypt ? "encrypt" : "authenticate"));
  }
  comm::LaunchInfo launch;
  launch.rank = where.rank;
  launch.size = where.size;
  return meet_at({launch, options},
                 {comm::parse_address(where.store), comm::Secret::from_hex(where.secret)});
}

LaunchedRank find_launched_rank(
    const std::function<std::optional<std::string>(const std::string&)>& variable) {
  const comm::LaunchInfo launch = comm::find_launch(variable);
  const bool alone = launch.launcher == comm::Launcher::Alone;
  return {.launcher = alone ? "" : std::string(comm::to_text(launch.launcher)),
          .rank = launch.rank,
          .size = launch.size};
}

World join(const std::function<std::optional<std::string>(const std::string&)>& variable,
           const WorldOptions& options) {
  const comm::LaunchInfo launch = comm::find_launch(variable);
  if (launch.size == 1) {
    comm::MemoryStore store;
    return World(comm::join({0, 1, options, store, nullptr, comm::Secret::random()}));
  }
  if (launch.store && !launch.secret) {
    throw Error(
        ErrorKind::Usage,
        "the job has a meeting point but no secret: give all ranks the same TRIREME_SECRET, 64 "
        "hexadecimal digits (openssl rand -hex 32)");
  }
  if (launch.store) {
    return meet_at({launch, options}, {*launch.store, *launch.secret});
  }
  return meet_by_file({launch, options},
                      {.folders = {.runtime = variable("XDG_RUNTIME_DIR").value_or("")},
                       .job = launch.job.empty() ? comm::job_of_parent() : launch.job});
}

}  // namespace trireme
