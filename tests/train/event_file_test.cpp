// Event files, read back by a decoder independent of the encoder.
#include "train/run/event_file.h"

#include <array>
#include <cstring>
#include <map>
#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>

#include "expect_error.h"
#include "temporary_folder.h"

namespace trireme::train {
namespace {

/// Bit by bit, straight from the definition.
std::uint32_t slow_crc32c(std::string_view bytes) {
  std::uint32_t crc = 0xFFFFFFFF;
  for (const char c : bytes) {
    for (unsigned bit = 0; bit < 8; ++bit) {
      const bool differ = ((static_cast<unsigned char>(c) >> bit) & 1U) != (crc & 1U);
      crc = (crc >> 1U) ^ (differ ? 0x82F63B78U : 0U);
    }
  }
  return crc ^ 0xFFFFFFFF;
}

/// The test vectors of RFC 3720, B.4, and the usual check value.
TEST(Crc32c, MatchesKnownValues) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283U);
  EXPECT_EQ(crc32c(""), 0U);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAU);
  EXPECT_EQ(crc32c(std::string(32, '\xFF')), 0x62A8AB43U);
  std::string ascending;
  for (char c = 0; c < 32; ++c) {
    ascending.push_back(c);
  }
  EXPECT_EQ(crc32c(ascending), 0x46DD794EU);
  EXPECT_EQ(slow_crc32c(ascending), 0x46DD794EU);
}

/// Reads from the front of a text.
class Reader {
 public:
  explicit Reader(std::string_view left) : left_(left) {}
  [[nodiscard]] bool empty() const { return left_.empty(); }
  std::string_view take(std::size_t count) {
    if (count > left_.size()) {
      throw std::out_of_range("the file is cut off");
    }
    const std::string_view taken = left_.substr(0, count);
    left_.remove_prefix(count);
    return taken;
  }
  template <class T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1)[0]);
      value |= std::uint64_t{byte & 0x7FU} << shift;
      if (byte < 0x80U) {
        return value;
      }
    }
  }
  std::string_view text() { return take(varint()); }

 private:
  std::string_view left_;
};

struct Event {
  double wall_time = 0;
  std::uint64_t step = 0;
  std::string file_version;
  std::map<std::string, float> scalars;
};

void read_value(Reader bytes, Event& event) {
  std::string tag;
  float value = -1;
  while (!bytes.empty()) {
    switch (bytes.varint()) {
      case 0x0A:
        tag = bytes.text();
        break;
      case 0x15:
        value = bytes.number<float>();
        break;
      default:
        ADD_FAILURE() << "unknown field in a value";
        return;
    }
  }
  event.scalars[tag] = value;
}

void read_summary(Reader bytes, Event& event) {
  while (!bytes.empty()) {
    EXPECT_EQ(bytes.varint(), 0x0AU);
    read_value(Reader(bytes.text()), event);
  }
}

Event read_event(Reader bytes) {
  Event event;
  while (!bytes.empty()) {
    switch (bytes.varint()) {
      case 0x09:
        event.wall_time = bytes.number<double>();
        break;
      case 0x10:
        event.step = bytes.varint();
        break;
      case 0x1A:
        event.file_version = bytes.text();
        break;
      case 0x2A:
        read_summary(Reader(bytes.text()), event);
        break;
      default:
        ADD_FAILURE() << "unknown field in an event";
        return event;
    }
  }
  return event;
}

std::uint32_t masked(std::string_view bytes) {
  const std::uint32_t crc = slow_crc32c(bytes);
  return ((crc >> 15U) | (crc << 17U)) + 0xA282EAD8U;
}

std::vector<Event> read_events(const std::string& path) {
  const std::string content = content_of(path);
  Reader bytes(content);
  std::vector<Event> events;
  while (!bytes.empty()) {
    const std::string_view length = bytes.take(8);
    EXPECT_EQ(bytes.number<std::uint32_t>(), masked(length));
    const std::string_view data = bytes.take(Reader(length).number<std::uint64_t>());
    EXPECT_EQ(bytes.number<std::uint32_t>(), masked(data));
    events.push_back(read_event(Reader(data)));
  }
  return events;
}

TEST(EventFile, RoundTrips) {
  const TemporaryFolder folder;
  const std::string path = folder / "events.out.tfevents.1";
  EventFile file(path, {1.5e9});
  const std::array<EventScalar, 2> first{{{"loss", 2.5}, {"speed/tokens_per_second", 12345.0}}};
  file.add(1, {1.5e9 + 0.25}, first);
  // Visible immediately, not only when the file is closed.
  ASSERT_EQ(read_events(path).size(), 2U);
  const std::array<EventScalar, 1> second{{{"loss", -0.125}}};
  file.add(3'000'000'000, {1.5e9 + 1}, second);

  const std::vector<Event> events = read_events(path);
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[0].file_version, "brain.Event:2");
  EXPECT_EQ(events[0].wall_time, 1.5e9);
  EXPECT_EQ(events[1].step, 1U);
  EXPECT_EQ(events[1].wall_time, 1.5e9 + 0.25);
  EXPECT_EQ(events[1].scalars,
            (std::map<std::string, float>{{"loss", 2.5F}, {"speed/tokens_per_second", 12345.0F}}));
  EXPECT_EQ(events[2].step, 3'000'000'000U);
  EXPECT_EQ(events[2].scalars, (std::map<std::string, float>{{"loss", -0.125F}}));
}

/// A resumed run writes a new file, so earlier events are never lost.
TEST(EventFile, DoesNotOverwriteAnother) {
  const TemporaryFolder folder;
  const std::string path = folder.file("events", "something");
  expect_error(ErrorKind::System, "is there already", [&] { EventFile(path, {0}); });
  EXPECT_EQ(content_of(path), "something");
  expect_error(ErrorKind::System, "no/such/folder",
               [&] { EventFile(folder / "no/such/folder/events", {0}); });
}

}  // namespace
}  // namespace trireme::train
