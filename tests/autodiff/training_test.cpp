// Training steps as graphs against hand-written loops in double.
#include "trireme/training.h"

#include <cmath>
#include <functional>
#include <limits>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "autodiff/hand_mlp.h"
#include "trireme/error.h"
#include "trireme/op.h"

namespace trireme::testing {
namespace {

constexpr MlpSizes kSizes{};
constexpr double kRate = 0.05;
constexpr int kSteps = 25;
constexpr double kTolerance = 1e-12;

/// Runs one step, applies the updates, and returns an output.
class Stepper {
 public:
  Stepper(Graph graph, Leaves leaves) : graph_(std::move(graph)), leaves_(std::move(leaves)) {
    for (const ValueId id : graph_.with_origin(Origin::State)) {
      leaves_[graph_.value(id).name] = Dense(graph_.value(id).type.shape);
    }
    leaves_["learning_rate"] = scalar_of(kRate);
  }

  void step(int number) {
    leaves_["step"] = scalar_of(number);
    values_ = evaluate(graph_, leaves_);
    for (const Update& update : graph_.updates()) {
      leaves_[graph_.value(update.target).name] = at(update.value);
    }
  }
  double output(std::string_view name) { return at(graph_.output(name)).data.at(0); }
  Leaves& leaves() { return leaves_; }

 private:
  [[nodiscard]] const Dense& at(ValueId id) const {
    return values_[static_cast<std::size_t>(id.index)];
  }

  Graph graph_;
  Leaves leaves_;
  std::vector<Dense> values_;
};

/// One element of a parameter with its state, and an update rule.
struct Cell {
  double p = 0;
  double m = 0;
  double v = 0;
};
using Rule = std::function<void(Cell&, double gradient, int step)>;

/// The hand-written loop.
class Loop {
 public:
  explicit Loop(Rule rule) : rule_(std::move(rule)), leaves_(mlp_leaves(kSizes)) {}

  void step(int number) {
    const MlpGradients gradients = mlp_by_hand(kSizes, leaves_);
    loss_ = gradients.loss;
    double sum = 0;
    for (const auto* some : {&gradients.w1, &gradients.w2}) {
      for (const double g : *some) {
        sum += g * g;
      }
    }
    norm_ = std::sqrt(sum);
    move("w1", gradients.w1, number);
    move("w2", gradients.w2, number);
  }
  void clip(double limit) { limit_ = limit; }
  [[nodiscard]] double loss() const { return loss_; }
  [[nodiscard]] double norm() const { return norm_; }
  [[nodiscard]] const Leaves& leaves() const { return leaves_; }

 private:
  void move(const std::string& name, const std::vector<double>& gradient, int number) {
    std::vector<double>& data = leaves_[name].data;
    std::vector<Cell>& cells = cells_[name];
    cells.resize(data.size());
    for (std::size_t i = 0; i < data.size(); ++i) {
      cells[i].p = data[i];
      rule_(cells[i], gradient[i] * std::min(1.0, limit_ / norm_), number);
      data[i] = cells[i].p;
    }
  }

