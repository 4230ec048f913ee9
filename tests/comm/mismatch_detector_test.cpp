// How ranks that disagree detect it with messages: detectors in isolation, with messages that arrive at once.
#include "comm/scheduled/mismatch_detector.h"

#include <chrono>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace trireme::comm {
namespace {

/// Members of a group, world ranks 10, 11, …, and their messages.
class Detectors {
 public:
  explicit Detectors(Rank ranks) {
    for (Rank place = 0; place < ranks; ++place) {
      members_.push_back(10 + place);
    }
    for (Rank place = 0; place < ranks; ++place) {
      const auto send = [this, place](Rank to, ControlKind kind, const Record& record) {
        ++sent;
        if (to - 10 != silent && place != silent) {
          of(to - 10).receive(10 + place, record, kind == ControlKind::Inquiry);
        }
      };
      detectors_.push_back(std::make_unique<MismatchDetector>(members_, place, send));
    }
  }
  [[nodiscard]] MismatchDetector& of(Rank place) { return *detectors_[place]; }

  int sent = 0;
  Rank silent = -1;  ///< a member that no message reaches

 private:
  std::vector<Rank> members_;
  std::vector<std::unique_ptr<MismatchDetector>> detectors_;
};

Record call(std::uint64_t sequence, std::int64_t count) {
  Record record;
  record.sequence = sequence;
  record.operation = Operation::Allreduce;
  record.count = count;
  record.fingerprint = static_cast<std::uint64_t>(count);
  return record;
}

/// The verdict after the time that members are waited for.
std::optional<MismatchDetector::Verdict> final_verdict(MismatchDetector& detector) {
  for (int i = 0; i < 100; ++i) {
    if (auto verdict = detector.verdict()) {
      return verdict;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return std::nullopt;
}

TEST(MismatchDetector, ReportsNothingWhenAllAgree) {
  Detectors detectors(3);
  for (Rank place = 0; place < 3; ++place) {
    detectors.of(place).remember(call(1, 100));
  }
  detectors.of(0).inquire(call(1, 100), {0.01});
  EXPECT_EQ(detectors.sent, 0) << "inquired too early";
  detectors.of(0).inquire(call(1, 100), {0.1});
  EXPECT_EQ(detectors.sent, 4) << "expected two inquiries and two answers";
  detectors.of(0).inquire(call(1, 100), {0.2});
  EXPECT_EQ(detectors.sent, 4) << "inquired more than once";
  EXPECT_FALSE(detectors.of(0).verdict());
}

TEST(MismatchDetector, AllRanksNameDeviatingRank) {
  Detectors detectors(3);
  for (Rank place = 0; place < 3; ++place) {
    detectors.of(place).remember(call(7, place == 1 ? 99 : 100));
  }
  detectors.of(2).inquire(call(7, 100), {0.1});
  for (Rank place = 0; place < 3; ++place) {
    const auto verdict = detectors.of(place).verdict();
    ASSERT_TRUE(verdict) << place;
    EXPECT_EQ(verdict->culprits, std::vector<Rank>{11});
    EXPECT_NE(verdict->text.find("99"), std::string::npos) << verdict->text;
  }
}

/// They agree on the call in which a wrong message arrived, but not on the previous one.
TEST(MismatchDetector, ReportsFirstDifferingCall) {
  Detectors detectors(3);
  for (Rank place = 0; place < 3; ++place) {
    detectors.of(place).remember(call(4, place == 2 ? 5 : 6));
    detectors.of(place).remember(call(5, 8));
  }
  detectors.of(0).dispute(call(5, 8));
  const auto verdict = final_verdict(detectors.of(0));
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->culprits, std::vector<Rank>{12});
  EXPECT_NE(verdict->text.find("#4"), std::string::npos) << verdict->text;
}

TEST(MismatchDetector, WaitsBrieflyForSilentRanks) {
  Detectors detectors(3);
  detectors.silent = 2;
  detectors.of(0).remember(call(3, 100));
  detectors.of(1).remember(call(3, 50));
  detectors.of(0).inquire(call(3, 100), {0.1});
  const auto verdict = final_verdict(detectors.of(0));
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->culprits, (std::vector<Rank>{10, 11}));
}

TEST(MismatchDetector, ReportsWhenHistoryIsTooShort) {
  Detectors detectors(2);
  for (Rank place = 0; place < 2; ++place) {
    detectors.of(place).remember(call(1, 100));
  }
  detectors.of(0).dispute(call(1, 100));
  const auto verdict = final_verdict(detectors.of(0));
  ASSERT_TRUE(verdict);
  EXPECT_TRUE(verdict->culprits.empty());
  EXPECT_NE(verdict->text.find("too long ago"), std::string::npos) << verdict->text;
}

TEST(MismatchDetector, IgnoresForeignMessages) {
  Detectors detectors(2);
  detectors.of(0).remember(call(1, 100));
  detectors.of(0).receive(5, call(1, 99), true);
  EXPECT_EQ(detectors.sent, 0);
  EXPECT_FALSE(detectors.of(0).verdict());
}

}  // namespace
}  // namespace trireme::comm
