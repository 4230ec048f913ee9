// The public World, and ranks as threads.
#include <algorithm>
#include <exception>
#include <thread>

#include <fmt/format.h>

#include "comm/join.h"
#include "comm/rendezvous/launch_variables.h"
#include "comm/rendezvous/meeting.h"
#include "comm/rendezvous/memory_store.h"
#include "comm/rendezvous/tcp_store.h"
#include "comm/rendezvous/tcp_store_server.h"
#include "comm/roster.h"
#include "comm/world_core.h"
#include "trireme/comm.h"

namespace trireme {

World::World(std::unique_ptr<comm::WorldCore> core) : core_(std::move(core)) {}
World::~World() = default;
World::World(World&&) noexcept = default;

Rank World::rank() const {
  return core_->rank();
}
Rank World::size() const {
  return core_->size();
}
Group& World::all() {
  return core_->all();
}
const std::vector<std::vector<Rank>>& World::hosts() const {
  return core_->hosts();
}
std::string_view World::reaches(Rank peer) const {
  return name(core_->reach(peer).kind());
}

SentBytes World::bytes_sent() const {
  return core_->bytes_sent();
}

void* World::allocate_bytes(std::int64_t bytes) {
  if (!core_->has_memory()) {
    throw Error(ErrorKind::Usage,
                fmt::format("no rank of this world shares memory with another (transport {}); use "
                            "any buffer",
                            name(core_->options().transport)));
  }
  return core_->memory().allocate(bytes);
}

std::function<void(void*)> World::releaser() {
  return [memory = &core_->memory()](void* data) { memory->release(data); };
}

namespace {

using comm::deadline_in;

/// The last thing a rank does in the store is to count itself out. Rank 0, which serves it, waits for
/// all others.
void leave_store(comm::Store& store, const comm::LaunchInfo& launch, comm::Deadline deadline) {
  if (store.add("world/done", 1) == launch.size) {
    store.set("world/over", "yes");
  }
  if (launch.serves_store()) {
    (void)store.get("world/over", deadline);
  }
}

/// The same after a failure: the others still have to hear of it, but not for long.
void leave_failed_store(comm::Store& store, const comm::LaunchInfo& launch,
                        comm::Deadline deadline) noexcept {
  constexpr Seconds kPatience{5.0};
  try {
    leave_store(store, launch, std::min(deadline, deadline_in(kPatience)));
  } catch (const std::exception&) {  // what failed before counts
  }
}

/// Connects to the store, which rank 0 serves.
std::unique_ptr<comm::TcpStore> enter_store(const comm::LaunchInfo& launch,
                                            const comm::Meeting& meeting,
                                            const WorldOptions& options, comm::Deadline deadline) {
  try {
    return std::make_unique<comm::TcpStore>(
        comm::TcpStoreOptions{.server = meeting.store,
                              .secret = meeting.secret,
                              .encryption = comm::encryption_of(options)},
        deadline);
  } catch (const comm::Disagreement& error) {
    throw Error(
        ErrorKind::Usage,
        fmt::format("rank {} was started with encrypt = {}, rank 0 with {}: {}", launch.rank,
                    options.encrypt ? "on" : "off", options.encrypt ? "off" : "on", error.what()));
  }
}

/// A world whose ranks meet in a store that rank 0 serves.
World meet(const comm::LaunchInfo& launch, const comm::Meeting& meeting,
           const WorldOptions& options) {
  const comm::Deadline deadline = deadline_in({5 * options.deadline.count});
  const std::unique_ptr<comm::TcpStore> store = enter_store(launch, meeting, options, deadline);
  try {
    World world(comm::join({launch.rank, launch.size, options, *store, nullptr, meeting.secret}));
    leave_store(*store, launch, deadline);
    return world;
  } catch (const comm::RankTaken&) {
    throw;
  } catch (const std::exception&) {
    leave_failed_store(*store, launch, deadline);
    throw;
  }
}

/// Somebody else listens where this rank 0 is to serve the store. Returns if that is not another
/// rank 0 of the same job.
void check_for_other_rank_zero(const comm::Meeting& meeting, const WorldOptions& options) {
  constexpr Seconds kPatience{5.0};
  std::optional<comm::TcpStore> store;
  try {
    store.emplace(comm::TcpStoreOptions{.server = meeting.store,
                                        .secret = meeting.secret,
                                        .encryption = comm::encryption_of(options)},
                  deadline_in(kPatience));
  } catch (const Error&) {
    return;
  }
  comm::report_rank_taken(*store, 0, deadline_in(kPatience));
}

std::unique_ptr<comm::MeetingHost> host_meeting(const comm::MeetingPlace& place,
                                                const WorldOptions& options) {
  try {
    return std::make_unique<comm::MeetingHost>(place, comm::encryption_of(options));
  } catch (const comm::MeetingTaken&) {
    check_for_other_rank_zero(comm::await_meeting(place, deadline_in({1.0})), options);
    throw;
  }
}

/// The same, where rank 0 begins to serve the store here.
World serve_and_meet(const comm::LaunchInfo& launch, const comm::Meeting& meeting,
                     const WorldOptions& options) {
  std::unique_ptr<comm::TcpStoreServer> server;
  try {
    if (launch.serves_store()) {
      server = std::make_unique<comm::TcpStoreServer>(
          comm::TcpStoreServerOptions{.listen = meeting.store,
                                      .secret = meeting.secret,
                                      .encryption = comm::encryption_of(options)});
    }
  } catch (const comm::AddressInUse&) {
    check_for_other_rank_zero(meeting, options);
    throw;
  }
  return meet(launch, meeting, options);
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
  return serve_and_meet(
      launch, {comm::parse_address(where.store), comm::Secret::from_hex(where.secret)}, options);
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
    return serve_and_meet(launch, {*launch.store, *launch.secret}, options);
  }
  const comm::MeetingPlace place{.directory = "/tmp",
                                 .job = launch.job.empty() ? comm::job_of_parent() : launch.job};
  if (launch.rank != 0) {
    const comm::Meeting meeting =
        comm::await_meeting(place, deadline_in({5 * options.deadline.count}));
    return meet(launch, meeting, options);
  }
  const std::unique_ptr<comm::MeetingHost> host = host_meeting(place, options);
  return meet(launch, host->meeting(), options);
}

namespace {

/// The first error that is a rank's own; else the first that another rank caused.
void throw_first(const std::vector<std::exception_ptr>& errors) {
  std::exception_ptr caused;
  for (const std::exception_ptr& error : errors) {
    try {
      if (error) {
        std::rethrow_exception(error);
      }
    } catch (const CommError&) {
      caused = caused ? caused : error;
    }
  }
  if (caused) {
    std::rethrow_exception(caused);
  }
}

}  // namespace

void run_threads(Rank ranks, const std::function<void(World&)>& body, const WorldOptions& options) {
  const std::shared_ptr<comm::House> house = comm::make_house(ranks);
  comm::MemoryStore store;
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  threads.reserve(static_cast<std::size_t>(ranks));
  for (Rank r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      try {
        World world(comm::join({r, ranks, options, store, house, std::nullopt}));
        body(world);
      } catch (...) {
        errors[static_cast<std::size_t>(r)] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  throw_first(errors);
}

}  // namespace trireme
