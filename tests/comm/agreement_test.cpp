// Agreement: whatever happens to members and messages, no two members disagree on who continues.
#include "comm/world/agreement.h"

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace trireme::comm {
namespace {

using Outcome = Agreement::Outcome;
using Members = std::vector<Rank>;

std::vector<std::byte> payload_of(Rank place) {
  return std::vector<std::byte>(static_cast<std::size_t>(place) + 1, std::byte{7});
}

/// Members and the links between them. A link keeps messages in order; a cut link holds them back.
class Cluster {
 public:
  explicit Cluster(Rank size) : size_(size), seen_(count(), std::vector<Standing>(count())) {
    members_.resize(count());
  }

  void start(Rank place) {
    members_[index(place)] = std::make_unique<Agreement>(size_, place, payload_of(place));
    members_[index(place)]->observe(seen_[index(place)]);
    collect(place);
  }
  [[nodiscard]] bool is_started(Rank place) const { return members_[index(place)] != nullptr; }
  [[nodiscard]] bool is_killed(Rank place) const { return killed_.contains(place); }

  /// The process ends: its messages still arrive, then all learn of its end over links that are not cut.
  void kill(Rank place) { killed_.insert(place); }

  void see(Rank observer, Rank place, Standing standing) {
    Standing& seen = seen_[index(observer)][index(place)];
    seen = std::max(seen, standing);
    if (is_started(observer) && !is_killed(observer)) {
      members_[index(observer)]->observe(seen_[index(observer)]);
      collect(observer);
    }
  }
  [[nodiscard]] Standing seen(Rank observer, Rank place) const {
    return seen_[index(observer)][index(place)];
  }

  void cut(Rank a, Rank b) { cut_.insert(std::minmax(a, b)); }
  void heal(Rank a, Rank b) { cut_.erase(std::minmax(a, b)); }
  [[nodiscard]] bool is_cut(Rank a, Rank b) const { return cut_.contains(std::minmax(a, b)); }

  /// Delivers the next message of a random link that has one. False if there is none.
  bool deliver(std::mt19937& random) {
    std::vector<std::pair<Rank, Rank>> ready;
    for (const auto& [link, letters] : links_) {
      const auto [from, to] = link;
      if (!letters.empty() && !is_cut(from, to) && is_started(to) && !is_killed(to)) {
        ready.push_back(link);
      }
    }
    if (ready.empty()) {
      return false;
    }
    const auto link = ready[random() % ready.size()];
    const AgreementMessage message = links_[link].front();
    links_[link].pop_front();
    const auto travelled = parse_agreement(to_bytes(message));
    EXPECT_TRUE(travelled && *travelled == message);
    members_[index(link.second)]->receive(link.first, *travelled);
    collect(link.second);
    return true;
  }

  /// Whether everything that a killed member sent to this one has arrived.
  [[nodiscard]] bool is_drained(Rank from, Rank to) const {
    const auto it = links_.find({from, to});
    return it == links_.end() || it->second.empty();
  }

  [[nodiscard]] Agreement& member(Rank place) { return *members_[index(place)]; }
  [[nodiscard]] Rank size() const { return size_; }

 private:
  [[nodiscard]] std::size_t count() const { return static_cast<std::size_t>(size_); }
  static std::size_t index(Rank place) { return static_cast<std::size_t>(place); }
  void collect(Rank from) {
    for (Agreement::Letter& letter : members_[index(from)]->take_letters()) {
      links_[{from, letter.to}].push_back(std::move(letter.message));
    }
  }

  Rank size_;
  std::vector<std::unique_ptr<Agreement>> members_;
  std::vector<std::vector<Standing>> seen_;
  std::map<std::pair<Rank, Rank>, std::deque<AgreementMessage>> links_;
  std::set<std::pair<Rank, Rank>> cut_;
  std::set<Rank> killed_;
};

/// All members that decided made the same decision, which includes them.
void expect_agreement(Cluster& cluster, const std::string& what) {
  std::optional<Members> decided;
  for (Rank place = 0; place < cluster.size(); ++place) {
    if (!cluster.is_started(place) || cluster.member(place).outcome() != Outcome::Decided) {
      continue;
    }
    const Members& members = cluster.member(place).members();
    EXPECT_EQ(decided.value_or(members), members) << what;
    EXPECT_NE(std::ranges::find(members, place), members.end()) << what;
    for (std::size_t i = 0; i < members.size(); ++i) {
      EXPECT_EQ(cluster.member(place).payloads()[i], payload_of(members[i])) << what;
    }
    decided = members;
  }
}

void run_to_end(Cluster& cluster, std::mt19937& random) {
  while (cluster.deliver(random)) {
  }
}

TEST(Agreement, AllMembersContinueWhenAllRespond) {
  std::mt19937 random(1);
  for (Rank size = 1; size <= 6; ++size) {
    Cluster cluster(size);
    for (Rank place = 0; place < size; ++place) {
      cluster.start(place);
    }
    run_to_end(cluster, random);
    for (Rank place = 0; place < size; ++place) {
      EXPECT_EQ(cluster.member(place).outcome(), Outcome::Decided);
      EXPECT_EQ(std::ssize(cluster.member(place).members()), size);
    }
    expect_agreement(cluster, "");
  }
}

TEST(Agreement, SurvivorOfTwoContinues) {
  std::mt19937 random(1);
  for (const Rank dead : {0, 1}) {
    Cluster cluster(2);
    cluster.kill(dead);
    cluster.start(1 - dead);
    cluster.see(1 - dead, dead, Standing::Dead);
    run_to_end(cluster, random);
    EXPECT_EQ(cluster.member(1 - dead).members(), Members{1 - dead});
  }
}

/// Members on two sides of a partition.
void expect_sides(Rank size, const Members& lower, bool lower_continues, bool upper_continues) {
  std::mt19937 random(3);
  Cluster cluster(size);
  const auto is_lower = [&](Rank r) { return std::ranges::find(lower, r) != lower.end(); };
  for (Rank a = 0; a < size; ++a) {
    cluster.start(a);
    for (Rank b = 0; b < size; ++b) {
      if (is_lower(a) != is_lower(b)) {
        cluster.cut(a, b);
      }
    }
  }
  for (Rank a = 0; a < size; ++a) {
    for (Rank b = 0; b < size; ++b) {
      if (cluster.is_cut(a, b)) {
        cluster.see(a, b, Standing::Silent);
      }
    }
  }
  run_to_end(cluster, random);
  for (Rank a = 0; a < size; ++a) {
    const bool continues = is_lower(a) ? lower_continues : upper_continues;
    EXPECT_EQ(cluster.member(a).outcome(), continues ? Outcome::Decided : Outcome::Refused)
        << fmt::format("member {} of {}", a, size);
  }
  expect_agreement(cluster, "");
}

TEST(Agreement, OnlyMajorityPartitionContinues) {
  expect_sides(3, {0}, false, true);
  expect_sides(3, {1}, false, true);
  expect_sides(5, {0, 4}, false, true);
  expect_sides(5, {1, 2, 3}, true, false);
}

TEST(Agreement, LowestRankBreaksTie) {
  expect_sides(2, {0}, true, false);
  expect_sides(4, {0, 1}, true, false);
  expect_sides(4, {1, 2}, false, true);
}

TEST(Agreement, ExcludesMemberThatMostAccuse) {
  std::mt19937 random(5);
  Cluster cluster(4);
  for (Rank place = 0; place < 4; ++place) {
    cluster.start(place);
  }
  // Members 2 and 3 declared member 0 dead, and notified it; member 1 noticed nothing.
  for (const Rank accuser : {2, 3}) {
    cluster.see(accuser, 0, Standing::Silent);
    cluster.see(0, accuser, Standing::GaveUpOnUs);
  }
  run_to_end(cluster, random);
  EXPECT_EQ(cluster.member(0).outcome(), Outcome::Refused);
  for (const Rank place : {1, 2, 3}) {
    EXPECT_EQ(cluster.member(place).members(), (Members{1, 2, 3})) << place;
  }
}

/// Member 1 declared member 0 dead, and notified it; the others noticed nothing.
void accuse_first(Cluster& cluster, Standing as_first_sees_it) {
  for (Rank place = 0; place < cluster.size(); ++place) {
    cluster.start(place);
  }
  cluster.see(1, 0, Standing::Silent);
  cluster.see(0, 1, as_first_sees_it);
  std::mt19937 random(6);
  run_to_end(cluster, random);
}

TEST(Agreement, ExcludesStalledMemberNotItsAccuser) {
  for (const Rank size : {3, 4, 5}) {
    Cluster cluster(size);
    accuse_first(cluster, Standing::FoundUsStalled);
    EXPECT_EQ(cluster.member(0).outcome(), Outcome::Refused) << size;
    for (Rank place = 1; place < size; ++place) {
      EXPECT_EQ(cluster.member(place).outcome(), Outcome::Decided) << size;
      EXPECT_EQ(std::ssize(cluster.member(place).members()), size - 1) << size;
    }
  }
}

TEST(Agreement, StalledMemberContinuesWhenItWinsTie) {
  Cluster cluster(2);
  accuse_first(cluster, Standing::FoundUsStalled);
  EXPECT_EQ(cluster.member(0).members(), (Members{0}));
  EXPECT_EQ(cluster.member(1).outcome(), Outcome::Refused);
}

TEST(Agreement, SingleAccuserCannotExcludeLiveMember) {
  Cluster cluster(3);
  accuse_first(cluster, Standing::GaveUpOnUs);
  EXPECT_EQ(cluster.member(2).members(), (Members{0, 2}));
  EXPECT_EQ(cluster.member(1).outcome(), Outcome::Refused);
}

TEST(Agreement, RejectsMalformedMessages) {
  const std::vector<std::byte> good = to_bytes({.kind = AgreementMessage::Kind::Decide,
                                                .members = {0, 2},
                                                .payloads = {payload_of(0), payload_of(2)}});
  for (std::size_t length = 0; length < good.size(); ++length) {
    EXPECT_FALSE(parse_agreement(std::span(good).first(length))) << length;
  }
  std::vector<std::byte> bad = good;
  bad[0] = std::byte{99};
  EXPECT_FALSE(parse_agreement(bad));
}

/// A random course of events: members join late, die, are cut off, and are silent for some but not for others.
class Course {
 public:
  explicit Course(unsigned seed) : random_(seed), cluster_(2 + static_cast<Rank>(random_() % 5)) {}

  void run() {
    for (int i = 0; i < 400; ++i) {
      act();
    }
    finish();
  }
  [[nodiscard]] Cluster& cluster() { return cluster_; }

  /// Every live member has an outcome in the end.
  void expect_outcomes(unsigned seed) {
    for (Rank place = 0; place < cluster_.size(); ++place) {
      if (!cluster_.is_killed(place)) {
        EXPECT_NE(cluster_.member(place).outcome(), Outcome::Open)
            << "seed " << seed << ", member " << place << " waits for "
            << cluster_.member(place).missing().size();
      }
    }
  }

 private:
  Rank any() { return static_cast<Rank>(random_() % static_cast<unsigned>(cluster_.size())); }

  void act() {
    const Rank a = any();
    const Rank b = any();
    switch (random_() % 40) {
      case 0:
        if (killed_ < 3 && cluster_.is_started(a) && !cluster_.is_killed(a)) {
          cluster_.kill(a);
          ++killed_;
        }
        break;
      case 1:
        cluster_.cut(a, b);
        break;
      case 2:
        cluster_.heal(a, b);
        break;
      case 3:
      case 4:
        notice(a, b);
        break;
      case 5:
      case 6:
      case 7:
        if (!cluster_.is_started(a)) {
          cluster_.start(a);
        }
        break;
      default:
        (void)cluster_.deliver(random_);
    }
  }

  /// What a would learn about b now: its death only over a working link, its silence only over one that is cut. A
  /// member that declares another dead notifies it, and is believed at once or later.
  void notice(Rank a, Rank b) {
    if (a == b || cluster_.is_killed(a)) {
      return;
    }
    if (cluster_.is_killed(b) && !cluster_.is_cut(a, b) && cluster_.is_drained(b, a)) {
      cluster_.see(a, b, Standing::Dead);
    } else if (cluster_.is_cut(a, b)) {
      cluster_.see(a, b, Standing::Silent);
    } else if (cluster_.seen(b, a) == Standing::Silent) {
      cluster_.see(a, b, random_() % 2 == 0 ? Standing::GaveUpOnUs : Standing::FoundUsStalled);
    }
  }

  /// From now on nothing changes: all join, everything is noticed, everything arrives.
  void finish() {
    for (Rank a = 0; a < cluster_.size(); ++a) {
      if (!cluster_.is_started(a)) {
        cluster_.start(a);
      }
    }
    for (bool moved = true; moved;) {
      moved = cluster_.deliver(random_);
      for (Rank a = 0; a < cluster_.size(); ++a) {
        for (Rank b = 0; b < cluster_.size(); ++b) {
          const Standing before = cluster_.seen(a, b);
          notice(a, b);
          moved = moved || cluster_.seen(a, b) != before;
        }
      }
    }
  }

  std::mt19937 random_;
  Cluster cluster_;
  int killed_ = 0;
};

void run_courses(unsigned from, unsigned to) {
  int decided = 0;
  for (unsigned seed = from; seed < to && !testing::Test::HasFailure(); ++seed) {
    Course course(seed);
    course.run();
    expect_agreement(course.cluster(), fmt::format("seed {}", seed));
    course.expect_outcomes(seed);
    for (Rank place = 0; place < course.cluster().size(); ++place) {
      decided += course.cluster().member(place).outcome() == Outcome::Decided ? 1 : 0;
    }
  }
  EXPECT_GT(decided, static_cast<int>(to - from) / 2) << "members rarely continue";
}

TEST(Agreement, HoldsUnderRandomEvents) {
  run_courses(0, 20000);
}
TEST(LongAgreement, HoldsUnderRandomEvents) {
  run_courses(20000, 2000000);
}

}  // namespace
}  // namespace trireme::comm
