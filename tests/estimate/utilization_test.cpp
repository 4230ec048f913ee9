#include <gtest/gtest.h>

#include "trireme/estimate.h"

namespace trireme {
namespace {

TEST(Intensity, OfProductAndRelu) {
  EXPECT_NEAR(matmul_intensity(4096, 4096, 4096, 2), 1365.3, 0.05);
  EXPECT_EQ(elementwise_intensity(1, 2), 0.25);
}

TEST(Roofline, OfH100) {
  const Roofline roof = *roofline_of(device_preset("h100"), "bf16");
  EXPECT_EQ(roof.peak.count, 989.4e12);
  EXPECT_NEAR(roof.ridge(), 295, 0.5);
  EXPECT_EQ(roof.attainable(1365.3).count, 989.4e12);
  EXPECT_EQ(roof.attainable(0.25).count, 0.25 * 3.35e12);
  EXPECT_EQ(roof.bound(1e15, 1), Bound::Compute);
  EXPECT_EQ(roof.bound(1, 1e9), Bound::Memory);
  EXPECT_EQ(roof.time(989.4e12, 1).count, 1);
  EXPECT_EQ(roof.time(1, 3.35e12).count, 1);
}

TEST(Roofline, IsUnknownIfAnyInputIsUnknown) {
  EXPECT_FALSE(roofline_of(device_preset("cpu"), "f32"));
  EXPECT_FALSE(roofline_of(device_preset("b200"), "f32"));
  EXPECT_FALSE(roofline_of(device_preset("v100"), "bf16"));
}

TEST(Utilization, MatchesWorkedExample) {
  EXPECT_DOUBLE_EQ(utilization(1e12, {10}, {1e13}), 0.01);
  EXPECT_DOUBLE_EQ(utilization(1e12, {10}, {1e13}, 4), 0.0025);
}

TEST(Utilization, MfuToHfuRatio) {
  EXPECT_EQ(mfu_over_hfu(0), 1);
  EXPECT_EQ(mfu_over_hfu(1), 0.75);
}

TEST(Utilization, TypicalValues) {
  EXPECT_EQ(typical_mfu("v100-pcie")->low, 0.4);
  EXPECT_EQ(typical_mfu("a100")->high, 0.6);
  EXPECT_EQ(typical_mfu("h100")->low, 0.3);
  EXPECT_FALSE(typical_mfu("b200"));
}

TEST(Runs, TakeYearsOnOneDevice) {
  const FlopRate b200 = *device_preset("b200").peak("f16");
  EXPECT_NEAR(run_time(2e25, b200).count, 8.889e9, 1e6);
  EXPECT_EQ(devices_needed(2e25, b200, 0.4, {90 * 86400.0}), 2858);
  EXPECT_DOUBLE_EQ(run_time(2e25, b200, 0.5, 2).count, run_time(2e25, b200).count);
}

TEST(Gradients, TrafficBetweenWorkers) {
  EXPECT_NEAR(server_time(256, 0.1e9, {300e9}).count, 0.1707, 5e-5);
  EXPECT_NEAR(ring_time(256, 0.1e9, {300e9}).count, 0.664e-3, 5e-7);
  EXPECT_NEAR(tree_server_time(256, 0.1e9, {300e9}).count, 10.67e-3, 5e-6);
  EXPECT_EQ(ring_time(1, 0.1e9, {300e9}).count, 0);
}

}  // namespace
}  // namespace trireme
