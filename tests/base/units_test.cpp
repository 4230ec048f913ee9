#include "trireme/units.h"

#include <gtest/gtest.h>

#include "expect_error.h"
#include "trireme/error.h"

namespace trireme {
namespace {

TEST(Bytes, ParsesBinaryAndDecimalUnits) {
  EXPECT_EQ(parse_bytes("0").count, 0);
  EXPECT_EQ(parse_bytes("512").count, 512);
  EXPECT_EQ(parse_bytes("512 B").count, 512);
  EXPECT_EQ(parse_bytes("64KiB").count, 65536);
  EXPECT_EQ(parse_bytes("1M").count, 1048576);
  EXPECT_EQ(parse_bytes("1.5K").count, 1536);
  EXPECT_EQ(parse_bytes("10MB").count, 10000000);
  EXPECT_EQ(parse_bytes("2 GiB").count, 2147483648);
}

TEST(Bytes, IsExactForEveryInteger) {
  EXPECT_EQ(parse_bytes("9007199254740993").count,
            9007199254740993);  // 2^53 + 1: not representable as a double
}

TEST(Bytes, RejectsInvalidSizesWithReason) {
  for (const char* text :
       {"", "abc", "-1", "-5K", "1.5", "0.3K", "1 X", "1e30", "nan", "inf", "1K2", "KiB"}) {
    SCOPED_TRACE(text);
    expect_error(ErrorKind::Usage, "64KiB", [&] { (void)parse_bytes(text); });
  }
}

TEST(Bytes, PrintsInMostReadableUnit) {
  EXPECT_EQ(to_text(Bytes{0}), "0 B");
  EXPECT_EQ(to_text(Bytes{1000}), "1000 B");
  EXPECT_EQ(to_text(Bytes{1024}), "1 KiB");
  EXPECT_EQ(to_text(Bytes{1536}), "1.5 KiB");
  EXPECT_EQ(to_text(Bytes{1 << 20}), "1 MiB");
}

TEST(Seconds, ParsesUnitsWithOneRounding) {
  EXPECT_EQ(parse_seconds("1.5us").count, 1.5e-6);
  EXPECT_EQ(parse_seconds("0.1ns").count, 1e-10);
  EXPECT_EQ(parse_seconds("1 ns").count, 1e-9);
  EXPECT_EQ(parse_seconds("3ms").count, 3e-3);
  EXPECT_EQ(parse_seconds("2s").count, 2.0);
  EXPECT_EQ(parse_seconds("1e-6").count, 1e-6);
  EXPECT_EQ(parse_seconds("0").count, 0.0);
}

TEST(Seconds, RejectsInvalidTimes) {
  for (const char* text : {"", "us", "-1us", "1 year", "1.5.2us", "nan", "inf s"}) {
    EXPECT_THROW((void)parse_seconds(text), Error) << text;
  }
}

TEST(Seconds, PrintsInMostReadableUnit) {
  EXPECT_EQ(to_text(Seconds{0}), "0 s");
  EXPECT_EQ(to_text(Seconds{1.5e-6}), "1.5 us");
  EXPECT_EQ(to_text(Seconds{7.9856e-6}), "7.986 us");
  EXPECT_EQ(to_text(Seconds{2.1e-3}), "2.1 ms");
  EXPECT_EQ(to_text(Seconds{1e-10}), "0.1 ns");
  EXPECT_EQ(to_text(Seconds{0.99999}), "1 s");
}

}  // namespace
}  // namespace trireme
