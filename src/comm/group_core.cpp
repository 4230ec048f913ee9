#include "comm/group_core.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <set>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <sys/mman.h>

#include "comm/checks.h"
#include "comm/direct_limits.h"
#include "comm/make_op.h"
#include "comm/memory.h"
#include "comm/rendezvous/deadline.h"
#include "comm/world_core.h"
#include "trireme/collective_cost.h"

namespace trireme::comm {
namespace {

/// A rank that has waited this long tells the others what it waits in.
constexpr Seconds kAskAfter{0.05};
/// How long ranks that disagree wait for everyone's word before they give up.
constexpr std::chrono::milliseconds kHearing{200};

std::string_view fault_text(CommFault fault) {
  switch (fault) {
    case CommFault::Mismatch:
      return "called something else";
    case CommFault::Died:
      return "died";
    case CommFault::Stopped:
      return "stopped";
    case CommFault::Left:
      return "left the world";
    case CommFault::Late:
      return "did not come";
    case CommFault::Corrupt:
      return "sent damaged data";
    case CommFault::Dead:
      return "gave up";
  }
  return "failed";
}

constexpr std::uint64_t failure_code(CommFault fault, Rank culprit) {
  return static_cast<std::uint64_t>(culprit) << 8 | (static_cast<std::uint64_t>(fault) + 1);
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
      shots_(first_way(world.options().costs)),
      staging_(shots_, kStreamAbove),
      sharing_(Stores::Cached, kStreamAbove),
      sequence_(first_sequence),
      all_finished_(first_sequence) {
  for (std::size_t place = 0; place < members_.size(); ++place) {
    const Rank rank = members_[place];
    if (rank == world_.rank()) {
      me_ = static_cast<Rank>(place);
    } else if (RankPage* page = world_.page(rank); page != nullptr) {
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

// Failures.

void GroupCore::require_alive() const {
  if (is_dead()) {
    MutexLock lock(mutex_);
    throw CommError(
        CommFault::Dead, {},
        fmt::format("the group is dead; shrink() it to go on. It failed with: {}", reason_));
  }
}

void GroupCore::die(const std::string& reason) {
  {
    MutexLock lock(mutex_);
    if (reason_.empty()) {
      reason_ = reason;
    }
  }
  dead_.store(true, std::memory_order_release);
  finish(sequence());
  world_.mailbox().forget(context_);
}

/// The first to find a failure tells the members of it. False for all others.
bool GroupCore::tell_failure(CommFault fault, Rank culprit, const std::string& message) {
  {
    MutexLock lock(mutex_);
    if (!reason_.empty()) {
      return false;
    }
    reason_ = message;
  }
  const std::uint64_t code = failure_code(fault, culprit);
  if (sees_memory()) {
    Area& mine = area(me_);
    const std::size_t length = std::min(message.size(), mine.why.size() - 1);
    std::copy_n(message.begin(), length, mine.why.begin());
    mine.why[length] = '\0';
    mine.failed.store(code, std::memory_order_seq_cst);
    ring_members();
  } else {
    std::vector<std::byte> data(sizeof(code) + message.size());
    std::memcpy(data.data(), &code, sizeof(code));
    std::memcpy(data.data() + sizeof(code), message.data(), message.size());
    for (const Rank member : members_) {
      if (member != world_.rank() && !world_.trouble(member)) {
        world_.post_control(member, ControlKind::Fail, context_, data);
      }
    }
  }
  die(message);
  return true;
}

void GroupCore::fail(CommFault fault, std::vector<Rank> culprits, const std::string& message) {
  if (!tell_failure(fault, culprits.empty() ? -1 : culprits.front(), message)) {
    require_alive();
  }
  throw CommError(fault, std::move(culprits), message);
}

void GroupCore::abandon(const std::string& why) {
  tell_failure(CommFault::Mismatch, world_.rank(),
               fmt::format("rank {} could not make its call: {}", world_.rank(), why));
}

void GroupCore::await_release(std::uint64_t sequence) const {
  if (!sees_memory()) {
    return;
  }
  const auto give_up = deadline_in(world_.options().deadline);
  for (Rank place = 0; place < size(); ++place) {
    const Rank rank = members_[static_cast<std::size_t>(place)];
    const auto is_clear = [&] {
      return place == me_ || area(place).failed.load() != 0 ||
             area(place).finished.load() >= sequence || world_.trouble(rank).has_value() ||
             world_.page(rank)->presence.load() == Presence::Left;
    };
    while (!is_clear() && !passed(give_up)) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }
}

/// What a member did last, as far as this host can see.
std::string GroupCore::last_seen(Rank place) const {
  if (!sees_memory()) {
    return {};
  }
  const Area& theirs = area(place);
  const std::uint64_t first = theirs.slots[0].stamp.load(std::memory_order_acquire);
  const std::uint64_t second = theirs.slots[1].stamp.load(std::memory_order_acquire);
  const Record& record = theirs.records[first >= second ? 0 : 1];
  const std::uint64_t last = std::max(first, second);
  if (last == 0) {
    return "; it had called nothing in this group";
  }
  std::uint64_t chunk = 0;
  for (const auto& clock : theirs.clocks) {
    const std::uint64_t time = clock.load(std::memory_order_acquire);
    if (time >> kChunkBits == last) {
      chunk = std::max(chunk, time & ((std::uint64_t{1} << kChunkBits) - 1));
    }
  }
  return fmt::format("; its last call was #{}, {}, {}", last, to_text(record),
                     theirs.finished.load() >= last ? "which it had finished"
                                                    : fmt::format("in step {}", chunk + 1));
}

void GroupCore::fail_for(Rank place, CommFault fault, const std::string& why,
                         const std::string& what) {
  const Rank rank = members_[static_cast<std::size_t>(place)];
  fail(fault, {rank},
       fmt::format("{}: rank {} on host {} {}{}{}", what, rank,
                   world_.host(rank).substr(0, world_.host(rank).find('/')), fault_text(fault),
                   why.empty() ? "" : " (" + why + ")", last_seen(place)));
}

/// Members that gave the group up: this rank gives it up for the same reason.
void GroupCore::check_failures() {
  std::uint64_t code = 0;
  std::string why;
  if (sees_memory()) {
    for (Rank place = 0; place < size() && code == 0; ++place) {
      code = place == me_ ? 0 : area(place).failed.load(std::memory_order_acquire);
      why = code == 0 ? "" : area(place).why.data();
    }
  } else {
    MutexLock lock(mutex_);
    if (notice_) {
      code = notice_->code;
      why = notice_->text;
    }
  }
  if (code != 0) {
    const auto culprit = static_cast<Rank>(static_cast<std::int64_t>(code) >> 8);
    fail(static_cast<CommFault>((code & 0xFF) - 1),
         culprit < 0 ? std::vector<Rank>{} : std::vector<Rank>{culprit}, why);
  }
}

bool GroupCore::is_final(Rank place) {
  const Rank rank = members_[static_cast<std::size_t>(place)];
  const bool coming = world_.mailbox().is_in_the_middle(rank);
  MutexLock lock(mutex_);
  return left_.is_final(rank, coming);
}

void GroupCore::check_members(const std::function<bool(Rank place)>& missing, Seconds stuck,
                              const std::function<std::string()>& what) {
  if (!is_checked()) {
    return;
  }
  for (Rank place = 0; place < size(); ++place) {
    const Rank rank = members_[static_cast<std::size_t>(place)];
    const RankPage* page = place == me_ ? nullptr : world_.page(rank);
    const auto trouble = world_.has_trouble() ? world_.trouble(rank) : std::nullopt;
    if (trouble && trouble->fault != CommFault::Left) {
      fail_for(place, trouble->fault, trouble->text, what());
    }
    const bool left = trouble || (page != nullptr &&
                                  page->presence.load(std::memory_order_acquire) == Presence::Left);
    if (left && missing(place) && is_final(place)) {
      fail_for(place, CommFault::Left, "", what());
    }
  }
  check_failures();
  check_dispute();
  if (stuck > world_.patience()) {
    std::vector<Rank> late;
    std::string names;
    std::string seen;
    for (Rank place = 0; place < size(); ++place) {
      if (place != me_ && missing(place)) {
        late.push_back(members_[static_cast<std::size_t>(place)]);
        names += fmt::format("{}{}", names.empty() ? "" : ", ", late.back());
        seen = seen.empty() ? last_seen(place) : seen;
      }
    }
    fail(CommFault::Late, late,
         fmt::format("{}: rank {} waited {:.1f} s for rank {}, which lives but did not come{}",
                     what(), world_.rank(), stuck.count, names, seen));
  }
}

// Disagreements found by messages.

void GroupCore::remember(const Record& record) {
  if (!is_checked()) {
    return;
  }
  MutexLock lock(mutex_);
  remembered_.resize(kRemembered);
  copy_record(record, remembered_[record.sequence % kRemembered]);
}

void GroupCore::ask(const Record& record) {
  for (const Rank member : members_) {
    if (member != world_.rank()) {
      world_.post_control(member, ControlKind::Inquiry, context_,
                          std::as_bytes(std::span(&record, 1)));
    }
  }
}

void GroupCore::inquire(const Record& record, Seconds stuck) {
  if (!sees_memory() && stuck > kAskAfter && asked_.exchange(record.sequence) != record.sequence) {
    ask(record);
  }
}

void GroupCore::dispute(const Record& record) {
  inquire(record, Seconds{1});
  MutexLock lock(mutex_);
  if (disputed_ == 0) {
    disputed_ = record.sequence;
    disputed_since_ = std::chrono::steady_clock::now();
  }
  has_dispute_.store(true);
}

void GroupCore::hear(Rank world_rank, const Record& record, bool is_question) {
  const auto place = std::ranges::find(members_, world_rank) - members_.begin();
  if (place == std::ssize(members_)) {
    return;
  }
  Record mine;
  {
    MutexLock lock(mutex_);
    if (remembered_.empty()) {
      return;
    }
    mine = remembered_[record.sequence % kRemembered];
    // The first call in which they differ counts.
    if (mine.sequence == record.sequence && mine.fingerprint != record.fingerprint &&
        (disputed_ == 0 || record.sequence < disputed_)) {
      disputed_ = record.sequence;
      disputed_since_ = std::chrono::steady_clock::now();
      has_dispute_.store(true);
    }
    if (disputed_ == 0 || record.sequence == disputed_) {
      if (witnesses_.empty() || witnesses_.front().record.sequence != record.sequence) {
        forget_witnesses(record.sequence);
      }
      witnesses_[static_cast<std::size_t>(place)] = {world_rank, true, record};
    }
  }
  if (is_question && mine.sequence == record.sequence) {
    world_.post_control(world_rank, ControlKind::Answer, context_,
                        std::as_bytes(std::span(&mine, 1)));
    if (mine.fingerprint != record.fingerprint) {
      inquire(mine, Seconds{1});  // so that all hear all
    }
  }
}

void GroupCore::hear_failure(std::uint64_t code, const std::string& text) {
  MutexLock lock(mutex_);
  if (!notice_) {
    notice_ = Notice{code, text};
  }
}

/// Nobody has said anything of this call yet.
void GroupCore::forget_witnesses(std::uint64_t sequence) {
  witnesses_.assign(members_.size(), Witness{});
  for (std::size_t i = 0; i < members_.size(); ++i) {
    witnesses_[i].world_rank = members_[i];
    witnesses_[i].record.sequence = sequence;
  }
}

/// All agree on a call that is disputed: it is one before it in which they differ. False if none is remembered.
bool GroupCore::look_further_back(std::uint64_t sequence) {
  Record before;
  {
    MutexLock lock(mutex_);
    if (sequence <= 1 || remembered_.empty()) {
      return false;
    }
    before = remembered_[(sequence - 1) % kRemembered];
    if (before.sequence != sequence - 1) {
      return false;
    }
    disputed_ = before.sequence;
    disputed_since_ = std::chrono::steady_clock::now();
    forget_witnesses(before.sequence);
  }
  ask(before);
  return true;
}

void GroupCore::check_dispute() {
  if (!has_dispute_.load()) {
    return;
  }
  std::vector<Witness> witnesses;
  std::uint64_t sequence = 0;
  {
    MutexLock lock(mutex_);
    sequence = disputed_;
    if (witnesses_.empty() || witnesses_.front().record.sequence != sequence) {
      forget_witnesses(sequence);
    }
    if (!remembered_.empty() && remembered_[sequence % kRemembered].sequence == sequence) {
      witnesses_[static_cast<std::size_t>(me_)] = {world_.rank(), true,
                                                   remembered_[sequence % kRemembered]};
    }
    const bool all = std::ranges::all_of(witnesses_, [](const Witness& w) { return w.known; });
    if (!all && std::chrono::steady_clock::now() - disputed_since_ < kHearing) {
      return;
    }
    witnesses = witnesses_;
  }
  const std::vector<Rank> culprits = mismatch_culprits(witnesses);
  if (!culprits.empty()) {
    fail(CommFault::Mismatch, culprits, mismatch_text(sequence, witnesses));
  }
  if (!look_further_back(sequence)) {
    fail(CommFault::Mismatch, {},
         fmt::format("the ranks disagree on a call before #{}, which is too long ago to say more",
                     sequence));
  }
}

}  // namespace trireme::comm
