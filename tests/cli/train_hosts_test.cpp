// `trireme train` on several hosts, simulated by network namespaces: real processes that share only the file system.
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "cli/training_runs.h"
#include "comm/netns.h"

namespace trireme {
namespace {

void set_variable(const char* name, const std::string& value) {
  setenv(name, value.c_str(), 1);  // NOLINT(concurrency-mt-unsafe): one thread, in a new process
}

class TrainHosts : public TrainRanks {
 protected:
  void SetUp() override {
    if (!test::why_no_network().empty()) {
      GTEST_SKIP() << test::why_no_network();
    }
  }

  /// Starts rank r on host host_of[r] of a network. Each listens on its host's address, or on `bind`.
  std::vector<std::unique_ptr<Started>> start_on(const test::Network& network,
                                                 const std::vector<int>& host_of,
                                                 const std::string& options,
                                                 const std::string& bind = {}) {
    const std::string secret(64, '5');
    std::vector<std::unique_ptr<Started>> ranks;
    for (std::size_t r = 0; r < host_of.size(); ++r) {
      const std::string own = folder_ / fmt::format("rank-{}", r);
      const std::string address = test::Network::address(host_of[r]);
      std::filesystem::create_directories(own);
      ranks.push_back(std::make_unique<Started>(
          fmt::format("{} --bind {}", options, bind.empty() ? address : bind), own, [&] {
            network.enter(host_of[r]);
            set_variable("TRIREME_RANK", fmt::format("{}", r));
            set_variable("TRIREME_SIZE", fmt::format("{}", host_of.size()));
            set_variable("TRIREME_STORE", test::Network::address(0) + ":4000");
            set_variable("TRIREME_SECRET", secret);
          }));
    }
    return ranks;
  }
};

TEST_F(TrainHosts, LossesMatchSingleDevice) {
  const std::vector<double> one = losses("");
  for (const char* options :
       {"--mesh data=2,pipe=2 --microbatches 2", "--mesh data=2,tensor=2 --zero 3 --encrypt"}) {
    const test::Network network({.hosts = 2});
    const std::string run = new_run();
    std::vector<Ran> ends;
    for (const std::unique_ptr<Started>& rank :
         start_on(network, {0, 0, 1, 1},
                  fmt::format("{} --steps 3 --json --run-folder {} {}", kSmall, run, options))) {
      ends.push_back(rank->wait(kAMinute));
      EXPECT_EQ(ends.back().exit_code, 0) << ends.back().err;
    }
    expect_same(one, losses_in(ends[0].out), options);
    EXPECT_EQ(ends[3].out, "");
    // At least the gradients, or the partial results they consist of, were sent over the network.
    EXPECT_GT(network.sent_bytes(0), 100'000) << options;
    // The checkpoint can be resumed like that of any other run.
    EXPECT_EQ(resumed(run, "--steps 4").size(), 1U);
  }
}

TEST_F(TrainHosts, ReportsWrongAddress) {
  const test::Network network({.hosts = 2});
  for (const auto& [bind, words] : {std::pair("10.99.99.99", "--bind must be an address of this"),
                                    std::pair("0.0.0.0", "--bind is '0.0.0.0'; it must be one")}) {
    const Ran end =
        start_on(network, {0, 1}, kSmall + "--steps 1 --run-folder " + new_run(), bind)[0]->wait(
            kAMinute);
    EXPECT_NE(end.exit_code, 0);
    EXPECT_EQ(end.err.find("trireme: "), 0U) << end.err;
    EXPECT_NE(end.err.find(words), std::string::npos) << end.err;
  }
}

}  // namespace
}  // namespace trireme
