#include "comm/world/world_core.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <new>
#include <numeric>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "base/cores.h"

namespace trireme::comm {
namespace {

/// The length of each stage of waiting: long spinning only if every rank of the host has its own core. Each poll of a
/// network is a system call, and the kernel can wake a sleeper as soon as something arrives.
Waiting waiting_for(std::size_t ranks_here, bool network) {
  const bool crowded = std::cmp_greater(ranks_here, usable_cores());
  if (network) {
    return crowded ? Waiting{.spins = 2, .yields = 2} : Waiting{.spins = 100, .yields = 20};
  }
  return crowded ? Waiting{.spins = 10, .yields = 400} : Waiting{.spins = 4000, .yields = 200};
}

std::int64_t nanoseconds_now() {
  return std::chrono::steady_clock::now().time_since_epoch().count();
}

std::int64_t nanoseconds(Seconds seconds) {
  return static_cast<std::int64_t>(seconds.count * 1e9);
}

/// How long a process may stall, as a fraction of the deadline, before its peers may have declared it dead: somewhat
/// less than 1, because they count from its last heartbeat.
constexpr double kStalled = 0.75;

}  // namespace

/// Sleeping: on the rank's bell; if there is a network, in the transport that polls it.
class WorldCore::WorldIdle : public Idle {
 public:
  WorldIdle(Bell& bell, Transport* network, const Mailbox& mailbox, bool has_neighbours)
      : bell_(bell), network_(network), mailbox_(mailbox), has_neighbours_(has_neighbours) {}

  [[nodiscard]] std::uint32_t announce() override { return bell_.announce(); }
  void withdraw() override { bell_.withdraw(); }
  void sleep(std::uint32_t token, std::chrono::nanoseconds at_most) override {
    // Check a message that blocks its stream again soon. A peer of this host rings the bell, which does not wake a poll
    // of the network; and of two threads that wait there one may take the other's event.
    constexpr std::chrono::milliseconds kLook{1};
    constexpr std::chrono::milliseconds kLookSeldom{5};
    if (mailbox_.is_held_up() || (network_ != nullptr && has_neighbours_)) {
      at_most = std::min<std::chrono::nanoseconds>(at_most, kLook);
    }
    if (network_ == nullptr) {
      bell_.sleep(token, at_most);
    } else {
      network_->poll(std::chrono::ceil<std::chrono::milliseconds>(
          std::min<std::chrono::nanoseconds>(at_most, kLookSeldom)));
    }
  }
  void wake() override {
    if (bell_.ring_after_any_store() && network_ != nullptr) {
      network_->wake();
    }
  }

