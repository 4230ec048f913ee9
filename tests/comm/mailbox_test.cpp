// Messages over streams: unexpected ones, and what happens when they are received, or cancelled, in flight.
#include "comm/wire/mailbox.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace trireme::comm {
namespace {

/// One direction between two ranks; takes as much as it can hold.
struct Pipe {
  std::size_t room = 0;
  std::deque<std::byte> bytes;
};

class PipeStream final : public Stream {
 public:
  PipeStream(std::shared_ptr<Pipe> out, std::shared_ptr<Pipe> in)
      : out_(std::move(out)), in_(std::move(in)) {}

  [[nodiscard]] std::size_t write(std::span<const std::byte> head,
                                  std::span<const std::byte> body) override {
    const std::size_t taken = put(head);
    return taken < head.size() ? taken : taken + put(body);
  }
  [[nodiscard]] std::size_t read(std::span<std::byte> into) override {
    const std::size_t length = std::min(into.size(), in_->bytes.size());
    const auto end = in_->bytes.begin() + static_cast<std::ptrdiff_t>(length);
    std::copy(in_->bytes.begin(), end, into.begin());
    in_->bytes.erase(in_->bytes.begin(), end);
    return length;
  }

 private:
  std::size_t put(std::span<const std::byte> data) {
    const std::size_t length = std::min(data.size(), out_->room - out_->bytes.size());
    out_->bytes.insert(out_->bytes.end(), data.begin(),
                       data.begin() + static_cast<std::ptrdiff_t>(length));
    return length;
  }

  std::shared_ptr<Pipe> out_;
  std::shared_ptr<Pipe> in_;
};

constexpr std::size_t kRoom = std::size_t{300} << 10;

/// The mailboxes of ranks 0 and 1, and the lines between them.
class Mailboxes : public testing::Test {
 protected:
  Mailboxes() {
    std::array<std::vector<std::unique_ptr<Stream>>, 2> ends;
    for (int line = 0; line < 2; ++line) {
      const auto there = std::make_shared<Pipe>(Pipe{.room = kRoom, .bytes = {}});
      const auto back = std::make_shared<Pipe>(Pipe{.room = kRoom, .bytes = {}});
      ways_.push_back(there);
      ends[0].push_back(std::make_unique<PipeStream>(there, back));
      ends[1].push_back(std::make_unique<PipeStream>(back, there));
    }
    sender_.connect(1, std::move(ends[0]), true);
    receiver_.connect(0, std::move(ends[1]), true);
  }

  static Mailbox::Handlers handlers() {
    return {.control = [](Rank, const PieceHeader&, std::span<const std::byte>) {},
            .lost = [](Rank, LossKind, const std::string& why) { FAIL() << why; },
            .heard = [](Rank) {},
            .completed = [] {}};
  }

  /// Advances both sides repeatedly until it is done (or clearly never will be).
  void wait_for(const std::atomic<bool>& done) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!done && std::chrono::steady_clock::now() < end) {
      (void)sender_.progress();
      (void)receiver_.progress();
    }
    EXPECT_TRUE(done);
  }
  /// Makes as much progress as possible.
  void progress_both() {
    for (bool moved = true; moved;) {
      moved = sender_.progress();
      moved = receiver_.progress() || moved;
    }
  }
  /// Makes a little progress: one call each.
  void progress_briefly() {
    (void)sender_.progress();
    (void)receiver_.progress();
  }

  [[nodiscard]] std::size_t bytes_in_flight() const {
    return ways_[0]->bytes.size() + ways_[1]->bytes.size();
  }

  Mailbox sender_{2, handlers()};
  Mailbox receiver_{2, handlers()};
  std::vector<std::shared_ptr<Pipe>> ways_;
};

constexpr std::size_t kCount = std::size_t{1} << 19;  // more than the lines hold

std::vector<std::int32_t> numbers(std::int32_t first) {
  std::vector<std::int32_t> values(kCount);
  std::iota(values.begin(), values.end(), first);
  return values;
}

