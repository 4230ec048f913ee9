#include "ps/membership/leadership.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "comm/net/secret.h"
#include "trireme/error.h"

namespace trireme::ps {
namespace {

using Condition = EtcdPut::Condition;

constexpr double kSafety = 0.9;  ///< clocks may run at different rates
constexpr Seconds kRenewEvery{1};
constexpr std::chrono::milliseconds kPollEvery(100);
constexpr const char* kTooLate = "its lease in etcd was not renewed in time";

std::string key_of(const EtcdLocation& location, std::string_view what) {
  return fmt::format("/trireme/ps/{}/{}", location.cluster, what);
}

std::string state_key(const EtcdLocation& location) {
  return key_of(location, "state");
}

comm::Clock::time_point end_of(comm::Clock::time_point requested, Seconds ttl) {
  return requested + comm::duration({kSafety * ttl.count});
}

/// From a handler of this error: etcd that does not answer may do so later; one that refuses will not change its mind.
void rethrow_unless_silent(const Error& error) {
  if (error.kind() != ErrorKind::Peer) {
    throw;
  }
}

/// Nothing if another candidate was faster.
std::optional<Leadership::Election> try_to_win(Etcd& etcd, const Campaign& campaign) {
  const std::string key = leader_key(campaign.location);
  if (etcd.get(key, comm::deadline_in(kEtcdPatience)).found) {
    return std::nullopt;
  }
  const std::string address = campaign.listen();
  Leadership::Election election{.requested = comm::Clock::now()};
  election.lease = etcd.grant(Leadership::kTtl, comm::deadline_in(kEtcdPatience));
  // Unique: whether an unanswered put was done shows in what is there afterwards.
  const std::string value =
      fmt::format("{} {}", address, comm::Secret::random().hex().substr(0, 16));
  const EtcdPutResult put = etcd.put(
      {.conditions = {{.key = key}}, .key = key, .value = value, .lease = election.lease.id},
      comm::deadline_in(kEtcdPatience));
  if (put.is_done) {
    election.created = put.revision;
  } else if (put.found && put.found->value == value) {
    election.created = put.found->created;
  } else {
    etcd.revoke(election.lease.id, comm::deadline_in(kEtcdPatience));
    return std::nullopt;
  }
  return election;
}

}  // namespace

std::string leader_key(const EtcdLocation& location) {
  return key_of(location, "coordinator");
}

std::string leader_address(const std::string& value) {
  return value.substr(0, value.find(' '));
}

Leadership::Leadership(const EtcdLocation& location, const Election& election)
    : location_(location),
      election_(election),
      states_(location),
      renewals_(location),
      valid_until_(end_of(election.requested, election.lease.ttl)),
      why_lost_(kTooLate),
      thread_([this] { run(); }) {}

Leadership::~Leadership() {
  {
    const MutexLock lock(mutex_);
    is_stopping_ = true;
    stopped_.notify_all();
  }
  thread_.join();
  try {
    states_.revoke(election_.lease.id, comm::deadline_in({1}));
  } catch (const Error&) {  // it ends by itself
  }
}

std::string Leadership::name() const {
  return fmt::format("{} in etcd", state_key(location_));
}

bool Leadership::is_held() const {
  const MutexLock lock(mutex_);
  return comm::Clock::now() < valid_until_;
}

void Leadership::lose(const std::string& why) {
  const MutexLock lock(mutex_);
  valid_until_ = comm::Clock::time_point::min();
  why_lost_ = why;
}

void Leadership::require_valid() {
  const MutexLock lock(mutex_);
  if (comm::Clock::now() >= valid_until_) {
    throw Error(ErrorKind::Peer, fmt::format("this coordinator was deposed: {}", why_lost_));
  }
}

// --- Renewing.

void Leadership::run() {
  for (;;) {
    if (!renew()) {
      return;
    }
    const MutexLock lock(mutex_);
    const comm::Deadline next = comm::deadline_in(kRenewEvery);
    while (!is_stopping_ && !comm::passed(next)) {
      stopped_.wait_until(mutex_, next);
    }
    if (is_stopping_) {
      return;
    }
  }
}

/// False when it is lost.
bool Leadership::renew() {
  try {
    const comm::Clock::time_point requested = comm::Clock::now();
    const EtcdLease lease = renewals_.renew(election_.lease.id, comm::deadline_in(kEtcdPatience));
    const EtcdRead leader = renewals_.get(leader_key(location_), comm::deadline_in(kEtcdPatience));
    if (lease.ttl.count <= 0 || !leader.found || leader.found->created != election_.created) {
      lose("etcd has ended its lease");
      return false;
    }
    const bool counts =
        lease.header.member == leader.header.member && lease.header.term == leader.header.term;
    const MutexLock lock(mutex_);
    if (counts && comm::Clock::now() < valid_until_) {
      valid_until_ = std::max(valid_until_, end_of(requested, lease.ttl));
      why_lost_ = kTooLate;
    }
  } catch (const Error& error) {
    const MutexLock lock(mutex_);
    why_lost_ = fmt::format("{}: {}", kTooLate, error.what());
  }
  return is_held();
}

// --- The state.

comm::Deadline Leadership::deadline() const {
  const MutexLock lock(mutex_);
  return std::min(valid_until_, comm::deadline_in(kEtcdPatience));
}

std::string Leadership::load() {
  for (;; require_valid()) {
    try {
      EtcdRead read = states_.get(state_key(location_), deadline());
      stored_ = read.found ? read.found->modified : 0;
      return read.found ? std::move(read.found->value) : std::string();
    } catch (const Error& error) {
      rethrow_unless_silent(error);
    }
  }
}

void Leadership::store(const std::string& state) {
  while (!try_store(state)) {
    require_valid();  // ends the repetitions
  }
}

/// False if etcd did not answer, or the leadership is lost.
bool Leadership::try_store(const std::string& state) {
  const std::string key = state_key(location_);
  EtcdPutResult put;
  try {
    put = states_.put({.conditions = {{.key = leader_key(location_), .is = election_.created},
                                      {.key = key, .of = Condition::Of::Modified, .is = stored_}},
                       .key = key,
                       .value = state},
                      deadline());
  } catch (const Error& error) {
    rethrow_unless_silent(error);
    return false;
  }
  const bool was_done_before = put.found && put.found->value == state;  // by an unanswered put
  if (!put.is_done && !was_done_before) {
    lose("etcd has another leader, or a state that somebody else wrote");
    return false;
  }
  stored_ = put.is_done ? put.revision : put.found->modified;
  return true;
}

// --- Candidates.

std::unique_ptr<Leadership> run_for_leader(const Campaign& campaign) {
  Etcd etcd(campaign.location);
  bool is_answering = true;
  while (!*campaign.stopping) {
    try {
      if (const auto election = try_to_win(etcd, campaign)) {
        return std::make_unique<Leadership>(campaign.location, *election);
      }
      is_answering = true;
    } catch (const Error& error) {
      if (std::exchange(is_answering, false) && campaign.problem) {
        campaign.problem(error.what());
      }
    }
    std::this_thread::sleep_for(kPollEvery);
  }
  return nullptr;
}

}  // namespace trireme::ps
