#include "comm/world/agreement.h"

#include <algorithm>
#include <cstring>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/indexed_vector.h"

namespace trireme::comm {
namespace {

bool contains(const std::vector<Rank>& ranks, Rank rank) {
  return std::ranges::find(ranks, rank) != ranks.end();
}

}  // namespace

bool is_quorum(const std::vector<Rank>& voters, const std::vector<Rank>& electorate) {
  const auto votes = std::ranges::count_if(voters, [&](Rank r) { return contains(electorate, r); });
  return 2 * votes > std::ssize(electorate) ||
         (2 * votes == std::ssize(electorate) && !voters.empty() &&
          voters.front() == electorate.front());
}

Agreement::Agreement(Rank size, Rank me, std::vector<std::byte> payload)
    : size_(size), me_(me), payload_(std::move(payload)), seen_(size), joined_(size) {
  step();
}

void Agreement::observe(const IndexedVector<Rank, Standing>& seen) {
  for (Rank place = 0; place < size_; ++place) {
    seen_[place] = std::max(seen_[place], seen[place]);
  }
  step();
}

std::vector<Agreement::Letter> Agreement::take_letters() {
  return std::exchange(letters_, {});
}

void Agreement::send(Rank to, AgreementMessage message) {
  if (to == me_) {
    receive(me_, message);
  } else {
    letters_.push_back({to, std::move(message)});
  }
}

void Agreement::send_to_others(const AgreementMessage& message) {
  for (Rank place = 0; place < size_; ++place) {
    if (place != me_) {
      send(place, message);
    }
  }
}

void Agreement::withdraw(const std::string& why) {
  if (outcome_ == Outcome::Open) {
    outcome_ = Outcome::Refused;
    reason_ = why;
    send_to_others({.kind = Kind::Withdraw});
  }
}

// Liveness and connectivity.

bool Agreement::is_alive(Rank place) const {
  return place == me_ || seen_[place] == Standing::Alive;
}

Rank Agreement::coordinator() const {
  Rank place = 0;
  while (!is_alive(place)) {
    ++place;
  }
  return place;
}

std::vector<Rank> Agreement::missing() const {
  std::vector<Rank> out;
  for (Rank place = 0; place < size_; ++place) {
    if (is_alive(place) && !joined_[place]) {
      out.push_back(place);
    }
  }
  return out;
}

/// According to both. Requires that both have joined.
bool Agreement::reach_each_other(Rank a, Rank b) const {
  const auto sees = [&](Rank from, Rank to) { return joined_[from]->seen[to] == Standing::Alive; };
  return a == b || (sees(a, b) && sees(b, a));
}

/// The member to exclude first: the one that most others found silent or dead, then the one that reaches the fewest,
/// then the highest. A member that only learned that it was declared dead accuses nobody.
Rank Agreement::least_connected(const std::vector<Rank>& places) const {
  const auto rating = [&](Rank place) {
    std::int64_t accusers = 0;
    std::int64_t apart = 0;
    for (const Rank other : places) {
      const Standing seen = joined_[other]->seen[place];
      accusers += other != place && seen >= Standing::Silent ? 1 : 0;
      apart += reach_each_other(place, other) ? 0 : 1;
    }
    return std::tuple(apart > 0, accusers, apart, place);
  };
  return *std::ranges::max_element(places, {}, rating);
}

/// Members that this one believes alive and that all reach one another. Requires that all live members have joined.
std::vector<Rank> Agreement::connected() const {
  std::vector<Rank> places;
  for (Rank place = 0; place < size_; ++place) {
    if (is_alive(place)) {
      places.push_back(place);
    }
  }
  const auto is_apart = [&](Rank a) {
    return std::ranges::any_of(places, [&](Rank b) { return !reach_each_other(a, b); });
  };
  while (std::ranges::any_of(places, is_apart)) {
    std::erase(places, least_connected(places));
  }
  return places;
}

/// The worst standing in which the voters see a member.
Standing Agreement::worst_seen(const std::vector<Rank>& voters, Rank place) const {
  Standing worst = Standing::Alive;
  for (const Rank voter : voters) {
    worst = std::max(worst, joined_[voter]->seen[place]);
  }
  return worst;
}

/// The members that count.
std::vector<Rank> Agreement::electorate(const std::vector<Rank>& voters) const {
  std::vector<Rank> here;
  std::vector<Rank> silent;
  std::vector<Rank> fallen;
  for (Rank place = 0; place < size_; ++place) {
    const Standing seen = worst_seen(voters, place);
    if (is_alive(place)) {
      here.push_back(place);
    } else if (seen < Standing::Dead) {
      silent.push_back(place);
    } else if (seen == Standing::Fallen) {
      fallen.push_back(place);
    }
  }
  std::vector<Rank> out = here;
  if (!silent.empty()) {
    out.insert(out.end(), silent.begin(), silent.end());
    out.insert(out.end(), fallen.begin(), fallen.end());
    std::ranges::sort(out);
  }
  return out;
}

/// Whether the others should continue without this member: several declared it dead, or one did after this one stalled.
/// Requires that all live members have joined.
bool Agreement::should_step_down() const {
  if (std::ranges::count_if(seen_, gave_up_on_us) > 1) {
    return true;
  }
  const auto accuser =
      static_cast<Rank>(std::ranges::find(seen_, Standing::FoundUsStalled) - seen_.begin());
  if (accuser == size_) {
    return false;
  }
  std::vector<Rank> others;
  std::vector<Rank> counted;
  for (Rank place = 0; place < size_; ++place) {
    const bool reaches_accuser =
        place != me_ && is_alive(place) && joined_[place]->seen[accuser] == Standing::Alive;
    if (place == accuser || reaches_accuser) {
      others.push_back(place);
    }
    if (seen_[place] < Standing::Dead) {
      counted.push_back(place);
    }
  }
  return is_quorum(others, counted);
}

/// Whether all voters are still alive and reach one another.
bool Agreement::is_valid(const Attempt& attempt) const {
  const std::vector<Rank>& voters = attempt.voters;
  return std::ranges::all_of(voters, [&](Rank a) {
    return is_alive(a) &&
           std::ranges::all_of(voters, [&](Rank b) { return reach_each_other(a, b); });
  });
}

// The steps of a member.

void Agreement::step() {
  if (outcome_ == Outcome::Open) {
    for (Rank place = 0; place < size_; ++place) {
      seen_[place] =
          seen_[place] == Standing::Dead && joined_[place] ? Standing::Fallen : seen_[place];
    }
    announce();
    coordinate();
    answer_waiting();
  }
}

/// Tells the others how this member sees them, whenever that changes. The first message goes to all: a member that
/// later learns of this one's death then knows that it had joined.
void Agreement::announce() {
  std::optional<Joined>& mine = joined_[me_];
  if (mine && mine->seen == seen_) {
    return;
  }
  mine = Joined{seen_, payload_};
  for (Rank place = 0; place < size_; ++place) {
    if (place != me_ && is_alive(place)) {
      send(place, {.kind = Kind::Join, .seen = seen_, .payload = payload_});
    }
  }
}

void Agreement::coordinate() {
  if (coordinator() != me_) {
    attempt_.reset();
    return;
  }
  if (attempt_ && is_valid(*attempt_)) {
    return;
  }
  attempt_.reset();
  if (missing().empty()) {
    prepare();
  }
}

void Agreement::prepare() {
  const std::vector<Rank> voters = connected();
  if (!contains(voters, me_) || should_step_down()) {
    withdraw("other members declared it dead");
    return;
  }
  const std::vector<Rank> counted = electorate(voters);
  if (!is_quorum(voters, counted)) {
    withdraw(fmt::format("only members {} of {} reach one another", fmt::join(voters, ", "),
                         fmt::join(counted, ", ")));
    return;
  }
  attempt_.emplace(Ballot{++round_, me_}, voters);
  for (const Rank voter : voters) {
    attempt_->value.members.push_back(voter);
    attempt_->value.payloads.push_back(joined_[voter]->payload);
  }
  const Ballot ballot = attempt_->ballot;
  for (const Rank voter : voters) {
    send(voter, {.kind = Kind::Prepare, .ballot = ballot});
  }
}

void Agreement::receive(Rank from, const AgreementMessage& message) {
  round_ = std::max(round_, message.ballot.round);
  if (outcome_ != Outcome::Open) {
    answer_late(from, message);
    return;
  }
  switch (message.kind) {
    case Kind::Join:
      on_join(from, message);
      break;
    case Kind::Prepare:
      on_prepare(from, message.ballot);
      break;
    case Kind::Promise:
      on_promise(from, message);
      break;
    case Kind::Propose:
      on_propose(from, message);
      break;
    case Kind::Accept:
      on_accept(from, message);
      break;
    case Kind::Reject:
      if (attempt_ && attempt_->ballot < message.ballot) {
        attempt_.reset();
      }
      break;
    case Kind::Decide:
      decide({message.members, message.payloads});
      break;
    case Kind::Withdraw:
      seen_[from] = Standing::Fallen;
      break;
  }
  step();
}

/// A member that has finished tells the others what it knows.
void Agreement::answer_late(Rank from, const AgreementMessage& message) {
  const bool asks =
      message.kind == Kind::Join || message.kind == Kind::Prepare || message.kind == Kind::Propose;
  if (!asks || from == me_) {
    return;
  }
  if (outcome_ == Outcome::Refused && value_.members.empty()) {
    send(from, {.kind = Kind::Withdraw});
  } else {
    send(from, {.kind = Kind::Decide, .members = value_.members, .payloads = value_.payloads});
  }
}

void Agreement::on_join(Rank from, const AgreementMessage& message) {
  if (message.seen.size() == seen_.size()) {
    joined_[from] = Joined{message.seen, message.payload};
  }
}

/// A member promises only to a coordinator that it believes in, so that two do not hinder each other.
void Agreement::on_prepare(Rank from, const Ballot& ballot) {
  if (ballot < promised_) {
    send(from, {.kind = Kind::Reject, .ballot = promised_});
  } else if (from != coordinator()) {
    waiting_[from] = ballot;
  } else {
    promised_ = ballot;
    send(from, {.kind = Kind::Promise,
                .ballot = promised_,
                .accepted = accepted_,
                .members = accepted_value_.members,
                .payloads = accepted_value_.payloads});
  }
}

void Agreement::answer_waiting() {
  if (outcome_ != Outcome::Open) {
    return;
  }
  if (const auto prepare = waiting_.extract(coordinator()); !prepare.empty()) {
    on_prepare(prepare.key(), prepare.mapped());
  }
}

void Agreement::on_promise(Rank from, const AgreementMessage& message) {
  if (!attempt_ || attempt_->ballot != message.ballot || attempt_->proposed) {
    return;
  }
  Attempt& attempt = *attempt_;
  attempt.promised.insert(from);
  if (message.accepted > attempt.carried) {
    attempt.carried = message.accepted;
    attempt.value = {message.members, message.payloads};
  }
  if (attempt.promised.size() < attempt.voters.size()) {
    return;
  }
  attempt.proposed = true;
  const AgreementMessage proposal{.kind = Kind::Propose,
                                  .ballot = attempt.ballot,
                                  .members = attempt.value.members,
                                  .payloads = attempt.value.payloads};
  for (const Rank voter : std::vector<Rank>(attempt.voters)) {
    send(voter, proposal);
  }
}

void Agreement::on_propose(Rank from, const AgreementMessage& message) {
  if (message.ballot < promised_) {
    send(from, {.kind = Kind::Reject, .ballot = promised_});
    return;
  }
  promised_ = message.ballot;
  accepted_ = message.ballot;
  accepted_value_ = {message.members, message.payloads};
  send(from, {.kind = Kind::Accept, .ballot = message.ballot});
}

void Agreement::on_accept(Rank from, const AgreementMessage& message) {
  if (!attempt_ || attempt_->ballot != message.ballot || !attempt_->proposed) {
    return;
  }
  attempt_->accepted.insert(from);
  if (attempt_->accepted.size() < attempt_->voters.size()) {
    return;
  }
  decide(attempt_->value);
}

/// Every member forwards a decision to all: some may be out of reach of the one that decided.
void Agreement::decide(Value value) {
  send_to_others({.kind = Kind::Decide, .members = value.members, .payloads = value.payloads});
  const bool continues = contains(value.members, me_);
  outcome_ = continues ? Outcome::Decided : Outcome::Refused;
  if (!continues) {
    reason_ = "the others continue without it";
  }
  value_ = std::move(value);
  attempt_.reset();
}

}  // namespace trireme::comm
