#include "trace/chrome_time.h"

#include <bit>
#include <cmath>
#include <random>

#include <gtest/gtest.h>

namespace trireme {
namespace {

std::string microseconds(double seconds) {
  std::string out;
  append_microseconds(out, {seconds});
  return out;
}

TEST(ChromeTime, ShiftsDecimalPoint) {
  EXPECT_EQ(microseconds(0), "0");
  EXPECT_EQ(microseconds(1e-9), "0.001");
  EXPECT_EQ(microseconds(1.5e-6), "1.5");
  EXPECT_EQ(microseconds(12e-6), "12");
  EXPECT_EQ(microseconds(1), "1000000");
  EXPECT_EQ(microseconds(123.456789012), "123456789.012");
  EXPECT_EQ(microseconds(-2e-6), "-2");
  EXPECT_EQ(microseconds(1e-13), "0.0000001");
  EXPECT_EQ(microseconds(1e-20), "0.1e-13");
  EXPECT_EQ(microseconds(1e12), "0.1e19");
}

TEST(ChromeTime, EveryWholeNanosecondIsExact) {
  for (std::int64_t ns = 0; ns < 2'000'000; ns += 7) {
    // The double nearest to this many nanoseconds.
    const double seconds = static_cast<double>(ns) / 1e9;
    ASSERT_EQ(parse_microseconds(microseconds(seconds)), Seconds{seconds}) << ns;
    ASSERT_LE(microseconds(seconds).size(), 8U) << microseconds(seconds);
  }
}

TEST(ChromeTime, DoublesRoundTrip) {
  std::mt19937_64 random(9);
  for (int i = 0; i < 200'000; ++i) {
    const auto seconds = std::bit_cast<double>(random());
    if (std::isfinite(seconds) && std::abs(seconds) < 1e300) {
      ASSERT_EQ(parse_microseconds(microseconds(seconds)), Seconds{seconds})
          << microseconds(seconds);
    }
  }
}

TEST(ChromeTime, AcceptsForeignNumberFormats) {
  EXPECT_EQ(parse_microseconds("1.5E+3"), Seconds{1.5e-3});
  EXPECT_EQ(parse_microseconds("15e-1"), Seconds{1.5e-6});
  for (const char* text : {"", "e", "e5", "1e", "1e+", "1e++5", "1e99999999999999999999", "1e2000",
                           "1e400", "x", "1 "}) {
    EXPECT_EQ(parse_microseconds(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace trireme
