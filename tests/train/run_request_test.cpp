// What completes a request for a run: the settings of the run that it resumes, and the plan.
#include "trireme/run_request.h"

#include <gtest/gtest.h>

#include "expect_error.h"
#include "temporary_folder.h"
#include "trireme/files.h"
#include "trireme/train_settings.h"

namespace trireme {
namespace {

/// Of a run that is kept in the folder.
RunRequest resume(const std::string& folder) {
  TrainSettings own;
  own.batch = 6;
  own.threads = 2;
  own.memory_limit = "1GiB";
  write_file(folder + "/settings.json", to_text(own));
  Plan plan;
  plan.mesh = parse_mesh("tensor=2");
  write_file(folder + "/plan.json", to_text(plan));
  RunRequest request;
  request.run.resume = folder;
  return request;
}

TEST(RunRequest, KeepsSettingsOfResumedRun) {
  const TemporaryFolder folder;
  RunRequest request = resume(folder.path());
  request.run.settings.steps = 9;
  request.given = {"steps"};
  complete_settings(request);
  EXPECT_EQ(request.run.settings.batch, 6);
  EXPECT_EQ(request.run.settings.threads, 2);
  EXPECT_EQ(request.run.settings.steps, 9);
  EXPECT_EQ(request.run.memory_limit, Bytes{1 << 30});
}

TEST(RunRequest, NamesOptionOfFolderWithoutRun) {
  const TemporaryFolder folder;
  RunRequest request;
  request.run.resume = folder.path();
  expect_error(ErrorKind::Usage, "--resume: '", [&] { complete_settings(request); });
}

TEST(RunRequest, KeepsPlanUnlessAnotherIsRequested) {
  const TemporaryFolder folder;
  RunRequest request = resume(folder.path());
  EXPECT_EQ(to_text(requested_plan(request).mesh), "tensor=2");
  request.plan.mesh = "data=4";
  EXPECT_EQ(to_text(requested_plan(request).mesh), "data=4");
  request.plan = {};
  request.launched = {.launcher = "Open MPI", .rank = 1, .size = 3};
  EXPECT_EQ(to_text(requested_plan(request).mesh), "data=3");
  request.plan.mesh = "data=4";
  expect_error(ErrorKind::Usage, "the mesh data=4 has 4 devices, but Open MPI started 3 ranks",
               [&] { (void)requested_plan(request); });
}

TEST(RunRequest, ChoosesPlanOnlyForRanksItStarts) {
  RunRequest request;
  EXPECT_FALSE(chooses_plan(request));
  request.plan.mesh = "auto";
  EXPECT_TRUE(chooses_plan(request));
  request.run.settings.sync = "local=2";
  expect_error(ErrorKind::Usage, "--mesh auto chooses among plans with --sync allreduce",
               [&] { (void)chooses_plan(request); });
  request.run.settings.sync = "allreduce";
  request.launched.size = 2;
  EXPECT_FALSE(chooses_plan(request));
}

}  // namespace
}  // namespace trireme
