// The verifier: accepts every table of the catalogue, and finds each kind of damage.
#include <algorithm>
#include <functional>

#include <gtest/gtest.h>

#include "expect_error.h"
#include "plan/every_pipeline.h"

namespace trireme {
namespace {

TEST(PipelineVerify, AcceptsEveryTableInCatalog) {
  for_every_pipeline(8, 16, [](const PipelineOptions&, const PipelineTable& table) {
    EXPECT_EQ(problems_text(table), "");
  });
}

TEST(PipelineVerify, AcceptsLargeTables) {
  for (const PipelineSchedule& schedule : pipeline_schedules()) {
    EXPECT_EQ(problems_text(make_pipeline(schedule.name, {.ranks = 64, .microbatches = 300})), "");
  }
}

/// Damages small tables of every schedule at every position in one way; each must be found.
void expect_found(const std::function<bool(PipelineTable&, std::size_t, std::size_t)>& break_at) {
  int broken = 0;
  for_every_pipeline(4, 5, [&](const PipelineOptions&, const PipelineTable& table) {
    for (std::size_t rank = 0; rank < table.tasks.size(); ++rank) {
      for (std::size_t i = 0; i < table.tasks[rank].size(); ++i) {
        PipelineTable other = table;
        if (break_at(other, rank, i)) {
          ++broken;
          EXPECT_NE(problems_text(other), "") << to_text(table.tasks[rank][i]) << "\n"
                                              << to_text(other);
        }
      }
    }
  });
  EXPECT_GT(broken, 1000);
}

TEST(PipelineVerify, FindsDroppedTask) {
  expect_found([](PipelineTable& table, std::size_t rank, std::size_t i) {
    if (table.stages == 1 && table.tasks[rank][i].work == PipelineWork::Update &&
        i + 1 < table.tasks[rank].size()) {
      return false;  // a single stage may update less often
    }
    table.tasks[rank].erase(table.tasks[rank].begin() + static_cast<std::ptrdiff_t>(i));
    return true;
  });
}

TEST(PipelineVerify, FindsDuplicatedTask) {
  expect_found([](PipelineTable& table, std::size_t rank, std::size_t i) {
    const PipelineTask task = table.tasks[rank][i];
    table.tasks[rank].push_back(task);
    return true;
  });
}

TEST(PipelineVerify, FindsTaskOnWrongRank) {
  expect_found([](PipelineTable& table, std::size_t rank, std::size_t i) {
    if (table.ranks == 1) {
      return false;
    }
    const PipelineTask task = table.tasks[rank][i];
    table.tasks[rank].erase(table.tasks[rank].begin() + static_cast<std::ptrdiff_t>(i));
    std::vector<PipelineTask>& next = table.tasks[(rank + 1) % table.tasks.size()];
    next.insert(next.begin() + static_cast<std::ptrdiff_t>(std::min(i, next.size())), task);
    return true;
  });
}

TEST(PipelineVerify, FindsTaskOfWrongReplica) {
  expect_found([](PipelineTable& table, std::size_t rank, std::size_t i) {
    table.tasks[rank][i].copy += 1;
    return true;
  });
}

// A Forward and its own backward, or a gradient and its Update, swapped: neither can run.
TEST(PipelineVerify, FindsSwapAcrossDependency) {
  expect_found([](PipelineTable& table, std::size_t rank, std::size_t i) {
    std::vector<PipelineTask>& tasks = table.tasks[rank];
    const PipelineTask task = tasks[i];
    const auto later = std::find_if(
        tasks.begin() + static_cast<std::ptrdiff_t>(i) + 1, tasks.end(),
        [&](const PipelineTask& other) {
          return other.stage == task.stage && other.copy == task.copy &&
                 (other.work == PipelineWork::Update || other.microbatch == task.microbatch);
        });
    if (later == tasks.end()) {
      return false;
    }
    // After one of its Updates, a later micro-batch's work may move before it without harm only if
    // the Update does not include it.
    if (later->work == PipelineWork::Update &&
        (task.work == PipelineWork::Forward || task.work == PipelineWork::BackwardInput ||
         later->microbatch < task.microbatch)) {
      return false;
    }
    std::iter_swap(tasks.begin() + static_cast<std::ptrdiff_t>(i), later);
    return true;
  });
}

PipelineTable two_by_two() {
  return make_pipeline("1f1b", {.ranks = 2, .microbatches = 2});
}

std::string first_problem(const PipelineTable& table) {
  const std::vector<std::string> errors = problems(table);
  return errors.empty() ? "" : errors.front();
}

// Rank 0: F0.0 F0.1 B0.0 B0.1 U0.1; rank 1: F1.0 B1.0 F1.1 B1.1 U1.1.
TEST(PipelineVerify, ReportsErrors) {
  PipelineTable table = two_by_two();
  table.tasks[0].erase(table.tasks[0].begin());
  EXPECT_EQ(first_problem(table), "micro-batch 0 goes forward through stage 0 0 times, not once");

  table = two_by_two();
  table.tasks[1].push_back({PipelineWork::BackwardWeight, 1, 0});
  EXPECT_EQ(first_problem(table),
            "micro-batch 0 goes back through stage 1 by 1 Backward, 0 BackwardInput and 1 "
            "BackwardWeight, not by the first or the other two once");

  table = two_by_two();
  table.tasks[1].push_back(table.tasks[0].back());
  table.tasks[0].pop_back();
  EXPECT_EQ(first_problem(table), "U0.1 is on rank 1, but stage 0 of copy 0 is on rank 0");

  table = two_by_two();
  std::swap(table.tasks[0][3], table.tasks[0][4]);
  EXPECT_EQ(first_problem(table),
            "U0.1 comes before the gradient of micro-batch 1, which it includes");

  table = two_by_two();
  table.tasks[0].pop_back();
  EXPECT_EQ(first_problem(table),
            "stage 0 of copy 0 has no Update that includes the last micro-batch, 1");

  table = two_by_two();
  table.tasks[0][0].stage = 2;
  EXPECT_EQ(first_problem(table), "F2.0 on rank 0 is outside 2 stages, 2 micro-batches, 1 copies");
}

TEST(PipelineVerify, ReportsDeadlockCycle) {
  PipelineTable table = two_by_two();
  table.tasks[0] = {{PipelineWork::Forward, 0, 0},
                    {PipelineWork::Backward, 0, 0},
                    {PipelineWork::Forward, 0, 1},
                    {PipelineWork::Backward, 0, 1},
                    {PipelineWork::Update, 0, 1}};
  std::swap(table.tasks[1][1], table.tasks[1][2]);
  EXPECT_EQ(problems_text(table),
            "deadlock: rank 0 at B0.0 waits for B1.0 of rank 1, rank 1 at F1.1 "
            "waits for F0.1 of rank 0");
}

TEST(PipelineVerify, ChecksWeightVersions) {
  PipelineTable table = make_pipeline("pipedream", {.ranks = 2, .microbatches = 3});
  table.weights = WeightVersions::Single;
  EXPECT_EQ(first_problem(table),
            "U0.0 comes while micro-batch 1 is between its forward and its backward; with a single "
            "version of the weights it may not");

  table = make_pipeline("gpipe", {.ranks = 1, .microbatches = 3});
  table.tasks[0].push_back({PipelineWork::Update, 0, 0});
  EXPECT_NE(problems_text(table).find("U0.0 comes after the Update of micro-batch 2"),
            std::string::npos);

  // Two Updates on one stage, one on the other.
  table = two_by_two();
  table.tasks[1].insert(table.tasks[1].begin() + 2, {PipelineWork::Update, 1, 0});
  EXPECT_EQ(first_problem(table),
            "stage 1 of copy 0 updates at other micro-batches than stage 0 of copy 0");

  // An Update that includes the gradient of a later micro-batch.
  table = make_pipeline("pipedream", {.ranks = 1, .microbatches = 2});
  std::swap(table.tasks[0][2], table.tasks[0][4]);  // F0 B0 B1 F1 U0 …
  EXPECT_NE(problems_text(table).find("which it does not include"), std::string::npos);

  // With `previous`, micro-batches of the third group read version 1; before any Update there is
  // none.
  table = make_pipeline("gpipe", {.ranks = 1, .microbatches = 3});
  table.weights = WeightVersions::Previous;
  std::vector<PipelineTask>& tasks = table.tasks[0];
  tasks = {{PipelineWork::Forward, 0, 0}, {PipelineWork::Forward, 0, 1},
           {PipelineWork::Forward, 0, 2}, {PipelineWork::Backward, 0, 0},
           {PipelineWork::Update, 0, 0},  {PipelineWork::Backward, 0, 1},
           {PipelineWork::Update, 0, 1},  {PipelineWork::Backward, 0, 2},
           {PipelineWork::Update, 0, 2}};
  EXPECT_EQ(problems_text(table),
            "F0.2 reads version 1 of the weights, but comes after 0 Updates only");
}

TEST(PipelineVerify, RejectsMalformedTables) {
  PipelineTable table = two_by_two();
  table.microbatches = 0;
  EXPECT_EQ(problems_text(table), "0 micro-batches; there can be 1 to 1048576");
  table = two_by_two();
  table.placement[0][1] = 2;
  EXPECT_EQ(problems_text(table), "a stage is on rank 2; there are 0 to 1");
  table = two_by_two();
  table.placement[0].pop_back();
  EXPECT_EQ(problems_text(table), "2 stages, but the ranks of 1");
  table = two_by_two();
  table.copies = 2;
  EXPECT_EQ(problems_text(table), "2 copies, but 1 lists of where their stages are");
  table = two_by_two();
  table.tasks.pop_back();
  EXPECT_EQ(problems_text(table), "2 ranks, but 1 lists of tasks");
  expect_error(ErrorKind::Usage, "the pipeline table is wrong: 2 ranks",
               [&] { (void)time_pipeline(table, PipelineDurations{}); });
}

}  // namespace
}  // namespace trireme
