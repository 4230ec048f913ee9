// Pipelines that update the weights several times in a step, against a simulation on one device that computes each
// micro-batch with the weight versions given by the table and applies the updates by hand.
#include <cmath>
#include <map>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "expect_error.h"
#include "on_ranks.h"
#include "plan_case.h"
#include "tiny_model.h"
#include "trireme/autodiff.h"
#include "trireme/model_dims.h"
#include "trireme/model_kinds.h"
#include "trireme/training.h"

namespace trireme {
namespace {

constexpr int kSimulatedSteps = 3;
constexpr std::int64_t kTinyLength = 6;
constexpr double kNever = std::numeric_limits<double>::infinity();

/// A plan on a language model, and initial numbers.
struct Trial {
  Case plan{};
  std::int64_t sequences = 8;
  double clip = kNever;
};

Numbers first_values(const Model& model) {
  std::mt19937_64 random(5);
  std::normal_distribution<double> normal(0, 0.3);
  Numbers values;
  for (const ModelParameter& parameter : model.parameters) {
    std::vector<double>& numbers = values[parameter.name];
    numbers.resize(static_cast<std::size_t>(parameter.type.shape.element_count()));
    std::ranges::generate(numbers, [&] { return normal(random); });
  }
  return values;
}

Batches batches_of(std::int64_t sequences) {
  std::mt19937_64 random(6);
  std::uniform_int_distribution<int> token(0, 12);
  Batches batches;
  for (int step = 0; step < kSimulatedSteps; ++step) {
    Numbers batch{{"step", {step + 1.0}}, {"learning_rate", {kRate}}};
    for (const char* name : {"tokens", "targets"}) {
      batch[name].resize(static_cast<std::size_t>(sequences * kTinyLength));
      std::ranges::generate(batch[name], [&] { return token(random); });
    }
    batches.push_back(std::move(batch));
  }
  return batches;
}

// The simulation.

/// The loss and the gradients of this many sequences.
Graph gradient_graph(std::int64_t sequences) {
  const Model model = make_model(tiny_model(), {.sequences = sequences, .length = kTinyLength});
  std::vector<ValueId> parameters;
  for (const ModelParameter& parameter : model.parameters) {
    parameters.push_back(model.graph.find(parameter.name));
  }
  Gradients gradients = add_gradients(model.graph, model.graph.output("loss"), parameters);
  GraphBuilder builder(std::move(gradients.graph));
  for (std::size_t k = 0; k < parameters.size(); ++k) {
    builder.output("d/" + model.parameters[k].name, gradients.values[k]);
  }
  return builder.finish();
}

/// One parameter, with the optimizer's state and the versions of this step.
struct Weight {
  int stage = 0;
  bool decays = false;
  std::vector<std::vector<double>> versions{};
  std::vector<double> m{};
  std::vector<double> v{};
};

class Simulation {
 public:
  Simulation(const Trial& trial, const PipelineTable& table) : trial_(trial), table_(table) {
    // Which micro-batches an update includes, and the versions that are read.
    versions_ = weight_versions(table);
    for (const PipelineTask& task : table.tasks.front()) {
      if (task.work == PipelineWork::Update) {
        ends_.push_back(task.microbatch);
      }
    }
  }

  void add(const std::string& name, int stage, bool decays, const std::vector<double>& first) {
    weights_[name] = {stage,
                      decays,
                      {first},
                      std::vector<double>(first.size()),
                      std::vector<double>(first.size())};
  }

  double run_step(const Numbers& batch, int step) {
    double loss = 0;
    std::int64_t begin = 0;
    std::size_t update = 0;
    Numbers sum;
    std::int64_t included = 0;
    for (int m = 0; m < table_.microbatches; ++m) {
      const std::int64_t count = sequences_of(m);
      const Numbers made = evaluate(batch, m, begin, count);
      loss += made.at("loss").at(0) * static_cast<double>(count);
      add_up(sum, made, static_cast<double>(count));
      begin += count;
      included += count;
      if (m == ends_[update]) {
        const double round =
            static_cast<double>(ends_.size()) * (step - 1) + static_cast<double>(update) + 1;
        apply(sum, static_cast<double>(included), round);
        sum.clear();
        included = 0;
        ++update;
      }
    }
    for (auto& [name, weight] : weights_) {
      weight.versions = {weight.versions.back()};
    }
    return loss / static_cast<double>(trial_.sequences);
  }

  [[nodiscard]] Numbers kept() const {
    Numbers all;
    for (const auto& [name, weight] : weights_) {
      all[name] = weight.versions.back();
      all["m/" + name] = weight.m;
      all["v/" + name] = weight.v;
    }
    return all;
  }

 private:
  [[nodiscard]] std::int64_t sequences_of(int m) const {
    const std::int64_t rest = trial_.sequences % table_.microbatches;
    return trial_.sequences / table_.microbatches + (m < rest ? 1 : 0);
  }

