#include "base/cores.h"

#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sched.h>

namespace trireme {
namespace {

TEST(UsableCores, MatchProcessAffinity) {
  cpu_set_t all;
  ASSERT_EQ(sched_getaffinity(0, sizeof(all), &all), 0);
  // One core less, and then only one.
  cpu_set_t fewer = all;
  int first = 0;
  while (!CPU_ISSET(first, &all)) {
    ++first;
  }
  CPU_CLR(first, &fewer);
  if (CPU_COUNT(&fewer) > 1) {
    ASSERT_EQ(sched_setaffinity(0, sizeof(fewer), &fewer), 0);
    EXPECT_EQ(usable_cores(), CPU_COUNT(&all) - 1);
  }
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  EXPECT_EQ(usable_cores(), static_cast<int>(std::thread::hardware_concurrency()));
  ASSERT_EQ(sched_setaffinity(0, sizeof(all), &all), 0);
}

TEST(AllowedCores, PinningLeavesOne) {
  const std::vector<int> before = allowed_core_ids();
  ASSERT_FALSE(before.empty());
  std::thread([last = before.back()] {
    pin_thread_to(last);
    EXPECT_EQ(allowed_core_ids(), std::vector<int>{last});
  }).join();
  EXPECT_EQ(allowed_core_ids(), before);
}

}  // namespace
}  // namespace trireme
