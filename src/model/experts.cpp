// For each token the router scores all experts and takes the best k. With one expert a token, the soft-max
// comes first and its value is the gate, since the gate would be 1 and the router learn nothing otherwise
// (Switch Transformers); with more, it goes over the chosen ones (Mixtral). Tokens are sent to places of their
// experts, [E, places, C]; those that find no place pass by on the residual alone.
//
//   balance = weight E sum_e (share of choices for e) (mean probability of e)
#include "model/experts.h"

#include <algorithm>
#include <cmath>

namespace trireme {
namespace {

constexpr double kDeviation = 0.02;

class Mixture {
 public:
  Mixture(Layers& layers, ValueId x, const std::string& at, double residual_deviation)
      : layers_(layers),
        b_(layers.builder()),
        c_(layers.config()),
        at_(at),
        residual_deviation_(residual_deviation),
        shape_(b_.shape(x)) {
    tokens_ = shape_.dim(0) * shape_.dim(1);
    x_ = b_.add1("reshape", {x}, {{"shape", std::vector<std::int64_t>{tokens_, c_.width}}});
  }

  MixtureResult run() {
    route();
    const std::int64_t places = capacity();
    const Attributes sizes{{"experts", c_.experts}, {"capacity", places}};
    const ValueId slots = b_.add("expert_slots", {indices_}, sizes)[0];
    const ValueId sent = b_.add1("expert_dispatch", {x_, slots}, sizes);
    const ValueId done = c_.family == Family::Gpt2 ? gelu_experts(sent) : swiglu_experts(sent);
    const ValueId combined = b_.add1("expert_combine", {done, slots, gates_});
    return {.y = b_.add1("reshape", {combined}, {{"shape", shape_.dims()}}), .balance = balance()};
  }

 private:
  ValueId einsum(const char* equation, ValueId a, ValueId b) {
    return b_.add1("einsum", {a, b}, {{"equation", std::string(equation)}});
  }

  [[nodiscard]] std::int64_t capacity() const {
    if (c_.capacity_factor == 0) {
      return tokens_;
    }
    const double even =
        static_cast<double>(tokens_ * c_.experts_per_token) / static_cast<double>(c_.experts);
    const auto places = static_cast<std::int64_t>(std::ceil(even * c_.capacity_factor));
    return std::clamp(places, std::int64_t{1}, tokens_);
  }

  void route() {
    const ValueId router =
        layers_.weight(at_ + ".block_sparse_moe.gate.weight", {c_.experts, c_.width}, kDeviation);
    const ValueId scores = einsum("nc,ec->ne", x_, router);
    probabilities_ = b_.add1("softmax", {scores});
    const bool one = c_.experts_per_token == 1;
    const std::vector<ValueId> best =
        b_.add("top_k", {one ? probabilities_ : scores}, {{"k", c_.experts_per_token}});
    gates_ = one ? best[0] : b_.add1("softmax", {best[0]});
    indices_ = best[1];
  }

  ValueId gelu_experts(ValueId sent) {
    const std::string part = at_ + ".block_sparse_moe.experts";
    const ValueId up =
        layers_.weight(part + ".c_fc.weight", {c_.experts, c_.width, c_.hidden}, kDeviation);
    const ValueId down = layers_.weight(part + ".c_proj.weight", {c_.experts, c_.hidden, c_.width},
                                        residual_deviation_);
    return einsum("epf,efc->epc", b_.add1("gelu", {einsum("epc,ecf->epf", sent, up)}), down);
  }

  ValueId swiglu_experts(ValueId sent) {
    const std::string part = at_ + ".block_sparse_moe.experts";
    const auto into = [&](const char* which) {
      const ValueId w = layers_.weight(part + which, {c_.experts, c_.hidden, c_.width}, kDeviation);
      return einsum("epc,efc->epf", sent, w);
    };
    const ValueId gate = b_.add1("silu", {into(".w1.weight")});
    const ValueId h = b_.add1("multiply", {gate, into(".w3.weight")});
    const ValueId down =
        layers_.weight(part + ".w2.weight", {c_.experts, c_.width, c_.hidden}, residual_deviation_);
    return einsum("epf,ecf->epc", h, down);
  }

  ValueId balance() {
    ValueId share = b_.add1("expert_load", {indices_}, {{"experts", c_.experts}});
    if (b_.type(share).dtype != c_.dtype) {
      share = b_.add1("cast", {share}, {{"to", std::string(to_text(c_.dtype))}});
    }
    const ValueId sum =
        b_.add1("reduce_sum", {probabilities_}, {{"axes", std::vector<std::int64_t>{0}}});
    const double weight =
        c_.balance_loss * static_cast<double>(c_.experts) / static_cast<double>(tokens_);
    ValueId loss = b_.add1("scale", {einsum("e,e->", share, sum)}, {{"factor", weight}});
    const DType kept = c_.dtype == DType::F64 ? DType::F64 : DType::F32;
    if (c_.dtype != kept) {
      loss = b_.add1("cast", {loss}, {{"to", std::string(to_text(kept))}});
    }
    return loss;
  }

  Layers& layers_;
  GraphBuilder& b_;
  ModelConfig c_;
  std::string at_;
  double residual_deviation_;
  Shape shape_;
  std::int64_t tokens_ = 0;
  ValueId x_{};
  ValueId probabilities_{};
  ValueId gates_{};
  ValueId indices_{};
};

}  // namespace

MixtureResult mixture_of_experts(Layers& layers, ValueId x, const std::string& at,
                                 double residual_deviation) {
  return Mixture(layers, x, at, residual_deviation).run();
}

}  // namespace trireme
