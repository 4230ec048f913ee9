// Weights in Hugging Face format: reading, computing, writing, rejecting.
#include "trireme/hugging_face.h"

#include <cstring>
#include <filesystem>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "expect_error.h"
#include "model/tiny_models.h"
#include "temporary_folder.h"
#include "trireme/cpu_device.h"
#include "trireme/error.h"
#include "trireme/execution.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using Values = std::map<std::string, std::vector<std::byte>>;

const BatchShape kOneSequence{1, 7};

WeightedModel weighted(const ModelConfig& config) {
  return {.config = config, .parameters = make_model(config, {1, 4}).parameters};
}

WeightedModel model_of(const TinyModel& tiny, DType dtype) {
  ModelConfig config = parse_hugging_face_config(tiny.config, "config.json");
  config.dtype = dtype;
  return weighted(config);
}

/// A folder with the files of a model.
std::string folder_with(const TemporaryFolder& place, const TinyModel& tiny) {
  write_tensors(place / "model.safetensors", tiny.tensors);
  return place.path();
}

Values values_in(const std::string& path, const WeightedModel& model) {
  const WeightFiles files(path);
  const HuggingFaceWeights weights(files, model);
  Values values;
  for (const ModelParameter& parameter : model.parameters) {
    const HostBuffer buffer = weights.read(parameter.name);
    EXPECT_EQ(buffer.dtype(), parameter.type.dtype);
    values[parameter.name] = {buffer.raw().begin(), buffer.raw().end()};
  }
  return values;
}

void save(const std::string& folder, const WeightedModel& model, const Values& values,
          Bytes largest = {1 << 30}) {
  HuggingFaceExport to;
  to.folder = folder;
  to.largest_file = largest;
  save_hugging_face(
      model,
      [&](const ModelParameter& parameter) -> std::span<const std::byte> {
        return values.at(parameter.name);
      },
      to);
}

std::vector<Row> logits_of(const TinyModel& tiny, const std::vector<std::int32_t>& tokens) {
  const TemporaryFolder place;
  const WeightedModel model = model_of(tiny, DType::F64);
  const std::unique_ptr<Device> device = make_cpu_device({.threads = 1, .pinned = false});
  Execution execution(make_program(make_model(model.config, kOneSequence).graph), *device);
  for (const auto& [name, bytes] : values_in(folder_with(place, tiny), model)) {
    execution.write(name, bytes);
  }
  execution.write("tokens", std::as_bytes(std::span(tokens)));
  execution.write("targets", std::as_bytes(std::span(tokens)));
  execution.run();
  std::vector<double> all(tokens.size() * 11);
  execution.read("logits", std::as_writable_bytes(std::span(all)));
  std::vector<Row> rows;
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    rows.emplace_back(all.begin() + static_cast<std::ptrdiff_t>(11 * t),
                      all.begin() + static_cast<std::ptrdiff_t>(11 * (t + 1)));
  }
  return rows;
}

void expect_equal(const std::vector<Row>& found, const std::vector<Row>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t t = 0; t < found.size(); ++t) {
    ASSERT_EQ(found[t].size(), expected[t].size());
    for (std::size_t v = 0; v < found[t].size(); ++v) {
      EXPECT_NEAR(found[t][v], expected[t][v], 1e-9) << "position " << t << ", token " << v;
    }
  }
}

const std::vector<std::int32_t> kPrompt{3, 1, 4, 1, 5, 9, 2};

TEST(HuggingFaceWeights, Gpt2MatchesReference) {
  const TinyModel tiny = tiny_gpt2();
  expect_equal(logits_of(tiny, kPrompt), plain_gpt2(tiny.tensors, tiny.sizes, kPrompt));
}

TEST(HuggingFaceWeights, LlamaMatchesReference) {
  const TinyModel tiny = tiny_llama();
  expect_equal(logits_of(tiny, kPrompt), plain_llama(tiny.tensors, tiny.sizes, kPrompt));
}

TEST(HuggingFaceWeights, LlamaWithTiedOutputMatchesReference) {
  TinyModel tiny = tiny_llama();
  tiny.config.insert(1, R"("tie_word_embeddings": true, )");
  tiny.tensors.erase("lm_head.weight");
  expect_equal(logits_of(tiny, kPrompt), plain_llama(tiny.tensors, tiny.sizes, kPrompt));
}

