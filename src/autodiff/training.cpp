#include "trireme/training.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "autodiff/rebuild.h"
#include "tensor/half.h"
#include "trireme/autodiff.h"
#include "trireme/error.h"

namespace trireme {
namespace {

/// How a parameter's optimizer appears in the graph.
struct OptimizerRecipe {
  std::string_view op{};
  /// The prefixes of the states' names, in the order of the op's inputs.
  std::vector<std::string_view> states{};
  Attributes attributes{};
  bool counts_steps = false;  ///< the op has an input `step`
};

/// Which of a parameter's dimensions count matrices and run over their rows, as the op muon takes it.
struct MatrixView {
  std::int64_t batch = 0;
  std::int64_t rows = 1;
};

bool has(const std::vector<std::string>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

/// Nothing if the parameter is not a matrix: an embedding, a bias, a scale.
std::optional<MatrixView> find_matrices(const std::vector<std::string>& names) {
  MatrixView view;
  view.batch = !names.empty() && names[0] == "experts" ? 1 : 0;
  const std::size_t first = view.batch;
  if (has(names, "vocabulary") || has(names, "positions") || names.size() < first + 2) {
    return std::nullopt;
  }
  view.rows = names[first] == "heads" ? 2 : 1;
  return first + static_cast<std::size_t>(view.rows) < names.size() ? std::optional(view)
                                                                    : std::nullopt;
}

struct MakeRecipe {
  const TrainingOptions& options;
  const Value& parameter;

  OptimizerRecipe operator()(const Sgd&) const { return {.op = "sgd"}; }
  OptimizerRecipe operator()(const Momentum& o) const {
    return {
        .op = "momentum",
        .states = {"m"},
        .attributes = {{"momentum", o.momentum}, {"nesterov", std::int64_t{o.nesterov ? 1 : 0}}}};
  }
  OptimizerRecipe operator()(const Adagrad& o) const {
    return {.op = "adagrad", .states = {"s"}, .attributes = {{"epsilon", o.epsilon}}};
  }
  OptimizerRecipe operator()(const AdamW& o) const {
    return {.op = "adamw",
            .states = {"m", "v"},
            .attributes = {{"beta1", o.beta1}, {"beta2", o.beta2}, {"epsilon", o.epsilon}},
            .counts_steps = true};
  }
  OptimizerRecipe operator()(const Lion& o) const {
    return {.op = "lion", .states = {"m"}, .attributes = {{"beta1", o.beta1}, {"beta2", o.beta2}}};
  }
  OptimizerRecipe operator()(const Muon& o) const {
    const auto names = options.dim_names.find(parameter.name);
    const std::optional<MatrixView> view =
        names == options.dim_names.end() ? std::nullopt : find_matrices(names->second);
    if (!view) {
      return (*this)(AdamW{.beta1 = o.beta1, .beta2 = o.beta2, .epsilon = o.epsilon});
    }
    return {.op = "muon",
            .states = {"m"},
            .attributes = {{"momentum", o.momentum}, {"batch", view->batch}, {"rows", view->rows}}};
  }
};

/// The node that updates this parameter, with its weight decay.
OptimizerRecipe optimizer_recipe(const TrainingOptions& options, const Value& parameter) {
  OptimizerRecipe recipe =
      std::visit(MakeRecipe{.options = options, .parameter = parameter}, options.optimizer);
  recipe.attributes["decay"] =
      weight_decay(options, parameter.name, static_cast<int>(parameter.type.shape.rank()));
  return recipe;
}

struct Trained {
  ValueId parameter{};
  ValueId gradient{};
  std::int32_t block = -1;
};

std::int32_t block_of_first_reader(const Graph& graph, ValueId value) {
  for (const Node& node : graph.nodes()) {
    if (std::ranges::find(node.inputs, value) != node.inputs.end()) {
      return node.block;
    }
  }
  return -1;
}

/// f64 if all of these are, else f32.
DType scalar_type(const Graph& graph, const std::vector<ValueId>& parameters) {
  const bool all = std::ranges::all_of(
      parameters, [&](ValueId id) { return graph.value(id).type.dtype == DType::F64; });
  return all ? DType::F64 : DType::F32;
}

/// Outputs that a training step keeps.
constexpr std::string_view kStatistics = "statistics/";

/// The graph with this output only: outputs are kept to the end of the step. Adds the statistics, as values of the new
/// graph, to `statistics`.
Graph with_loss_alone(const Graph& graph, std::vector<Output>& statistics) {
  Rebuild rebuild(graph);
  for (const Node& node : graph.nodes()) {
    rebuild.copy(node);
  }
  for (const Update& update : graph.updates()) {
    rebuild.builder().update(rebuild.now(update.target), rebuild.now(update.value));
  }
  rebuild.builder().output("loss", rebuild.now(graph.output("loss")));
  for (const Output& output : graph.outputs()) {
    if (output.name.starts_with(kStatistics)) {
      statistics.push_back({output.name, rebuild.now(output.value)});
    }
  }
  return rebuild.builder().finish();
}

class Training {
 public:
  Training(const Graph& forward, const TrainingOptions& options)
      : options_(options), builder_(with_loss_alone(forward, statistics_)) {}

  Graph run() {
    find_parameters();
    add_inputs();
    add_backward();
    add_update();
    add_statistics();
    return builder_.finish();
  }

  SplitTraining run_split() {
    if (options_.loss_scaling) {
      throw Error(ErrorKind::Usage,
                  "the loss cannot be scaled where gradients are applied elsewhere; train in bf16 "
                  "or f32 (--dtype)");
    }
    find_parameters();
    add_backward();
    for (const Trained& trained : trained_) {
      builder_.output(gradient_of(builder_.graph().value(trained.parameter).name),
                      trained.gradient);
    }
    Graph gradients = builder_.finish();
    begin_update(gradients);
    add_inputs();
    add_update();
    return {.gradients = std::move(gradients), .update = builder_.finish()};
  }

 private:
  /// Starts a graph that has the parameters, and their gradients and the loss as inputs.
  void begin_update(const Graph& gradients) {
    builder_ = GraphBuilder(gradients.name() + ".update");
    loss_ = builder_.input("loss", gradients.value(loss_).type);
    for (Trained& trained : trained_) {
      const Value& parameter = gradients.value(trained.parameter);
      const TensorType gradient = gradients.value(trained.gradient).type;
      trained.parameter = builder_.parameter(parameter.name, parameter.type);
      trained.gradient = builder_.input(gradient_of(parameter.name), gradient);
    }
  }

  void add_update() {
    builder_.set_phase(Phase::Update);
    add_squares();
    // The individual scales before the global one, so that they are not created after everything has been combined.
    std::vector<ValueId> scales;
    for (std::size_t k = 0; options_.independent_updates && k < trained_.size(); ++k) {
      scales.push_back(scale_alone(k));
    }
    const ValueId of_all = add_clipping();
    add_next_scale();
    scales.resize(trained_.size(), of_all);
    for (std::size_t k = 0; k < trained_.size(); ++k) {
      add_step(trained_[k], scales[k]);
    }
  }

  /// In the last phase: the sums over all micro-batches are complete then.
  void add_statistics() {
    for (const Output& statistic : statistics_) {
      builder_.output(statistic.name, builder_.add1("scale", {statistic.value}, {{"factor", 1.0}}));
    }
  }

  void find_parameters() {
    const Graph& graph = builder_.graph();
    loss_ = graph.output("loss");
    std::ranges::copy_if(graph.with_origin(Origin::Parameter), std::back_inserter(parameters_),
                         [&](ValueId id) { return is_float(graph.value(id).type.dtype); });
    scalar_ = {scalar_type(graph, parameters_), {}};
  }

  void add_inputs() {
    rate_ = input("learning_rate", scalar_);
    step_ = input("step", {DType::I64, {}});
    if (!options_.loss_scaling) {
      return;
    }
    if (builder_.type(loss_) != scalar_) {
      throw Error(ErrorKind::Usage, fmt::format("the loss is {}; to be scaled it must be {}",
                                                to_text(builder_.type(loss_)), to_text(scalar_)));
    }
    loss_scale_ = builder_.state("loss_scale", scalar_);
  }

  /// Adds an input unless the forward already has it: dropout reads the step too.
  ValueId input(std::string_view name, const TensorType& type) {
    for (const ValueId id : builder_.graph().with_origin(Origin::Input)) {
      const Value& value = builder_.graph().value(id);
      if (value.name == name && value.type == type) {
        return id;
      }
    }
    return builder_.input(name, type);
  }

  void add_backward() {
    Gradients gradients = add_gradients(builder_.finish(), loss_, parameters_, loss_scale_);
    for (std::size_t k = 0; k < parameters_.size(); ++k) {
      if (gradients.values[k].valid()) {
        trained_.push_back({parameters_[k], gradients.values[k],
                            block_of_first_reader(gradients.graph, parameters_[k])});
      }
    }
    if (trained_.empty()) {
      throw Error(ErrorKind::Usage, fmt::format("the loss of graph {} depends on no parameter",
                                                gradients.graph.name()));
    }
    builder_ = GraphBuilder(std::move(gradients.graph));
  }

  void add_squares() {
    for (const Trained& trained : trained_) {
      builder_.set_block(trained.block);
      squares_.push_back(builder_.add1("sum_squares", {trained.gradient}));
    }
  }

  /// The factor of one parameter's gradient: 1, or 0 if the gradient is not finite.
  ValueId scale_alone(std::size_t k) {
    if (std::isfinite(options_.clip_limit)) {
      throw Error(ErrorKind::Usage,
                  "gradients cannot be clipped by their global norm if each parameter is "
                  "updated alone; do not clip (--clip 0)");
    }
    if (loss_scale_.valid()) {
      throw Error(ErrorKind::Usage,
                  "the loss cannot be scaled where each parameter is updated alone, as the scale "
                  "follows from all gradients; train in bf16 or f32 (--dtype)");
    }
    builder_.set_block(trained_[k].block);
    return builder_.add("clip_scale", {squares_[k]}, {{"limit", options_.clip_limit}}).at(0);
  }

  /// The factor of all gradients. With loss scale S the gradients are S times too large: their norm is divided by S
  /// before it is compared with the limit, and the scale after.
  ValueId add_clipping() {
    std::vector<ValueId> sums = squares_;
    builder_.set_block(-1);
    sums.push_back(nothing_if_finite(loss_));
    if (loss_scale_.valid()) {
      constexpr double kNoLimit = std::numeric_limits<double>::infinity();
      const ValueId scaled = builder_.add("clip_scale", sums, {{"limit", kNoLimit}}).at(1);
      sums = {builder_.add1("square", {builder_.add1("divide", {scaled, loss_scale_})})};
    }
    const std::vector<ValueId> clip =
        builder_.add("clip_scale", sums, {{"limit", options_.clip_limit}});
    builder_.output("grad_norm", clip[1]);
    builder_.output("finite", clip[2]);
    finite_ = clip[2];
    return loss_scale_.valid() ? builder_.add1("divide", {clip[0], loss_scale_}) : clip[0];
  }

  void add_next_scale() {
    if (!loss_scale_.valid()) {
      return;
    }
    const ValueId good = builder_.state("good_steps", scalar_);
    const std::vector<ValueId> next =
        builder_.add("next_loss_scale", {loss_scale_, good, finite_, loss_},
                     {{"interval", options_.loss_scaling->interval},
                      {"least", options_.loss_scaling->min},
                      {"most", options_.loss_scaling->max}});
    builder_.rename(next[0], "new/loss_scale");
    builder_.rename(next[1], "new/good_steps");
    builder_.update(loss_scale_, next[0]);
    builder_.update(good, next[1]);
    builder_.output("next_loss_scale", next[0]);
    builder_.output("lowered", next[2]);
  }

  /// 0, which leaves a sum unchanged bit for bit; NaN if x is NaN or infinite. So a loss that overflowed skips the step
  /// even if the gradients did not: those of a cross-entropy never do.
  ValueId nothing_if_finite(ValueId x) {
    return builder_.add1("sum_squares", {builder_.add1("subtract", {x, x})});
  }

  void add_step(const Trained& trained, ValueId g_scale) {
    const Value parameter = builder_.graph().value(trained.parameter);
    const OptimizerRecipe recipe = optimizer_recipe(options_, parameter);
    builder_.set_block(trained.block);
    const bool has_master = options_.master_weights && is_half(parameter.type.dtype);
    const ValueId moved =
        has_master ? builder_.state(master_of(parameter.name), state_type(parameter.type))
                   : trained.parameter;
    std::vector<ValueId> kept{moved};
    std::vector<ValueId> inputs{moved, trained.gradient};
    for (const std::string_view state : recipe.states) {
      kept.push_back(
          builder_.state(fmt::format("{}/{}", state, parameter.name), state_type(parameter.type)));
      inputs.push_back(kept.back());
    }
    inputs.push_back(rate_);
    if (recipe.counts_steps) {
      inputs.push_back(step_);
    }
    inputs.push_back(g_scale);
    const std::vector<ValueId> results = builder_.add(recipe.op, inputs, recipe.attributes);
    for (std::size_t k = 0; k < results.size(); ++k) {
      builder_.rename(results[k], "new/" + builder_.graph().value(kept[k]).name);
      builder_.update(kept[k], results[k]);
    }
    if (has_master) {
      const ValueId rounded =
          builder_.add1("cast", {results[0]}, {{"to", std::string(to_text(parameter.type.dtype))}});
      builder_.rename(rounded, "new/" + parameter.name);
      builder_.update(trained.parameter, rounded);
    }
  }

  static TensorType state_type(const TensorType& parameter) {
    return {parameter.dtype == DType::F64 ? DType::F64 : DType::F32, parameter.shape};
  }

  const TrainingOptions& options_;  // owned by the caller for the duration of the call
  std::vector<Output> statistics_;
  GraphBuilder builder_;
  ValueId loss_{};
  std::vector<ValueId> parameters_{};
  TensorType scalar_{};
  ValueId rate_{};
  ValueId step_{};
  ValueId loss_scale_{};
  ValueId finite_{};
  std::vector<Trained> trained_{};
  std::vector<ValueId> squares_{};  ///< likewise: of the gradients
};

}  // namespace

double weight_decay(const TrainingOptions& options, std::string_view parameter, int dimensions) {
  const bool excepted = std::ranges::any_of(
      options.no_decay, [&](const std::string& ending) { return parameter.ends_with(ending); });
  return excepted || dimensions < options.decay_from_rank
             ? 0.0
             : std::visit([](const auto& optimizer) { return optimizer.decay; }, options.optimizer);
}

SplitTraining make_split_training(const Graph& forward, const TrainingOptions& options) {
  return Training(forward, options).run_split();
}

std::string gradient_of(std::string_view parameter) {
  return fmt::format("grad/{}", parameter);
}

std::string master_of(std::string_view parameter) {
  return fmt::format("master/{}", parameter);
}

// By value, because callers give theirs away.
// NOLINTNEXTLINE(performance-unnecessary-value-param)
Graph make_training_graph(Graph forward, const TrainingOptions& options) {
  return Training(forward, options).run();
}

}  // namespace trireme
