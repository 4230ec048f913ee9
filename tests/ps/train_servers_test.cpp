// `trireme train` on servers that are running: encrypted, and found through a real etcd.
#include <cstdlib>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "cli/training_runs.h"
#include "ps/elected_cluster.h"
#include "ps/test_certificates.h"

namespace trireme::ps {
namespace {

class TrainServers : public TrainRanks {
 protected:
  void SetUp() override { set_secret(kTestSecret); }
  void TearDown() override {
    ::unsetenv(kSecretVariable);  // NOLINT(concurrency-mt-unsafe): one thread
  }
  static void set_secret(const char* secret) {
    ::setenv(kSecretVariable, secret, 1);  // NOLINT(concurrency-mt-unsafe): one thread
  }

  /// The error of a run on these servers.
  std::string refusal(const std::string& options) {
    const Ran ran = run_program(kSmall + "--steps 1 -n 2 --sync ps:bsp --run-folder " + new_run() +
                                " " + options);
    EXPECT_NE(ran.exit_code, 0) << ran.out;
    return ran.err;
  }
};

TEST_F(TrainServers, EncryptedServersMatchLocalServers) {
  const TestCluster cluster({.servers = 2, .encrypt = Encrypt::Yes});
  const std::string servers =
      fmt::format("--ps {} --ps-lease {}s", cluster.coordinator_address(), kTestLease.count);
  EXPECT_EQ(losses("-n 2 --sync ps:bsp --ps-encrypt " + servers), losses("-n 2 --sync ps:bsp"));
  const std::string refused = refusal(servers);
  EXPECT_NE(refused.find("encrypts, this side does not; use --ps-encrypt\n"), std::string::npos)
      << refused;
  set_secret("another secret for the tests");
  const std::string other = refusal("--ps-encrypt " + servers);
  EXPECT_NE(other.find("secret"), std::string::npos) << other;
}

TEST_F(TrainServers, EncryptedEtcdMatchesLocalServers) {
  if (!why_no_etcd().empty()) {
    GTEST_SKIP() << why_no_etcd();
  }
  const TestCertificates certificates;
  EtcdProcesses etcd(1, {.server = certificates.server(),
                         .client = certificates.client(),
                         .demands_certificates = true});
  etcd.wait_until_ready();
  const ElectedCluster cluster(etcd, {.candidates = {ElectedCluster::free_address()}});
  cluster.wait_until_healthy();
  const std::string found =
      fmt::format("-n 2 --sync ps:bsp --ps-lease {}s --ps {} {}", kTestLease.count, etcd.url(),
                  fmt::join(cluster.etcd_options(), " "));
  EXPECT_EQ(losses(found), losses("-n 2 --sync ps:bsp"));
}

}  // namespace
}  // namespace trireme::ps