TEST(HuggingFaceWeights, MixtralMatchesReference) {
  const TinyModel tiny = tiny_mixtral();
  expect_equal(logits_of(tiny, kPrompt), plain_llama(tiny.tensors, tiny.sizes, kPrompt));
}

/// Its gate is 1, not its probability.
TEST(HuggingFaceWeights, MixtralWithOneExpertPerTokenMatchesReference) {
  TinyModel tiny = tiny_mixtral();
  const std::string field = R"("num_experts_per_tok": )";
  tiny.config.replace(tiny.config.find(field), field.size() + 1, field + "1");
  tiny.sizes.experts_per_token = 1;
  expect_equal(logits_of(tiny, kPrompt), plain_llama(tiny.tensors, tiny.sizes, kPrompt));
}

/// File, parameters, file: the same tensors; and again the same parameters.
TEST(HuggingFaceWeights, RoundTripBitForBit) {
  for (const TinyModel& tiny : {tiny_gpt2(), tiny_llama(), tiny_mixtral()}) {
    const TemporaryFolder place;
    const WeightedModel model = model_of(tiny, DType::F32);
    const Values values = values_in(folder_with(place, tiny), model);
    save(place / "out", model, values);
    const WeightFiles written(place / "out");
    EXPECT_EQ(written.tensors().size(), tiny.tensors.size());
    for (const auto& [name, tensor] : tiny.tensors) {
      const WeightFiles::Tensor* found = written.find(name);
      ASSERT_NE(found, nullptr) << name;
      EXPECT_EQ(found->view.spec.shape, Shape(tensor.shape)) << name;
      EXPECT_TRUE(std::ranges::equal(found->view.bytes, std::as_bytes(std::span(tensor.data))))
          << name;
    }
    EXPECT_EQ(values_in(place / "out", model), values);
    const ModelConfig config =
        parse_hugging_face_config(content_of(place / "out/config.json"), "config.json");
    EXPECT_EQ(hugging_face_config(config), hugging_face_config(model.config));
  }
}

TEST(HuggingFaceWeights, RoundTripInEveryType) {
  for (const DType dtype : {DType::F64, DType::BF16, DType::F16}) {
    for (const TinyModel& tiny : {tiny_gpt2(), tiny_llama(), tiny_mixtral()}) {
      const TemporaryFolder place;
      const WeightedModel model = model_of(tiny, dtype);
      const Values values = values_in(folder_with(place, tiny), model);
      save(place / "out", model, values);
      EXPECT_EQ(values_in(place / "out", model), values);
    }
  }
}

TEST(HuggingFaceWeights, AreConvertedToModelType) {
  const TemporaryFolder place;
  const TinyModel tiny = tiny_gpt2();
  const std::string folder = folder_with(place, tiny);
  const std::vector<float>& original = tiny.tensors.at("transformer.wte.weight").data;
  const std::vector<std::byte> narrow =
      values_in(folder, model_of(tiny, DType::BF16)).at("wte.weight");
  save(place / "narrow", model_of(tiny, DType::BF16),
       values_in(folder, model_of(tiny, DType::BF16)));
  const std::vector<std::byte> wide =
      values_in(place / "narrow", model_of(tiny, DType::F32)).at("wte.weight");
  for (std::size_t i = 0; i < original.size(); ++i) {
    BFloat16 half;
    std::memcpy(&half, narrow.data() + i * sizeof half, sizeof half);
    EXPECT_EQ(half, to_bf16(original[i]));
    float whole = 0;
    std::memcpy(&whole, wide.data() + i * sizeof whole, sizeof whole);
    EXPECT_EQ(whole, to_f32(half));
  }
}

TEST(HuggingFaceWeights, MayBeShardedAcrossFiles) {
  for (const TinyModel& tiny : {tiny_gpt2(), tiny_llama(), tiny_mixtral()}) {
    const TemporaryFolder place;
    const WeightedModel model = model_of(tiny, DType::F32);
    const Values values = values_in(folder_with(place, tiny), model);
    save(place / "parts", model, values, Bytes{3000});
    EXPECT_FALSE(fs::exists(place / "parts/model.safetensors"));
    EXPECT_GT(std::distance(fs::directory_iterator(place / "parts"), {}), 4);
    EXPECT_EQ(values_in(place / "parts", model), values);
    EXPECT_EQ(values_in(place / "parts/model.safetensors.index.json", model), values);
  }
}

