#include <fmt/format.h>
#include <gtest/gtest.h>

#include "estimate/example_value.h"
#include "expect_error.h"
#include "trireme/error.h"

namespace trireme {
namespace {

/// Eight rows of five numbers, as published.
TEST(OptTable, MatchesPublication) {
  const ExampleTable table = example("opt").tables.at(0);
  const std::vector<std::vector<std::string>> printed{
      {"760M", "4.3E+15", "35", "44", "14.8", "5.8"},
      {"1.3B", "1.3E+16", "32", "51", "12.7", "5.0"},
      {"2.7B", "2.5E+16", "29", "56", "11.2", "3.3"},
      {"6.7B", "1.1E+17", "24", "65", "8.1", "2.4"},
      {"13B", "4.1E+17", "22", "69", "6.9", "1.6"},
      {"30B", "9.0E+17", "20", "74", "5.3", "1.0"},
      {"66B", "9.5E+17", "18", "77", "4.3", "0.6"},
      {"175B", "2.4E+18", "17", "80", "3.3", "0.3"}};
  EXPECT_EQ(table.rows, printed);
}

TEST(OptTable, MatchesCorrectedFigures) {
  const ExampleTable table = example("opt").tables.at(1);
  const std::vector<std::vector<std::string>> right{
      {"760M", "3.73E+15", "25.5", "50.9", "17.0", "6.6"},
      {"1.3B", "1.25E+16", "27.1", "54.1", "13.5", "5.3"},
      {"2.7B", "2.48E+16", "28.4", "56.9", "11.4", "3.3"},
      {"6.7B", "1.20E+17", "30.1", "60.2", "7.5", "2.2"},
      {"13B", "4.57E+17", "30.8", "61.6", "6.2", "1.4"},
      {"30B", "1.05E+18", "31.5", "63.1", "4.5", "0.9"},
      {"66B", "1.14E+18", "32.0", "64.0", "3.6", "0.5"},
      {"175B", "3.01E+18", "32.3", "64.7", "2.7", "0.3"}};
  EXPECT_EQ(table.rows, right);
}

TEST(Examples, MatchPublishedNumbers) {
  EXPECT_NEAR(value("intensity", "product"), 1365.3, 0.05);
  EXPECT_EQ(value("intensity", "ReLU"), 0.25);
  EXPECT_NEAR(value("intensity", "ridge"), 295, 0.5);
  EXPECT_DOUBLE_EQ(value("mfu", "MFU"), 0.01);
  EXPECT_NEAR(value("four-steps", "4 MFU"), 0.46, 0.01);
  EXPECT_EQ(value("peaks", "H100, bf16, dense"), 989.4e12);
  EXPECT_EQ(value("recompute", "no recomputation"), 1);
  EXPECT_EQ(value("recompute", "full recomputation"), 0.75);
  EXPECT_NEAR(value("transformer", "training / 6N"), 1, 0.05);
  EXPECT_NEAR(value("gpt4", "years"), 281.7, 0.05);
  EXPECT_NEAR(value("gpt4", "years of 365 days"), 281.9, 0.05);
  EXPECT_EQ(value("gpt4", "devices for 90 days"), 2858);
  EXPECT_NEAR(value("llama65b", "bytes per parameter"), 7.03, 0.005);
  EXPECT_NEAR(value("llama65b", "fits"), 27.3e9, 0.05e9);
  EXPECT_EQ(value("llama65b", "mixed-precision Adam"), 1040e9);
  EXPECT_EQ(value("llama65b", "fits with Adam"), 12e9);
  EXPECT_EQ(value("dbrx", "bytes per token"), 5);
  EXPECT_NEAR(value("dbrx", "share that fits"), 0.217, 5e-4);
  EXPECT_EQ(value("dbrx", "servers"), 5);
  EXPECT_NEAR(value("maverick", "total"), 400.7e9, 0.05e9);
  EXPECT_NEAR(value("maverick", "active"), 17.17e9, 0.005e9);
  EXPECT_NEAR(value("maverick", "outside routed experts"), 14.15e9, 0.005e9);
}

TEST(Examples, ResNetGradients) {
  EXPECT_NEAR(value("resnet50", "parameter server"), 0.1707, 5e-5);
  EXPECT_NEAR(value("resnet50", "with 97.5 MB"), 0.1664, 5e-5);
  EXPECT_NEAR(value("resnet50", "with 0.0952 GB"), 0.1625, 5e-5);
  EXPECT_NEAR(value("resnet50", "ring all-reduce"), 0.664e-3, 5e-7);
}

/// A single product comes close to the peak; element-wise ops reduce it, fusing recovers it.
TEST(Examples, FriendlyAndUnfriendlyOps) {
  EXPECT_NEAR(value("friendly", "one product"), 1, 1e-9);
  EXPECT_LT(value("friendly", "product, 4 element-wise"),
            value("friendly", "the 4 fused into one"));
  EXPECT_LT(value("friendly", "the 4 fused into one"), 1);
}

TEST(Examples, AreFoundByName) {
  for (const Example& e : all_examples()) {
    EXPECT_EQ(example(e.name).title, e.title);
    EXPECT_FALSE(e.results.empty() && e.tables.empty()) << e.name;
  }
  EXPECT_EQ(example("Maverick").name, "maverick");
  expect_error(ErrorKind::Usage, "unknown example 'maveric'; did you mean maverick?",
               [] { (void)example("maveric"); });
  EXPECT_THROW((void)example("intensity").result("nothing"), Error);
}

}  // namespace
}  // namespace trireme
