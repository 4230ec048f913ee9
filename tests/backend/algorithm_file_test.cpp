#include "backend/cuda/algorithm_file.h"

#include <gtest/gtest.h>

#include "temporary_folder.h"
#include "trireme/files.h"

namespace trireme::testing {
namespace {

const cuda::AlgorithmBits kSome{1, 2, 0xfedcba9876543210ULL, 0, 5, 6, 7, ~0ULL};
const cuda::AlgorithmBits kOther{9};

TEST(AlgorithmFile, MergesEntriesFromConcurrentProcesses) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/cache/algorithms.txt";
  cuda::AlgorithmFile one(path);
  cuda::AlgorithmFile two(path);
  EXPECT_FALSE(one.find("NVIDIA H200: a = b"));
  one.add("NVIDIA H200: a = b", kSome);
  two.add("NVIDIA H200: c", kOther);
  cuda::AlgorithmFile later(path);
  EXPECT_EQ(later.find("NVIDIA H200: a = b"), kSome);
  EXPECT_EQ(later.find("NVIDIA H200: c"), kOther);
  EXPECT_FALSE(later.find("NVIDIA H200: a"));
}

TEST(AlgorithmFile, SkipsDamagedLines) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/algorithms.txt";
  cuda::AlgorithmFile(path).add("key", kSome);
  write_file(path, "nonsense\nshort = 12 34\n" + read_file(path));
  cuda::AlgorithmFile file(path);
  EXPECT_EQ(file.find("key"), kSome);
  EXPECT_FALSE(file.find("short"));
}

TEST(AlgorithmFile, StoresNothingWithoutPath) {
  cuda::AlgorithmFile file("");
  file.add("key", kSome);
  EXPECT_EQ(file.find("key"), kSome);
}

}  // namespace
}  // namespace trireme::testing
