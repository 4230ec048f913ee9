// The two families of decoders. Heads are a separate dimension from the projection on ([B,T,H,D]), so nothing is ever
// transposed, and a mesh axis can shard them.
#include <cmath>

#include <fmt/format.h>

#include "model/depths.h"
#include "model/experts.h"
#include "model/layers.h"
#include "trireme/decode_model.h"
#include "trireme/model.h"

namespace trireme {
namespace {

class Transformer {
 public:
  Transformer(const ModelConfig& config, const BatchShape& batch)
      : c_(config), batch_(batch), layers_(config) {}

  /// A step of decoding: `batch` has its tokens, which attend to `capacity` positions.
  Transformer(const ModelConfig& config, const BatchShape& batch, std::int64_t capacity)
      : Transformer(config, batch) {
    capacity_ = capacity;
  }

  Model run_decoding() {
    GraphBuilder& b = layers_.builder();
    const TensorType ids{DType::I32, {batch_.sequences, batch_.length}};
    const ValueId tokens = b.input("tokens", ids);
    positions_ = b.input("positions", ids);
    const ValueId last = b.input("last", {DType::I32, {batch_.sequences, 1}});
    const ValueId x = b.add1("gather_rows", {blocks(tokens), last});
    b.output("logits", logits(x));
    return layers_.finish("tokens");
  }

  Model run() {
    GraphBuilder& b = layers_.builder();
    const TensorType ids{DType::I32, {batch_.sequences, batch_.length}};
    const ValueId tokens = b.input("tokens", ids);
    const ValueId targets = b.input("targets", ids);
    if (c_.dropout > 0 || c_.noisy_router) {
      layers_.set_step(b.input("step", {DType::I64, {}}));
    }
    const ValueId scores = logits(blocks(tokens));
    b.output("loss", loss(scores, targets));
    b.output("logits", scores);
    for (const Output& statistic : statistics_) {
      b.output(statistic.name, statistic.value);
    }
    return layers_.finish("tokens");
  }

 private:
  [[nodiscard]] bool is_gpt() const { return c_.family == Family::Gpt2; }
  [[nodiscard]] bool decodes() const { return capacity_ > 0; }

  ValueId blocks(ValueId tokens) {
    ValueId x = embed(tokens);
    for (std::int64_t layer = 0; layer < c_.layers; ++layer) {
      layers_.builder().set_block(static_cast<std::int32_t>(layer));
      x = block(x, layer);
    }
    layers_.builder().set_block(-1);
    return x;
  }

  ValueId logits(ValueId x) {
    return layers_.einsum("btc,vc->btv", norm(x, final_norm()), output_weight());
  }

  [[nodiscard]] std::string final_norm() const { return is_gpt() ? "ln_f" : "model.norm"; }

  ValueId embed(ValueId tokens) {
    GraphBuilder& b = layers_.builder();
    embedding_ = layers_.weight(is_gpt() ? "wte.weight" : "model.embed_tokens.weight",
                                {c_.vocabulary, c_.width}, kDeviation);
    ValueId x = b.add1("embedding", {embedding_, tokens});
    if (is_gpt()) {
      ValueId positions = layers_.weight("wpe.weight", {c_.context, c_.width}, kDeviation / 2);
      if (decodes()) {
        positions = b.add1("embedding", {positions, positions_});
      } else if (batch_.length < c_.context) {
        positions = b.add1("slice", {positions},
                           {{"begin", std::vector<std::int64_t>{0, 0}},
                            {"end", std::vector<std::int64_t>{batch_.length, c_.width}}});
      }
      x = b.add1("add", {x, positions});
    }
    return layers_.dropout(x);
  }

  ValueId output_weight() {
    return c_.tied ? embedding_
                   : layers_.weight("lm_head.weight", {c_.vocabulary, c_.width}, kDeviation);
  }

  ValueId norm(ValueId x, const std::string& name) {
    return is_gpt() ? layers_.layer_norm(x, name) : layers_.rms_norm(x, name);
  }

  [[nodiscard]] std::string name_of(std::int64_t layer) const {
    return is_gpt() ? fmt::format("h.{}", layer) : fmt::format("model.layers.{}", layer);
  }

