#include "report/train_text.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

namespace trireme::report {
namespace {

RunFacts facts_of(std::int64_t steps) {
  RunFacts facts;
  facts.steps = steps;
  facts.units_per_step = 10;
  facts.peak_flops = 1;
  return facts;
}

TEST(ProgressPace, PrintsAboutTwentyLinesOfAFastRun) {
  ProgressPace pace;
  const RunFacts facts = facts_of(1000);
  int lines = 0;
  StepReport report;
  for (report.step = 1; report.step <= 1000; ++report.step) {
    lines += pace.is_due(facts, report, {0.001 * static_cast<double>(report.step)}) ? 1 : 0;
  }
  EXPECT_EQ(lines, 21);
}

TEST(ProgressPace, IsNeverSilentForLong) {
  ProgressPace pace;
  const RunFacts facts = facts_of(100'000);
  StepReport report;
  double last = 0;
  double longest = 0;
  for (report.step = 1; report.step <= 200; ++report.step) {
    const double now = 7.0 * static_cast<double>(report.step);
    if (pace.is_due(facts, report, {now})) {
      longest = std::max(longest, now - last);
      last = now;
    }
  }
  EXPECT_EQ(longest, 35);
}

TEST(TrainText, ShowsValidationAsSoonAsItIsMeasured) {
  const RunFacts facts = facts_of(1000);
  StepReport report;
  report.step = 7;
  report.loss = 2;
  ProgressPace pace;
  EXPECT_FALSE(pace.is_due(facts, report, {1}));
  report.validation = 2.5;
  EXPECT_TRUE(pace.is_due(facts, report, {1}));
  EXPECT_EQ(fmt::format("{}", fmt::join(progress_parts(facts, report, {1}), " · "))
                .find("loss 2.000 · validation 2.500 · left "),
            0U);
}

TEST(TrainText, ShowsNotesAndQuotesPaths) {
  RunFacts facts = facts_of(10);
  facts.notes = {"--zero 3 has no effect: there is one rank"};
  EXPECT_NE(run_facts_text(facts).find("note     --zero 3 has no effect"), std::string::npos);
  RunSummary end;
  end.run_folder = "my run's";
  end.step = 3;
  EXPECT_NE(run_end_text(facts, end, {}).find(R"(train --resume 'my run'\''s' --steps 6)"),
            std::string::npos);
}

}  // namespace
}  // namespace trireme::report
