#include "report/train_text.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "report/waterfall_text.h"

namespace trireme::report {
namespace {

RunFacts facts_of(std::int64_t steps) {
  RunFacts facts;
  facts.steps = steps;
  facts.units_per_step = 10;
  facts.peak_flops = 1;
  return facts;
}

TEST(ProgressPace, PrintsAboutTwentyLinesForFastRun) {
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

TEST(TrainText, ShowsValidationAsSoonAsMeasured) {
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

TEST(TrainText, ReportsExpertLoadPerBlock) {
  const std::vector<ExpertLoad> experts{{.block = 1, .load = {6, 2, 0, 0}, .drops = 2},
                                        {.block = 3, .load = {2, 2, 2, 2}, .drops = 0}};
  const RunFacts facts = facts_of(10);
  StepReport report;
  report.experts = experts;
  const std::vector<std::string> parts = progress_parts(facts, report, {1});
  EXPECT_NE(std::ranges::find(parts, "imbalance 3.0 1.0, dropped 25.0 0.0 %"), parts.end())
      << fmt::format("{}", fmt::join(parts, " · "));
  RunSummary end;
  end.step = 3;
  EXPECT_EQ(run_end_text(facts, end, {}).find("experts"), std::string::npos);
  end.experts = experts;
  EXPECT_NE(run_end_text(facts, end, {})
                .find("  experts in the last step:\n"
                      "    block 1   imbalance 3.0   dropped 25.0 %   load 75 25 0 0 %\n"
                      "    block 3   imbalance 1.0   dropped  0.0 %   load 25 25 25 25 %\n"),
            std::string::npos)
      << run_end_text(facts, end, {});
}

/// What a run works with, before its first step.
TEST(TrainText, StatesDefaultsEpochsAndTokensPerParameter) {
  RunFacts facts = facts_of(750);
  facts.model = "gpt-mini";
  facts.parameters = 15'000;
  facts.data = "book.txt";
  facts.data_units = 3'000;
  facts.validation_units = 150;
  facts.optimizer = "adamw,beta1=0.9";
  facts.rate = "cosine:0.003,warmup=50";
  facts.dtype = "f32";
  facts.gradients = "averaged (mean) over all 10 tokens of a step";
  const std::string text = run_facts_text(facts);
  for (const char* line :
       {"data     book.txt: 3.0 k tokens, and 150 for validation\n",
        "run      750 steps: 7.5 k tokens, 2.5 epochs, 0.5 tokens per parameter\n",
        "optimizer adamw,beta1=0.9\n", "rate     cosine:0.003,warmup=50\n",
        "dtype    f32; gradients averaged (mean) over all 10 tokens of a step\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
  }
  facts.steps = 1;
  EXPECT_NE(run_facts_text(facts).find("run      1 step: 10 tokens"), std::string::npos);
}

TEST(TrainText, WrapsFactsBelowTheirText) {
  RunFacts facts = facts_of(10);
  facts.optimizer = "adamw,beta1=0.9,beta2=0.95,eps=1e-08,weight-decay=0.1";
  facts.dtype = "f32";
  facts.gradients = "averaged (mean) over all 10 tokens of a step";
  const std::string text = run_facts_text(facts, 50);
  EXPECT_NE(text.find("dtype    f32; gradients averaged (mean) over all\n"
                      "         10 tokens of a step\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("optimizer adamw,beta1=0.9,beta2=0.95,eps=1e-08,\n"
                      "          weight-decay=0.1\n"),
            std::string::npos)
      << text;
  EXPECT_EQ(run_facts_text(facts, 1000), run_facts_text(facts));
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

TEST(WaterfallText, ShowsPartsFromPeakDownToMfu) {
  Waterfall w;
  w.step = 3;
  w.collectives = 0.25;
  w.memory_bound = 0.25;
  w.products = 0.125;
  w.recomputed_kernels = 0.0625;
  w.recomputed_products = 0.0625;
  w.mfu = 0.25;
  EXPECT_EQ(waterfall_text(w, "mean of 2 ranks"),
            "  where the peak went in step 3, mean of 2 ranks:\n"
            "     25.0 %  exposed communication: collectives                       ▒▒▒▒▒▒▒\n"
            "     25.0 %  memory-bound kernels                              ▒▒▒▒▒▒▒\n"
            "     12.5 %  matrix products below peak                     ▒▒▒\n"
            "     12.5 %  recomputation                              ▒▒▒▒\n"
            "     25.0 %  MFU                                 ███████\n");
}

TEST(WaterfallText, FitsEightTerminalLines) {
  Waterfall w{.step = 3, .ranks = 1, .messages = 0.125, .collectives = 0.25};
  w.gaps = w.memory_bound = w.attention = w.recomputed_kernels = w.mfu = 0.1875;
  w.products = -0.3125;
  const std::string text = waterfall_text(w, "rank 0");
  EXPECT_EQ(std::ranges::count(text, '\n'), 8) << text;
  EXPECT_NE(text.find("    -31.2 %  matrix products above measured peak "), std::string::npos)
      << text;
  std::size_t start = 0;
  for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', start)) {
    EXPECT_LT(display_width(text.substr(start, end - start)), 80) << text;
    start = end + 1;
  }
}

TEST(TrainText, EndsWithWaterfallAndNamesItsRank) {
  RunFacts facts = facts_of(10);
  RunSummary end;
  end.step = 3;
  EXPECT_EQ(run_end_text(facts, end, {}).find("where the peak went"), std::string::npos);
  end.waterfall = Waterfall{.step = 3, .ranks = 1, .mfu = 1};
  EXPECT_NE(run_end_text(facts, end, {}).find("went in step 3:\n"), std::string::npos);
  facts.ranks = "2 ranks: data=2";
  EXPECT_NE(run_end_text(facts, end, {}).find("went in step 3, rank 0:\n"), std::string::npos);
  end.waterfall->ranks = 2;
  EXPECT_NE(run_end_text(facts, end, {}).find("step 3, mean of 2 ranks:\n"), std::string::npos);
}

}  // namespace
}  // namespace trireme::report
