#include "comm/group/group_core.h"

#include <algorithm>
#include <set>
#include <utility>

#include <sys/mman.h>

#include "comm/checks.h"
#include "comm/direct/direct_limits.h"
#include "comm/group/make_op.h"
#include "comm/transport/memory.h"
#include "comm/world/world_core.h"
#include "trireme/collective_cost.h"

namespace trireme::comm {
namespace {

Rank place_of(Rank world_rank, const std::vector<Rank>& members) {
  return static_cast<Rank>(std::ranges::find(members, world_rank) - members.begin());
}

/// How to begin writing to staging memory.
Stores first_way(const std::optional<HostCosts>& costs) {
  return costs && costs->stages_cached() ? Stores::Cached : Stores::Streaming;
}

}  // namespace

GroupCore::GroupCore(WorldCore& world, std::uint64_t context, std::vector<Rank> members,
                     std::vector<Area*> areas, std::uint64_t first_sequence)
    : world_(world),
      context_(context),
      members_(std::move(members)),
      areas_(std::move(areas)),
      me_(place_of(world.rank(), members_)),
      shots_(first_way(world.options().costs)),
      staging_(shots_, kStreamAbove),
      sharing_(Stores::Cached, kStreamAbove),
      sequence_(first_sequence),
      all_finished_(first_sequence),
      hearing_(members_, me_, [this](Rank to, ControlKind kind, const Record& record) {
        world_.post_control(to, kind, context_, std::as_bytes(std::span(&record, 1)));
      }) {
  for (const Rank rank : members_) {
    if (RankPage* page = world_.page(rank); rank != world_.rank() && page != nullptr) {
      bells_.push_back(&page->bell);
    }
  }
  ranks_per_host_ = equal_ranks_per_host();
  transport_ = slowest_transport();
  model_ = std::make_unique<GroupModel>(GroupShape{.ranks = size(),
                                                   .ranks_per_host = ranks_per_host_,
                                                   .transport = transport_,
                                                   .sees_memory = sees_memory()},
                                        world_.options().costs);
  fetches_ = sees_memory() && std::ranges::all_of(members_, [&](Rank rank) {
               return world_.page(rank)->fetches.load(std::memory_order_acquire);
             });
}

GroupCore::~GroupCore() {
  world_.mailbox().forget(context_);
  if (!areas_.empty()) {
    world_.retire_area(areas_[static_cast<std::size_t>(me_)], areas_, sequence_);
  }
}

void GroupCore::map_staging() {
  if (std::exchange(staging_mapped_, true)) {
    return;
  }
  for (Rank place = 0; place < size(); ++place) {
    std::byte* begin = area(place).chunk(0);
    const std::size_t before = reinterpret_cast<std::uintptr_t>(begin) % kPage;
    // A wish: without it pages are mapped when they are come to.
    (void)madvise(begin - before, before + 2 * kRoundBytes,
                  place == me_ ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
  }
}

Rank GroupCore::equal_ranks_per_host() const {
  std::vector<Rank> runs;  // how many neighbours in a row are on one host
  std::set<std::string> seen;
  for (std::size_t place = 0; place < members_.size(); ++place) {
    const std::string& host = world_.host(members_[place]);
    if (place > 0 && host == world_.host(members_[place - 1])) {
      ++runs.back();
    } else if (seen.insert(host).second) {
      runs.push_back(1);
    } else {
      return 0;
    }
  }
  return std::ranges::all_of(runs, [&](Rank run) { return run == runs.front(); }) ? runs.front()
                                                                                  : 0;
}

/// The same on all ranks: where members are on several hosts, each has one beyond a network.
TransportKind GroupCore::slowest_transport() const {
  for (const Rank member : members_) {
    if (member != world_.rank() && world_.reach(member).memory() == nullptr) {
      return world_.reach(member).kind();
    }
  }
  return world_.reach(world_.rank()).kind();
}

bool GroupCore::may_begin(std::uint64_t sequence) {
  if (all_finished_ + 2 >= sequence) {
    return true;
  }
  for (Rank place = 0; place < size(); ++place) {
    if (place != me_ && area(place).finished.load(std::memory_order_acquire) + 2 < sequence) {
      return false;
    }
  }
  all_finished_ = sequence - 2;
  return true;
}

void GroupCore::finish_early(const Record& record) {
  Area& mine = area(me_);
  if (is_checked()) {
    Record& kept = mine.early[record.sequence % kEarly];
    if (kept.fingerprint != record.fingerprint || kept.site[0] != '\0' || record.site[0] != '\0') {
      copy_record(record, kept);
    }
    kept.sequence = record.sequence;
  }
  mine.finished.store(record.sequence, std::memory_order_seq_cst);
  ring_members();
}

void GroupCore::ring_members() const {
  for (Bell* bell : bells_) {
    bell->ring();
  }
}

// Preparing a call.

namespace {

bool same_bytes(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.data() == b.data() && a.size() == b.size();
}

/// Whether two calls are alike in all that is checked. Calls with counts or a user's reduction are
/// never taken to be: comparing them would cost as much.
bool is_repeated(const Call& a, const Call& b) {
  return a.operation == b.operation && a.dtype == b.dtype && a.root == b.root &&
         same_bytes(a.input, b.input) && same_bytes(a.output, b.output) && b.counts.empty() &&
         b.options.user == nullptr && a.options.reduction == b.options.reduction &&
         a.options.order == b.options.order && a.options.method == b.options.method &&
         a.options.site == b.options.site;
}

}  // namespace

const Prepared& GroupCore::prepare(const Call& call) {
  if (may_repeat_ && is_repeated(prepared_.call, call)) {
    if (is_checked()) {
      prepared_.record.history = history_after(prepared_.record);
    }
    prepared_.record.sequence = next_sequence();
    return prepared_;
  }
  may_repeat_ = false;
  prepared_.geometry = make_geometry(call, rank(), size());
  prepared_.method = choose(call, prepared_.geometry);
  require_possible(*this, call, prepared_.geometry, prepared_.method);
  prepared_.call = call;
  if (is_checked()) {
    prepared_.record.history = history_after(prepared_.record);
    describe(call, prepared_.geometry.count, prepared_.method, prepared_.record);
  }
  prepared_.record.sequence = next_sequence();
  may_repeat_ = call.counts.empty() && call.options.user == nullptr;
  return prepared_;
}

// What does a call.

namespace {

GroupModel::Query query_of(const Call& call, Bytes bytes) {
  return {.operation = call.operation,
          .bytes = bytes,
          .dtype = call.dtype,
          .root = has_root(call.operation) ? call.root : 0};
}

/// Whether an algorithm can have blocks of whatever sizes.
bool carries_own_sizes(Operation operation, Algorithm algorithm) {
  return operation == Operation::Alltoall
             ? algorithm == Algorithm::Pairwise || algorithm == Algorithm::Flat
             : !has_segments(algorithm);
}

}  // namespace

Method GroupCore::choose(const Call& call, const Geometry& geometry) {
  const Method& asked = call.options.method;
  if (!sees_memory() && size() == 1) {
    return Method::scheduled(algorithms_for(call.operation).front());
  }
  if (asked.kind == Method::Kind::Direct && !sees_memory()) {
    throw Error(
        ErrorKind::Usage,
        "direct operations need all ranks of the group on one host; ask for an algorithm, or "
        "leave the choice open");
  }
  if (asked.kind != Method::Kind::Automatic) {
    return asked;
  }
  // Where every pair has its own size, what all ranks know is that it is 0 at least.
  const Bytes bytes{std::max<std::int64_t>(geometry.bytes(), 0)};
  const Method tuned = world_.options().tuning.find(
      {.operation = call.operation, .ranks = size(), .transport = transport_, .bytes = bytes});
  const bool own_sizes = !geometry.listed.empty();
  if ((tuned.kind == Method::Kind::Scheduled &&
       (!own_sizes || carries_own_sizes(call.operation, tuned.algorithm))) ||
      (tuned.kind == Method::Kind::Direct && sees_memory())) {
    return tuned;
  }
  return own_sizes ? choose_for_blocks(call, geometry) : model_->choose(query_of(call, bytes));
}

/// Blocks of sizes of their own, which not every algorithm can have.
Method GroupCore::choose_for_blocks(const Call& call, const Geometry& geometry) {
  if (sees_memory()) {
    return Method::direct();
  }
  if (call.operation == Operation::Alltoall) {
    return Method::scheduled(Algorithm::Pairwise);
  }
  for (const Choice& choice : model_->ranking(query_of(call, {geometry.bytes()}))) {
    if (carries_own_sizes(call.operation, choice.algorithm)) {
      return Method::scheduled(choice.algorithm);
    }
  }
  return Method::scheduled(Algorithm::Flat);
}

std::int64_t GroupCore::segments(Operation operation, Algorithm algorithm,
                                 std::int64_t bytes) const {
  return best_segments(operation, algorithm, size(), {bytes}, model_->messages(DType::F32));
}

const Schedule& GroupCore::schedule(Operation operation, Algorithm algorithm, Rank root,
                                    std::int64_t segments) {
  const auto key = std::tuple(operation, algorithm, root, segments);
  MutexLock lock(mutex_);
  const auto it = schedules_.find(key);
  if (it != schedules_.end()) {
    return it->second;
  }
  return schedules_
      .emplace(key, build(operation, algorithm,
                          {.ranks = size(),
                           .root = root,
                           .segments = segments,
                           .ranks_per_node = ranks_per_host_ < size() ? ranks_per_host_ : 0}))
      .first->second;
}

}  // namespace trireme::comm
