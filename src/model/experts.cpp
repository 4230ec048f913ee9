// For each token the router scores all experts and takes the top k. The softmax is over all of them and its value is
// the gate (Switch Transformers), or over the chosen ones (Mixtral); with one expert per token, the latter gate is 1
// and the router does not learn. Tokens are dispatched to slots of their experts, [E,B,places,C]; those beyond the
// capacity take only the residual connection. Shared experts process all tokens.
//
// Each sequence is routed independently, with its own slots at each expert (the groups of GShard), so that routing does
// not depend on the rest of the batch or on its placement.
//
//   score = W x, with noise + normal softplus(V x)   (Shazeer et al., 2017); V is initially 0
//   balance = weight E sum_e (share of choices for e) (mean probability of e)
//
// The balance loss covers the whole batch, or is the mean over equal parts of it, each of which can then be a
// micro-batch that finishes before the next starts.
#include "model/experts.h"

#include <algorithm>
#include <cmath>

namespace trireme {
namespace {

class Mixture {
 public:
  Mixture(Layers& layers, ValueId x, const std::string& at, double residual_deviation)
      : layers_(layers),
        b_(layers.builder()),
        c_(layers.config()),
        at_(at),
        residual_deviation_(residual_deviation),
        sequences_(b_.shape(x).dim(0)),
        length_(b_.shape(x).dim(1)),
        x_(x) {}

  MixtureResult run() {
    route();
    const std::int64_t places = capacity();
    const Attributes sizes{{"experts", c_.experts}, {"capacity", places}};
    const std::vector<ValueId> placed = b_.add("expert_slots", {indices_}, sizes);
    const ValueId slots = placed[0];
    const ValueId sent = b_.add1("expert_dispatch", {x_, slots}, sizes);
    const ValueId done = c_.family == Family::Gpt2 ? gelu_experts(sent) : swiglu_experts(sent);
    ValueId combined = b_.add1("expert_combine", {done, slots, gates_});
    if (c_.shared_experts > 0) {
      combined = b_.add1("add", {combined, shared()});
    }
    counts_ = b_.add1("expert_load", {indices_}, {{"experts", c_.experts}});
    MixtureResult result;
    result.y = combined;
    result.load = layers_.cast(counts_, DType::F32);
    result.drops = drops(placed[1], places);
    if (c_.balance_loss > 0) {
      result.balance = c_.balance_groups > 1 ? grouped_balance(placed[1]) : balance();
    }
    return result;
  }

 private:
  ValueId einsum(const char* equation, ValueId a, ValueId b) {
    return layers_.einsum(equation, a, b);
  }

  /// The capacity of an expert for a sequence.
  [[nodiscard]] std::int64_t capacity() const {
    if (c_.capacity_factor == 0) {
      return length_;
    }
    const double even =
        static_cast<double>(length_ * c_.experts_per_token) / static_cast<double>(c_.experts);
    const auto places = static_cast<std::int64_t>(std::ceil(even * c_.capacity_factor));
    return std::clamp(places, std::int64_t{1}, length_);
  }

  void route() {
    const ValueId router =
        layers_.weight(at_ + ".block_sparse_moe.gate.weight", {c_.experts, c_.width}, kDeviation);
    ValueId scores = einsum("gnc,ec->gne", x_, router);
    if (c_.noisy_router) {
      scores = b_.add1("add", {scores, noise()});
    }
    probabilities_ = b_.add1("softmax", {scores});
    const bool softmax_first = c_.softmax_first();
    const std::vector<ValueId> best =
        b_.add("top_k", {softmax_first ? probabilities_ : scores}, {{"k", c_.experts_per_token}});
    gates_ = softmax_first ? best[0] : b_.add1("softmax", {best[0]});
    indices_ = best[1];
  }

  ValueId noise() {
    const ValueId noise = layers_.parameter(at_ + ".block_sparse_moe.gate_noise.weight",
                                            {c_.experts, c_.width}, {Initial::Kind::Zero});
    const ValueId deviation = b_.add1("softplus", {einsum("gnc,ec->gne", x_, noise)});
    return b_.add1("multiply", {deviation, layers_.noise(b_.shape(deviation))});
  }

  /// One feed-forward part as wide as all shared experts together, which equals their sum.
  ValueId shared() {
    const std::string part = at_ + ".block_sparse_moe.shared_expert";
    const std::int64_t hidden = c_.shared_experts * c_.hidden;
    if (c_.family == Family::Gpt2) {
      const ValueId up = layers_.weight(part + ".c_fc.weight", {c_.width, hidden}, kDeviation);
      const ValueId down =
          layers_.weight(part + ".c_proj.weight", {hidden, c_.width}, residual_deviation_);
      return einsum("gnf,fc->gnc", b_.add1("gelu", {einsum("gnc,cf->gnf", x_, up)}), down);
    }
    const auto into = [&](const char* which) {
      return einsum("gnc,fc->gnf", x_,
                    layers_.weight(part + which, {hidden, c_.width}, kDeviation));
    };
    const ValueId gate = b_.add1("silu", {into(".w1.weight")});
    const ValueId h = b_.add1("multiply", {gate, into(".w3.weight")});
    return einsum("gnf,cf->gnc", h,
                  layers_.weight(part + ".w2.weight", {c_.width, hidden}, residual_deviation_));
  }

