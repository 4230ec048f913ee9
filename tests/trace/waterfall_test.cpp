#include "trireme/waterfall.h"

#include <random>

#include <gtest/gtest.h>

namespace trireme {
namespace {

double sum_of(const Waterfall& w) {
  return w.exposed_communication() + w.gaps + w.memory_bound + w.products + w.attention +
         w.recomputation() + w.mfu;
}

/// The trace of one rank, kernel by kernel, without gaps.
class RankTrace {
 public:
  explicit RankTrace(Trace& trace, const char* rank = "rank 0")
      : trace_(trace),
        compute_(trace.add_track(rank, "compute")),
        waiting_(trace.add_track(rank, "waiting")),
        exchanges_(trace.add_track(rank, "exchanges 0")) {}

  RankTrace& kernel(const char* op, double seconds, double products = 0,
                    const char* phase = "forward") {
    trace_.add_span({compute_, op, phase, {now_}, {seconds}, {{"products", products}}});
    now_ += seconds;
    return *this;
  }
  RankTrace& wait(const char* op, double seconds) {
    trace_.add_span({waiting_, op, "backward", {now_}, {seconds}, {}});
    now_ += seconds;
    return *this;
  }
  /// In flight while kernels run.
  RankTrace& overlapped(const char* op, double start, double seconds) {
    trace_.add_span({exchanges_, op, "backward", {start}, {seconds}, {}});
    return *this;
  }
  RankTrace& gap(double seconds) {
    now_ += seconds;
    return *this;
  }

 private:
  Trace& trace_;
  TrackId compute_;
  TrackId waiting_;
  TrackId exchanges_;
  double now_ = 0;
};

TEST(Waterfall, BreaksStepIntoParts) {
  Trace trace;
  RankTrace(trace)
      .kernel("einsum", 0.25, 300)
      .kernel("attention", 0.125, 100)
      .kernel("layer_norm", 0.125)
      .kernel("layer_norm", 0.0625, 0, "recompute")
      .wait("all_reduce", 0.125)
      .wait("receive", 0.0625)
      .gap(0.25);
  const auto w = waterfall_of(trace, {.step = 3, .step_time = {1}, .mfu = 0.125, .hfu = 0.25});
  ASSERT_TRUE(w);
  EXPECT_EQ(w->step, 3);
  EXPECT_EQ(w->ranks, 1);
  EXPECT_EQ(w->products, 0.25 - 0.25 * 0.75) << "at peak, three quarters of HFU";
  EXPECT_EQ(w->attention, 0.125 - 0.25 * 0.25);
  EXPECT_EQ(w->memory_bound, 0.125);
  EXPECT_EQ(w->collectives, 0.125);
  EXPECT_EQ(w->messages, 0.0625);
  EXPECT_EQ(w->gaps, 0.25);
  EXPECT_EQ(w->recomputation(), 0.0625 + 0.125);
  EXPECT_EQ(sum_of(*w), 1);
}

TEST(Waterfall, CountsOnlyExposedCommunication) {
  Trace exposed;
  RankTrace(exposed)
      .kernel("einsum", 0.5, 1)
      .wait("all_reduce", 0.25)
      .overlapped("all_reduce", 0.5, 0.25);
  Trace hidden;
  RankTrace(hidden).kernel("einsum", 0.5, 1).overlapped("all_reduce", 0.25, 0.25);
  EXPECT_EQ(waterfall_of(exposed, {.step_time = {1}})->exposed_communication(), 0.25);
  EXPECT_EQ(waterfall_of(hidden, {.step_time = {1}})->exposed_communication(), 0);
}

TEST(Waterfall, AveragesOverRanks) {
  Trace trace;
  RankTrace(trace, "rank 0").kernel("einsum", 0.75, 1).gap(0.25);
  RankTrace(trace, "rank 1").wait("receive", 0.5).kernel("einsum", 0.5, 1);
  const auto w = waterfall_of(trace, {.step_time = {1}, .mfu = 0.5, .hfu = 0.5});
  EXPECT_EQ(w->ranks, 2);
  EXPECT_EQ(w->messages, 0.25);
  EXPECT_EQ(w->gaps, 0.125);
  EXPECT_EQ(w->products, 0.125);
}

TEST(Waterfall, PartsSumToStepForAnyTrace) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> seconds(0, 0.1);
  for (int round = 0; round < 200; ++round) {
    Trace trace;
    for (const char* name : {"rank 0", "rank 1", "rank 2"}) {
      RankTrace rank(trace, name);
      for (int i = 0; i < 12; ++i) {
        rank.kernel("einsum", seconds(random), 1)
            .kernel("attention_backward", seconds(random), i % 2)
            .kernel("add", seconds(random), 0, i % 3 == 0 ? "recompute" : "backward")
            .wait(i % 2 == 0 ? "send" : "all_gather", seconds(random))
            .gap(seconds(random));
      }
    }
    const double hfu = 5 * seconds(random);
    const auto w = waterfall_of(trace, {.step_time = {3}, .mfu = hfu * 0.8, .hfu = hfu});
    EXPECT_NEAR(sum_of(*w), 1, 1e-12);
    EXPECT_GE(w->gaps, 0);
  }
}

TEST(Waterfall, RequiresKernelClassification) {
  Trace trace;
  trace.add_span({trace.add_track("rank 0", "compute"), "einsum", "forward", {0}, {1}, {}});
  EXPECT_FALSE(waterfall_of(trace, {.step_time = {1}}));
}

}  // namespace
}  // namespace trireme
