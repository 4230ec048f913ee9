#include "train/step/learning_rate.h"

#include <gtest/gtest.h>

#include "expect_error.h"

namespace trireme::train {
namespace {

TEST(LearningRate, IsConstantAfterWarmup) {
  const LearningRate rate = parse_learning_rate("constant:0.4,warmup=4");
  EXPECT_DOUBLE_EQ(rate.at(0), 0.1);
  EXPECT_DOUBLE_EQ(rate.at(3), 0.4);
  EXPECT_DOUBLE_EQ(rate.at(4), 0.4);
  EXPECT_DOUBLE_EQ(rate.at(1'000'000), 0.4);
}

TEST(LearningRate, CosineDecay) {
  const LearningRate rate = parse_learning_rate("cosine:1,warmup=10,steps=110,least=0.2");
  EXPECT_DOUBLE_EQ(rate.at(9), 1);
  EXPECT_DOUBLE_EQ(rate.at(10), 1);
  EXPECT_DOUBLE_EQ(rate.at(60), 0.6);
  EXPECT_NEAR(rate.at(35), 0.2 + 0.8 * 0.85355339059327373, 1e-12);
  EXPECT_DOUBLE_EQ(rate.at(110), 0.2);
  EXPECT_DOUBLE_EQ(rate.at(500), 0.2);
}

TEST(LearningRate, LinearDecay) {
  const LearningRate rate = parse_learning_rate("linear:1,steps=100");
  EXPECT_DOUBLE_EQ(rate.at(0), 1);
  EXPECT_DOUBLE_EQ(rate.at(25), 0.75);
  EXPECT_DOUBLE_EQ(rate.at(100), 0);
}

TEST(LearningRate, WsdHoldsThenDecays) {
  const LearningRate rate = parse_learning_rate("wsd:1,warmup=10,steps=100,decay=20,least=0.5");
  EXPECT_DOUBLE_EQ(rate.at(4), 0.5);
  EXPECT_DOUBLE_EQ(rate.at(79), 1);
  EXPECT_DOUBLE_EQ(rate.at(80), 1);
  EXPECT_DOUBLE_EQ(rate.at(90), 0.75);
  EXPECT_DOUBLE_EQ(rate.at(100), 0.5);
}

TEST(LearningRate, NeverRisesAfterWarmupOrLeavesRange) {
  for (const char* text :
       {"cosine:1e-3,warmup=7,steps=50,least=1e-5", "linear:1e-3,warmup=50,steps=50",
        "wsd:1e-3,warmup=7,steps=50,decay=43", "constant:1e-3"}) {
    const LearningRate rate = parse_learning_rate(text);
    for (std::int64_t step = 0; step < 60; ++step) {
      EXPECT_GE(rate.at(step), step < rate.warmup ? 0 : rate.least) << text << " " << step;
      EXPECT_LE(rate.at(step), rate.peak) << text << " " << step;
      EXPECT_TRUE(step < rate.warmup || rate.at(step + 1) <= rate.at(step)) << text << " " << step;
    }
  }
}

TEST(LearningRate, TextRoundTrips) {
  for (const char* text : {"constant:0.01", "cosine:0.001,warmup=100,steps=2000,least=0.0001",
                           "linear:3e-05,steps=10", "wsd:0.0003,warmup=5,steps=1000,decay=200"}) {
    EXPECT_EQ(to_text(parse_learning_rate(text)), text);
  }
  EXPECT_EQ(parse_learning_rate(" cosine : 1e-3 , steps=5 , warmup=2 "),
            (LearningRate{.shape = Decay::Cosine, .peak = 1e-3, .warmup = 2, .steps = 5}));
}

TEST(LearningRate, ReportsParseErrors) {
  const auto refuses = [](const char* text, const char* words) {
    expect_error(ErrorKind::Usage, words, [&] { (void)parse_learning_rate(text); });
  };
  refuses("", "unknown schedule ''");
  refuses("cos:1", "unknown schedule 'cos'; write a number, or constant, linear, cosine or wsd");
  refuses("constant", "has no peak");
  refuses("constant:fast", "the peak is 'fast'; it must be a number of 0 or more");
  refuses("constant:-1", "the peak is '-1'");
  refuses("constant:nan", "the peak is 'nan'");
  refuses("constant:1,steps=5", "unknown setting of constant 'steps'; use warmup");
  refuses("cosine:1,warm=3", "unknown setting of cosine 'warm'; did you mean warmup?");
  refuses("linear:1,decay=3", "unknown setting of linear 'decay'; use warmup, steps or least");
  refuses("cosine:1", "needs the length of the run");
  refuses("cosine:1,steps=5,steps=6", "'steps' is given twice");
  refuses("cosine:1,steps=1.5", "steps is '1.5'; it must be an integer of 0 or more");
  refuses("cosine:1,steps", "steps is ''");
  refuses("cosine:1,steps=5,warmup=6", "a run of 5 steps is shorter than its warmup of 6");
  refuses("wsd:1,steps=5", "wsd needs the length of its decay");
  refuses("wsd:1,steps=5,warmup=3,decay=3",
          "a run of 5 steps is shorter than its warmup of 3 and decay of 3");
  refuses("cosine:1,steps=9223372036854775807,warmup=9223372036854775807,least=2",
          "the least rate, 2, is above the peak, 1");
}

TEST(LearningRate, NumberSetsPeakOfDefaultSchedule) {
  const LearningRate otherwise{
      .shape = Decay::Cosine, .peak = 2e-3, .warmup = 5, .steps = 50, .decay = 0, .least = 2e-4};
  const LearningRate rate = parse_learning_rate("3e-4", otherwise);
  EXPECT_EQ(rate.shape, Decay::Cosine);
  EXPECT_EQ(rate.warmup, 5);
  EXPECT_EQ(rate.steps, 50);
  EXPECT_DOUBLE_EQ(rate.peak, 3e-4);
  EXPECT_DOUBLE_EQ(rate.least, 3e-5);
}

TEST(LearningRate, UsesRunLength) {
  const LearningRate otherwise{.steps = 70};
  EXPECT_EQ(parse_learning_rate("linear:1e-3,warmup=7", otherwise).steps, 70);
  EXPECT_EQ(parse_learning_rate("linear:1e-3,steps=9", otherwise).steps, 9);
}

}  // namespace
}  // namespace trireme::train
