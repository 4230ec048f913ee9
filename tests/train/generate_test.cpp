// Generation with a key-value cache: what it generates, bit for bit, with and without the cache, on every mesh.
#include "trireme/generate.h"

#include <filesystem>
#include <map>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "expect_error.h"
#include "temporary_folder.h"
#include "train/generate/decoder.h"
#include "train/generate/inference_ranks.h"
#include "trireme/compiled_plan.h"
#include "trireme/cpu_device.h"
#include "trireme/evaluate.h"
#include "trireme/train.h"

namespace trireme {
namespace {

using train::CompiledDecoder;
using train::Decoder;
using train::ModelSource;

/// A model with random weights, as if it came from files.
ModelSource random_source(const std::string& preset) {
  ModelSource source;
  source.config = preset_model(preset);
  source.config.context = 160;
  source.name = preset;
  source.read = [](const ModelParameter& parameter) {
    ModelParameter wider = parameter;  // so that the tokens differ
    wider.initial.deviation *= 5;
    return initial_values(wider, 3);
  };
  return source;
}

CpuOptions row_invariant() {
  CpuOptions options;
  options.threads = 2;
  options.pinned = false;
  options.row_invariant = true;
  return options;
}

/// All logits of a sequence in which every next token follows from the logits before, by rank 0 of a mesh.
std::vector<float> decode(const ModelSource& source, const std::string& mesh, KeyValueCache cache,
                          int count) {
  Plan plan;
  plan.mesh = mesh.empty() ? Mesh() : parse_mesh(mesh);
  const CompiledDecoder compiled = train::compile_decoder(
      {.config = source.config, .plan = plan, .capacity = 70, .cache = cache});
  std::vector<float> all;
  const auto body = [&](Device& device, Communicator* communicator) {
    Decoder decoder(compiled, source, device, communicator);
    std::int32_t token = 1;
    for (int i = 0; i < count; ++i) {
      decoder.append(token);
      const std::span<const float> logits = decoder.logits();
      if (communicator == nullptr || communicator->rank() == 0) {
        all.insert(all.end(), logits.begin(), logits.end());
        token = draw_token(logits, {.temperature = 1}, i);
      }
      if (communicator != nullptr) {
        communicator->all().run(broadcast<std::int32_t>(std::span(&token, 1), 0));
      }
    }
  };
  train::run_inference(
      {.mesh = plan.mesh, .make_device = cpu_devices(row_invariant()), .kind = RankKind::Threads},
      body);
  return all;
}

/// Past a block of 64 keys.
TEST(KeyValueCache, IsBitIdentical) {
  for (const std::string model : {"gpt-nano", "llama-tiny"}) {
    const ModelSource source = random_source(model);
    for (const std::string mesh : {"", "tensor=2", "pipe=2"}) {
      const int count = mesh.empty() ? 70 : 10;
      const std::vector<float> cached = decode(source, mesh, KeyValueCache::Used, count);
      const std::vector<float> uncached = decode(source, mesh, KeyValueCache::Unused, count);
      ASSERT_EQ(cached.size(), static_cast<std::size_t>(count * source.config.vocabulary));
      int differ = 0;
      for (std::size_t i = 0; i < cached.size(); ++i) {
        differ += cached[i] != uncached[i] ? 1 : 0;
      }
      EXPECT_EQ(differ, 0) << model << " " << mesh << " of " << cached.size();
    }
  }
}

/// The text depends on the tokens before: without that, the test above would show nothing.
TEST(KeyValueCache, IsUsed) {
  const ModelSource source = random_source("gpt-nano");
  const std::vector<float> all = decode(source, "", KeyValueCache::Used, 3);
  const auto vocabulary = static_cast<std::size_t>(source.config.vocabulary);
  const CompiledDecoder compiled =
      train::compile_decoder({.config = source.config, .plan = {}, .capacity = 70});
  const std::unique_ptr<Device> device = make_cpu_device(row_invariant());
  Decoder decoder(compiled, source, *device, nullptr);
  decoder.append(draw_token(std::span(all).first(vocabulary), {.temperature = 1}, 0));
  const std::span<const float> alone = decoder.logits();
  EXPECT_FALSE(std::equal(alone.begin(), alone.end(), all.begin() + static_cast<int>(vocabulary)));
}

TEST(KeyValueCache, WorksOnAnyMesh) {
  const ModelSource source = random_source("llama-tiny");
  const std::vector<float> one = decode(source, "", KeyValueCache::Used, 5);
  for (const std::string mesh : {"data=2", "context=2", "tensor=2,pipe=2"}) {
    const std::vector<float> other = decode(source, mesh, KeyValueCache::Used, 5);
    ASSERT_EQ(other.size(), one.size());
    for (std::size_t i = 0; i < one.size(); ++i) {
      ASSERT_NEAR(other[i], one[i], 1e-3) << mesh;
    }
  }
}

TEST(DecodeModel, RejectsTokenChoosingRouters) {
  const ModelSource source = random_source("depths-mini");
  expect_error(ErrorKind::Usage, "mixture of depths", [&] {
    (void)train::compile_decoder({.config = source.config, .plan = {}, .capacity = 16});
  });
}

/// A short run, to generate with and to evaluate.
class TrainedRun : public ::testing::Test {
 protected:
  TrainedRun() {
    RunOptions options;
    options.settings.model = "gpt-nano";
    options.settings.steps = 20;
    options.settings.batch = 4;
    options.settings.length = 32;
    options.settings.data = {folder_.file("text", text())};
    options.settings.validation = 0.1;
    options.make_device = cpu_devices(1);
    options.run_folder = folder_ / "run";
    TrainingRun run(options);
    run.train();
  }
  static std::string text() {
    std::string all;
    for (int i = 0; i < 600; ++i) {
      all += fmt::format("line {} of the text\n", i);
    }
    return all;
  }

