// The public World, and ranks as threads.
#include <exception>
#include <thread>

#include <fmt/format.h>

#include "base/indexed_vector.h"
#include "comm/group/new_group.h"
#include "comm/join/join.h"
#include "comm/rendezvous/memory_store.h"
#include "comm/world/world_core.h"
#include "trireme/comm.h"

namespace trireme {

World::World(std::unique_ptr<comm::WorldCore> core)
    : core_(std::move(core)), all_(comm::make_group_of_all(*core_)) {
  core_->start();
}
World::~World() = default;
World::World(World&&) noexcept = default;

Rank World::rank() const {
  return core_->rank();
}
Rank World::size() const {
  return core_->size();
}
Group& World::all() {
  return *all_;
}
const std::vector<std::vector<Rank>>& World::hosts() const {
  return core_->hosts();
}
std::string_view World::reaches(Rank peer) const {
  return to_text(core_->reach(peer).kind());
}

SentBytes World::bytes_sent() const {
  return core_->messages().bytes_sent();
}

void* World::allocate_bytes(std::int64_t bytes) {
  if (!core_->has_memory()) {
    throw Error(ErrorKind::Usage,
                fmt::format("no rank of this world shares memory with another (transport {}); use "
                            "any buffer",
                            to_text(core_->options().transport)));
  }
  return core_->memory().allocate(bytes);
}

std::function<void(void*)> World::releaser() {
  return [memory = &core_->memory()](void* data) { memory->release(data); };
}

namespace {

/// The first error that originated on a rank; else the first that another rank caused.
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
  const std::shared_ptr<comm::InProcessHub> hub = comm::make_in_process_hub(ranks);
  comm::MemoryStore store;
  IndexedVector<Rank, std::exception_ptr> errors(ranks);
  std::vector<std::thread> threads;
  threads.reserve(ranks);
  for (Rank r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      try {
        World world(comm::join({r, ranks, options, store, hub, std::nullopt}));
        body(world);
      } catch (...) {
        errors[r] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  throw_first(errors.items());
}

}  // namespace trireme
