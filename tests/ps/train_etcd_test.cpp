// `trireme train` on servers that it finds through a real etcd.
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

class TrainEtcd : public TrainRanks {
 protected:
  void SetUp() override {
    if (!why_no_etcd().empty()) {
      GTEST_SKIP() << why_no_etcd();
    }
    ::setenv(kSecretVariable, kTestSecret, 1);  // NOLINT(concurrency-mt-unsafe): one thread
  }
  void TearDown() override {
    ::unsetenv(kSecretVariable);  // NOLINT(concurrency-mt-unsafe): one thread
  }
};

TEST_F(TrainEtcd, EncryptedEtcdMatchesLocalServers) {
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