  /// With each stage's weights in the version that this micro-batch reads there.
  Numbers evaluate(const Numbers& batch, int m, std::int64_t begin, std::int64_t count) {
    Numbers leaves;
    for (const auto& [name, weight] : weights_) {
      const auto stage = static_cast<std::size_t>(weight.stage);
      const int version = versions_[stage][static_cast<std::size_t>(m)];
      leaves[name] = weight.versions.at(static_cast<std::size_t>(version));
    }
    for (const char* name : {"tokens", "targets"}) {
      const auto from = batch.at(name).begin() + begin * kTinyLength;
      leaves[name] = std::vector<double>(from, from + count * kTinyLength);
    }
    if (!graphs_.contains(count)) {
      graphs_.emplace(count, gradient_graph(count));
    }
    return evaluate_alone(graphs_.at(count), leaves);
  }

  static void add_up(Numbers& sum, const Numbers& made, double factor) {
    for (const auto& [name, numbers] : made) {
      std::vector<double>& total = sum[name];
      total.resize(numbers.size());
      for (std::size_t i = 0; i < numbers.size(); ++i) {
        total[i] += factor * numbers[i];
      }
    }
  }

  /// AdamW on the mean over the examples.
  void apply(const Numbers& sum, double examples, double count) {
    constexpr AdamW kAdam;
    double squares = 0;
    for (const auto& [name, weight] : weights_) {
      for (const double g : sum.at("d/" + name)) {
        squares += g / examples * (g / examples);
      }
    }
    const double scale = std::min(1.0, trial_.clip / std::sqrt(squares));
    for (auto& [name, weight] : weights_) {
      std::vector<double> next = weight.versions.back();
      for (std::size_t i = 0; i < next.size(); ++i) {
        const double g = scale * sum.at("d/" + name)[i] / examples;
        double& m = weight.m[i];
        double& v = weight.v[i];
        m = kAdam.beta1 * m + (1 - kAdam.beta1) * g;
        v = kAdam.beta2 * v + (1 - kAdam.beta2) * g * g;
        const double root = std::sqrt(v / (1 - std::pow(kAdam.beta2, count)));
        const double along = m / (1 - std::pow(kAdam.beta1, count)) / (root + kAdam.epsilon);
        next[i] -= kRate * (along + (weight.decays ? kAdam.decay * next[i] : 0));
      }
      weight.versions.push_back(std::move(next));
    }
  }

