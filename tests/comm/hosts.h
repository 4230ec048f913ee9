// Hosts: shared by tests of worlds across hosts.
#pragma once

#include <vector>

#include <gtest/gtest.h>

#include "comm/netns.h"

namespace trireme::test {

/// Tests that need hosts; skipped, with the reason, if there can be none.
class Hosts : public testing::Test {
 protected:
  void SetUp() override {
    if (!why_no_network().empty()) {
      GTEST_SKIP() << why_no_network();
    }
  }
};

using Placement = std::vector<int>;  // the host of each rank

inline const Placement kTwoByTwo{0, 0, 1, 1};

}  // namespace trireme::test