  TemporaryFolder folder_;
};

TEST_F(TrainedRun, GeneratesTrainedText) {
  GenerateOptions options;
  options.source.run = folder_ / "run";
  options.prompt = "line 1";
  options.tokens = 20;
  options.make_device = cpu_devices(row_invariant());
  const auto generated = [&] {
    std::string all;
    GenerateSummary summary;
    options.on_text = [&](std::string_view part) { all += part; };
    options.on_end = [&](const GenerateSummary& end) { summary = end; };
    generate(options);
    EXPECT_EQ(summary.prompt.size(), 6U);
    EXPECT_EQ(summary.tokens.size(), 20U);
    EXPECT_EQ(all.size(), 20U);
    return all;
  };
  const std::int64_t compiled = compilation_count();
  const std::string first = generated();
  EXPECT_EQ(compilation_count() - compiled, 1);  // one program for the prompt and all tokens
  options.rank_kind = RankKind::Threads;
  options.plan.mesh = parse_mesh("tensor=2");
  (void)generated();
  EXPECT_EQ(compilation_count() - compiled, 2);  // for both ranks
  options.plan = {};
  options.cache = KeyValueCache::Unused;
  EXPECT_EQ(generated(), first);
  options.sampling.seed = 2;
  EXPECT_NE(generated(), first);
  options.tokens = 123;
  expect_error(ErrorKind::Usage, "longer than the model's context of 128",
               [&] { generate(options); });
  options.prompt = "";
  expect_error(ErrorKind::Usage, "--prompt is empty", [&] { generate(options); });
  options.source.model = "somewhere";
  expect_error(ErrorKind::Usage, "either --run FOLDER or --model FOLDER",
               [&] { generate(options); });
}

TEST_F(TrainedRun, EvaluatesAllValidationData) {
  EvaluateOptions options;
  options.source.run = folder_ / "run";
  options.make_device = cpu_devices(1);
  EvaluateSummary summary;
  options.on_end = [&](const EvaluateSummary& end) { summary = end; };
  evaluate(options);
  // 600 lines of 12110 bytes are 378 windows of 32, of which a tenth is for validation.
  const auto windows = static_cast<std::int64_t>((text().size() - 2) / 32);
  EXPECT_NEAR(static_cast<double>(summary.sequences), 0.1 * static_cast<double>(windows), 1);
  EXPECT_EQ(summary.tokens, summary.sequences * 32);
  EXPECT_GT(summary.loss, 0.5);
  EXPECT_LT(summary.loss, 5.5);
  const double loss = summary.loss;
  // However the windows are batched, each counts once.
  for (const std::int64_t batch : {1, 3, 7}) {
    options.batch = batch;
    evaluate(options);
    EXPECT_NEAR(summary.loss, loss, 1e-5) << batch;
  }
  options.rank_kind = RankKind::Threads;
  options.plan.mesh = parse_mesh("data=2");
  options.batch = 4;
  evaluate(options);
  EXPECT_NEAR(summary.loss, loss, 1e-5);
  options.plan.mesh = parse_mesh("tensor=2");
  options.data = {folder_.file("one", text().substr(0, 33))};
  evaluate(options);
  EXPECT_EQ(summary.sequences, 1);
}

}  // namespace
}  // namespace trireme