  ValueId gelu_experts(ValueId sent) {
    const std::string part = at_ + ".block_sparse_moe.experts";
    const ValueId up =
        layers_.weight(part + ".c_fc.weight", {c_.experts, c_.width, c_.hidden}, kDeviation);
    const ValueId down = layers_.weight(part + ".c_proj.weight", {c_.experts, c_.hidden, c_.width},
                                        residual_deviation_);
    return einsum("egpf,efc->egpc", b_.add1("gelu", {einsum("egpc,ecf->egpf", sent, up)}), down);
  }

  ValueId swiglu_experts(ValueId sent) {
    const std::string part = at_ + ".block_sparse_moe.experts";
    const auto into = [&](const char* which) {
      const ValueId w = layers_.weight(part + which, {c_.experts, c_.hidden, c_.width}, kDeviation);
      return einsum("egpc,efc->egpf", sent, w);
    };
    const ValueId gate = b_.add1("silu", {into(".w1.weight")});
    const ValueId h = b_.add1("multiply", {gate, into(".w3.weight")});
    const ValueId down =
        layers_.weight(part + ".w2.weight", {c_.experts, c_.width, c_.hidden}, residual_deviation_);
    return einsum("egpf,ecf->egpc", h, down);
  }

  /// What load[g,e] has beyond the capacity, over all groups g.
  ValueId drops(ValueId load, std::int64_t places) {
    const ValueId loads = layers_.cast(load, DType::F32);
    const auto constant = [&](double value) {
      return b_.add1("fill", {}, {{"value", value}, {"shape", b_.shape(loads).dims()}});
    };
    const ValueId over = b_.add1("subtract", {loads, constant(static_cast<double>(places))});
    return b_.add1("reduce_sum", {b_.add1("maximum", {over, constant(0)})},
                   {{"axes", std::vector<std::int64_t>{0}}});
  }

  /// Of the whole batch: both factors are sums over all tokens. At least f32, like the loss.
  ValueId balance() {
    const DType wide = c_.dtype == DType::F64 ? DType::F64 : DType::F32;
    const auto tokens = static_cast<double>(sequences_ * length_);
    const ValueId counts = layers_.cast(counts_, wide);
    const double choices = tokens * static_cast<double>(c_.experts_per_token);
    const ValueId share = b_.add1("scale", {counts}, {{"factor", 1 / choices}});
    const ValueId sum = b_.add1("reduce_sum", {layers_.cast(probabilities_, wide)},
                                {{"axes", std::vector<std::int64_t>{0, 1}}});
    const double weight = c_.balance_loss * static_cast<double>(c_.experts) / tokens;
    return b_.add1("scale", {einsum("e,e->", share, sum)}, {{"factor", weight}});
  }

  /// The same for each group of sequences; the mean over the groups. `load` [B,E] counts the choices of each sequence.
  ValueId grouped_balance(ValueId load) {
    const DType wide = c_.dtype == DType::F64 ? DType::F64 : DType::F32;
    const auto tokens = static_cast<double>(sequences_ * length_);
    const double choices = tokens * static_cast<double>(c_.experts_per_token);
    const ValueId counts = sum_groups(layers_.cast(load, wide));
    const ValueId share =
        b_.add1("scale", {counts}, {{"factor", static_cast<double>(c_.balance_groups) / choices}});
    const ValueId sum = sum_groups(b_.add1("reduce_sum", {layers_.cast(probabilities_, wide)},
                                           {{"axes", std::vector<std::int64_t>{1}}}));
    const double weight = c_.balance_loss * static_cast<double>(c_.experts) / tokens;
    return b_.add1("scale", {einsum("ge,ge->", share, sum)}, {{"factor", weight}});
  }

  /// [B,E] to [groups,E].
  ValueId sum_groups(ValueId x) {
    const std::int64_t groups = c_.balance_groups;
    const ValueId grouped =
        b_.add1("reshape", {x},
                {{"shape", std::vector<std::int64_t>{groups, sequences_ / groups, c_.experts}}});
    return b_.add1("reduce_sum", {grouped}, {{"axes", std::vector<std::int64_t>{1}}});
  }

  Layers& layers_;
  GraphBuilder& b_;
  ModelConfig c_;
  std::string at_;
  double residual_deviation_;
  std::int64_t sequences_;
  std::int64_t length_;
  ValueId x_;  ///< [B,T,C]
  ValueId probabilities_{};
  ValueId gates_{};
  ValueId indices_{};
  ValueId counts_{};
};

}  // namespace

MixtureResult mixture_of_experts(Layers& layers, ValueId x, const std::string& at,
                                 double residual_deviation) {
  return Mixture(layers, x, at, residual_deviation).run();
}

}  // namespace trireme
