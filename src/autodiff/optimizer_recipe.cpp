#include "autodiff/optimizer_recipe.h"

#include <algorithm>
#include <optional>

namespace trireme {
namespace {

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
  const auto first = static_cast<std::size_t>(view.batch);
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

}  // namespace

OptimizerRecipe optimizer_recipe(const TrainingOptions& options, const Value& parameter) {
  OptimizerRecipe recipe =
      std::visit(MakeRecipe{.options = options, .parameter = parameter}, options.optimizer);
  recipe.attributes["decay"] =
      weight_decay(options, parameter.name, static_cast<int>(parameter.type.shape.rank()));
  return recipe;
}

double weight_decay(const TrainingOptions& options, std::string_view parameter, int dimensions) {
  const bool excepted = std::ranges::any_of(
      options.no_decay, [&](const std::string& ending) { return parameter.ends_with(ending); });
  return excepted || dimensions < options.decay_from_rank
             ? 0.0
             : std::visit([](const auto& optimizer) { return optimizer.decay; }, options.optimizer);
}

}  // namespace trireme