  ValueId block(ValueId x, std::int64_t layer) {
    GraphBuilder& b = layers_.builder();
    const std::string at = name_of(layer);
    if (!c_.picks_tokens(layer)) {
      const Added added = add_up(x, layer);
      return b.add1("add", {added.with_attention, added.feed_forward});
    }
    const PickedTokens picked = pick_tokens(layers_, x, at, c_.picked_tokens(batch_.length));
    const Added added = add_up(picked.rows, layer);
    return add_to_picked(layers_, x, picked, b.add1("add", {added.attention, added.feed_forward}));
  }

  /// A block's contribution to its tokens.
  struct Added {
    ValueId attention;
    ValueId with_attention;  ///< the tokens plus the attention's contribution
    ValueId feed_forward;
  };

  Added add_up(ValueId x, std::int64_t layer) {
    GraphBuilder& b = layers_.builder();
    const std::string at = name_of(layer);
    const ValueId normed = norm(x, at + (is_gpt() ? ".ln_1" : ".input_layernorm"));
    const ValueId seen = layers_.dropout(attention(normed, at));
    x = b.add1("add", {x, seen});
    const ValueId again = norm(x, at + (is_gpt() ? ".ln_2" : ".post_attention_layernorm"));
    return {seen, x, layers_.dropout(feed_forward(again, layer))};
  }

  /// The deviation of the contributions to the residual stream shrinks with depth, as in GPT-2.
  [[nodiscard]] double residual_deviation() const {
    return kDeviation / std::sqrt(2.0 * static_cast<double>(c_.layers));
  }

  ValueId attention(ValueId x, const std::string& at) {
    GraphBuilder& b = layers_.builder();
    const std::string part = at + (is_gpt() ? ".attn" : ".self_attn");
    ValueId q = project(x, part, "q", c_.heads);
    ValueId k = project(x, part, "k", c_.key_heads);
    const ValueId v = project(x, part, "v", c_.key_heads);
    if (!is_gpt()) {
      q = rotated(q);
      k = rotated(k);
    }
    const ValueId y = decodes() ? b.add1("attention_at", {q, cached(k, part + ".k.cache"),
                                                          cached(v, part + ".v.cache"), positions_})
                                : b.add("attention", {q, k, v})[0];
    if (is_gpt()) {
      const ValueId w = layers_.weight(part + ".c_proj.weight", {c_.heads, c_.head_width, c_.width},
                                       residual_deviation());
      return layers_.add_bias(layers_.einsum("bthd,hdc->btc", y, w), part + ".c_proj.bias",
                              {c_.width});
    }
    const ValueId w = layers_.weight(part + ".o_proj.weight", {c_.width, c_.heads, c_.head_width},
                                     residual_deviation());
    return layers_.einsum("bthd,chd->btc", y, w);
  }

  ValueId rotated(ValueId x) {
    GraphBuilder& b = layers_.builder();
    return decodes()
               ? b.add1("rope_at", {x, positions_}, {{"base", c_.rope_base}, {"limit", capacity_}})
               : b.add1("rope", {x}, {{"base", c_.rope_base}});
  }

  /// Keys or values [B,T,G,D] added to those of earlier steps, [B,capacity,G,D].
  ValueId cached(ValueId x, const std::string& name) {
    GraphBuilder& b = layers_.builder();
    const ValueId cache =
        b.state(name, {c_.dtype, {batch_.sequences, capacity_, c_.key_heads, c_.head_width}});
    const ValueId all = b.add1("cache_write", {cache, x, positions_});
    b.update(cache, all);
    return all;
  }

  /// [B,T,C] to heads [B,T,H,D]. GPT-2 stores its weights as [in, out], Llama as [out, in].
  ValueId project(ValueId x, const std::string& part, const std::string& which,
                  std::int64_t heads) {
    if (is_gpt()) {
      const ValueId w = layers_.weight(fmt::format("{}.{}.weight", part, which),
                                       {c_.width, heads, c_.head_width}, kDeviation);
      return layers_.add_bias(layers_.einsum("btc,chd->bthd", x, w),
                              fmt::format("{}.{}.bias", part, which), {heads, c_.head_width});
    }
    const ValueId w = layers_.weight(fmt::format("{}.{}_proj.weight", part, which),
                                     {heads, c_.head_width, c_.width}, kDeviation);
    return layers_.einsum("btc,hdc->bthd", x, w);
  }

