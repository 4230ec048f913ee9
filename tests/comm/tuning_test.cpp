#include "trireme/tuning.h"

#include <array>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "comm/join/join.h"
#include "comm/rendezvous/memory_store.h"
#include "comm/run_ranks.h"
#include "damage.h"
#include "expect_error.h"
#include "trireme/comm.h"
#include "trireme/error.h"

namespace trireme {
namespace {

using test::require;
using test::run_ranks;

/// Measured at one size; extend_ranges extends the ranges.
TuningRow row(std::int64_t measured, Method method, BufferKind buffers = BufferKind::Private) {
  return {.operation = Operation::Allreduce,
          .ranks = 2,
          .transport = TransportKind::SharedMemory,
          .buffers = buffers,
          .from = {measured},
          .to = {measured},
          .method = method,
          .measured = {measured},
          .candidates = {{method, {1.5e-6}, 0.25, 7}, {Method::direct(), {2e-6}, 0.5, 9}}};
}

Tuning example() {
  return {.machine = "a machine, 2 cores",
          .date = "2026-11-15",
          .dtype = DType::BF16,
          .rows = {row(1024, Method::scheduled(Algorithm::Ring)),
                   row(4096, Method::scheduled(Algorithm::Mst)),
                   row(4096, Method::direct(), BufferKind::Shared)}};
}

Tuning::Query query(std::int64_t bytes) {
  return {.operation = Operation::Allreduce,
          .ranks = 2,
          .transport = TransportKind::SharedMemory,
          .bytes = {bytes}};
}

TEST(Tuning, TextRoundTrips) {
  EXPECT_EQ(parse_tuning(to_text(example())), example());
  EXPECT_EQ(parse_tuning(to_text(Tuning{})), Tuning{});
}

TEST(Tuning, UsesNearestMeasuredSize) {
  Tuning tuning = example();
  extend_ranges(tuning);
  ASSERT_EQ(tuning.rows.size(), 3U);
  EXPECT_EQ(tuning.rows[0].from.count, 1024);
  EXPECT_EQ(tuning.rows[0].to.count, 2048);
  EXPECT_EQ(tuning.rows[1].from.count, 2049);
  EXPECT_EQ(tuning.rows[1].to.count, 4096);
  EXPECT_EQ(tuning.rows[2].from.count, 4096);  // other buffers: other sizes
  EXPECT_TRUE(problems(tuning).empty());
}

TEST(Tuning, FindsRowForCall) {
  Tuning tuning = example();
  extend_ranges(tuning);
  EXPECT_EQ(tuning.find(query(1023)), Method{});
  EXPECT_EQ(tuning.find(query(2048)), Method::scheduled(Algorithm::Ring));
  EXPECT_EQ(tuning.find(query(2049)), Method::scheduled(Algorithm::Mst));
  EXPECT_EQ(tuning.find(query(4096)), Method::direct());  // of two kinds of buffers
  EXPECT_EQ(tuning.find(query(4097)), Method{});
  Tuning::Query other = query(2048);
  other.ranks = 3;
  EXPECT_EQ(tuning.find(other), Method{});
  other = query(2048);
  other.transport = TransportKind::Tcp;
  EXPECT_EQ(tuning.find(other), Method{});
}

TEST(Tuning, ReportsErrors) {
  const std::string good = to_text(example());
  const auto complaint = [&](const std::string& from, const std::string& to) {
    return error_message(ErrorKind::Input, [&] { (void)parse_tuning(replaced(good, from, to)); });
  };
  const std::vector<std::array<std::string, 3>> cases{
      {"trireme tuning 3", "trireme tuning 9", "format is 'trireme tuning 9'"},
      {"\"ranks\": 2", "\"ranks\": \"two\"", "choices[0].ranks"},
      {"\"ranks\": 2", "\"ranks\": 0", "choices[0]: 0 ranks"},
      {"\"operation\": \"allreduce\"", "\"operation\": \"allreduze\"",
       "choices[0].operation is wrong: unknown operation 'allreduze'"},
      {"\"transport\": \"shm\"", "\"transport\": \"automatic\"",
       "choices[0]: transport is automatic"},
      {"\"transport\": \"shm\"", "\"transport\": \"pigeon\"", "choices[0].transport is wrong"},
      {"\"buffers\": \"private\"", "\"buffers\": \"mine\"",
       "choices[0].buffers is wrong: unknown buffer kind 'mine'"},
      {"\"to_bytes\": 1024", "\"to_bytes\": 1000", "choices[0]: invalid range: 1024 to 1000 bytes"},
      {"\"method\": \"ring\"", "\"method\": \"rong\"", "choices[0].method is wrong"},
      {"\"method\": \"ring\"", "\"method\": \"pairwise\"", "pairwise does not do allreduce"},
      {"\"method\": \"ring\"", "\"method\": \"naive\"", "naive does not give all ranks the same"},
      {"\"calls\": 7", "\"calls\": -7", "choices[0].candidates[0].calls is -7"},
      {"\"spread\": 0.25", "\"sprad\": 0.25", "sprad"},
  };
  for (const auto& [from, to, text] : cases) {
    EXPECT_NE(complaint(from, to).find(text), std::string::npos) << complaint(from, to);
  }
}

/// The whole range of sizes by one method, for each transport.
Tuning always(Method method) {
  Tuning tuning;
  for (const TransportKind kind : test::transports()) {
    tuning.rows.push_back({.operation = Operation::Allreduce,
                           .ranks = 2,
                           .transport = kind,
                           .from = {0},
                           .to = {1 << 20},
                           .method = method});
  }
  return tuning;
}

TEST(Tuning, OverridesAlgorithmChoice) {
  for (const TransportKind kind : test::transports()) {
    run_ranks(kind, 2,
              [](World& world) {
                std::vector<float> small(1000, 1.0F);
                std::vector<float> large(1 << 20, 1.0F);
                Group& all = world.all();
                require(all.method_of(allreduce<float>(small)) == "recursive-halving",
                        "the tuning does not apply");
                require(all.method_of(allreduce<float>(large)) != "recursive-halving",
                        "the tuning applies to a size outside its rows");
                require(all.method_of(broadcast<float>(small, 0)) != "recursive-halving",
                        "the tuning applies to another call");
                all.run(allreduce<float>(small));
                require(small[999] == 2, "wrong sum");
              },
              {.tuning = always(Method::scheduled(Algorithm::RecursiveHalving))});
  }
}

TEST(Tuning, ComesFromRankZero) {
  comm::MemoryStore store;
  const auto hub = comm::make_in_process_hub(2);
  std::vector<std::string> methods(2);
  const auto rank = [&](Rank r) {
    const WorldOptions options{
        .tuning = always(Method::scheduled(r == 0 ? Algorithm::Bruck : Algorithm::Ring))};
    World world(comm::join({r, 2, options, store, hub, std::nullopt}));
    std::vector<float> data(1000, 1.0F);
    methods[r] = world.all().method_of(allreduce<float>(data));
    world.all().run(allreduce<float>(data));
  };
  std::thread other(rank, 1);
  rank(0);
  other.join();
  EXPECT_EQ(methods, (std::vector<std::string>{"bruck", "bruck"}));
}

TEST(Tuning, RejectsInvalidTuningAndCosts) {
  Tuning wrong = always(Method::scheduled(Algorithm::Pairwise));
  EXPECT_THROW(run_threads(2, [](World&) {}, {.tuning = wrong}), Error);
  EXPECT_THROW(run_threads(2, [](World&) {}, {.costs = HostCosts{}}), Error);
}

}  // namespace
}  // namespace trireme