/// A sent message, with its data.
struct Sent {
  Sent(Mailbox& mailbox, const Key& key, std::int32_t first, bool patient = false)
      : data(numbers(first)) {
    message.to = 1;
    message.patient = patient;
    message.key = key;
    message.parts = {std::as_bytes(std::span(data))};
    mailbox.send(message);
  }
  std::vector<std::int32_t> data;
  Outgoing message;
};

/// A receive, in one part or two, copied or added to existing data.
struct Wanted {
  Wanted(Mailbox& mailbox, const Key& key, bool adds, std::size_t places = 1)
      : data(numbers(adds ? 7 : 0)) {
    std::byte* const begin = reinterpret_cast<std::byte*>(data.data());
    const std::size_t length = data.size() * sizeof(data[0]) / places;
    message.key = key;
    for (std::size_t i = 0; i < places; ++i) {
      message.parts.push_back({begin + i * length, begin + i * length, length});
    }
    message.combine = adds ? &how : nullptr;
    mailbox.receive(message);
  }
  Combine how{.dtype = DType::I32};
  std::vector<std::int32_t> data;
  Incoming message;
};

std::vector<std::int32_t> sum(const std::vector<std::int32_t>& a,
                              const std::vector<std::int32_t>& b) {
  std::vector<std::int32_t> result(a.size());
  std::ranges::transform(a, b, result.begin(), std::plus<>());
  return result;
}

constexpr Key kCollective{.context = 1, .number = 10, .topic = Topic::Collective};
constexpr Key kMessage{.context = 1, .number = 10, .topic = Topic::Message};

/// No expected message is behind it: it waits in its stream, and is not copied.
TEST_F(Mailboxes, LongCollectivePieceWaitsInTransit) {
  Sent sent(sender_, kCollective, 3);
  (void)receiver_.progress();
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  progress_both();
  EXPECT_TRUE(receiver_.is_held_up());
  EXPECT_GT(bytes_in_flight(), kRoom);
  Wanted wanted(receiver_, kCollective, false);
  progress_both();
  EXPECT_TRUE(wanted.message.done && sent.message.done);
  EXPECT_EQ(wanted.data, sent.data);
}

/// If a message is expected, it may be behind.
TEST_F(Mailboxes, KeepsEarlierMessageWhenLaterIsReceivedFirst) {
  Sent first(sender_, kCollective, 3);
  Sent second(sender_, {.context = 1, .number = 11}, 4);
  Wanted behind(receiver_, {.context = 1, .number = 11}, false);
  wait_for(behind.message.done);
  EXPECT_EQ(behind.data, second.data);
  Wanted wanted(receiver_, kCollective, false);
  EXPECT_TRUE(wanted.message.done);
  EXPECT_EQ(wanted.data, first.data);
}

/// A sender without a receiver gets rid of its data.
TEST_F(Mailboxes, LongMessageIsEventuallyBuffered) {
  for (const Key& key : {kMessage, kCollective}) {
    Sent sent(sender_, key, 3);
    wait_for(sent.message.done);
    progress_both();
    Wanted wanted(receiver_, key, false);
    EXPECT_TRUE(wanted.message.done);
    EXPECT_EQ(wanted.data, sent.data);
  }
}

/// Only its beginning arrives. Later messages overtake it, and have the lines to themselves.
TEST_F(Mailboxes, PatientMessageStaysUntilReceived) {
  Sent sent(sender_, kMessage, 3, true);
  Sent second(sender_, kMessage, 4, true);
  Sent behind(sender_, kCollective, 5);
  Wanted wanted_behind(receiver_, kCollective, false);
  progress_both();
  EXPECT_TRUE(wanted_behind.message.done && behind.message.done);
  EXPECT_EQ(wanted_behind.data, behind.data);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  progress_both();
  EXPECT_FALSE(sent.message.done || second.message.done);
  EXPECT_LT(sent.message.moved, std::uint64_t{20} << 10);
  EXPECT_EQ(bytes_in_flight(), 0U);
  EXPECT_FALSE(sender_.is_held_up() || receiver_.is_held_up());

  Wanted wanted(receiver_, kMessage, false);
  Wanted wanted_second(receiver_, kMessage, true, 2);
  progress_both();
  EXPECT_TRUE(wanted.message.done && sent.message.done);
  EXPECT_TRUE(wanted_second.message.done && second.message.done);
  EXPECT_EQ(wanted.data, sent.data);
  EXPECT_EQ(wanted_second.data, sum(numbers(7), second.data));
}