  ValueId feed_forward(ValueId x, std::int64_t layer) {
    const std::string at = name_of(layer);
    if (c_.has_experts(layer)) {
      const MixtureResult mixture = mixture_of_experts(layers_, x, at, residual_deviation());
      statistics_.push_back({fmt::format("{}{}", kExpertLoad, layer), mixture.load});
      statistics_.push_back({fmt::format("{}{}", kExpertDrops, layer), mixture.drops});
      if (mixture.balance) {
        balance_losses_.push_back(*mixture.balance);
      }
      return mixture.y;
    }
    return is_gpt() ? gelu_part(x, at + ".mlp") : swiglu_part(x, at + ".mlp");
  }

  ValueId gelu_part(ValueId x, const std::string& part) {
    GraphBuilder& b = layers_.builder();
    const ValueId up = layers_.weight(part + ".c_fc.weight", {c_.width, c_.hidden}, kDeviation);
    ValueId h = layers_.einsum("btc,cf->btf", x, up);
    h = b.add1("gelu", {layers_.add_bias(h, part + ".c_fc.bias", {c_.hidden})});
    const ValueId down =
        layers_.weight(part + ".c_proj.weight", {c_.hidden, c_.width}, residual_deviation());
    return layers_.add_bias(layers_.einsum("btf,fc->btc", h, down), part + ".c_proj.bias",
                            {c_.width});
  }

  ValueId swiglu_part(ValueId x, const std::string& part) {
    GraphBuilder& b = layers_.builder();
    const auto into = [&](const char* which) {
      const ValueId w = layers_.weight(fmt::format("{}.{}_proj.weight", part, which),
                                       {c_.hidden, c_.width}, kDeviation);
      return layers_.einsum("btc,fc->btf", x, w);
    };
    const ValueId gate = b.add1("silu", {into("gate")});
    const ValueId h = b.add1("multiply", {gate, into("up")});
    const ValueId down =
        layers_.weight(part + ".down_proj.weight", {c_.width, c_.hidden}, residual_deviation());
    return layers_.einsum("btf,cf->btc", h, down);
  }

  /// The mean cross-entropy of all positions, plus the routers' losses.
  ValueId loss(ValueId logits, ValueId targets) {
    GraphBuilder& b = layers_.builder();
    const ValueId each = layers_.cross_entropy(logits, targets);
    ValueId loss = layers_.mean(each, static_cast<double>(batch_.sequences * batch_.length));
    for (const ValueId balance : balance_losses_) {
      loss = b.add1("add", {loss, balance});
    }
    b.rename(loss, "loss");
    return loss;
  }

  ModelConfig c_;
  BatchShape batch_;
  Layers layers_;
  std::int64_t capacity_ = 0;  ///< of the cache; 0: not decoding
  ValueId positions_{};        ///< an input, if decoding
  ValueId embedding_{};
  std::vector<ValueId> balance_losses_;
  std::vector<Output> statistics_;
};

}  // namespace

Model make_model(const ModelConfig& config, const BatchShape& batch) {
  require_valid(config);
  if (batch.sequences < 1 || batch.length < 1 || batch.length > config.context) {
    throw Error(ErrorKind::Usage,
                fmt::format("a batch of {} sequences of {} tokens does not suit model {}, whose "
                            "context is {}",
                            batch.sequences, batch.length, config.name, config.context));
  }
  return Transformer(config, batch).run();
}

Model make_decode_model(const ModelConfig& config, const DecodeShape& shape) {
  require_valid(config);
  const bool fits = shape.sequences >= 1 && shape.tokens >= 1 && shape.capacity >= shape.tokens &&
                    shape.capacity <= config.context;
  if (!fits) {
    throw Error(ErrorKind::Usage,
                fmt::format("{} tokens at a time of a sequence of {} do not suit model {}, whose "
                            "context is {}",
                            shape.tokens, shape.capacity, config.name, config.context));
  }
  if (config.depth_capacity > 0) {
    throw Error(ErrorKind::Usage,
                fmt::format("model {} picks tokens among all of a sequence (mixture of depths), so "
                            "it cannot generate token by token",
                            config.name));
  }
  ModelConfig own = config;
  own.capacity_factor = 0;
  own.dropout = 0;
  own.noisy_router = false;
  return Transformer(own, {shape.sequences, shape.tokens}, shape.capacity).run_decoding();
}

}  // namespace trireme
