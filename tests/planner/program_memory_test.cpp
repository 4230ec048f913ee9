// The closed form's memory of Trireme's own programs is what predict_memory() finds for the same plan: in all, and by
// category.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "../partition/plan_cases.h"
#include "trireme/cost.h"
#include "trireme/memory_prediction.h"
#include "trireme/mesh.h"
#include "trireme/model.h"
#include "trireme/model_dims.h"
#include "trireme/planner.h"
#include "trireme/recompute.h"
#include "trireme/training.h"

namespace trireme {
namespace {

constexpr std::int64_t kTokens = 256;

struct ModelKind {
  Family family = Family::Llama;
  bool tied = false;
  std::int64_t experts = 0;
};

ModelConfig memory_model(const ModelKind& size) {
  ModelConfig config = preset_model(size.family == Family::Llama ? "llama-tiny" : "gpt-mini");
  config.layers = 4;
  config.width = 256;
  config.heads = 4;
  config.key_heads = size.family == Family::Llama ? 2 : 4;
  config.head_width = 64;
  config.hidden = 704;
  config.vocabulary = 2048;
  config.context = 2 * kTokens;
  config.tied = size.tied;
  if (size.experts > 0) {
    config.experts = size.experts;
    config.experts_per_token = 2;
    config.balance_loss = 0;
  }
  config.dtype = DType::BF16;
  config.dropout = 0;
  return config;
}

/// By CostedMemory, of the rank that needs the most; inputs are not part of it.
std::vector<double> planned(const ModelConfig& config, const Plan& plan, std::int64_t batch) {
  const Graph step = recompute_by(
      make_training_graph(make_model(config, {.sequences = batch, .length = kTokens}).graph, {}),
      plan.recompute);
  const MemoryUse use = predict_memory({step, dim_names(step)}, plan).largest().use;
  const auto bytes = [&](Category category) {
    return static_cast<double>(use.at_peak.at(static_cast<std::size_t>(category)).count);
  };
  return {bytes(Category::Parameter), bytes(Category::Gradient), bytes(Category::Optimizer),
          bytes(Category::Activation), bytes(Category::Communication)};
}

struct MemoryErrors {
  std::vector<double> total{};
  std::vector<double> category{};