 private:
  Bell& bell_;
  Transport* network_;
  const Mailbox& mailbox_;
  bool has_neighbours_;
};

WorldCore::WorldCore(WorldParts parts)
    : parts_(std::move(parts)),
      mailbox_(parts_.size,
               {.control =
                    [this](Rank from, const PieceHeader& header, std::span<const std::byte> data) {
                      handle_control(from, header, data);
                    },
                .lost = [this](Rank peer, LossKind kind,
                               const std::string& why) { report_loss(peer, kind, why); },
                .heard = [this](Rank peer) { note_bytes(peer); },
                .completed = [this] { idle_->wake(); }}),
      agreements_([this](Rank to, std::uint64_t context, std::span<const std::byte> data) {
        post_control(to, ControlKind::Agreement, context, data);
      }),
      failures_(parts_.size),
      heard_(parts_.size),
      beaten_(parts_.size),
      doubted_until_(parts_.size),
      farewells_(parts_.size) {
  connect_transports();
  connect_peers();
}

/// Groups the ranks by host, finds the transports that share memory and that poll, and creates what waits on them.
void WorldCore::connect_transports() {
  std::map<std::string, std::vector<Rank>> hosts;
  for (Rank r = 0; r < parts_.size; ++r) {
    hosts[host(r)].push_back(r);
  }
  for (auto& [name, ranks] : hosts) {
    by_host_.push_back(ranks);
  }
  std::ranges::sort(by_host_);
  for (const auto& transport : parts_.transports) {
    memory_ = memory_ == nullptr ? transport->memory() : memory_;
    network_ = transport->needs_poll() ? transport.get() : network_;
  }
  const bool has_far =
      std::ranges::any_of(parts_.reach, [&](const Transport* t) { return t == network_; });
  network_ = has_far ? network_ : nullptr;
  messages_ = std::make_unique<Messenger>(mailbox_, network_);
  own_page_ = page(rank());
  const std::size_t here = hosts[host(rank())].size();
  idle_ = std::make_unique<WorldIdle>(own_page_ == nullptr ? *own_bell_ : own_page_->bell, network_,
                                      mailbox_, own_page_ != nullptr && here > 1);
  engine_ = std::make_unique<Engine>(
      *idle_, EngineOptions{.waiting = waiting_for(here, network_ != nullptr),
                            .patience = patience(),
                            .progress = [this] { return messages_->progress(); }});
}

void WorldCore::connect_peers() {
  for (Rank r = 0; r < size(); ++r) {
    if (r == rank()) {
      continue;
    }
    Transport& transport = reach(r);
    const bool network = transport.memory() == nullptr;
    mailbox_.connect(r, transport.streams(r),
                     options().checksums == WorldOptions::Checksums::All ||
                         (network && !options().encrypt &&
                          options().checksums == WorldOptions::Checksums::Network));
  }
  last_tick_.store(nanoseconds_now());
  for (Rank peer = 0; peer < size(); ++peer) {
    heard_[peer].store(last_tick_);
    beaten_[peer].store(last_tick_);
  }
}

void WorldCore::start() {
  if (own_page_ != nullptr) {
    own_page_->presence.store(Presence::Here);
  }
  const bool alone = parts_.transports.front()->kind() == TransportKind::InProcess;
  if (alone || size() == 1) {
    return;
  }
  std::vector<Watched> watched;
  for (Rank r = 0; r < size(); ++r) {
    if (r != rank()) {
      watched.push_back({r, page(r), reach(r).death_watch(r)});
    }
  }
  watch_ = std::make_unique<Watch>(
      own_page_, std::move(watched), options().deadline,
      Watch::Handlers{.report =
                          [this](Rank r, CommFault fault, const std::string& text) {
                            report(r, {fault, text, Standing::Dead});  // it sees the verdict itself
                          },
                      .tick = [this] { tick(); }});
}

WorldCore::~WorldCore() {
  watch_.reset();
  engine_.reset();
  say_goodbye();
}

void WorldCore::say_goodbye() {
  if (RankPage* mine = page(rank()); mine != nullptr) {
    mine->presence.store(Presence::Left, std::memory_order_seq_cst);
  }
  for (Rank r = 0; r < size(); ++r) {
    if (r == rank()) {
      continue;
    }
    if (RankPage* theirs = page(r); theirs != nullptr) {
      theirs->bell.ring_loudly();
    } else if (!failure(r)) {
      post_control(r, ControlKind::Goodbye, 0, {});
    }
  }
  await_farewells();
}

/// Peers across a network: closing a connection while data is still arriving discards what it had sent. So notify each
/// peer, and ask it to send nothing more; wait at most for the deadline.
void WorldCore::await_farewells() {
  const auto give_up = deadline_in(options().deadline);
  for (Rank r = 0; r < size(); ++r) {
    const bool network = r != rank() && page(r) == nullptr;
    while (network && !farewells_[r].load() && !failure(r) && !passed(give_up)) {
      if (!messages_->progress()) {
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      }
    }
  }
}

void WorldCore::throw_declared_dead() const {
  throw CommError(CommFault::Stopped, {rank()},
                  fmt::format("the other ranks declared rank {} dead: it was silent "
                              "for longer than the deadline of {}",
                              rank(), to_text(options().deadline)));
}

std::vector<Area*> WorldCore::first_areas() {
  std::vector<Rank> everyone(size());
  std::iota(everyone.begin(), everyone.end(), 0);
  std::vector<Area*> areas;
  if (share_memory(everyone) && everyone.size() <= kMaxDirectRanks) {
    for (const Rank r : everyone) {
      areas.push_back(r == rank()
                          ? parts_.first_area
                          : reinterpret_cast<Area*>(memory().view(r, parts_.area_places[r])));
    }
  }
  return areas;
}

RankPage* WorldCore::page(Rank rank) {
  Transport& transport = reach(rank);
  return transport.memory() == nullptr ? nullptr : transport.page(rank);
}

bool WorldCore::share_memory(const std::vector<Rank>& ranks) {
  return has_memory() && std::ranges::all_of(ranks, [&](Rank r) {
           return r == rank() || reach(r).memory() != nullptr;
         });
}

// Failures of ranks.

void WorldCore::report(Rank rank, const Failure& failure) {
  {
    MutexLock lock(mutex_);
    std::optional<Failure>& first = failures_[rank];
    if (first) {
      return;
    }
    first = failure;
  }
  has_failures_.store(true, std::memory_order_release);
  idle_->wake();
}

std::optional<Failure> WorldCore::failure(Rank rank) {
  if (has_failures()) {
    MutexLock lock(mutex_);
    if (const auto& failure = failures_[rank]) {
      return failure;
    }
  }
  const RankPage* theirs = page(rank);
  if (rank != this->rank() && theirs != nullptr &&
      theirs->presence.load(std::memory_order_acquire) == Presence::Left) {
    return Failure{CommFault::Left, "", Standing::Dead};
  }
  return std::nullopt;
}

void WorldCore::declare_dead(Rank rank, const std::string& why) {
  if (RankPage* theirs = page(rank); theirs != nullptr) {
    std::uint32_t none = 0;
    theirs->verdict.compare_exchange_strong(none,
                                            static_cast<std::uint32_t>(CommFault::Stopped) + 1);
    report(rank, {CommFault::Stopped, why, Standing::Dead});
  } else {
    post_control(rank, ControlKind::GivenUp, 0, {});
    report(rank, {CommFault::Stopped, why, Standing::Silent});
  }
}

/// Waits for the remaining data of a rank that ended, until nothing has arrived for the deadline.
bool WorldCore::is_final(Rank rank, Departures& departures) {
  const std::optional<Failure> known = failure(rank);
  const bool ended = known && (known->fault == CommFault::Left || known->fault == CommFault::Died);
  const std::int64_t last =
      std::max(heard_[rank].load(), departures.first_seen(rank).time_since_epoch().count());
  return !ended || mailbox_.has_everything(rank) ||
         nanoseconds_now() - last > nanoseconds(options().deadline);
}

/// A peer whose connections all closed is dead, unless this rank stalled for so long that the peer may have declared it
/// dead and left since.
void WorldCore::report_loss(Rank rank, LossKind kind, const std::string& why) {
  const bool dead = kind == LossKind::Closed && !may_be_declared_dead(rank);
  report(rank, {kind == LossKind::Damaged ? CommFault::Corrupt : CommFault::Died, why,
                dead ? Standing::Dead : Standing::Silent});
}

bool WorldCore::may_be_declared_dead(Rank by) const {
  const auto stalled =
      static_cast<std::int64_t>(kStalled * static_cast<double>(nanoseconds(options().deadline)));
  return doubted_until_[by].load() != 0 || nanoseconds_now() - last_tick_.load() > stalled;
}

/// Bytes arrived from a peer. Those that arrive a deadline after this process stalled were sent since: a peer that had
/// declared this rank dead would have fallen silent.
void WorldCore::note_bytes(Rank rank) {
  const std::int64_t now = nanoseconds_now();
  heard_[rank].store(now);
  if (const std::int64_t until = doubted_until_[rank].load(); until != 0 && now > until) {
    doubted_until_[rank].store(0);
  }
}

Area* WorldCore::take_area() {
  {
    MutexLock lock(mutex_);
    for (auto it = retired_.begin(); it != retired_.end(); ++it) {
      const bool free = std::ranges::all_of(
          it->peers, [&](const Area* peer) { return peer->finished.load() >= it->last; });
      if (free) {
        Area* area = it->area;
        retired_.erase(it);
        area->failed.store(0);
        return area;
      }
    }
  }
  return new (memory().allocate(static_cast<std::int64_t>(kAreaBytes))) Area();
}

void WorldCore::retire_area(Area* area, std::vector<Area*> peers, std::uint64_t last) {
  area->finished.store(std::max(area->finished.load(), last), std::memory_order_release);
  MutexLock lock(mutex_);
  retired_.push_back({area, std::move(peers), last});
}

void WorldCore::listen(std::uint64_t context, const std::shared_ptr<GroupListener>& group) {
  std::optional<FailureNotice> failure;
  {
    MutexLock lock(mutex_);
    std::erase_if(groups_, [](const auto& entry) { return entry.second.expired(); });
    groups_[context] = group;
    if (auto early = early_failures_.extract(context)) {
      failure = std::move(early.mapped());
    }
  }
  if (failure) {
    group->on_failure(failure->code, failure->text);
  }
}

/// On every heartbeat: tells peers across a network that this rank is alive, and checks on them.
void WorldCore::tick() {
  const std::int64_t now = nanoseconds_now();
  const std::int64_t deadline = nanoseconds(options().deadline);
  const std::int64_t stalled = now - last_tick_.exchange(now);
  if (parts_.heartbeat) {
    parts_.heartbeat->receive([&](Rank r) { beaten_[r].store(now); });
  }
  for (Rank r = 0; r < size(); ++r) {
    if (r == rank() || page(r) != nullptr || failure(r)) {
      continue;
    }
    if (static_cast<double>(stalled) > kStalled * static_cast<double>(deadline)) {
      doubted_until_[r].store(now + deadline);
    }
    if (stalled > deadline / 2) {  // this process stalled
      heard_[r].store(now);
      beaten_[r].store(now);
    }
    check_peer(r, now);
  }
  messages_->progress();
}

/// Tells a peer that this rank is alive, and declares it dead if it was silent for too long. A peer whose heartbeats
/// arrive while its connections carry nothing gets time to recover them: after a short interruption they take as long
/// again.
void WorldCore::check_peer(Rank rank, std::int64_t now) {
  constexpr std::int64_t kToRecover = 3;  // deadlines
  const std::int64_t deadline = nanoseconds(options().deadline);
  const std::int64_t silent = now - heard_[rank].load();
  const std::int64_t lifeless = std::min(silent, now - beaten_[rank].load());
  if (lifeless > deadline) {
    declare_dead(rank, fmt::format("silent for {:.1f} s", static_cast<double>(lifeless) * 1e-9));
    return;
  }
  if (silent > kToRecover * deadline) {
    declare_dead(rank,
                 fmt::format("it is alive, but nothing arrived over its connections for {:.1f} s",
                             static_cast<double>(silent) * 1e-9));
    return;
  }
  mailbox_.post(rank, {0, static_cast<std::uint64_t>(ControlKind::Beat), Topic::Control}, {},
                Mailbox::Urgency::Urgent);
  if (parts_.heartbeat) {
    parts_.heartbeat->beat(rank);
  }
}

std::shared_ptr<GroupListener> WorldCore::listener(std::uint64_t context) {
  MutexLock lock(mutex_);
  const auto it = groups_.find(context);
  return it == groups_.end() ? nullptr : it->second.lock();
}

/// A member marked a group as failed. This rank may be about to create it, or the group may have ended: the notice is
/// kept for a while.
void WorldCore::handle_failure(std::uint64_t context, const FailureNotice& notice) {
  constexpr std::size_t kMaxEarlyFailures = 64;
  std::shared_ptr<GroupListener> group;
  {
    MutexLock lock(mutex_);
    if (const auto it = groups_.find(context); it != groups_.end()) {
      group = it->second.lock();
    } else {
      if (early_failures_.size() == kMaxEarlyFailures) {
        early_failures_.erase(early_failures_.begin());
      }
      early_failures_.emplace(context, notice);
    }
  }
  if (group) {
    group->on_failure(notice.code, notice.text);
  }
}

/// Messages between members of a group. Calls are ignored if the group no longer exists.
void WorldCore::handle_group_control(ControlKind kind, Rank from, std::uint64_t context,
                                     std::span<const std::byte> data) {
  if (kind == ControlKind::Fail && data.size() >= sizeof(std::uint64_t)) {
    FailureNotice notice;
    std::memcpy(&notice.code, data.data(), sizeof(notice.code));
    notice.text.assign(reinterpret_cast<const char*>(data.data()) + sizeof(notice.code),
                       data.size() - sizeof(notice.code));
    handle_failure(context, notice);
    return;
  }
  const std::shared_ptr<GroupListener> group = listener(context);
  if (group && kind != ControlKind::Fail && data.size() == sizeof(Record)) {
    Record record;
    std::memcpy(&record, data.data(), sizeof(record));
    group->on_call(from, record, kind == ControlKind::Inquiry);
  }
}

void WorldCore::handle_control(Rank from, const PieceHeader& header,
                               std::span<const std::byte> data) {
  const auto kind = static_cast<ControlKind>(header.number);
  switch (kind) {
    case ControlKind::Inquiry:
    case ControlKind::Answer:
    case ControlKind::Fail:
      handle_group_control(kind, from, header.context, data);
      break;
    case ControlKind::Exchange:
      exchanges_.put(header.context, from, {data.begin(), data.end()});
      break;
    case ControlKind::GivenUp:
      report(from, {CommFault::Stopped, "it declared this rank dead",
                    may_be_declared_dead(from) ? Standing::FoundUsStalled : Standing::GaveUpOnUs});
      break;
    case ControlKind::Agreement:
      agreements_.receive(header.context, from, data);
      break;
    case ControlKind::Goodbye:
      mailbox_.expect_end(from, header.fingerprint);
      post_control(from, ControlKind::Farewell, 0, {});
      report(from, {CommFault::Left, "", Standing::Dead});
      break;
    case ControlKind::Farewell:
      farewells_[from].store(true);
      break;
    case ControlKind::Beat:  // its arrival is the message
      break;
  }
  idle_->wake();
}

void WorldCore::post_control(Rank to, ControlKind kind, std::uint64_t context,
                             std::span<const std::byte> data) {
  mailbox_.post(to, {context, static_cast<std::uint64_t>(kind), Topic::Control}, data);
}

}  // namespace trireme::comm
