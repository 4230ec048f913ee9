// One training step as a graph: forward, backward, clipping and the optimizer, built from a forward graph. Callable
// from any thread.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "trireme/dim_names.h"
#include "trireme/graph.h"

namespace trireme {

// The optimizers and their constants; src/graph/ops/optimizers.cpp and muon.cpp define their formulas.

struct Sgd {
  double decay = 0;
};
/// State: m/PARAMETER.
struct Momentum {
  double momentum = 0.9;
  double decay = 0;
  bool nesterov = false;
};
/// State: s/PARAMETER.
struct Adagrad {
  double epsilon = 1e-10;
  double decay = 0;
};
/// State: m/PARAMETER and v/PARAMETER.
struct AdamW {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double decay = 0.01;
};
/// State: m/PARAMETER.
struct Lion {
  double beta1 = 0.9;
  double beta2 = 0.99;
  double decay = 0.1;
};
/// Orthogonalized momentum for the parameters that are matrices by TrainingOptions::dim_names, AdamW with the same
/// learning rate and decay for all others. State: m/PARAMETER; for the others also v/PARAMETER.
struct Muon {
  double momentum = 0.95;
  double beta1 = 0.9;  ///< this and the next two: of AdamW
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double decay = 0.1;
};
using Optimizer = std::variant<Sgd, Momentum, Adagrad, AdamW, Lion, Muon>;

/// Reads "adamw", "adamw,beta2=0.999,eps=1e-8,weight-decay=0.01", "momentum,momentum=0.95,nesterov=on": adamw, sgd,
/// momentum, adagrad, lion or muon, then settings by name, in any order. What is not named has the default of `trireme
/// train`: weight-decay=0.1 for adamw, lion and muon, else 0; beta2=0.95 for adamw. Throws Error(Usage) that says what is
/// wrong.
[[nodiscard]] Optimizer parse_optimizer(std::string_view text);
/// With all settings; parse_optimizer() reads it back.
[[nodiscard]] std::string to_text(const Optimizer& optimizer);
/// "adamw", "muon".
[[nodiscard]] std::string_view name_of(const Optimizer& optimizer);

/// The backward pass starts from a scale instead of 1, so that small gradients do not underflow in f16; the optimizer
/// divides by it. The scale adapts: it halves after an overflow and doubles after enough steps without one.
struct LossScaling {
  double initial = 65536;        ///< initial value of the state
  std::int64_t interval = 2000;  ///< steps without an overflow before it doubles
  double min = 1;
  double max = 0x1p24;  ///< upper limit for growth; `initial` may be larger
};

struct TrainingOptions {
  Optimizer optimizer = AdamW{};
  /// For a parameter in bf16 or f16, the optimizer updates an f32 copy, the state master/PARAMETER; the parameter is
  /// that copy, rounded. Updates too small for 16 bits thus accumulate instead of vanishing.
  bool master_weights = true;
  /// Clips the global gradient norm to this. Infinity disables clipping.
  double clip_limit = std::numeric_limits<double>::infinity();
  std::optional<LossScaling> loss_scaling{};
  /// Weight decay applies to parameters with at least this many dimensions: to matrices, not to biases or norm scales.
  int decay_from_rank = 2;
  /// Each parameter is updated from its own gradient alone, for pipelines whose stages do not wait for one another: no
  /// clipping by the global norm, and a non-finite gradient leaves only its own parameter unchanged.
  bool independent_updates = false;
  /// Parameters whose names end in one of these never decay.
  std::vector<std::string> no_decay{};
  /// For Muon: the names of the parameters' dimensions. Those named heads and head form rows or columns together, experts
  /// are separate matrices. Embeddings (a dimension named vocabulary or positions) and parameters without names are not
  /// matrices.
  DimNames dim_names{};
};

/// The weight decay of a parameter with this name and number of dimensions.
[[nodiscard]] double weight_decay(const TrainingOptions& options, std::string_view parameter,
                                  int dimensions);

/// The training step of a graph with a scalar output "loss". It adds
///
///   inputs   learning_rate [] and step i64[] (counts from 1); one that the forward already has, with the same
///            type, is reused
///   state    of the optimizer, as named above; initially 0. Master copies, initially equal to their
///            parameters. With loss scaling loss_scale [] and good_steps [], the steps since it last changed;
///            initially LossScaling::initial and 0
///   updates  of all parameters that the loss depends on and of all state
///   outputs  loss; the forward's others, such as logits, would be kept to the end of the step and are left out.
///            grad_norm [] (before clipping, without the loss scale; may be infinite or NaN, and
///            is NaN if the loss is not finite), finite [] (1, or 0 if it was not). With loss scaling
///            next_loss_scale [] and lowered [] (1 if the scale was lowered, so a retry may help, else 0)
///
/// A step whose loss or gradients are not all finite, or whose sum of squares is beyond f32, leaves parameters and the
/// optimizer's state unchanged: the optimizers' g_scale is then 0, which means "skip". No node depends on the decision;
/// a caller reads `finite` and does not count the step. If `lowered` is 1, it may repeat the step with the smaller
/// scale.
///
/// The scalars are f32; f64 if all parameters are. An optimizer's node belongs to the block of the first node that
/// reads its parameter. Throws Error(Usage) if there is no such loss, if it depends on no parameter, if with loss
/// scaling it does not have the scalars' type, or if independent_updates is combined with a clip_limit.
[[nodiscard]] Graph make_training_graph(Graph forward, const TrainingOptions& options = {});

/// A training step in two graphs, for gradients that are reduced and applied elsewhere:
///
///   gradients  the forward's inputs and parameters; outputs loss and, for each parameter that the loss depends on,
///              grad/PARAMETER
///   update     those parameters and the optimizer's state; inputs loss, learning_rate, step and grad/PARAMETER. Its
///              updates, and its outputs grad_norm and finite, are those of make_training_graph()
///
/// Throws as make_training_graph(), and Error(Usage) if the options scale the loss.
struct SplitTraining {
  Graph gradients;
  Graph update;
};
[[nodiscard]] SplitTraining make_split_training(const Graph& forward,
                                                const TrainingOptions& options = {});
/// The name of a parameter's gradient in these graphs.
[[nodiscard]] std::string gradient_of(std::string_view parameter);

/// The name of a parameter's master copy. Code that writes the parameter must write the master copy as well.
[[nodiscard]] std::string master_of(std::string_view parameter);

}  // namespace trireme