TEST(HuggingFaceWeights, MayLackPrefixAndIncludeMask) {
  const TemporaryFolder place;
  const TinyModel tiny = tiny_gpt2();
  const WeightedModel model = model_of(tiny, DType::F32);
  PlainTensors bare;
  for (const auto& [name, tensor] : tiny.tensors) {
    bare[name.substr(std::string("transformer.").size())] = tensor;
  }
  bare["h.1.attn.bias"] = {{1, 1, 9, 9}, std::vector<float>(81)};
  write_tensors(place / "bare.safetensors", bare);
  EXPECT_EQ(values_in(place / "bare.safetensors", model),
            values_in(folder_with(place, tiny), model));
}

TEST(HuggingFaceWeights, MayIncludeTiedOutputLayer) {
  const TemporaryFolder place;
  TinyModel tiny = tiny_gpt2();
  const WeightedModel model = model_of(tiny, DType::F32);
  tiny.tensors["lm_head.weight"] = tiny.tensors.at("transformer.wte.weight");
  (void)values_in(folder_with(place, tiny), model);
  tiny.tensors["lm_head.weight"].data[5] += 1;
  expect_error(ErrorKind::Input, "tensor 'lm_head.weight' is not the embedding",
               [&] { (void)values_in(folder_with(place, tiny), model); });
}

void expect_refused(const TinyModel& tiny, const WeightedModel& model, const std::string& words) {
  const TemporaryFolder place;
  expect_error(ErrorKind::Input, words, [&] { (void)values_in(folder_with(place, tiny), model); });
}

TEST(HuggingFaceWeights, AreRejectedIfTheyDoNotMatchModel) {
  const TinyModel good = tiny_mixtral();
  const WeightedModel model = model_of(good, DType::F32);
  TinyModel tiny = good;
  tiny.tensors.erase("model.layers.1.block_sparse_moe.experts.2.w3.weight");
  expect_refused(tiny, model,
                 "/model.safetensors: tensor 'model.layers.1.block_sparse_moe.experts.2.w3.weight' "
                 "is missing; model mixtral needs it, [14,10]");
  tiny = good;
  tiny.tensors["model.layers.2.input_layernorm.weight"] = tiny.tensors.at("model.norm.weight");
  expect_refused(tiny, model,
                 "tensor 'model.layers.2.input_layernorm.weight' [10] belongs to no parameter");
  tiny = good;
  std::swap(tiny.tensors.at("model.layers.0.self_attn.q_proj.weight").shape[0],
            tiny.tensors.at("model.layers.0.self_attn.q_proj.weight").shape[1]);
  expect_refused(
      tiny, model,
      "tensor 'model.layers.0.self_attn.q_proj.weight' is [10,24], but [24,10] in model");
}

TEST(HuggingFaceWeights, ReportVocabularyMismatch) {
  TinyModel padded = tiny_gpt2();
  padded.config.replace(padded.config.find("11"), 2, "16");
  expect_refused(
      tiny_gpt2(), model_of(padded, DType::F32),
      "tensor 'transformer.wte.weight' is [11,12], but [16,12] in model gpt2: the model's "
      "vocabulary is 16, the file's 11");
  const TemporaryFolder place;
  const WeightFiles files(folder_with(place, tiny_gpt2()));
  EXPECT_EQ(vocabulary_of(files, model_of(padded, DType::F32).config), 11);
}

TEST(HuggingFaceWeights, AreRejectedIfFileIsTruncated) {
  const TinyModel tiny = tiny_llama();
  const WeightedModel model = model_of(tiny, DType::F32);
  const TemporaryFolder place;
  (void)folder_with(place, tiny);
  const std::string whole = content_of(place / "model.safetensors");
  for (std::size_t size = 0; size < whole.size(); size += 97) {
    (void)place.file("model.safetensors", whole.substr(0, size));
    expect_error(ErrorKind::Input,
                 "/model.safetensors: ", [&] { (void)values_in(place.path(), model); });
  }
}