  Trial trial_;
  PipelineTable table_;
  std::vector<std::vector<int>> versions_;
  std::vector<int> ends_;  ///< by update: the last micro-batch that it includes
  std::map<std::string, Weight> weights_;
  std::map<std::int64_t, Graph> graphs_;
};

struct Training {
  Model model{};
  Graph graph{};
  Plan plan{};
};

Training training_of(const Trial& trial) {
  Training training;
  training.model = make_model(tiny_model(), {.sequences = trial.sequences, .length = kTinyLength});
  training.plan = plan_of(trial.plan);
  TrainingOptions options;
  options.clip_limit = trial.clip;
  options.independent_updates = table_of(training.plan).weights == WeightVersions::Newest;
  training.graph = make_training_graph(training.model.graph, options);
  return training;
}

Trained simulate(const Trial& trial, const Training& training) {
  const Partition partition(
      training.graph, resolve_placements(training.graph, training.plan, dim_names(training.graph)));
  Simulation simulation(trial, table_of(training.plan));
  const Numbers first = first_values(training.model);
  for (const ModelParameter& parameter : training.model.parameters) {
    simulation.add(parameter.name, partition.home(parameter.name), parameter.type.shape.rank() >= 2,
                   first.at(parameter.name));
  }
  Trained trained;
  int step = 0;
  for (const Numbers& batch : batches_of(trial.sequences)) {
    trained.losses.push_back(simulation.run_step(batch, ++step));
  }
  trained.kept = simulation.kept();
  return trained;
}

void check(const Trial& trial) {
  SCOPED_TRACE(describe(trial.plan));
  const Training training = training_of(trial);
  const DimNames names = dim_names(training.graph);
  EXPECT_EQ(trireme::problems(programs_of(training.graph, training.plan, names),
                              groups_of(training.plan.mesh)),
            std::vector<std::string>());
  const Trained alone = simulate(trial, training);
  Trained many;
  ASSERT_NO_THROW(many = train_on_ranks(training.graph, training.plan, names,
                                        first_values(training.model), batches_of(trial.sequences)));
  for (std::size_t i = 0; i < alone.losses.size(); ++i) {
    EXPECT_NEAR(alone.losses[i], many.losses.at(i), kTolerance) << "step " << i;
  }
  ASSERT_EQ(alone.kept.size(), many.kept.size());
  for (const auto& [name, numbers] : alone.kept) {
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      ASSERT_NEAR(numbers[i], many.kept.at(name).at(i), kTolerance) << name << " at " << i;
    }
  }
}

TEST(WeightVersions, PipeDreamMatchesTable) {
  check({.plan = {.mesh = "pipe=2", .microbatches = 4, .schedule = "pipedream"}});
  check({.plan = {.mesh = "pipe=4", .microbatches = 8, .schedule = "ampnet"}});
  check({.plan = {.mesh = "pipe=4", .microbatches = 8, .schedule = "pipedream"}});
  check({.plan = {.mesh = "pipe=2", .microbatches = 3, .schedule = "pipedream"}, .sequences = 4});
}

TEST(WeightVersions, PipeDreamCombinesWithOtherAxes) {
  check({.plan = {.mesh = "data=2,pipe=2", .microbatches = 4, .schedule = "pipedream"}});
  check({.plan = {.mesh = "pipe=2,tensor=2", .microbatches = 4, .schedule = "pipedream"}});
  check({.plan = {.mesh = "pipe=2,data=2", .microbatches = 4, .schedule = "pipedream", .zero = 1}});
  check({.plan = {.mesh = "pipe=2,data=2", .microbatches = 4, .schedule = "pipedream", .zero = 3}});
}

TEST(WeightVersions, TwoBufferedWeightsLagOneStep) {
  check({.plan = {.mesh = "pipe=2", .microbatches = 4, .schedule = "pipedream-2bw"}});
  check({.plan = {.mesh = "pipe=4", .microbatches = 8, .schedule = "pipedream-2bw"}});
  check({.plan = {.mesh = "pipe=2,tensor=2", .microbatches = 8, .schedule = "pipedream-2bw"}});
  check({.plan = {
             .mesh = "pipe=2,data=2", .microbatches = 4, .schedule = "pipedream-2bw", .zero = 2}});
}

// All stages update at the same micro-batches, so that the global gradient norm is available.
TEST(WeightVersions, TwoBufferedWeightsSupportClipping) {
  check({.plan = {.mesh = "pipe=4", .microbatches = 8, .schedule = "pipedream-2bw"}, .clip = 0.5});
}

TEST(WeightVersions, PipeDreamRejectsClipping) {
  const Trial trial{.plan = {.mesh = "pipe=2", .microbatches = 4, .schedule = "pipedream"}};
  Training training = training_of(trial);
  expect_error(ErrorKind::Usage, "(--clip 0)", [&] {
    (void)make_training_graph(training.model.graph, {.clip_limit = 1, .independent_updates = true});
  });
  training.graph = make_training_graph(training.model.graph, {.clip_limit = 1});
  expect_error(ErrorKind::Usage, "the gradients of all stages at once", [&] {
    (void)programs_of(training.graph, training.plan, dim_names(training.graph));
  });
}

// Memory.

/// The most versions of a parameter in memory at one time.
int most_versions(const Program& program, const std::string& parameter) {
  std::map<std::int32_t, std::pair<std::int32_t, std::int32_t>> lives;  // by storage
  for (const Buffer& buffer : program.buffers) {
    if (buffer.name == parameter || buffer.name.starts_with("new/" + parameter + ".u")) {
      lives[buffer.storage] = {buffer.first, buffer.last};
    }
  }
  int most = 0;
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(program.instructions.size()); ++i) {
    int now = 0;
    for (const auto& [storage, life] : lives) {
      now += life.first <= i && i <= life.second ? 1 : 0;
    }
    most = std::max(most, now);
  }
  return most;
}

void expect_versions(const std::string& schedule, const std::vector<int>& expected) {
  SCOPED_TRACE(schedule);
  const Training training =
      training_of({.plan = {.mesh = "pipe=4", .microbatches = 8, .schedule = schedule}});
  const std::vector<Program> programs =
      programs_of(training.graph, training.plan, dim_names(training.graph));
  const std::vector<std::vector<int>> live = live_versions(table_of(training.plan));
  for (std::size_t stage = 0; stage < expected.size(); ++stage) {
    EXPECT_LE(live[0][stage], expected[stage]);
    for (const char* name : {"attn.q.weight", "mlp.c_fc.weight", "ln_1.weight"}) {
      const std::string parameter = fmt::format("h.{}.{}", stage, name);
      EXPECT_EQ(most_versions(programs[stage], parameter), live[0][stage]) << parameter;
      EXPECT_EQ(most_versions(programs[stage], "m/" + parameter), 1) << parameter;
    }
    // No backward reads a bias, so fewer may suffice.
    EXPECT_LE(most_versions(programs[stage], fmt::format("h.{}.ln_1.bias", stage)), live[0][stage]);
  }
}

TEST(WeightVersions, StageKeepsNoMoreVersionsThanTableRequires) {
  expect_versions("pipedream", {4, 3, 2, 1});
  expect_versions("pipedream-2bw", {2, 2, 2, 2});
  expect_versions("1f1b", {1, 1, 1, 1});
}

}  // namespace
}  // namespace trireme
