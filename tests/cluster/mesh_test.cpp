#include "trireme/mesh.h"

#include <algorithm>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

#include "trireme/error.h"

namespace trireme {
namespace {

TEST(Mesh, LastAxisVariesFastest) {
  const Mesh mesh = parse_mesh("data=2,tensor=4");
  EXPECT_EQ(mesh.devices(), 8);
  EXPECT_EQ(mesh.coordinates(6), (std::vector<int>{1, 2}));
  EXPECT_EQ(mesh.rank_at({1, 2}), 6);
  EXPECT_EQ(mesh.group_of("tensor", 6), (std::vector<int>{4, 5, 6, 7}));
  EXPECT_EQ(mesh.group_of("data", 6), (std::vector<int>{2, 6}));
  EXPECT_EQ(mesh.groups("data"), (std::vector<std::vector<int>>{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
  EXPECT_EQ(mesh.size("tensor"), 4);
  EXPECT_EQ(mesh.size("pipe"), 1);
}

Mesh random_mesh(std::mt19937& random) {
  static const std::vector<std::string> names{"data", "tensor", "context", "expert", "pipe"};
  std::vector<MeshAxis> axes;
  for (std::size_t i = 0; i < random() % 5; ++i) {
    axes.push_back({.name = names[i], .size = static_cast<int>(1 + random() % 5)});
  }
  return Mesh(axes);
}

TEST(Mesh, CoordinatesAndRanksAreInverse) {
  std::mt19937 random(1);
  for (int i = 0; i < 200; ++i) {
    const Mesh mesh = random_mesh(random);
    for (int rank = 0; rank < mesh.devices(); ++rank) {
      ASSERT_EQ(mesh.rank_at(mesh.coordinates(rank)), rank) << to_text(mesh);
    }
  }
}

/// The group contains every index of the axis once, in order, and all other coordinates are the
/// same.
void expect_group_varies_one_axis(const Mesh& mesh, std::size_t axis,
                                  const std::vector<int>& group) {
  ASSERT_EQ(group.size(), static_cast<std::size_t>(mesh.axes()[axis].size));
  for (std::size_t member = 0; member < group.size(); ++member) {
    std::vector<int> expected = mesh.coordinates(group[0]);
    expected[axis] = static_cast<int>(member);
    ASSERT_EQ(mesh.coordinates(group[member]), expected) << to_text(mesh);
    ASSERT_EQ(mesh.group_of(mesh.axes()[axis].name, group[member]), group) << to_text(mesh);
  }
}

TEST(Mesh, GroupsAlongAxisPartitionRanksAndDifferOnlyInThatAxis) {
  std::mt19937 random(2);
  for (int i = 0; i < 100; ++i) {
    const Mesh mesh = random_mesh(random);
    for (std::size_t axis = 0; axis < mesh.axes().size(); ++axis) {
      std::vector<int> seen;
      for (const std::vector<int>& group : mesh.groups(mesh.axes()[axis].name)) {
        expect_group_varies_one_axis(mesh, axis, group);
        seen.insert(seen.end(), group.begin(), group.end());
      }
      std::sort(seen.begin(), seen.end());
      std::vector<int> all(static_cast<std::size_t>(mesh.devices()));
      std::iota(all.begin(), all.end(), 0);
      ASSERT_EQ(seen, all) << to_text(mesh);
    }
  }
}

TEST(Mesh, TextRoundTrips) {
  std::mt19937 random(3);
  for (int i = 0; i < 200; ++i) {
    const Mesh mesh = random_mesh(random);
    ASSERT_EQ(parse_mesh(to_text(mesh)), mesh);
  }
  EXPECT_EQ(to_text(parse_mesh(" data = 2 , my_axis-1=3")), "data=2,my_axis-1=3");
  EXPECT_EQ(parse_mesh(""), Mesh());
}

TEST(Mesh, RejectsInvalidText) {
  for (const char* text :
       {"data", "data=", "=2", "data=x", "data=0", "data=-2", "data=2,", "data=2,data=2", "a b=2",
        "data=2=2", "data=3000000000", "a=65536,b=65536", "data=1.5", "é=2"}) {
    EXPECT_THROW((void)parse_mesh(text), Error) << text;
  }
}

TEST(Mesh, RejectsUnknownAxesAndRanks) {
  const Mesh mesh = parse_mesh("data=2,tensor=4");
  EXPECT_THROW((void)mesh.coordinates(8), Error);
  EXPECT_THROW((void)mesh.coordinates(-1), Error);
  EXPECT_THROW((void)mesh.rank_at({0}), Error);
  EXPECT_THROW((void)mesh.rank_at({0, 4}), Error);
  EXPECT_THROW((void)mesh.groups("pipe"), Error);
  EXPECT_THROW((void)mesh.group_of("data", 8), Error);
}

TEST(Mesh, MustUseAllDevicesOfCluster) {
  const Cluster cluster = cluster_preset("dgx-h100:2");
  EXPECT_TRUE(problems(parse_mesh("data=2,tensor=8"), cluster).empty());
  EXPECT_EQ(
      problems(parse_mesh("data=2,tensor=4"), cluster),
      std::vector<std::string>{
          "mesh data=2,tensor=4 has 8 devices, but cluster dgx-h100:2 has 16 (2 nodes of 8)"});
}

}  // namespace
}  // namespace trireme