TEST(HuggingFaceWeights, AreRejectedIfIndexIsWrong) {
  const TemporaryFolder place;
  const TinyModel tiny = tiny_llama();
  const WeightedModel model = model_of(tiny, DType::F32);
  write_tensors(place / "a.safetensors", tiny.tensors);
  write_tensors(place / "b.safetensors", tiny.tensors);
  const auto expect_index = [&](const std::string& map, const std::string& words) {
    const std::string path =
        place.file("model.safetensors.index.json", fmt::format(R"({{"weight_map": {}}})", map));
    expect_error(ErrorKind::Input, words, [&] { (void)values_in(path, model); });
  };
  expect_index("3", "has no weight_map");
  expect_index(R"({"x": 3})", "tensor 'x': '3' is not a file next to the index");
  expect_index(R"({"x": "../a.safetensors"})", "is not a file next to the index");
  expect_index(R"({"x": "a.safetensors"})", "tensor 'x' is missing from");
  expect_index(R"({"model.norm.weight": "a.safetensors", "lm_head.weight": "b.safetensors"})",
               "b.safetensors too");
  expect_error(ErrorKind::Input, "missing.safetensors", [&] {
    (void)values_in(place.file("model.safetensors.index.json",
                               R"({"weight_map": {"x": "missing.safetensors"}})"),
                    model);
  });
}

TEST(HuggingFaceExport, NeverOverwritesAndCleansUpAfterFailure) {
  const TemporaryFolder place;
  const TinyModel tiny = tiny_llama();
  const WeightedModel model = model_of(tiny, DType::F32);
  const Values values = values_in(folder_with(place, tiny), model);
  expect_error(ErrorKind::Usage, "it exists and is not an empty folder",
               [&] { save(place.path(), model, values); });
  expect_error(ErrorKind::Usage, "it exists and is not an empty folder",
               [&] { save(place.file("a-file", ""), model, values); });
  // A failure halfway leaves nothing behind.
  HuggingFaceExport to;
  to.folder = place / "new";
  EXPECT_THROW(save_hugging_face(
                   model,
                   [](const ModelParameter&) -> std::span<const std::byte> {
                     throw Error(ErrorKind::System, "the device is gone");
                   },
                   to),
               Error);
  EXPECT_EQ(std::distance(fs::directory_iterator(place.path()), {}), 2);
}

void expect_no_export(const ModelConfig& config, const std::string& words) {
  HuggingFaceExport to;
  to.folder = "/no/such/folder";
  expect_error(ErrorKind::Usage, words, [&] { check_hugging_face_export(weighted(config), to); });
}

TEST(HuggingFaceExport, RejectsModelsOutsideSupportedFamilies) {
  ModelConfig config = preset_model("gpt-nano");
  config.head_width = 8;
  expect_no_export(config, "all heads have keys and share the width");
  config = preset_model("llama-tiny");
  config.experts = 4;
  config.experts_per_token = 1;
  expect_no_export(config, "soft-max over the experts that were chosen");
  config.experts_per_token = 2;
  config.gate_order = GateOrder::SoftmaxFirst;
  expect_no_export(config, "soft-max over the experts that were chosen");
}

/// One line names everything that is not in the tables, for reading and for writing.
TEST(HuggingFaceExport, NamesUnsupportedParameters) {
  expect_no_export(preset_model("switch-mini"),
                   "model switch-mini: none of the families gpt2, llama and mixtral of Hugging "
                   "Face has its h.*.block_sparse_moe.gate.weight, "
                   "h.*.block_sparse_moe.experts.c_fc.weight and "
                   "h.*.block_sparse_moe.experts.c_proj.weight");
  expect_no_export(preset_model("depths-mini"), "has its h.*.depth_router.weight");
  ModelConfig config = preset_model("llama-tiny");
  config.experts = 4;
  config.noisy_router = true;
  const std::string noise = "has its model.layers.*.block_sparse_moe.gate_noise.weight";
  expect_no_export(config, noise);
  config.shared_experts = 1;
  expect_no_export(config, noise + ", model.layers.*.block_sparse_moe.shared_expert.w1.weight, ");
  const TemporaryFolder place;
  const WeightFiles files(folder_with(place, tiny_mixtral()));
  expect_error(ErrorKind::Usage, noise, [&] { (void)HuggingFaceWeights(files, weighted(config)); });
  for (const char* name : {"mlp", "conv-mini"}) {
    const AnyModelConfig any = preset_any_model(name);
    const std::vector<ModelParameter> parameters = make_model(any, {2, 1}).parameters;
    expect_error(ErrorKind::Usage, std::string("model ") + name + ": none of the families",
                 [&] { check_hugging_face_names(any, parameters); });
  }
}

/// The same from the config alone.
TEST(HuggingFaceExport, DescribesOnlySupportedFamilies) {
  for (const char* name : {"switch-mini", "experts-mini", "depths-mini"}) {
    expect_error(ErrorKind::Usage, "none of the families has",
                 [&] { (void)hugging_face_config(preset_model(name)); });
  }
}

}  // namespace
}  // namespace trireme