  Rule rule_;
  Leaves leaves_;
  std::map<std::string, std::vector<Cell>> cells_;
  double loss_ = 0;
  double norm_ = 0;
  double limit_ = std::numeric_limits<double>::infinity();
};

void expect_near(const Dense& found, const Dense& expected, const std::string& what) {
  ASSERT_EQ(found.shape, expected.shape);
  for (std::size_t i = 0; i < found.data.size(); ++i) {
    ASSERT_NEAR(found.data[i], expected.data[i], kTolerance) << what << " at " << i;
  }
}

void expect_same_course(const TrainingOptions& options, Loop loop) {
  Stepper stepper(make_training_graph(mlp_graph(kSizes, DType::F64), options), mlp_leaves(kSizes));
  stepper.leaves()["loss_scale"] = scalar_of(1024);
  loop.clip(options.clip_limit);
  double first = 0;
  for (int step = 1; step <= kSteps; ++step) {
    stepper.step(step);
    loop.step(step);
    first = step == 1 ? loop.loss() : first;
    ASSERT_NEAR(stepper.output("loss"), loop.loss(), kTolerance) << step;
    ASSERT_NEAR(stepper.output("grad_norm"), loop.norm(), kTolerance) << step;
    ASSERT_EQ(stepper.output("finite"), 1);
    for (const char* name : {"w1", "w2"}) {
      expect_near(stepper.leaves()[name], loop.leaves().at(name), name);
    }
  }
  EXPECT_LT(loop.loss(), first);
}

void adamw_by_hand(Cell& c, double g, int step) {
  c.p -= kRate * 0.01 * c.p;
  c.m = 0.9 * c.m + 0.1 * g;
  c.v = 0.999 * c.v + 0.001 * g * g;
  const double m = c.m / (1 - std::pow(0.9, step));
  const double v = c.v / (1 - std::pow(0.999, step));
  c.p -= kRate * m / (std::sqrt(v) + 1e-8);
}

TEST(Training, SgdMatchesHandWrittenLoop) {
  expect_same_course({.optimizer = Sgd{}}, Loop([](Cell& c, double g, int) { c.p -= kRate * g; }));
}

TEST(Training, MomentumMatchesHandWrittenLoop) {
  expect_same_course({.optimizer = Momentum{.momentum = 0.8, .decay = 0.1}},
                     Loop([](Cell& c, double g, int) {
                       c.m = 0.8 * c.m + (g + 0.1 * c.p);
                       c.p -= kRate * c.m;
                     }));
}

TEST(Training, NesterovMatchesHandWrittenLoop) {
  expect_same_course({.optimizer = Momentum{.momentum = 0.8, .nesterov = true}},
                     Loop([](Cell& c, double g, int) {
                       c.m = 0.8 * c.m + g;
                       c.p -= kRate * (g + 0.8 * c.m);
                     }));
}

TEST(Training, AdagradMatchesHandWrittenLoop) {
  expect_same_course({.optimizer = Adagrad{}}, Loop([](Cell& c, double g, int) {
                       c.v += g * g;
                       c.p -= kRate * g / (std::sqrt(c.v) + 1e-10);
                     }));
}

TEST(Training, AdamWMatchesHandWrittenLoop) {
  expect_same_course({.optimizer = AdamW{}}, Loop(adamw_by_hand));
}

TEST(Training, ClipsByGlobalGradientNorm) {
  expect_same_course({.optimizer = Sgd{}, .clip_limit = 0.3},
                     Loop([](Cell& c, double g, int) { c.p -= kRate * g; }));
}

TEST(Training, LossScaleDoesNotChangeResults) {
  expect_same_course({.optimizer = AdamW{}, .clip_limit = 0.3, .loss_scaling = LossScaling{}},
                     Loop(adamw_by_hand));
}

TEST(Training, SkipsUpdateWhenGradientsAreNotFinite) {
  for (const DType dtype : {DType::F32, DType::F64}) {
    Stepper stepper(make_training_graph(mlp_graph(kSizes, dtype), {.loss_scaling = LossScaling{}}),
                    mlp_leaves(kSizes));
    stepper.leaves()["loss_scale"] = scalar_of(1);
    stepper.step(1);
    const Leaves before = stepper.leaves();
    for (const double scale : {std::numeric_limits<double>::infinity(), std::nan(""), 0.0}) {
      stepper.leaves()["loss_scale"] = scalar_of(scale);
      stepper.step(2);
      EXPECT_EQ(stepper.output("finite"), 0);
      for (const char* name : {"w1", "w2", "m/w1", "m/w2", "v/w1", "v/w2"}) {
        EXPECT_EQ(stepper.leaves()[name].data, before.at(name).data) << name;
      }
    }
  }
}

/// The loss may overflow even if its gradient, here 1, does not.
TEST(Training, SkipsUpdateWhenLossIsNotFinite) {
  const Graph graph = make_training_graph(parse_graph(R"(graph g {
    input %x: f64[]
    parameter %w: f64[]
    %loss: f64[] = add(%w, %x)
    output loss = %loss
  })"),
                                          {.optimizer = Sgd{}});
  for (const double x : {std::numeric_limits<double>::infinity(), std::nan(""), 3.0}) {
    Stepper stepper(graph, {{"x", scalar_of(x)}, {"w", scalar_of(2)}});
    stepper.step(1);
    EXPECT_EQ(stepper.output("finite"), std::isfinite(x) ? 1 : 0) << x;
    EXPECT_EQ(stepper.leaves()["w"].data[0] == 2.0, !std::isfinite(x)) << x;
  }
}

constexpr std::string_view kForward = R"(graph g {
  input %x: bf16[4,2]
  parameter %w: bf16[2,3]
  parameter %b: bf16[3]
  parameter %unused: bf16[7]
  %h: bf16[4,3] = einsum(%x, %w) equation="bi,ij->bj" @block(0)
  %y: bf16[4,3] = add(%h, %b) @block(1)
  %loss: bf16[] = reduce_sum(%y) axes=[0,1]
  output loss = %loss
}
)";

