#include <gtest/gtest.h>

#include "expect_error.h"
#include "trireme/cluster.h"
#include "trireme/error.h"

namespace trireme {
namespace {

std::string preset_failure(const std::string& name) {
  return error_message(ErrorKind::Usage, [&] { (void)cluster_preset(name); });
}

double dense(const char* device, const char* dtype) {
  return device_preset(device).peak(dtype)->count;
}

double sparse(const char* device, const char* dtype) {
  return device_preset(device).peak(dtype, Sparsity::Structured)->count;
}

TEST(DevicePresets, H100PeakTableMatchesSource) {
  EXPECT_EQ(dense("H100", "BF16"), 989.4e12);
  EXPECT_EQ(sparse("H100", "BF16"), 1978.9e12);
  EXPECT_EQ(dense("h100", "fp16"), 989.4e12);
  EXPECT_EQ(dense("h100", "tf32"), 494.7e12);
  EXPECT_EQ(sparse("h100", "tf32"), 989.4e12);
  EXPECT_EQ(dense("h100", "FP8"), 1978.9e12);
  EXPECT_EQ(sparse("h100", "fp8"), 3957.8e12);
  EXPECT_EQ(dense("h100", "INT8"), 1978.9e12);
  EXPECT_EQ(sparse("h100", "i8"), 3957.8e12);
  EXPECT_EQ(dense("h100", "fp64"), 34e12);
  EXPECT_EQ(dense("h100", "f64-tensor"), 67e12);
  EXPECT_EQ(dense("h100", "f32"), 67e12);
  EXPECT_EQ(device_preset("h100").peak("f32", Sparsity::Structured), std::nullopt);
}

TEST(DevicePresets, CommonTrainingDevicesHavePublishedPeaks) {
  EXPECT_EQ(dense("v100-pcie", "f16"), 112e12);
  EXPECT_EQ(dense("v100", "f16"), 125e12);
  EXPECT_EQ(dense("a100", "bf16"), 312e12);
}

TEST(DevicePresets, B200HasPublishedPeak) {
  EXPECT_EQ(dense("b200", "f16"), 2.25e15);
}

TEST(DevicePresets, UnknownPeakIsAbsentAndUnknownNameIsError) {
  EXPECT_EQ(device_preset("cpu").peak("f32"), std::nullopt);
  EXPECT_EQ(device_preset("cpu").memory, std::nullopt);
  EXPECT_EQ(device_preset("v100").peak("bf16"), std::nullopt);
  EXPECT_THROW((void)device_preset("v100").peak("bf61"), Error);
  EXPECT_THROW((void)device_preset("h101"), Error);
}

TEST(DevicePresets, EachCitesSourceAndSparsePeakIsAtMostDouble) {
  for (const std::string& name : device_preset_names()) {
    const DeviceSpec device = device_preset(name);
    EXPECT_EQ(device.name, name);
    EXPECT_FALSE(device.source.empty()) << name;
    for (const Peak& peak : device.peaks) {
      if (peak.dense && peak.sparse) {
        EXPECT_NEAR(peak.sparse->count / peak.dense->count, 2, 1e-3) << name << " " << peak.dtype;
      }
    }
  }
}

TEST(ClusterPresets, AreValidAndListAssumptions) {
  for (const std::string& name : cluster_preset_names()) {
    const Cluster cluster = cluster_preset(name);
    EXPECT_EQ(cluster.name, name);
    EXPECT_TRUE(problems(cluster).empty()) << name;
    EXPECT_FALSE(cluster.notes.empty()) << name;
    for (const Link& link : cluster.links) {
      EXPECT_FALSE(link.source.empty()) << name;
    }
  }
}

TEST(ClusterPresets, LinksCountOneDirection) {
  const Cluster h100 = cluster_preset("dgx-h100:4");
  EXPECT_DOUBLE_EQ(1 / h100.link_between(0, 7).beta.count, 450e9);
  EXPECT_DOUBLE_EQ(1 / h100.link_between(7, 8).beta.count, 50e9);
  const Cluster a100 = cluster_preset("dgx-a100:2");
  EXPECT_DOUBLE_EQ(1 / a100.link_between(0, 1).beta.count, 300e9);
  EXPECT_DOUBLE_EQ(1 / a100.link_between(0, 8).beta.count, 25e9);
}

TEST(ClusterPresets, FigurePresetHasFourNodesOfFourWithFastAndSlowLinks) {
  const Cluster figure = cluster_preset("figure-4x4");
  EXPECT_EQ(figure.nodes, 4);
  EXPECT_EQ(figure.devices_per_node, 4);
  EXPECT_LT(figure.link_between(0, 1).beta.count, figure.link_between(0, 15).beta.count);
  EXPECT_LT(figure.link_between(0, 1).alpha.count, figure.link_between(0, 15).alpha.count);
}

TEST(ClusterPresets, AcceptNodeCount) {
  const Cluster four = cluster_preset("DGX-H100:4");
  EXPECT_EQ(four.name, "dgx-h100:4");
  EXPECT_EQ(four.devices(), 32);
  EXPECT_EQ(cluster_preset("dgx-h100").links.size(), 1U);
  EXPECT_EQ(cluster_preset("dgx-h100:65536").devices(), 524288);
}

TEST(ClusterPresets, AcceptLeadingNodeCount) {
  EXPECT_EQ(cluster_preset("2048xdgx-h100"), cluster_preset("dgx-h100:2048"));
  EXPECT_EQ(cluster_preset("1xlaptop"), cluster_preset("laptop"));
}

TEST(ClusterPresets, PodsAndEthernetHaveSingleFabric) {
  const Cluster v4 = cluster_preset("tpu-v4-pod");
  EXPECT_EQ(v4.devices(), 4096);
  ASSERT_EQ(v4.links.size(), 1U);
  EXPECT_DOUBLE_EQ(1 / v4.link_between(0, 4095).beta.count, 300e9);
  EXPECT_EQ(cluster_preset("tpu-v5p-pod").devices(), 8960);
  EXPECT_EQ(cluster_preset("tpu-v5p-pod:1").links.front().reach, 4);
  const Cluster ethernet = cluster_preset("16xcpu-10gbe");
  EXPECT_EQ(ethernet.devices(), 16);
  EXPECT_DOUBLE_EQ(1 / ethernet.link_between(3, 4).beta.count, 1.25e9);
  EXPECT_TRUE(cluster_preset("cpu-10gbe:1").links.empty());
}

TEST(ClusterPresets, BlackwellAndVoltaNodes) {
  EXPECT_DOUBLE_EQ(1 / cluster_preset("dgx-b200").link_between(0, 1).beta.count, 900e9);
  EXPECT_DOUBLE_EQ(1 / cluster_preset("hgx-b100").link_between(0, 1).beta.count, 900e9);
  EXPECT_EQ(cluster_preset("hgx-b100").device.memory, Bytes{192'000'000'000});
  const Cluster volta = cluster_preset("dgx-v100:2");
  EXPECT_DOUBLE_EQ(1 / volta.link_between(0, 1).beta.count, 150e9);
  EXPECT_DOUBLE_EQ(1 / volta.link_between(0, 8).beta.count, 6.25e9);
}

TEST(ClusterPresets, RejectionsSuggestFix) {
  EXPECT_EQ(preset_failure("dgx-h10"), "unknown cluster 'dgx-h10'; did you mean dgx-h100?");
  EXPECT_EQ(
      preset_failure("supercomputer"),
      "unknown cluster 'supercomputer'; use dgx-v100, dgx-a100, dgx-h100, dgx-h200, hgx-b100, "
      "dgx-b200, dgx-b300, nvl72-gb200, nvl72-gb300, tpu-v4-pod, tpu-v5p-pod, cpu-10gbe, "
      "figure-4x4 or "
      "laptop");
  EXPECT_EQ(preset_failure("2xdgx-h10"), "unknown cluster 'dgx-h10'; did you mean dgx-h100?");
  EXPECT_EQ(preset_failure("laptop:2"), "cluster 'laptop' has one node and no network, not 2");
  for (const char* name : {"dgx-h100:", "dgx-h100:0", "dgx-h100:-1", "dgx-h100:x", "dgx-h100:1:2",
                           "dgx-h100:65537", "0xdgx-h100", "65537xdgx-h100"}) {
    EXPECT_NE(preset_failure(name).find("is not a number of nodes from 1 to 65536"),
              std::string::npos)
        << name;
  }
}

TEST(ClusterPresets, MixedPresetsNeedEqualNodes) {
  EXPECT_NE(preset_failure("dgx-h100+nvl72-gb200").find("equally many"), std::string::npos);
  EXPECT_NE(preset_failure("tpu-v4-pod+tpu-v5p-pod").find("cannot be combined"), std::string::npos)
      << preset_failure("tpu-v4-pod+tpu-v5p-pod");
  EXPECT_NE(preset_failure("dgx-h100+").find("unknown cluster"), std::string::npos)
      << preset_failure("dgx-h100+");
}

TEST(DevicePresets, PowerMatchesDatasheet) {
  EXPECT_EQ(device_preset("a100").power, Power{400});
  EXPECT_EQ(device_preset("h100").power, Power{700});
  EXPECT_EQ(device_preset("cpu").power, std::nullopt);
}

}  // namespace
}  // namespace trireme
