#include <gtest/gtest.h>

#include "base/json.h"
#include "damage.h"
#include "expect_error.h"
#include "trireme/hugging_face.h"

namespace trireme {
namespace {

ModelConfig parsed(const std::string& text) {
  return parse_hugging_face_config(text, "config.json");
}

std::int64_t parameters(const std::string& text) {
  std::int64_t count = 0;
  for (const ModelParameter& parameter : make_model(parsed(text), {1, 8}).parameters) {
    count += parameter.type.shape.element_count();
  }
  return count;
}

const char* const kGpt2 = R"({
  "activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.1,
  "bos_token_id": 50256, "embd_pdrop": 0.1, "eos_token_id": 50256, "initializer_range": 0.02,
  "layer_norm_epsilon": 1e-05, "model_type": "gpt2", "n_ctx": 1024, "n_embd": 768, "n_head": 12,
  "n_layer": 12, "n_positions": 1024, "resid_pdrop": 0.1, "summary_activation": null,
  "task_specific_params": {"text-generation": {"do_sample": true, "max_length": 50}},
  "vocab_size": 50257})";

const char* const kLlama = R"({
  "architectures": ["LlamaForCausalLM"], "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu",
  "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 11008,
  "max_position_embeddings": 4096, "model_type": "llama", "num_attention_heads": 32,
  "num_hidden_layers": 32, "num_key_value_heads": 32, "pretraining_tp": 1, "rms_norm_eps": 1e-05,
  "rope_scaling": null, "tie_word_embeddings": false, "torch_dtype": "float16", "use_cache": true,
  "vocab_size": 32000})";

const char* const kMixtral = R"({
  "architectures": ["MixtralForCausalLM"], "attention_dropout": 0.0, "hidden_act": "silu",
  "hidden_size": 4096, "intermediate_size": 14336, "max_position_embeddings": 32768,
  "model_type": "mixtral", "num_attention_heads": 32, "num_experts_per_tok": 2,
  "num_hidden_layers": 32, "num_key_value_heads": 8, "num_local_experts": 8,
  "output_router_logits": false, "rms_norm_eps": 1e-05, "rope_theta": 1000000.0,
  "router_aux_loss_coef": 0.02, "sliding_window": null, "tie_word_embeddings": false,
  "torch_dtype": "bfloat16", "vocab_size": 32000})";

