#include "comm/rendezvous/launch_variables.h"

#include <map>
#include <string>

#include <gtest/gtest.h>

#include "comm/rendezvous_helpers.h"

namespace trireme::comm {
namespace {

using Variables = std::map<std::string, std::string>;

LaunchInfo find(const Variables& variables) {
  return find_launch([&](const std::string& name) -> std::optional<std::string> {
    const auto at = variables.find(name);
    return at == variables.end() ? std::nullopt : std::optional(at->second);
  });
}

Variables operator+(Variables a, const Variables& b) {
  a.insert(b.begin(), b.end());
  return a;
}

const Variables& torchrun() {
  static const Variables variables{{"RANK", "5"},
                                   {"WORLD_SIZE", "8"},
                                   {"LOCAL_RANK", "1"},
                                   {"GROUP_RANK", "1"},
                                   {"LOCAL_WORLD_SIZE", "4"},
                                   {"TORCHELASTIC_RUN_ID", "none"},
                                   {"MASTER_ADDR", "nodeA"},
                                   {"MASTER_PORT", "29500"}};
  return variables;
}

const Variables& open_mpi() {
  static const Variables variables{{"OMPI_COMM_WORLD_RANK", "2"},
                                   {"OMPI_COMM_WORLD_SIZE", "4"},
                                   {"OMPI_COMM_WORLD_LOCAL_RANK", "2"},
                                   {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                                   {"PMIX_NAMESPACE", "prterun-host-77@1"}};
  return variables;
}

const Variables& slurm() {
  static const Variables variables{{"SLURM_PROCID", "3"},
                                   {"SLURM_NTASKS", "4"},
                                   {"SLURM_STEP_NUM_TASKS", "4"},
                                   {"SLURM_LOCALID", "1"},
                                   {"SLURM_NODEID", "1"},
                                   {"SLURM_JOB_ID", "4711"},
                                   {"SLURM_STEP_ID", "0"},
                                   {"SLURM_STEP_NUM_NODES", "2"},
                                   {"SLURM_STEP_NODELIST", "node[07-08]"},
                                   {"SLURM_LAUNCH_NODE_IPADDR", "10.0.0.99"}};
  return variables;
}

TEST(LaunchVariables, EmptyEnvironmentIsSingleProcess) {
  for (const Variables& variables :
       {Variables{}, Variables{{"RANK", ""}, {"WORLD_SIZE", ""}}, Variables{{"LOCAL_RANK", "3"}},
        Variables{{"MASTER_ADDR", "a"}, {"MASTER_PORT", "1"}}}) {
    const LaunchInfo info = find(variables);
    EXPECT_EQ(info.launcher, Launcher::Alone);
    EXPECT_EQ(info.rank, 0);
    EXPECT_EQ(info.size, 1);
    EXPECT_TRUE(info.serves_store());
    EXPECT_FALSE(info.store);
    EXPECT_FALSE(info.secret);
  }
}

TEST(LaunchVariables, ReadsOwnVariables) {
  const std::string hex = Secret::random().hex();
  const LaunchInfo info = find({{"TRIREME_RANK", "1"},
                                {"TRIREME_SIZE", "3"},
                                {"TRIREME_STORE", "[::1]:4000"},
                                {"TRIREME_SECRET", hex}});
  EXPECT_EQ(info.launcher, Launcher::Trireme);
  EXPECT_EQ(info.rank, 1);
  EXPECT_EQ(info.size, 3);
  EXPECT_FALSE(info.serves_store());
  EXPECT_EQ(info.store, (Address{.host = "::1", .port = 4000}));
  ASSERT_TRUE(info.secret);
  EXPECT_EQ(info.secret->hex(), hex);
}

TEST(LaunchVariables, ReadsTorchrun) {
  const LaunchInfo info = find(torchrun());
  EXPECT_EQ(info.launcher, Launcher::Torchrun);
  EXPECT_EQ(info.rank, 5);
  EXPECT_EQ(info.size, 8);
  EXPECT_EQ(info.local_rank, 1);
  EXPECT_EQ(info.local_size, 4);
  EXPECT_EQ(info.one_host, false);
  EXPECT_EQ(info.store, (Address{.host = "nodeA", .port = 29501}));
  EXPECT_EQ(info.job, "none.29500");
}

TEST(LaunchVariables, ReadsOpenMpi) {
  const LaunchInfo info = find(open_mpi());
  EXPECT_EQ(info.launcher, Launcher::OpenMpi);
  EXPECT_EQ(info.rank, 2);
  EXPECT_EQ(info.size, 4);
  EXPECT_EQ(info.local_rank, 2);
  EXPECT_EQ(info.one_host, true);
  EXPECT_FALSE(info.store);
  EXPECT_EQ(info.job, "prterun-host-77@1");
  const LaunchInfo old = find({{"OMPI_COMM_WORLD_RANK", "0"},
                               {"OMPI_COMM_WORLD_SIZE", "2"},
                               {"OMPI_MCA_orte_precondition_transports", "12ab-34cd"}});
  EXPECT_EQ(old.job, "12ab-34cd");
  EXPECT_FALSE(old.one_host);
}

TEST(LaunchVariables, ReadsMpich) {
  const LaunchInfo info = find(
      {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}});
  EXPECT_EQ(info.launcher, Launcher::Mpich);
  EXPECT_EQ(info.rank, 1);
  EXPECT_EQ(info.size, 2);
  EXPECT_EQ(info.one_host, true);
  EXPECT_EQ(info.job, "");
  EXPECT_EQ(find({{"PMI_ID", "3"}, {"PMI_SIZE", "4"}}).rank, 3);
}

TEST(LaunchVariables, ReadsSlurm) {
  const LaunchInfo info = find(slurm());
  EXPECT_EQ(info.launcher, Launcher::Slurm);
  EXPECT_EQ(info.rank, 3);
  EXPECT_EQ(info.size, 4);
  EXPECT_EQ(info.local_rank, 1);
  EXPECT_EQ(info.one_host, false);
  EXPECT_EQ(info.job, "4711.0");
  ASSERT_TRUE(info.store);
  EXPECT_EQ(info.store->host, "node07");
  EXPECT_GE(info.store->port, 15000);
  EXPECT_LT(info.store->port, 30000);
  Variables one_node = slurm();
  one_node["SLURM_STEP_NUM_NODES"] = "1";
  EXPECT_EQ(find(one_node).one_host, true);
  EXPECT_FALSE(find(one_node).store);
}

TEST(LaunchVariables, IgnoresSlurmScriptOrShell) {
  EXPECT_EQ(find({{"SLURM_NTASKS", "4"}, {"SLURM_JOB_ID", "1"}}).launcher, Launcher::Alone);
  EXPECT_EQ(find({{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}}).launcher, Launcher::Alone);
  // A step may have fewer tasks than its job.
  Variables step = slurm();
  step["SLURM_NTASKS"] = "16";
  EXPECT_EQ(find(step).size, 4);
}

TEST(LaunchVariables, FindsFirstHostOfNodeList) {
  EXPECT_EQ(first_host("node[01-04,07],login"), "node01");
  EXPECT_EQ(first_host("node[3,5]"), "node3");
  EXPECT_EQ(first_host("a,b"), "a");
  EXPECT_EQ(first_host("rack[2-3]n[10-11].x"), "rack2n10.x");
  EXPECT_EQ(first_host("odd["), "odd");
}

TEST(LaunchVariables, OwnStoreAndSecretOverrideAnyLauncher) {
  const Variables own{{"TRIREME_STORE", "head:5000"}, {"TRIREME_SECRET", Secret::random().hex()}};
  for (const Variables& variables : {torchrun(), open_mpi(), slurm()}) {
    const LaunchInfo info = find(variables + own);
    EXPECT_NE(info.launcher, Launcher::Trireme);
    EXPECT_EQ(info.store, (Address{.host = "head", .port = 5000}));
    EXPECT_TRUE(info.secret);
  }
  EXPECT_EQ(find(slurm() + Variables{{"MASTER_ADDR", "n7"}, {"MASTER_PORT", "9"}}).store,
            (Address{.host = "n7", .port = 10}));
}

TEST(LaunchVariables, AcceptsAgreeingLaunchers) {
  const Variables pmi{{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}};
  EXPECT_EQ(find(slurm() + pmi).launcher, Launcher::Mpich);
}

TEST(LaunchVariables, DisagreementNamesBothVariables) {
  const auto refuses = [](const Variables& variables, const std::vector<std::string>& words) {
    expect_error(ErrorKind::Usage, words, [&] { (void)find(variables); });
  };
  refuses({{"RANK", "1"},
           {"WORLD_SIZE", "2"},
           {"OMPI_COMM_WORLD_RANK", "0"},
           {"OMPI_COMM_WORLD_SIZE", "2"}},
          {"RANK='1' (torchrun)", "OMPI_COMM_WORLD_RANK='0' (Open MPI)", "unset"});
  refuses({{"PMI_RANK", "1"},
           {"PMI_SIZE", "3"},
           {"OMPI_COMM_WORLD_RANK", "1"},
           {"OMPI_COMM_WORLD_SIZE", "2"}},
          {"OMPI_COMM_WORLD_SIZE='2'", "PMI_SIZE='3'"});
  refuses(slurm() + Variables{{"PMI_RANK", "1"}, {"PMI_SIZE", "4"}},
          {"PMI_RANK='1'", "SLURM_PROCID='3'"});
  refuses(open_mpi() + Variables{{"TRIREME_RANK", "0"}, {"TRIREME_SIZE", "4"}},
          {"TRIREME_RANK='0'", "OMPI_COMM_WORLD_RANK='2'"});
  // Fewer in Open MPI, but set by hand: nothing shows that it started the others.
  refuses({{"RANK", "7"},
           {"WORLD_SIZE", "8"},
           {"OMPI_COMM_WORLD_RANK", "0"},
           {"OMPI_COMM_WORLD_SIZE", "2"}},
          {"RANK='7'", "OMPI_COMM_WORLD_RANK='0'"});
}

TEST(LaunchVariables, InnerLauncherWins) {
  // One daemon of torchrun or mpirun per node, started by srun.
  Variables agents = slurm();
  agents["SLURM_STEP_NUM_TASKS"] = "2";
  agents["SLURM_PROCID"] = "1";
  EXPECT_EQ(find(torchrun() + agents).rank, 5);
  EXPECT_EQ(find(open_mpi() + agents).rank, 2);
  // trireme launch from a task of mpirun.
  const LaunchInfo inside =
      find(Variables{{"TRIREME_RANK", "5"}, {"TRIREME_SIZE", "6"}} + open_mpi());
  EXPECT_EQ(inside.launcher, Launcher::Trireme);
  EXPECT_EQ(inside.rank, 5);
}

TEST(LaunchVariables, RejectsIncompleteAndInvalidSettings) {
  struct Case {
    Variables variables;
    std::vector<std::string> words;
  };
  const std::vector<Case> cases{
      {{{"RANK", "1"}}, {"RANK='1' is set but WORLD_SIZE is not", "torchrun"}},
      {{{"WORLD_SIZE", "2"}}, {"WORLD_SIZE='2' is set but RANK is not"}},
      {{{"TRIREME_SIZE", "2"}}, {"TRIREME_SIZE='2' is set but TRIREME_RANK is not"}},
      {{{"OMPI_COMM_WORLD_RANK", "0"}}, {"OMPI_COMM_WORLD_SIZE is not"}},
      {{{"PMI_ID", "0"}}, {"PMI_ID='0' is set but PMI_SIZE is not"}},
      {{{"SLURM_PROCID", "0"}, {"SLURM_STEP_ID", "0"}}, {"SLURM_STEP_NUM_TASKS is not"}},
      {{{"RANK", "2"}, {"WORLD_SIZE", "2"}}, {"RANK='2' is not a number from 0 to 1"}},
      {{{"RANK", "-1"}, {"WORLD_SIZE", "2"}}, {"RANK='-1'"}},
      {{{"RANK", "one"}, {"WORLD_SIZE", "2"}}, {"RANK='one'"}},
      {{{"RANK", "0"}, {"WORLD_SIZE", "0"}}, {"WORLD_SIZE='0' is not a number from 1 to"}},
      {{{"RANK", "0"}, {"WORLD_SIZE", "99999999999"}}, {"WORLD_SIZE='99999999999'"}},
      {{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}}, {"MASTER_PORT is not"}},
      {{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "1"}}, {"MASTER_ADDR is not"}},
      {torchrun() + Variables{}, {}},
      {{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "65535"}},
       {"MASTER_PORT='65535' is not a number from 1 to 65534"}},
      {{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "2"}}, {"LOCAL_RANK='2'"}},
      {{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"TRIREME_STORE", "nowhere"}},
       {"TRIREME_STORE: 'nowhere' is not an address"}},
      {{{"TRIREME_SECRET", "abc"}}, {"TRIREME_SECRET: the secret of 3 characters"}},
  };
  for (const Case& one : cases) {
    if (one.words.empty()) {
      EXPECT_NO_THROW((void)find(one.variables));
    } else {
      expect_error(ErrorKind::Usage, one.words, [&] { (void)find(one.variables); });
    }
  }
}

}  // namespace
}  // namespace trireme::comm
