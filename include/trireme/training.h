// One training step as a graph: forward, backward, clipping and the optimizer, made from a forward graph.
// Any thread.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "trireme/graph.h"

namespace trireme {

// The optimizers and their constants; what they compute stands in src/graph/ops/optimizers.cpp.

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
using Optimizer = std::variant<Sgd, Momentum, Adagrad, AdamW>;

/// The backward starts from a scale instead of 1, so that small gradients do not vanish in f16; the optimizer divides
/// by it. The scale finds itself: half of it after an overflow, twice after so many steps without.
struct LossScaling {
  double first = 65536;          ///< for whoever writes the first state
  std::int64_t interval = 2000;  ///< steps without an overflow before it doubles
  double least = 1;
  double most = 0x1p24;  ///< it grows no further; it may begin above
};

struct TrainingOptions {
  Optimizer optimizer = AdamW{};
  /// Of a parameter in bf16 or f16 the optimizer moves a copy in f32, the state master/PARAMETER; the parameter is that
  /// copy rounded. So updates that are too small for 16 bits add up instead of vanishing.
  bool master_weights = true;
  /// The norm of all gradients together is brought down to this. Infinity: never.
  double clip_limit = std::numeric_limits<double>::infinity();
  std::optional<LossScaling> loss_scaling{};
  /// Weights decay if their parameter has at least so many dimensions: matrices do, biases and the scales
  /// of norms do not.
  int decay_from_rank = 2;
  /// Each parameter is updated by its own gradient alone, for pipelines that do not wait for one another: nothing can
  /// be clipped by the norm of all, and where a gradient is not finite only its parameter is left as it was.
  bool independent_updates = false;
  /// Parameters whose names end in one of these never decay.
  std::vector<std::string> no_decay{};
};

/// The training step of a graph with a scalar output "loss". It has in addition
///
///   inputs   learning_rate [] and step i64[] (counts from 1); one that the forward has already, of the same
///            type, is taken
///   state    of the optimizer, as named above; 0 at the beginning. Master copies, which begin as what their
///            parameters are. With loss scaling loss_scale [] and good_steps [], the steps since it last changed;
///            LossScaling::first and 0 at the beginning
///   updates  of all parameters that the loss depends on and of all state
///   outputs  loss; the forward's others, such as logits, would be kept to the end of the step and are left out.
///            grad_norm [] (before clipping, without the loss scale; may be infinite or no number, and
///            is none if the loss is not finite), finite [] (1, or 0 if it was not). With loss scaling
///            next_loss_scale [] and lowered [] (1 if the scale was, which may help, else 0)
///
/// A step whose loss or gradients are not all finite, or whose sum of squares is beyond f32, leaves
/// parameters and the optimizer's state as they were: the optimizers' g_scale is then 0, which they take as
/// "skip". No node reads the decision back; a caller reads `finite` and does not count the step. Where `lowered`
/// is 1 it may take the step again: the same step under a smaller scale.
///
/// The scalars are f32; f64 if all parameters are. An optimizer's node belongs to the block of the first
/// node that reads its parameter. Throws Error(Usage) if there is no such loss, if it depends on no
/// parameter, if with loss scaling it is not of the scalars' type, or if each is updated alone and there is a limit.
[[nodiscard]] Graph make_training_graph(Graph forward, const TrainingOptions& options = {});

/// The name of a parameter's master copy. Whoever writes the parameter writes that, too.
[[nodiscard]] std::string master_of(std::string_view parameter);

}  // namespace trireme