TEST(HuggingFaceConfig, HasPublishedParameterCounts) {
  EXPECT_EQ(parameters(kGpt2), 124'439'808);
  EXPECT_EQ(parameters(kLlama), 6'738'415'616);
  EXPECT_EQ(parameters(kMixtral), 46'702'792'704);
}

TEST(HuggingFaceConfig, ReadsEveryField) {
  const ModelConfig c = parsed(kMixtral);
  EXPECT_EQ(c.family, Family::Llama);
  EXPECT_EQ(c.vocabulary, 32000);
  EXPECT_EQ(c.context, 32768);
  EXPECT_EQ(c.width, 4096);
  EXPECT_EQ(c.layers, 32);
  EXPECT_EQ(c.heads, 32);
  EXPECT_EQ(c.key_heads, 8);
  EXPECT_EQ(c.head_width, 128);
  EXPECT_EQ(c.hidden, 14336);
  EXPECT_EQ(c.experts, 8);
  EXPECT_EQ(c.experts_per_token, 2);
  EXPECT_EQ(c.norm_epsilon, 1e-5);
  EXPECT_EQ(c.rope_base, 1e6);
  EXPECT_EQ(c.balance_loss, 0.02);
  EXPECT_EQ(c.capacity_factor, 0);
  EXPECT_EQ(c.gate_order, GateOrder::TopKFirst);
  EXPECT_FALSE(c.tied);
  EXPECT_EQ(c.dtype, DType::BF16);
}

TEST(HuggingFaceConfig, AppliesFamilyDefaults) {
  EXPECT_EQ(parameters(R"({"model_type": "gpt2"})"), 124'439'808);
  EXPECT_TRUE(parsed(R"({"model_type": "gpt2"})").tied);
  EXPECT_EQ(parsed(R"({"model_type": "gpt2", "n_embd": 24, "n_inner": null})").hidden, 96);
  EXPECT_EQ(parsed(R"({"model_type": "gpt2", "hidden_size": 24})").width, 24);
  EXPECT_EQ(parameters(R"({"model_type": "llama"})"), 6'738'415'616);
  EXPECT_EQ(parsed(R"({"model_type": "llama"})").norm_epsilon, 1e-6);
  EXPECT_EQ(parsed(R"({"model_type": "llama", "num_attention_heads": 16})").key_heads, 16);
  EXPECT_EQ(parameters(R"({"model_type": "mixtral"})"), 46'702'792'704);
  EXPECT_EQ(parsed(R"({"model_type": "mixtral"})").rope_base, 1e6);
  EXPECT_EQ(parsed(R"({"model_type": "mixtral", "num_key_value_heads": null})").key_heads, 32);
  EXPECT_EQ(parsed(R"({"model_type": "llama",
                       "rope_parameters": {"rope_type": "default", "rope_theta": 500000.0}})")
                .rope_base,
            500000);
}

/// A written config parses as the same model, and is identical when written again.
TEST(HuggingFaceConfig, RoundTrips) {
  for (const std::string text : {kGpt2, kLlama, kMixtral}) {
    const std::string written = hugging_face_config(parsed(text), text);
    EXPECT_EQ(hugging_face_config(parsed(written), written), written);
    const Json before = parse_json(text, "before");
    const Json after = parse_json(written, "after");
    for (const auto& [field, value] : before.items()) {
      EXPECT_EQ(after.at(field), value) << field;
    }
    EXPECT_EQ(hugging_face_config(parsed(hugging_face_config(parsed(text)))),
              hugging_face_config(parsed(text)));
  }
  ModelConfig config = preset_model("llama-tiny");
  config.experts = 4;
  const ModelConfig back = parsed(hugging_face_config(config));
  EXPECT_EQ(back.capacity_factor, config.capacity_factor);
  EXPECT_EQ(back.balance_loss, config.balance_loss);
  config.experts_per_token = 1;
  config.gate_order = GateOrder::TopKFirst;
  EXPECT_FALSE(parsed(hugging_face_config(config)).softmax_first());
}

void expect_refused(const std::string& type, const std::string& field, const std::string& words) {
  expect_error(ErrorKind::Input, words,
               [&] { (void)parsed(R"({"model_type": ")" + type + R"(", )" + field + "}"); });
}

TEST(HuggingFaceConfig, RejectsUnsupportedFeatures) {
  expect_refused("llama", R"("rope_scaling": {"factor": 8.0, "rope_type": "llama3"})",
                 R"(config.json: rope_scaling is {"factor":8.0,"rope_type":"llama3"}; only null)");
  expect_refused("llama", R"("rope_parameters": {"rope_type": "yarn"})",
                 R"(rope_parameters is {"rope_type":"yarn"}; only null)");
  expect_refused("llama", R"("hidden_act": "gelu")",
                 R"(hidden_act is "gelu"; only "silu" or "swish" is supported)");
  expect_refused("llama", R"("attention_bias": true)",
                 "attention_bias is true; only false is supported");
  expect_refused("llama", R"("mlp_bias": true)", "mlp_bias is true; only false is supported");
  expect_refused("llama", R"("quantization_config": {"bits": 4})",
                 R"(quantization_config is {"bits":4}; only null is supported)");
  expect_refused("llama", R"("torch_dtype": "float8_e4m3fn")", R"(torch_dtype is "float8_e4m3fn")");
  expect_refused("gpt2", R"("activation_function": "relu")",
                 R"(activation_function is "relu"; only "gelu_new" or "gelu_pytorch_tanh")");
  expect_refused("gpt2", R"("scale_attn_by_inverse_layer_idx": true)",
                 "scale_attn_by_inverse_layer_idx is true");
  expect_refused("mixtral", R"("sliding_window": 4096)",
                 "sliding_window is 4096; only null, or as much as the context of 131072,");
  expect_refused("mixtral", R"("router_jitter_noise": 0.1)", "router_jitter_noise is 0.1");
  expect_refused("mistral", R"("x": 0)",
                 R"(model_type is "mistral"; gpt2, llama and mixtral are supported)");
}

TEST(HuggingFaceConfig, RejectsInvalidValues) {
  expect_refused("gpt2", R"("n_embd": "768")", R"(n_embd is "768"; it must be an integer)");
  expect_refused("mixtral", R"("num_local_experts": 1)", "num_local_experts is 1; it must be 2");
  expect_refused("gpt2", R"("n_layer": 0)", "n_layer is 0; it must be an integer");
  expect_refused("gpt2", R"("n_layer": 1.5)", "n_layer is 1.5; it must be an integer");
  expect_refused("gpt2", R"("n_head": 7)", "7 heads cannot share a width of 768 evenly");
  expect_refused("gpt2", R"("tie_word_embeddings": 1)", "it must be true or false");
  expect_refused("llama", R"("num_key_value_heads": 5)", "32 heads cannot share 5 key heads");
  expect_refused("llama", R"("vocab_size": 2000000000, "hidden_size": 2000000000)", "1e15");
  expect_error(ErrorKind::Input, "config.json: is not an object", [] { (void)parsed("[]"); });
  expect_error(ErrorKind::Input, "config.json: has no model_type", [] { (void)parsed("{}"); });
  expect_error(ErrorKind::Input, "config.json: line 1", [] { (void)parsed("{"); });
}

/// Any damaged text gives either a model or an Error.
TEST(HuggingFaceConfig, SurvivesDamage) {
  std::mt19937 random(1);
  int refused = 0;
  for (int i = 0; i < 3000; ++i) {
    const char* const text = i % 3 == 0 ? kGpt2 : i % 3 == 1 ? kLlama : kMixtral;
    try {
      require_valid(parsed(damaged(text, random)));
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Input);
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace trireme
