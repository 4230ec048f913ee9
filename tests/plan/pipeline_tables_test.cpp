// The tables of the catalogue: their bubbles and memory against the published formulas. D is the number of ranks, N of
// micro-batches, K of stages per rank; F, B, W are the times of forward and of the two halves of the backward, for a
// rank's share of the model.
#include <algorithm>
#include <numeric>

#include <gtest/gtest.h>

#include "expect_error.h"
#include "plan/every_pipeline.h"

namespace trireme {
namespace {

constexpr PipelineDurations kEqual{.forward = 1, .backward_input = 0.5, .backward_weight = 0.5};
constexpr PipelineDurations kThirds{.forward = 1, .backward_input = 1, .backward_weight = 1};
constexpr double kExact = 1e-12;

PipelineTiming timed(const PipelineTable& table, const PipelineDurations& of_a_rank) {
  return time_pipeline(table, stage_durations(table, of_a_rank));
}

PipelineTiming timed(std::string_view schedule, const PipelineOptions& options,
                     const PipelineDurations& of_a_rank = kEqual) {
  return timed(make_pipeline(schedule, options), of_a_rank);
}

int most_activations(std::string_view schedule, const PipelineOptions& options) {
  return std::ranges::max(activation_peaks(make_pipeline(schedule, options)));
}

constexpr PipelineOptions kFourBySix{.ranks = 4, .microbatches = 6};

// Golden numbers of all schedules, for D = 4, N = 6 and t_f = t_b.
TEST(PipelineGolden, FourRanksSixMicrobatches) {
  EXPECT_NEAR(timed("naive", kFourBySix).bubble, 0.75, kExact);
  const PipelineTiming gpipe = timed("gpipe", kFourBySix);
  EXPECT_NEAR(gpipe.bubble, 3.0 / 9, kExact);
  EXPECT_NEAR(gpipe.makespan, 18, kExact);
  const PipelineTiming in_turn = timed("1f1b", kFourBySix);
  EXPECT_NEAR(in_turn.makespan, 18, kExact);
  EXPECT_EQ(most_activations("gpipe", kFourBySix), 6);
  EXPECT_EQ(activation_peaks(make_pipeline("1f1b", kFourBySix)), (std::vector<int>{4, 3, 2, 1}));
  EXPECT_NEAR(timed("interleaved", kFourBySix).bubble, 0.2, kExact);
  EXPECT_NEAR(timed("chimera", kFourBySix).bubble, 2.0 / 14, kExact);
}

// Naive takes as long as one device: D times a rank's share for each micro-batch, and the messages.
TEST(PipelineFormula, NaiveTakesSingleDeviceTimePlusMessages) {
  PipelineDurations durations = kEqual;
  durations.message = 0.25;
  for (int d = 1; d <= 8; ++d) {
    for (int n = 1; n <= 16; ++n) {
      const PipelineOptions options{.ranks = d, .microbatches = n};
      EXPECT_NEAR(timed("naive", options).bubble, 1 - 1.0 / d, kExact);
      EXPECT_NEAR(timed("naive", options, durations).makespan, n * (2 * d + (d - 1) * 0.5), 1e-9);
    }
  }
}

// GPipe and 1F1B: bubble (D-1)/(D-1+N) whatever the duration of the backward; activations N, or D-i on rank i.
TEST(PipelineFormula, GpipeAndOneForwardOneBackward) {
  for (const PipelineDurations& durations : {kEqual, kThirds}) {
    for (int d = 1; d <= 8; ++d) {
      for (int n = 1; n <= 16; ++n) {
        const PipelineOptions options{.ranks = d, .microbatches = n};
        const double bubble = (d - 1.0) / (d - 1 + n);
        EXPECT_NEAR(timed("gpipe", options, durations).bubble, bubble, kExact);
        EXPECT_NEAR(timed("1f1b", options, durations).bubble, bubble, kExact);
        EXPECT_EQ(most_activations("gpipe", options), n);
        const std::vector<int> peaks = activation_peaks(make_pipeline("1f1b", options));
        for (int rank = 0; rank < d; ++rank) {
          EXPECT_EQ(peaks[static_cast<std::size_t>(rank)], std::min(n, d - rank));
        }
      }
    }
  }
}

// Interleaved: (D-1)/(D-1+KN) for every N >= D, even if D does not divide N.
TEST(PipelineFormula, Interleaved) {
  for (const PipelineDurations& durations : {kEqual, kThirds}) {
    for (int d = 1; d <= 8; ++d) {
      for (int n = d; n <= 24; ++n) {
        for (int k = 1; k <= 4; ++k) {
          const PipelineOptions options{.ranks = d, .microbatches = n, .chunks = k};
          EXPECT_NEAR(timed("interleaved", options, durations).bubble, (d - 1.0) / (d - 1 + k * n),
                      1e-9)
              << d << ' ' << n << ' ' << k;
        }
      }
    }
  }
}

// Chimera, t_f = t_b: (D-2)/(D-2+2N) for every even N >= D, with at most D activations.
TEST(PipelineFormula, Chimera) {
  for (int d = 2; d <= 16; d += 2) {
    for (int n = d; n <= 4 * d; n += 2) {
      const PipelineOptions options{.ranks = d, .microbatches = n};
      EXPECT_NEAR(timed("chimera", options).bubble, (d - 2.0) / (d - 2 + 2 * n), 1e-9)
          << d << ' ' << n;
      EXPECT_LE(most_activations("chimera", options), d);
    }
  }
}

// The zero-bubble paper, N >= D and W <= F, B: the rank with the longest span idles (D-1)(F+B+W) in 1F1B and
// (D-1)(F+B-W) in ZB-H1, which keeps D activations as 1F1B does.
TEST(PipelineFormula, ZeroBubbleH1) {
  for (const auto& [f, b, w] :
       {std::array{1.0, 1.0, 1.0}, {2.0, 2.0, 1.0}, {1.0, 2.0, 1.0}, {3.0, 2.0, 1.0}}) {
    const PipelineDurations durations{f, b, w};
    for (int d = 1; d <= 8; ++d) {
      for (int n = d; n <= 20; ++n) {
        const PipelineOptions options{.ranks = d, .microbatches = n};
        const double work = n * (f + b + w);
        EXPECT_NEAR(timed("1f1b", options, durations).makespan - work, (d - 1) * (f + b + w), 1e-9);
        EXPECT_NEAR(timed("zb-h1", options, durations).makespan - work, (d - 1) * (f + b - w), 1e-9)
            << d << ' ' << n;
        EXPECT_LE(most_activations("zb-h1", options), d);
      }
    }
  }
}

// The paper's ZB-V, F = B = W: no rank idles between its first task and its last once N >= 2D-1,
// and the activations are those of 1F1B's first rank: 2D of half a rank's layers. Our bubble also
// counts the time before a rank's first task and after its last: the start of the last rank, D-1
// forwards of half a rank's layers.
TEST(PipelineFormula, ZeroBubbleV) {
  for (int d = 1; d <= 8; ++d) {
    for (int n = 2 * d - 1; n <= 24; ++n) {
      const PipelineOptions options{.ranks = d, .microbatches = n};
      const PipelineTiming timing = timed("zb-v", options, kThirds);
      EXPECT_NEAR(timing.rank_bubble, 0, 1e-9) << d << ' ' << n;
      EXPECT_NEAR(timing.makespan, 3 * n + 0.5 * (d - 1), 1e-9) << d << ' ' << n;
      EXPECT_LE(most_activations("zb-v", options), 2 * d);
    }
  }
}

// PipeDream: no bubble once the pipeline is full, whatever the durations; at most D-i versions on stage i, and all of
// them once there are enough micro-batches.
TEST(PipelineFormula, Pipedream) {
  for (int d = 1; d <= 8; ++d) {
    for (int n = 1; n <= 32; ++n) {
      const PipelineTable table = make_pipeline("pipedream", {.ranks = d, .microbatches = n});
      for (const PipelineDurations& durations : {kEqual, kThirds}) {
        const PipelineTiming timing = timed(table, durations);
        EXPECT_TRUE(timing.steady_bubble.has_value() || n <= 2 * d) << d << ' ' << n;
        EXPECT_NEAR(timing.bubble, (d - 1.0) / (d - 1 + n),
                    1e-9);  // both ends only: 0 in the limit
        EXPECT_NEAR(timing.steady_bubble.value_or(0), 0, 1e-9) << d << ' ' << n;
      }
      const std::vector<int> live = live_versions(table).front();
      for (int stage = 0; stage < d; ++stage) {
        const int most = d - stage;
        EXPECT_LE(live[static_cast<std::size_t>(stage)], most);
        EXPECT_TRUE(n < 2 * d || live[static_cast<std::size_t>(stage)] == most) << d << ' ' << n;
      }
    }
  }
}

// A Forward reads the result of the Updates before it: after the first D-i micro-batches, those up to the one D-i
// before it.
TEST(PipelineVersions, PipedreamReadsNewest) {
  const std::vector<std::vector<int>> versions =
      weight_versions(make_pipeline("pipedream", {.ranks = 3, .microbatches = 6}));
  EXPECT_EQ(versions[0], (std::vector<int>{0, 0, 0, 1, 2, 3}));
  EXPECT_EQ(versions[1], (std::vector<int>{0, 0, 1, 2, 3, 4}));
  EXPECT_EQ(versions[2], (std::vector<int>{0, 1, 2, 3, 4, 5}));
}

// 2BW: every stage reads the same version, one behind the newest; two are live.
TEST(PipelineVersions, TwoBufferedReadsPrevious) {
  for (int d = 1; d <= 8; ++d) {
    const PipelineTable table = make_pipeline("pipedream-2bw", {.ranks = d, .microbatches = 4 * d});
    for (const std::vector<int>& stage : weight_versions(table)) {
      for (int m = 0; m < 4 * d; ++m) {
        EXPECT_EQ(stage[static_cast<std::size_t>(m)], std::max(0, m / d - 1));
      }
    }
    EXPECT_EQ(live_versions(table).front(), std::vector<int>(static_cast<std::size_t>(d), 2));
  }
}

// Synchronous tables have one version, and every micro-batch reads the first.
TEST(PipelineVersions, OtherSchedulesKeepOneVersion) {
  for_every_pipeline(4, 8, [](const PipelineOptions&, const PipelineTable& table) {
    if (table.weights != WeightVersions::Single) {
      return;
    }
    for (const std::vector<int>& copy : live_versions(table)) {
      EXPECT_EQ(std::ranges::max(copy), 1);
    }
    for (const std::vector<int>& stage : weight_versions(table)) {
      EXPECT_EQ(std::ranges::max(stage), 0);
    }
  });
}

// Every table runs to completion; the total work of all ranks is the model's; nothing starts before its dependencies,
// and a rank runs one task at a time.
TEST(PipelineTime, EveryTableRuns) {
  for_every_pipeline(8, 16, [](const PipelineOptions& options, const PipelineTable& table) {
    const PipelineTiming timing = timed(table, kThirds);
    EXPECT_NEAR(timing.work, 3.0 * options.ranks * options.microbatches, 1e-9);
    EXPECT_GE(timing.makespan, 3.0 * options.microbatches - 1e-9);
    EXPECT_GE(timing.bubble, timing.rank_bubble - 1e-9);
    for (const std::vector<PipelineTiming::Span>& spans : timing.tasks) {
      for (std::size_t i = 1; i < spans.size(); ++i) {
        EXPECT_GE(spans[i].start, spans[i - 1].end);
      }
    }
  });
}

TEST(PipelineTime, CountsUpdateTime) {
  PipelineDurations durations = kEqual;
  durations.update = 3;
  const PipelineTiming timing = timed("gpipe", kFourBySix, durations);
  EXPECT_NEAR(timing.makespan, 21, kExact);
  EXPECT_NEAR(timing.bubble, 1 - (4 * 15.0) / (4 * 21), kExact);
}

// A message counts once for each hop forward and once for each hop back.
TEST(PipelineTime, CountsMessages) {
  PipelineDurations durations = kEqual;
  durations.message = 0.5;
  EXPECT_NEAR(timed("gpipe", {.ranks = 4, .microbatches = 1}, durations).makespan, 8 + 6 * 0.5,
              kExact);
}

// Each micro-batch crosses D-1 boundaries in each direction; interleaved KD-1; chimera as one model; zb-v turns around
// on the last rank without a message.
TEST(PipelineTime, CountsNumberOfMessages) {
  const auto messages = [](std::string_view name) {
    return count_messages(make_pipeline(name, kFourBySix));
  };
  EXPECT_EQ(messages("gpipe"), 6 * 2 * 3);
  EXPECT_EQ(messages("interleaved"), 6 * 2 * 7);
  EXPECT_EQ(messages("chimera"), 6 * 2 * 3);
  EXPECT_EQ(messages("zb-v"), 6 * 2 * 6);
}

TEST(PipelineTime, AcceptsDurationsPerStage) {
  const PipelineTable table = make_pipeline("gpipe", {.ranks = 2, .microbatches = 3});
  const std::vector<PipelineDurations> by_stage{{1, 1, 0}, {5, 5, 0}};
  EXPECT_NEAR(time_pipeline(table, by_stage).makespan, 1 + 3 * 5 + 3 * 5 + 1, kExact);
  expect_error(ErrorKind::Usage, "durations of 1 stages; the table has 2",
               [&] { (void)time_pipeline(table, std::span(by_stage).first(1)); });
  expect_error(ErrorKind::Usage, "-1", [&] { (void)time_pipeline(table, {.forward = -1}); });
}

TEST(PipelineCatalogue, RejectsInvalidOptions) {
  const auto refuse = [](std::string_view words, std::string_view name,
                         const PipelineOptions& options) {
    expect_error(ErrorKind::Usage, words, [&] { (void)make_pipeline(name, options); });
  };
  refuse("did you mean gpipe", "gpip", {});
  refuse("use naive, gpipe", "quite-another-thing", {});
  refuse("0 stages; there can be 1 to 4096", "gpipe", {.ranks = 0});
  refuse("0 micro-batches", "gpipe", {.microbatches = 0});
  refuse("0 chunks; there can be 1 to 64", "interleaved", {.chunks = 0});
  refuse("the number of stages of chimera must be a multiple of 2, such as 4; not 3", "chimera",
         {.ranks = 3});
  refuse("more than a table holds", "gpipe", {.ranks = 4096, .microbatches = 1 << 20});
}

/// The micro-batches of a rank's tasks of this kind, in order.
std::vector<int> order_of(const PipelineTable& table, int rank, PipelineWork work) {
  std::vector<int> order;
  for (const PipelineTask& task : table.tasks[static_cast<std::size_t>(rank)]) {
    if (task.work == work) {
      order.push_back(task.microbatch);
    }
  }
  return order;
}

// A slice sees the keys of those before it, so it receives gradients from those after it.
TEST(PipelineTables, TeraPipeTakesSlicesForwardAndBackInReverse) {
  const PipelineTable table = make_pipeline("terapipe", {.ranks = 4, .microbatches = 6});
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(order_of(table, rank, PipelineWork::Forward), (std::vector<int>{0, 1, 2, 3, 4, 5}));
    EXPECT_EQ(order_of(table, rank, PipelineWork::Backward), (std::vector<int>{5, 4, 3, 2, 1, 0}));
    EXPECT_EQ(order_of(table, rank, PipelineWork::Update), (std::vector<int>{5}));
  }
  EXPECT_DOUBLE_EQ(time_pipeline(table, PipelineDurations{}).bubble, 3.0 / 9);
}

TEST(PipelineTables, AmpnetUpdatesEachStageIndependently) {
  const PipelineTable table = make_pipeline("ampnet", {.ranks = 4, .microbatches = 32});
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(order_of(table, rank, PipelineWork::Update).size(), 16U);
  }
  EXPECT_NEAR(time_pipeline(table, PipelineDurations{}).steady_bubble.value(), 0, 1e-9);
  const std::vector<int> versions = live_versions(table).front();
  EXPECT_EQ(versions.back(), 1);
  EXPECT_LE(versions.front(), 3);  // pipedream, which updates twice as often, has 4
}

}  // namespace
}  // namespace trireme
