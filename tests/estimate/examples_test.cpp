#include <fmt/format.h>
#include <gtest/gtest.h>

#include "trireme/error.h"
#include "trireme/estimate_examples.h"

namespace trireme {
namespace {

double value(const char* name, const char* what) {
  return example(name).result(what).value;
}

/// Eight rows of five numbers, as published.
TEST(OptTable, AsPrinted) {
  const ExampleTable table = example("b15").tables.at(0);
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

TEST(OptTable, Corrected) {
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

TEST(Examples, HaveTheNumbersOfTheirRequirements) {
  EXPECT_NEAR(value("b1", "product"), 1365.3, 0.05);
  EXPECT_EQ(value("b1", "ReLU"), 0.25);
  EXPECT_NEAR(value("b1", "ridge"), 295, 0.5);
  EXPECT_DOUBLE_EQ(value("b2", "MFU"), 0.01);
  EXPECT_DOUBLE_EQ(value("b3", "MFU"), 0.01);
  EXPECT_NEAR(value("b4", "4 MFU"), 0.46, 0.01);
  EXPECT_EQ(value("b5", "H100, bf16, dense"), 989.4e12);
  EXPECT_EQ(value("b7", "no recomputation"), 1);
  EXPECT_EQ(value("b8", "full recomputation"), 0.75);
  EXPECT_NEAR(value("b14", "training / 6N"), 1, 0.05);
  EXPECT_NEAR(value("f1", "years"), 281.7, 0.05);
  EXPECT_NEAR(value("f1", "years of 365 days"), 281.9, 0.05);
  EXPECT_EQ(value("f1", "devices for 90 days"), 2858);
  EXPECT_NEAR(value("f2", "bytes per parameter"), 7.03, 0.005);
  EXPECT_NEAR(value("f2", "fits"), 27.3e9, 0.05e9);
  EXPECT_EQ(value("f2", "mixed-precision Adam"), 1040e9);
  EXPECT_EQ(value("f2", "fits with Adam"), 12e9);
  EXPECT_EQ(value("f3", "bytes per token"), 5);
  EXPECT_NEAR(value("f3", "share that fits"), 0.217, 5e-4);
  EXPECT_EQ(value("f3", "servers"), 5);
  EXPECT_NEAR(value("e19", "total"), 400.7e9, 0.05e9);
  EXPECT_NEAR(value("e19", "active"), 17.17e9, 0.005e9);
  EXPECT_NEAR(value("e19", "outside routed experts"), 14.15e9, 0.005e9);
}

TEST(Examples, GradientsOfResNet) {
  EXPECT_NEAR(value("d12", "parameter server"), 0.1707, 5e-5);
  EXPECT_NEAR(value("d12", "with 97.5 MB"), 0.1664, 5e-5);
  EXPECT_NEAR(value("d12", "with 0.0952 GB"), 0.1625, 5e-5);
  EXPECT_NEAR(value("d12", "ring all-reduce"), 0.664e-3, 5e-7);
}

/// A single product comes close to the peak; element-wise ops reduce it, fusing recovers it.
TEST(Examples, FriendlyAndUnfriendlyOps) {
  EXPECT_NEAR(value("b9", "one product"), 1, 1e-9);
  EXPECT_LT(value("b9", "product, 4 element-wise"), value("b9", "the 4 fused into one"));
  EXPECT_LT(value("b9", "the 4 fused into one"), 1);
}

TEST(Examples, AreFoundByNameAndLabel) {
  for (const Example& e : all_examples()) {
    EXPECT_EQ(example(e.name).title, e.title);
    EXPECT_EQ(example(e.label).title, e.title);
    EXPECT_FALSE(e.results.empty() && e.tables.empty()) << e.name;
  }
  EXPECT_EQ(example("E19").name, "maverick");
  EXPECT_THROW((void)example("z1"), Error);
  EXPECT_THROW((void)example("b1").result("nothing"), Error);
}

}  // namespace
}  // namespace trireme
