// Measured runs: reading them, predicting them, accounting for them.
#include <gtest/gtest.h>

#include "cost/published_runs.h"
#include "cost/sampled_runs.h"
#include "damage.h"
#include "expect_error.h"
#include "trireme/error.h"
#include "trireme/validation.h"

namespace trireme {
namespace {

MeasuredRuns published(std::string_view source) {
  MeasuredRuns runs = parse_runs(kPublishedRuns, "published");
  std::erase_if(runs.runs, [&](const MeasuredRun& run) { return !run.source.starts_with(source); });
  return runs;
}

double mean_error(const MeasuredRuns& runs) {
  return validate(runs.runs, {}).all.mean;
}

TEST(MeasuredRuns, AreParsedWithTheirSettings) {
  const MeasuredRuns runs = parse_runs(kPublishedRuns, "published");
  ASSERT_EQ(runs.runs.size(), 15U);
  EXPECT_TRUE(runs.skipped.empty());
  const MeasuredRun& interleaved = runs.runs[3];
  EXPECT_EQ(mesh_text(interleaved.layout), "pipe=8,data=24,tensor=8");
  EXPECT_EQ(interleaved.layout.schedule, PipelineForm::Interleaved);
  EXPECT_EQ(interleaved.layout.chunks, 2);
  EXPECT_EQ(interleaved.cluster.nodes, 192);
  EXPECT_TRUE(runs.runs[5].layout.sequence);
  EXPECT_EQ(runs.runs[9].layout.zero, 3);
  EXPECT_EQ(runs.runs[10].work.dtype, "f8");
}

TEST(MeasuredRuns, IncompleteRowsAreSkippedWithReason) {
  std::string text(kPublishedRuns);
  const std::size_t at = text.find(",512,full");
  text.replace(at, 4, ",");
  const MeasuredRuns runs = parse_runs(text, "x");
  ASSERT_EQ(runs.skipped.size(), 1U);
  EXPECT_EQ(runs.skipped[0].line, 2);
  EXPECT_EQ(runs.skipped[0].reason, "no global_batch");
}

TEST(MeasuredRuns, ExplicitColumnsOverrideSourceDefaults) {
  const MeasuredRuns runs = parse_runs(
      "source,model,layers,hidden,heads,seq,gpu,gpus,tp,pp,dp,microbatch,global_batch,precision,"
      "seconds_per_step,zero,schedule,attention,sequence,overlap_data\n"
      "ours,GPT,24,2048,16,2048,A100,16,2,4,2,1,32,bf16,1.5,1,zb-h1,unfused,yes,no\n",
      "x");
  ASSERT_EQ(runs.runs.size(), 1U);
  const MeasuredRun& run = runs.runs[0];
  EXPECT_EQ(run.layout.zero, 1);
  EXPECT_EQ(run.layout.schedule, PipelineForm::ZbH1);
  EXPECT_EQ(run.work.attention, Workload::Attention::Unfused);
  EXPECT_TRUE(run.layout.sequence);
  EXPECT_FALSE(run.work.overlap_data);
}

constexpr const char* kOwnColumns =
    "source,model,layers,hidden,heads,seq,gpu,gpus,tp,pp,dp,ep,microbatch,global_batch,precision,"
    "seconds_per_step,recompute,attention\n";

TEST(MeasuredRuns, TolerateHowPeopleWriteColumns) {
  const std::string text =
      "\xEF\xBB\xBFSource, Model,LAYERS,Hidden,heads,seq,GPU,gpus,tp,pp,dp,microbatch,global_batch,"
      "precision,Seconds_Per_Step,Recompute,Attention,Sequence\r\n"
      "ours,GPT,24,2048,16,\"2,048\",NVIDIA a100-SXM4-80GB,16,2,4,n/a,1,32,BF16,1.5,Full,UNFUSED,"
      "Yes\r\n";
  const MeasuredRuns runs = parse_runs(text, "x");
  ASSERT_EQ(runs.runs.size(), 1U);
  const MeasuredRun& run = runs.runs[0];
  EXPECT_EQ(run.layout.data, 2);  // what the other axes leave
  EXPECT_EQ(run.work.length, 2048);
  EXPECT_EQ(run.cluster.device.name, "a100");
  EXPECT_EQ(run.layout.recompute, RecomputeMode::Full);
  EXPECT_EQ(run.work.attention, Workload::Attention::Unfused);
  EXPECT_TRUE(run.layout.sequence);
}

TEST(MeasuredRuns, RejectUnknownWordsByName) {
  const std::string row = "ours,GPT,24,2048,16,2048,A100,16,2,4,2,1,1,32,bf16,1.5,";
  expect_error(ErrorKind::Input,
               "line 2: attention: unknown attention 'flash'; use fused or unfused",
               [&] { (void)parse_runs(kOwnColumns + row + "full,flash\n", "x"); });
  expect_error(ErrorKind::Input, "line 2: recompute: ", [&] {
    (void)parse_runs(kOwnColumns + row + "some,fused\n", "x");
  });
  expect_error(ErrorKind::Input, "line 2: gpus: expected an integer, not 1.5", [&] {
    (void)parse_runs(
        std::string(kOwnColumns) + "ours,GPT,24,2048,16,2048,A100,1.5,2,4,2,1,1,32,bf16,1.5,,\n",
        "x");
  });
}

TEST(MeasuredRuns, SkipRowsWithExperts) {
  const MeasuredRuns runs = parse_runs(
      std::string(kOwnColumns) + "ours,MoE,24,2048,16,2048,A100,16,2,4,2,2,1,32,bf16,1.5,,\n", "x");
  ASSERT_EQ(runs.skipped.size(), 1U);
  EXPECT_EQ(runs.skipped[0].reason, "experts: no column has their number");
}

TEST(MeasuredRuns, RejectBadFilesByLine) {
  EXPECT_THROW((void)parse_runs("a,b\n1,2\n", "x"), Error);
  const std::string text = replaced(std::string(kPublishedRuns), "3.528", "fast!");
  EXPECT_EQ(error_message(ErrorKind::Input, [&] { (void)parse_runs(text, "x"); }),
            "line 2: seconds_per_step: 'fast!' is not a number");
}

TEST(MeasuredRuns, ReadVTrainColumns) {
  const MeasuredRuns runs = parse_runs(
      "Parameters (billion),# GPUs,global batch,micro batch,hidden size,attention heads,# "
      "layers,sequence "
      "length,tensor parallelism,data parallelism,pipeline parallelism,iteration time (ms)\n"
      "39.1,512,1536,2,8192,64,48,2048,8,8,8,15001.9\n",
      "x");
  ASSERT_EQ(runs.runs.size(), 1U);
  EXPECT_DOUBLE_EQ(runs.runs[0].seconds, 15.0019);
  EXPECT_NEAR(predicted_cost(runs.runs[0], {}).seconds, 15, 1.5);
}

TEST(MeasuredRuns, VTrainSimulatorRoundsVocabularyShardsDown) {
  const MeasuredRuns runs = parse_runs(
      "# GPUs,global batch,micro batch,hidden size,attention heads,# layers,sequence length,tensor "
      "parallelism,data parallelism,pipeline parallelism,iteration time (ms)\n"
      "4,16,2,1024,16,20,1024,1,4,1,158.717599\n"
      "8,4,2,1024,16,24,1024,4,1,2,128.248067\n",
      "x");
  ASSERT_EQ(runs.runs.size(), 2U);
  EXPECT_EQ(runs.runs[0].model.model.vocabulary, 50257);
  EXPECT_EQ(runs.runs[1].model.model.vocabulary, 4 * 12564);
}

TEST(Prediction, MegatronRunsAreWithinFivePercent) {
  EXPECT_LT(mean_error(published("Megatron-LM")), 5);
}

TEST(Prediction, KorthikantiRunsAreWithinFourPercentWithoutCalibration) {
  EXPECT_LT(mean_error(published("Korthikanti")), 4);
}

TEST(Prediction, KorthikantiRunsAreWithinThreePointFivePercentCalibratedOnOne) {
  const MeasuredRuns runs = published("Korthikanti");
  ASSERT_EQ(runs.runs.size(), 8U);
  EXPECT_LE(validate(runs.runs, {.share = 0.125, .draws = 8, .seed = 1}).all.mean, 3.5);
}

/// The rows of each source predicted by a fit to a tenth of them.
Validation sampled(std::string_view text, int draws) {
  return validate(parse_runs(text, "sampled").runs, {.share = 0.1, .draws = draws, .seed = 1});
}

TEST(Prediction, VTrainRunsAreWithinEightPointFivePercent) {
  const Validation result = sampled(kVTrainRuns, 5);
  EXPECT_EQ(result.all.runs, 59);
  EXPECT_LE(result.all.mean, 8.5);
  EXPECT_LE(result.all.median, 5.5);
}

TEST(Prediction, RanksVTrainLayoutsAsMeasured) {
  const Validation result = sampled(kVTrainRuns, 5);
  ASSERT_FALSE(result.regrets.empty());
  EXPECT_LE(result.mean_regret, 2.5);
  EXPECT_LE(result.worst_regret, 11);
}

TEST(Prediction, SampledRunsAreWithinEightPercent) {
  const Validation result = sampled(kSampledRuns, 3);
  EXPECT_EQ(result.all.runs, 42);
  EXPECT_LE(result.all.mean, 8);
  EXPECT_LE(result.all.median, 5);
}

TEST(Accounting, MatchesSourcesOfSampledRuns) {
  int compared = 0;
  for (const MeasuredRun& run : parse_runs(kSampledRuns, "sampled").runs) {
    if (const std::optional<Accounting> found = account(run)) {
      EXPECT_NEAR(found->difference(), 0,
                  found->compared == Accounting::Compared::Tflops ? 0.2 : 0.1)
          << run.describe();
      ++compared;
    }
  }
  EXPECT_EQ(compared, 30);
}

TEST(Accounting, MatchesSources) {
  for (const MeasuredRun& run : parse_runs(kPublishedRuns, "x").runs) {
    const std::optional<Accounting> found = account(run);
    if (run.published_mfu == 0) {
      continue;
    }
    ASSERT_TRUE(found);
    const bool megatron = run.source.starts_with("Megatron-LM");
    const double allowed = megatron ? 0.4 : run.source.starts_with("Korthikanti") ? 0.2 : 0.1;
    EXPECT_NEAR(found->difference(), 0, allowed) << run.describe();
  }
}

/// Runs that take 20 % longer than predicted, as slower matrix products would.
TEST(Calibration, FindsCauseOfSlowRuns) {
  MeasuredRuns runs = published("Korthikanti");
  Correction slow;
  slow.log[0] = -0.15;
  for (MeasuredRun& run : runs.runs) {
    run.seconds = predicted_cost(run, slow).seconds;
  }
  std::vector<const MeasuredRun*> all;
  for (const MeasuredRun& run : runs.runs) {
    all.push_back(&run);
  }
  const Correction found = fit(all, {.freedom = 0.3});
  double before = 0;
  double after = 0;
  for (const MeasuredRun* run : all) {
    before += std::abs(predicted_cost(*run, {}).seconds / run->seconds - 1);
    after += std::abs(predicted_cost(*run, found).seconds / run->seconds - 1);
  }
  EXPECT_LT(after, 0.3 * before);
}

/// Far slower than the given efficiency: many runs outweigh it.
TEST(Calibration, ManyRunsMayMoveFarFromGivenEfficiency) {
  const MeasuredRuns few = published("Korthikanti");
  std::vector<MeasuredRun> runs;
  Correction slow;
  slow.log = {-0.6, 0, 0, 0, 0, -0.8, 0, 0, 0};
  for (int copies = 1; copies <= 12; ++copies) {
    for (MeasuredRun run : few.runs) {
      run.work.batch *= copies;
      run.seconds = predicted_cost(run, slow).seconds;
      runs.push_back(run);
    }
  }
  std::vector<const MeasuredRun*> all;
  for (const MeasuredRun& run : runs) {
    all.push_back(&run);
  }
  const Correction found = fit(all, {});
  for (const MeasuredRun* run : all) {
    EXPECT_NEAR(predicted_cost(*run, found).seconds / run->seconds, 1, 0.02) << run->describe();
  }
  EXPECT_NEAR(found.log[0], slow.log[0], 0.05);
}

TEST(Calibration, WithoutRunsChangesNothing) {
  EXPECT_EQ(fit({}, {}).log, Correction{}.log);
}

TEST(Validation, IsReproducibleAndFindsRegret) {
  const MeasuredRuns runs = parse_runs(kPublishedRuns, "x");
  const ValidationOptions options{.share = 0.25, .draws = 5, .seed = 3};
  const Validation a = validate(runs.runs, options);
  const Validation b = validate(runs.runs, options);
  EXPECT_EQ(a.all.mean, b.all.mean);
  EXPECT_GT(a.all.mean, 0);
  ASSERT_EQ(a.regrets.size(), 4U);  // of Korthikanti et al., each with two kinds of recomputation
  EXPECT_EQ(a.worst_regret, 0);
}

}  // namespace
}  // namespace trireme