TEST(Training, PrintsAsText) {
  const Graph graph = make_training_graph(parse_graph(kForward), {.clip_limit = 1});
  require_valid(graph);
  const std::string text = to_text(graph);
  EXPECT_EQ(parse_graph(text), graph);
  EXPECT_EQ(text.substr(text.find("  %sum_squares")),
            R"(  %sum_squares: f32[] = sum_squares(%d_w) @update @block(0)
  %sum_squares.1: f32[] = sum_squares(%d_b) @update @block(1)
  %subtract: bf16[] = subtract(%loss, %loss) @update
  %sum_squares.2: f32[] = sum_squares(%subtract) @update
  %clip_scale: f32[], %clip_scale.norm: f32[], %clip_scale.finite: f32[] = clip_scale(%sum_squares, %sum_squares.1, %sum_squares.2) @update
  %new/master/w: f32[2,3], %new/m/w: f32[2,3], %new/v/w: f32[2,3] = adamw(%master/w, %d_w, %m/w, %v/w, %learning_rate, %step, %clip_scale) @update @block(0)
  %new/w: bf16[2,3] = cast(%new/master/w) to="bf16" @update @block(0)
  %new/master/b: f32[3], %new/m/b: f32[3], %new/v/b: f32[3] = adamw(%master/b, %d_b, %m/b, %v/b, %learning_rate, %step, %clip_scale) decay=0.0 @update @block(1)
  %new/b: bf16[3] = cast(%new/master/b) to="bf16" @update @block(1)
  update %master/w <- %new/master/w
  update %m/w <- %new/m/w
  update %v/w <- %new/v/w
  update %w <- %new/w
  update %master/b <- %new/master/b
  update %m/b <- %new/m/b
  update %v/b <- %new/v/b
  update %b <- %new/b
  output loss = %loss
  output grad_norm = %clip_scale.norm
  output finite = %clip_scale.finite
}
)");
}

TEST(Training, F32ParametersHaveNoMasterCopy) {
  for (const DType dtype : {DType::F32, DType::F64}) {
    const Graph graph = make_training_graph(mlp_graph(kSizes, dtype));
    for (const ValueId id : graph.with_origin(Origin::State)) {
      EXPECT_FALSE(graph.value(id).name.starts_with("master/")) << graph.value(id).name;
    }
  }
}

/// Steps of 1/4096 are lost in bf16, which rounds 1 - 1/4096 to 1; 64 of them add up to 1/64 in the master copy.
TEST(Training, MasterCopyKeepsTinyUpdates) {
  const std::string forward = R"(graph g {
    parameter %w: bf16[]
    %wide: f32[] = cast(%w) to="f32"
    output loss = %wide
  })";
  for (const bool master : {false, true}) {
    Leaves first{{"w", scalar_of(1)}};
    Stepper stepper(
        make_training_graph(parse_graph(forward), {.optimizer = Sgd{}, .master_weights = master}),
        first);
    stepper.leaves()["learning_rate"] = scalar_of(1.0 / 4096);
    if (master) {
      stepper.leaves()["master/w"] = scalar_of(1);
    }
    for (int step = 1; step <= 64; ++step) {
      stepper.step(step);
    }
    EXPECT_EQ(stepper.leaves()["w"].data[0], master ? 1 - 1.0 / 64 : 1);
  }
}

TEST(Training, SupportsDecayExemptionByName) {
  const Graph graph =
      make_training_graph(parse_graph(kForward), {.decay_from_rank = 0, .no_decay = {"w"}});
  for (const Node& node : graph.nodes()) {
    if (node.op->name == "adamw") {
      const bool is_w = graph.value(node.inputs[0]).name == master_of("w");
      EXPECT_EQ(std::get<double>(node.attributes.at("decay")), is_w ? 0.0 : 0.01);
    }
  }
}

TEST(Training, AcceptsInputsOfForwardGraph) {
  GraphBuilder builder(parse_graph(kForward));
  (void)builder.input("step", {DType::I64, {}});
  const Graph graph = make_training_graph(builder.finish());
  EXPECT_EQ(graph.value(graph.find("step")).origin, Origin::Input);
  EXPECT_THROW((void)graph.find("step.1"), Error) << "there are two";
  require_valid(graph);
}

TEST(Training, RejectsUntrainableGraphs) {
  EXPECT_THROW((void)make_training_graph(parse_graph("graph g {\n}")), Error);
  EXPECT_THROW((void)make_training_graph(parse_graph(kForward), {.loss_scaling = LossScaling{}}),
               Error);
  EXPECT_THROW(
      (void)make_training_graph(parse_graph("graph g {\n input %x: f32[]\n output loss = %x\n}")),
      Error);
}

}  // namespace
}  // namespace trireme::testing