/// A peer's departure may arrive on one stream before what it sent on others.
TEST_F(Mailboxes, CompletesOnceAllPiecesArrive) {
  constexpr std::uint64_t kPieces = kCount * sizeof(std::int32_t) / (std::size_t{256} << 10);
  receiver_.expect_end(0, 2 * kPieces);
  EXPECT_FALSE(receiver_.has_everything(0));
  for (const bool all : {false, true}) {
    const Sent sent(sender_, kCollective, 1);
    const Wanted wanted(receiver_, kCollective, false);
    wait_for(wanted.message.done);
    EXPECT_EQ(receiver_.has_everything(0), all);
  }
}

/// Its sender, or its receiver, no longer needs it: nothing remains that would block others.
TEST_F(Mailboxes, UnreceivedMessageCanBeAbandoned) {
  {
    Sent given_up(sender_, kMessage, 3, true);
    progress_both();
    sender_.cancel(given_up.message);
  }
  Wanted never(receiver_, kMessage, false);
  progress_both();
  EXPECT_FALSE(never.message.done);
  receiver_.cancel(never.message);

  Sent forgotten(sender_, {.context = 2, .number = 1, .topic = Topic::Message}, 3, true);
  progress_both();
  EXPECT_FALSE(forgotten.message.done);
  receiver_.forget(2);
  progress_both();
  EXPECT_TRUE(forgotten.message.done);

  Sent next(sender_, kMessage, 5, true);
  Wanted wanted(receiver_, kMessage, false);
  progress_both();
  EXPECT_TRUE(wanted.message.done);
  EXPECT_EQ(wanted.data, next.data);
}

/// Half of it was buffered when the receive was posted: the rest goes straight to its destination.
TEST_F(Mailboxes, ReceiveAdoptsPartialMessage) {
  for (const int steps : {1, 2, 3}) {
    for (const bool adds : {false, true}) {
      for (const std::size_t places : {1U, 2U}) {
        Sent sent(sender_, kMessage, 3);
        (void)receiver_.progress();
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        for (int i = 0; i < steps; ++i) {
          progress_briefly();
        }
        EXPECT_FALSE(sent.message.done);
        Wanted wanted(receiver_, kMessage, adds, places);
        EXPECT_FALSE(wanted.message.done);
        progress_both();
        EXPECT_TRUE(wanted.message.done && sent.message.done);
        EXPECT_EQ(wanted.data, adds ? sum(numbers(7), sent.data) : sent.data);
      }
    }
  }
}

/// The rest is no longer needed; later messages are not affected.
TEST_F(Mailboxes, DiscardsRestOfMessage) {
  for (const bool forgets : {false, true}) {
    Sent sent(sender_, {.context = 2, .number = 1, .topic = Topic::Message}, 3);
    (void)receiver_.progress();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    progress_briefly();
    if (forgets) {
      receiver_.forget(2);
    } else {
      Wanted wanted(receiver_, {.context = 2, .number = 1, .topic = Topic::Message}, false);
      progress_briefly();
      receiver_.cancel(wanted.message);
    }
    progress_both();
    EXPECT_TRUE(sent.message.done);
    Sent next(sender_, kMessage, 5);
    Wanted wanted(receiver_, kMessage, false);
    progress_both();
    EXPECT_TRUE(wanted.message.done);
    EXPECT_EQ(wanted.data, next.data);
  }
}

TEST_F(Mailboxes, ReportsMismatchedReceive) {
  Sent sent(sender_, kMessage, 3);
  (void)receiver_.progress();
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  progress_briefly();
  Incoming other;
  other.key = kMessage;
  other.fingerprint = 99;
  receiver_.receive(other);
  EXPECT_TRUE(other.done);
  EXPECT_EQ(other.wrong, Incoming::Wrong::Call);
  progress_both();
  EXPECT_TRUE(sent.message.done);
}

}  // namespace
}  // namespace trireme::comm