  /// Shares of the planned peak.
  void add(const StepCost& cost, const std::vector<double>& planned) {
    double peak = 0;
    double worst = 0;
    for (const double bytes : planned) {
      peak += bytes;
    }
    for (std::size_t c = 0; c < planned.size(); ++c) {
      worst = std::max(worst, std::abs(cost.memory.at(c) - planned[c]) / peak);
    }
    total.push_back(std::abs(cost.memory_bytes() / peak - 1));
    category.push_back(worst);
  }
  static double at(std::vector<double> values, double share) {
    std::ranges::sort(values);
    return values.at(static_cast<std::size_t>(share * static_cast<double>(values.size() - 1)));
  }
};

/// Every recomputation.
void add_modes(const ModelConfig& config, ParallelLayout layout, int microbatches,
               const TrainingRecipe& recipe, MemoryErrors& errors) {
  Architecture architecture;
  architecture.model = config;
  const Cluster cluster = cluster_preset("dgx-h100:4");
  const Workload work{
      .batch = static_cast<std::int64_t>(layout.data) * layout.microbatch * microbatches,
      .length = kTokens,
      .recipe = recipe};
  const TransformerCost cost(architecture, work, cluster, efficiency_of(cluster));
  for (const RecomputeMode mode :
       {RecomputeMode::None, RecomputeMode::Selective, RecomputeMode::Full}) {
    layout.recompute = mode;
    const Plan plan = to_plan({.layout = layout}, work, static_cast<int>(config.layers));
    errors.add(cost.step(layout), planned(config, plan, work.batch));
  }
}

/// With as many micro-batches as stages, and four times as many.
void add_all(const ModelConfig& config, const std::vector<ParallelLayout>& layouts,
             const TrainingRecipe& recipe, MemoryErrors& errors) {
  for (const ParallelLayout& layout : layouts) {
    for (const int microbatches : {layout.pipe, 4 * layout.pipe}) {
      add_modes(config, layout, microbatches, recipe, errors);
    }
  }
}

std::vector<ParallelLayout> with_zero(const std::vector<ParallelLayout>& layouts,
                                      const std::vector<int>& levels) {
  std::vector<ParallelLayout> all;
  for (ParallelLayout layout : layouts) {
    for (const int level : levels) {
      layout.zero = level;
      all.push_back(layout);
    }
  }
  return all;
}

std::vector<ParallelLayout> without_stages() {
  std::vector<ParallelLayout> layouts{{.microbatch = 4},
                                      {.tensor = 2, .microbatch = 4},
                                      {.tensor = 2, .microbatch = 4, .sequence = true},
                                      {.context = 2, .microbatch = 8}};
  const std::vector<ParallelLayout> data = with_zero(
      {{.data = 4, .microbatch = 4}, {.data = 2, .tensor = 2, .microbatch = 4}}, {0, 1, 2});
  layouts.insert(layouts.end(), data.begin(), data.end());
  return layouts;
}

/// What the errors of a kind of plans may be, as shares of the peak.
struct Tolerance {
  double median = 0;
  double most = 0;  ///< nine of ten
  double all = 0;
};

void expect_within(const MemoryErrors& errors, const Tolerance& tolerance, std::string_view what) {
  const auto report = [](const std::vector<double>& values) {
    return fmt::format("{:.2f} {:.2f} {:.2f} %", 100 * MemoryErrors::at(values, 0.5),
                       100 * MemoryErrors::at(values, 0.9), 100 * MemoryErrors::at(values, 1));
  };
  fmt::print("{}: {} plans, median, 90 % and worst {}; largest category {}\n", what,
             errors.total.size(), report(errors.total), report(errors.category));
  EXPECT_LE(MemoryErrors::at(errors.total, 0.5), tolerance.median) << what;
  EXPECT_LE(MemoryErrors::at(errors.total, 0.9), tolerance.most) << what;
  EXPECT_LE(MemoryErrors::at(errors.total, 1), tolerance.all) << what;
  EXPECT_LE(MemoryErrors::at(errors.category, 0.5), 2 * tolerance.most) << what;
}

MemoryErrors errors_of(const ModelKind& kind, const std::vector<ParallelLayout>& layouts,
                       const TrainingRecipe& recipe = trireme_recipe("bf16")) {
  MemoryErrors errors;
  add_all(memory_model(kind), layouts, recipe, errors);
  return errors;
}

TEST(ProgramMemory, OfPlansWithoutStagesIsPlanned) {
  constexpr Tolerance kTolerance{.median = 0.003, .most = 0.01, .all = 0.02};
  expect_within(errors_of({}, without_stages()), kTolerance, "llama");
  expect_within(errors_of({.tied = true}, without_stages()), kTolerance, "llama, tied");
  expect_within(errors_of({.family = Family::Gpt2, .tied = true}, without_stages()), kTolerance,
                "gpt");
}

TEST(ProgramMemory, OfZero3IsPlanned) {
  expect_within(errors_of({}, with_zero({{.data = 4, .microbatch = 4},
                                         {.data = 2, .tensor = 2, .microbatch = 4}},
                                        {3})),
                {.median = 0.003, .most = 0.01, .all = 0.02}, "ZeRO 3");
}

TEST(ProgramMemory, OfExpertsIsPlanned) {
  expect_within(errors_of({.experts = 4}, {{.microbatch = 2},
                                           {.tensor = 2, .microbatch = 2},
                                           {.data = 2, .expert = 2, .microbatch = 2}}),
                {.median = 0.01, .most = 0.02, .all = 0.02}, "experts");
}

TEST(ProgramMemory, OfPipelinesIsPlanned) {
  struct Row {
    PipelineForm form;
    int chunks;
  };
  for (const Row& row :
       {Row{PipelineForm::OneFOneB, 1}, Row{PipelineForm::Gpipe, 1},
        Row{PipelineForm::Interleaved, 2}, Row{PipelineForm::ZbH1, 1}, Row{PipelineForm::ZbV, 2}}) {
    const ParallelLayout stages{
        .pipe = 2, .microbatch = 4, .chunks = row.chunks, .schedule = row.form};
    ParallelLayout composed = stages;
    composed.data = 2;
    composed.tensor = 2;
    expect_within(errors_of({}, with_zero({stages, composed}, {0, 1})),
                  {.median = 0.01, .most = 0.015, .all = 0.02}, to_text(row.form));
  }
}

/// A plan of the equality tests, if it is a layout. Sequences are longer, since in theirs single tensors count.
std::optional<ParallelLayout> layout_of(const Case& c) {
  if (c.schedule == "chimera" || !c.stage_blocks.empty() || c.bucket.count > 0) {
    return std::nullopt;
  }
  const auto size = [mesh = parse_mesh(c.mesh)](std::string_view name) {
    const auto it = std::ranges::find(mesh.axes(), name, &MeshAxis::name);
    return it == mesh.axes().end() ? 1 : it->size;
  };
  return ParallelLayout{.data = size("data") * size("expert"),
                        .tensor = size("tensor"),
                        .pipe = size("pipe"),
                        .context = size("context"),
                        .expert = size("expert"),
                        .microbatch = 4,
                        .chunks = c.schedule == "zb-v" ? 2 : c.chunks,
                        .schedule = parse_pipeline_form(c.schedule),
                        .zero = c.zero,
                        .sequence = c.sequence,
                        .context_mode = c.context};
}

/// Whether each rank has whole heads of keys. If not, ranks keep copies of them, which the closed form does not count.
bool deals_heads(const ModelConfig& config, const ParallelLayout& layout) {
  const bool by_context = layout.context_mode == Plan::Context::AllToAll;
  const int ranks = layout.tensor * (by_context ? layout.context : 1);
  return config.width % layout.tensor == 0 && config.key_heads % ranks == 0;
}

MemoryErrors errors_of_cases(const ModelKind& kind, const std::vector<Case>& cases) {
  const ModelConfig config = memory_model(kind);
  MemoryErrors errors;
  for (const Case& c : cases) {
    const std::optional<ParallelLayout> layout = layout_of(c);
    if (layout && deals_heads(config, *layout)) {
      SCOPED_TRACE(describe(c));
      add_modes(config, *layout, c.microbatches, trireme_recipe("bf16"), errors);
    }
  }
  return errors;
}

constexpr Tolerance kOfLanguageModels{.median = 0.004, .most = 0.025, .all = 0.07};

/// The two language models split the plans in the short test; in the long one each takes all.
TEST(ProgramMemory, OfEqualityTestsIsPlanned) {
  const auto half = [](std::size_t first) {
    return every_nth(plans_of_language_models(), 2, first);
  };
  expect_within(errors_of_cases({}, half(0)), kOfLanguageModels, "llama");
  expect_within(errors_of_cases({.family = Family::Gpt2, .tied = true}, half(1)), kOfLanguageModels,
                "gpt");
}
TEST(LongProgramMemory, OfEqualityTestsIsPlanned) {
  expect_within(errors_of_cases({}, plans_of_language_models()), kOfLanguageModels, "llama");
  expect_within(errors_of_cases({.family = Family::Gpt2, .tied = true}, plans_of_language_models()),
                kOfLanguageModels, "gpt");
  expect_within(errors_of_cases({.experts = 12}, plans_of_experts()),
                {.median = 0.02, .most = 0.04, .all = 0.17}, "experts");
}

/// Its gradients are f32, and its software keeps other activations.
TEST(ProgramMemory, OfMegatronDiffers) {
  const MemoryErrors errors = errors_of({}, without_stages(), TrainingRecipe{});
  EXPECT_GT(MemoryErrors::at(errors.total, 0.5), 0.1);
}

}  // namespace
}  // namespace trireme
