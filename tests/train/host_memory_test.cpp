#include "train/run/host_memory.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "temporary_folder.h"

namespace trireme::train {
namespace {

/// A fake root file system.
class Root {
 public:
  void put(const std::string& path, const std::string& content) {
    const std::filesystem::path whole = folder_ / path;
    std::filesystem::create_directories(whole.parent_path());
    std::ofstream(whole) << content;
  }
  [[nodiscard]] AvailableMemory ask() const { return available_memory(folder_.path()); }

 private:
  TemporaryFolder folder_;
};

TEST(HostMemory, MatchesMachine) {
  Root root;
  EXPECT_GT(root.ask().bytes.count, std::int64_t{1} << 60U) << "no information available";
  root.put("proc/meminfo", "MemTotal:  9000 kB\nMemFree:  10 kB\nMemAvailable:  3000 kB\n");
  EXPECT_EQ(root.ask().bytes.count, 3000 * 1024);
  EXPECT_EQ(root.ask().reason, "available on this machine");
}

TEST(HostMemory, RespectsTightestControlGroup) {
  Root root;
  root.put("proc/meminfo", "MemAvailable:  3000 kB\n");
  root.put("proc/self/cgroup", "0::/jobs/mine\n");
  root.put("sys/fs/cgroup/jobs/mine/memory.max", "max\n");
  root.put("sys/fs/cgroup/jobs/mine/memory.current", "500000\n");
  EXPECT_EQ(root.ask().bytes.count, 3000 * 1024) << "a group without a limit";
  root.put("sys/fs/cgroup/jobs/memory.max", "1000000\n");
  root.put("sys/fs/cgroup/jobs/memory.current", "600000\n");
  EXPECT_EQ(root.ask().bytes.count, 400000) << "the parent group";
  EXPECT_EQ(root.ask().reason, "left in the control group /jobs");
  root.put("sys/fs/cgroup/jobs/memory.stat", "anon 1\ninactive_file 150000\n");
  EXPECT_EQ(root.ask().bytes.count, 550000) << "reclaimable page cache";
  root.put("sys/fs/cgroup/jobs/mine/memory.max", "100\n");
  EXPECT_EQ(root.ask().bytes.count, 0) << "usage above the limit";
}

TEST(HostMemory, SupportsControlGroupsVersion1) {
  Root root;
  root.put("proc/meminfo", "MemAvailable:  3000 kB\n");
  root.put("proc/self/cgroup", "3:cpu,cpuacct:/a\n2:memory:/a\n0::/\n");
  root.put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  root.put("sys/fs/cgroup/memory/memory.usage_in_bytes", "5\n");
  root.put("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "700000\n");
  root.put("sys/fs/cgroup/memory/a/memory.usage_in_bytes", "200000\n");
  root.put("sys/fs/cgroup/memory/a/memory.stat", "total_inactive_file 1000\n");
  EXPECT_EQ(root.ask().bytes.count, 501000);
}

TEST(HostMemory, WorksOnThisMachine) {
  const AvailableMemory available = available_memory();
  EXPECT_GT(available.bytes.count, 1 << 20U);
  EXPECT_LT(available.bytes.count, std::int64_t{1} << 60U);
}

}  // namespace
}  // namespace trireme::train
