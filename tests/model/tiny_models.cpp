#include "model/tiny_models.h"

#include <random>

#include <fmt/format.h>

#include "trireme/safetensors.h"

namespace trireme {
namespace {

/// Random tensors, large enough that every part of the model changes the result.
class Maker {
 public:
  void add(const std::string& name, const std::vector<std::int64_t>& shape) {
    std::int64_t count = 1;
    for (const std::int64_t dim : shape) {
      count *= dim;
    }
    PlainTensor& tensor = tensors_[name];
    tensor.shape = shape;
    tensor.data.resize(static_cast<std::size_t>(count));
    for (float& value : tensor.data) {
      value = normal_(random_);
    }
  }
  PlainTensors take() { return std::move(tensors_); }

 private:
  std::mt19937 random_{7};
  std::normal_distribution<float> normal_{0.0F, 0.5F};
  PlainTensors tensors_;
};

void add_llama_attention(Maker& maker, const std::string& at) {
  maker.add(at + ".input_layernorm.weight", {10});
  maker.add(at + ".self_attn.q_proj.weight", {24, 10});
  maker.add(at + ".self_attn.k_proj.weight", {12, 10});
  maker.add(at + ".self_attn.v_proj.weight", {12, 10});
  maker.add(at + ".self_attn.o_proj.weight", {10, 24});
  maker.add(at + ".post_attention_layernorm.weight", {10});
}

void add_expert(Maker& maker, const std::string& at) {
  maker.add(at + ".w1.weight", {14, 10});
  maker.add(at + ".w2.weight", {10, 14});
  maker.add(at + ".w3.weight", {14, 10});
}

}  // namespace

TinyModel tiny_gpt2() {
  Maker maker;
  maker.add("transformer.wte.weight", {11, 12});
  maker.add("transformer.wpe.weight", {9, 12});
  for (int layer = 0; layer < 2; ++layer) {
    const std::string at = fmt::format("transformer.h.{}", layer);
    for (const char* norm : {".ln_1", ".ln_2"}) {
      maker.add(at + norm + ".weight", {12});
      maker.add(at + norm + ".bias", {12});
    }
    maker.add(at + ".attn.c_attn.weight", {12, 36});
    maker.add(at + ".attn.c_attn.bias", {36});
    maker.add(at + ".attn.c_proj.weight", {12, 12});
    maker.add(at + ".attn.c_proj.bias", {12});
    maker.add(at + ".mlp.c_fc.weight", {12, 20});
    maker.add(at + ".mlp.c_fc.bias", {20});
    maker.add(at + ".mlp.c_proj.weight", {20, 12});
    maker.add(at + ".mlp.c_proj.bias", {12});
  }
  maker.add("transformer.ln_f.weight", {12});
  maker.add("transformer.ln_f.bias", {12});
  return {
      .config = R"({"model_type": "gpt2", "vocab_size": 11, "n_positions": 9, "n_embd": 12,
                        "n_layer": 2, "n_head": 3, "n_inner": 20, "layer_norm_epsilon": 1e-3,
                        "activation_function": "gelu_new", "bos_token_id": 10})",
      .sizes =
          {.width = 12, .layers = 2, .heads = 3, .key_heads = 3, .head_width = 4, .epsilon = 1e-3},
      .tensors = maker.take()};
}

TinyModel tiny_llama() {
  Maker maker;
  maker.add("model.embed_tokens.weight", {11, 10});
  for (int layer = 0; layer < 2; ++layer) {
    const std::string at = fmt::format("model.layers.{}", layer);
    add_llama_attention(maker, at);
    maker.add(at + ".mlp.gate_proj.weight", {14, 10});
    maker.add(at + ".mlp.up_proj.weight", {14, 10});
    maker.add(at + ".mlp.down_proj.weight", {10, 14});
  }
  maker.add("model.norm.weight", {10});
  maker.add("lm_head.weight", {11, 10});
  return {.config = R"({"model_type": "llama", "vocab_size": 11, "max_position_embeddings": 9,
                        "hidden_size": 10, "intermediate_size": 14, "num_hidden_layers": 2,
                        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 6,
                        "rms_norm_eps": 1e-3, "rope_theta": 100.0, "rope_scaling": null})",
          .sizes = {.width = 10,
                    .layers = 2,
                    .heads = 4,
                    .key_heads = 2,
                    .head_width = 6,
                    .epsilon = 1e-3,
                    .rope_base = 100},
          .tensors = maker.take()};
}

TinyModel tiny_mixtral() {
  Maker maker;
  maker.add("model.embed_tokens.weight", {11, 10});
  for (int layer = 0; layer < 2; ++layer) {
    const std::string at = fmt::format("model.layers.{}", layer);
    add_llama_attention(maker, at);
    maker.add(at + ".block_sparse_moe.gate.weight", {3, 10});
    for (int expert = 0; expert < 3; ++expert) {
      add_expert(maker, fmt::format("{}.block_sparse_moe.experts.{}", at, expert));
    }
  }
  maker.add("model.norm.weight", {10});
  maker.add("lm_head.weight", {11, 10});
  TinyModel tiny = tiny_llama();
  tiny.config = R"({"model_type": "mixtral", "vocab_size": 11, "max_position_embeddings": 9,
                    "hidden_size": 10, "intermediate_size": 14, "num_hidden_layers": 2,
                    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 6,
                    "rms_norm_eps": 1e-3, "rope_theta": 100.0, "sliding_window": null,
                    "num_local_experts": 3, "num_experts_per_tok": 2,
                    "router_aux_loss_coef": 0.02})";
  tiny.sizes.experts = 3;
  tiny.tensors = maker.take();
  return tiny;
}

void write_tensors(const std::string& path, const PlainTensors& tensors) {
  std::vector<TensorView> views;
  views.reserve(tensors.size());
  for (const auto& [name, tensor] : tensors) {
    TensorView& view = views.emplace_back();
    view.spec = {name, DType::F32, Shape(tensor.shape)};
    view.bytes = std::as_bytes(std::span(tensor.data));
  }
  write_safetensors(path, views);
}

}  // namespace trireme
