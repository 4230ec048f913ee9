// Training, exporting and estimating Hugging Face models from the command line.
#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "base/text.h"
#include "cli/program.h"
#include "temporary_folder.h"
#include "trireme/safetensors.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr const char* kShort = "--batch 2 --length 16 --threads 1 ";

class HuggingFaceCommand : public ::testing::Test {
 protected:
  [[nodiscard]] std::string at(const std::string& name) const { return folder_ / name; }

  /// The last line of `train --json`.
  [[nodiscard]] Json train(const std::string& arguments) {
    const Ran ran = run_program(fmt::format("train --json {} --run-folder {} {}", kShort,
                                            at(fmt::format("run-{}", ++runs_)), arguments));
    EXPECT_EQ(ran.exit_code, 0) << ran.err;
    const std::vector<std::string_view> lines = split(trim(ran.out), '\n');
    return parse_json(ran.exit_code == 0 ? lines.back() : "{}", "output");
  }

  /// Expects one line of error that contains `words`, and no run folder.
  void expect_refused(const std::string& arguments, const std::string& words) {
    const Ran ran =
        run_program(fmt::format("train {} --run-folder {} {}", kShort, at("none"), arguments));
    EXPECT_EQ(ran.exit_code, 2) << arguments << ran.err;
    EXPECT_EQ(std::ranges::count(ran.err, '\n'), 1) << ran.err;
    EXPECT_NE(ran.err.find(words), std::string::npos) << ran.err;
    EXPECT_FALSE(fs::exists(at("none")));
  }

  TemporaryFolder folder_;
  int runs_ = 0;
};

/// A model that is exported and loaded again has the same loss, bit for bit.
TEST_F(HuggingFaceCommand, ExportsModelItStartedFrom) {
  for (const char* preset : {"gpt-nano", "llama-tiny"}) {
    const std::string out = at(preset);
    const Json first = train(fmt::format("--model {} --steps 5 --export {}", preset, out));
    EXPECT_EQ(first.at("export_folder"), out);
    const Json again = train(fmt::format("--model {} --steps 0", out));
    EXPECT_EQ(again.at("validation_loss"), first.at("validation_loss"));
    EXPECT_TRUE(again.at("final_loss").is_null());
    EXPECT_NE(again.at("weights").get<std::string>().find(out + "/model.safetensors"),
              std::string::npos);
    // config.json alone does not load the weights next to it.
    const Json fresh = train(fmt::format("--model {}/config.json --steps 0", out));
    EXPECT_TRUE(fresh.at("weights").is_null());
    EXPECT_NE(fresh.at("validation_loss"), first.at("validation_loss"));
    // Weights can be loaded into a preset, which adopts their vocabulary.
    const Json given = train(fmt::format("--model {} --weights {} --steps 0", preset, out));
    EXPECT_EQ(given.at("validation_loss"), first.at("validation_loss"));
  }
}

/// A folder with only a config.json: random weights, and the same round trip.
TEST_F(HuggingFaceCommand, TrainsMixtral) {
  fs::create_directory(at("described"));
  write_text(at("described/config.json"),
             R"({"model_type": "mixtral", "hidden_size": 32, "intermediate_size": 48,
                 "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2,
                 "num_local_experts": 4, "vocab_size": 80, "max_position_embeddings": 64,
                 "eos_token_id": 2})");
  const Json first = train("--steps 3 --model " + at("described") + " --export " + at("out"));
  EXPECT_TRUE(first.at("weights").is_null());
  EXPECT_EQ(train("--steps 0 --model " + at("out")).at("validation_loss"),
            first.at("validation_loss"));
  // Fields of config.json that the model does not use are preserved.
  EXPECT_EQ(parse_json(read_text(at("out/config.json")), "config").at("eos_token_id"), 2);
}

TEST_F(HuggingFaceCommand, ReportsInitialWeights) {
  (void)train("--model gpt-nano --steps 1 --export " + at("nano"));
  const Ran ran = run_program(fmt::format("train {} --steps 1 --model {} --run-folder {}", kShort,
                                          at("nano"), at("shown")));
  EXPECT_NE(ran.out.find("model    nano, 112.4 k parameters\n"), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find("weights  28 tensors of f32 in " + at("nano")), std::string::npos)
      << ran.out;
}

/// Adds experts to a model from a config.json; the run folder keeps the original, and the settings hold the rest.
TEST_F(HuggingFaceCommand, UpcyclesModelFromFile) {
  (void)train("--model llama-tiny --steps 1 --export " + at("tiny"));
  const std::string from = "--model " + at("tiny/config.json") + " --rate constant:0.001 ";
  const std::string experts = "--experts 4,shared=1,noise,gate=softmax-first ";
  const Json whole = train(from + experts + "--steps 4");
  (void)train(from + experts + "--steps 2");
  fs::remove_all(at("tiny"));
  const Ran rest =
      run_program(fmt::format("train --json --threads 1 --steps 4 --resume {}", at("run-3")));
  ASSERT_EQ(rest.exit_code, 0) << rest.err;
  EXPECT_EQ(parse_json(split(trim(rest.out), '\n').back(), "output").at("validation_loss"),
            whole.at("validation_loss"));
}

TEST_F(HuggingFaceCommand, RejectsOtherModelKinds) {
  (void)train("--model gpt-nano --steps 1 --export " + at("nano"));
  for (const std::string& model : {std::string("mlp"), std::string("conv-mini")}) {
    for (const std::string& option : {"--weights " + at("nano"), "--export " + at("new")}) {
      const Ran ran = run_program(
          fmt::format("train --model {} {} --run-folder {}", model, option, at("none")));
      EXPECT_EQ(ran.exit_code, 2) << ran.err;
      EXPECT_EQ(std::ranges::count(ran.err, '\n'), 1) << ran.err;
      EXPECT_NE(ran.err.find("model " + model + ": none of the families"), std::string::npos)
          << ran.err;
      EXPECT_NE(ran.err.find(model == "mlp" ? "layers.*.weight" : "stem.weight"), std::string::npos)
          << ran.err;
      EXPECT_FALSE(fs::exists(at("none")));
    }
  }
}

/// A run resumes without the files it started from.
TEST_F(HuggingFaceCommand, ResumesWithoutOriginalFiles) {
  (void)train("--model llama-tiny --steps 1 --export " + at("tiny"));
  const std::string rate = " --rate constant:0.001 ";
  const Json whole = train("--model " + at("tiny") + rate + "--steps 4");
  (void)train("--model " + at("tiny") + rate + "--steps 2");
  fs::remove_all(at("tiny"));
  const Ran rest = run_program(fmt::format(
      "train --json --threads 1 --steps 4 --resume {} --export {}", at("run-3"), at("later")));
  ASSERT_EQ(rest.exit_code, 0) << rest.err;
  const Json end = parse_json(split(trim(rest.out), '\n').back(), "output");
  EXPECT_EQ(end.at("validation_loss"), whole.at("validation_loss"));
  EXPECT_TRUE(fs::exists(at("later/model.safetensors")));
}

TEST_F(HuggingFaceCommand, ExportsInRunDtype) {
  (void)train("--model gpt-nano --steps 1 --dtype bf16 --export " + at("narrow"));
  EXPECT_EQ(SafetensorsFile(at("narrow/model.safetensors")).tensors().front().spec.dtype,
            DType::BF16);
  EXPECT_EQ(parse_json(read_text(at("narrow/config.json")), "config").at("torch_dtype"),
            "bfloat16");
  EXPECT_NE(
      train("--steps 1 --model " + at("narrow")).at("weights").get<std::string>().find("bf16"),
      std::string::npos);
}

/// Exporting takes no further step, and the number of steps does not prevent it.
TEST_F(HuggingFaceCommand, ExportsFinishedRun) {
  const Json run = train("--model gpt-nano --steps 2");
  for (const std::string& steps : {std::string(), std::string("--steps 0")}) {
    const std::string out = at("over" + std::to_string(steps.size()));
    const Ran ran = run_program(
        fmt::format("train --threads 1 --resume {} --export {} {}", at("run-1"), out, steps));
    EXPECT_EQ(ran.exit_code, 0) << ran.err;
    EXPECT_NE(ran.out.find("validation loss "), std::string::npos) << ran.out;
    EXPECT_EQ(train("--steps 0 --model " + out).at("validation_loss"), run.at("validation_loss"));
  }
}

TEST_F(HuggingFaceCommand, RejectsNonFiniteWeights) {
  (void)train("--model gpt-nano --steps 1 --export " + at("nano"));
  const std::string path = at("nano/model.safetensors");
  std::string bytes = read_text(path);
  bytes.replace(bytes.size() - 4, 4, std::string("\x00\x00\xC0\x7F", 4));
  write_text(path, bytes);
  expect_refused("--model " + at("nano"), "cannot start from ");
}

TEST_F(HuggingFaceCommand, RejectsMismatches) {
  (void)train("--model gpt-nano --steps 1 --export " + at("nano"));
  const std::string nano = at("nano");
  const std::string config = read_text(nano + "/config.json");
  expect_refused("--model gpt-nano --export " + nano, "it exists and is not an empty folder");
  expect_refused("--model switch-mini --export " + at("new"),
                 "none of the families gpt2, llama and mixtral of Hugging Face has its "
                 "h.*.block_sparse_moe.gate.weight");
  expect_refused("--model depths-mini --weights " + nano, "has its h.*.depth_router.weight");
  expect_refused("--model " + nano + " --experts 4,shared=1", "h.*.block_sparse_moe.gate.weight");
  expect_refused("--model gpt-mini --weights " + nano,
                 "tensor 'transformer.wte.weight' is [64,64], but [64,128] in model gpt-mini");
  expect_refused("--model gpt-nano --weights " + at("run-1"), "has no model.safetensors");
  write_text(at("text"), std::string(100'000, 'x'));
  expect_refused("--model " + nano + " --data " + at("text"),
                 "vocabulary of 256 tokens, model nano one of 64");
  write_text(nano + "/config.json", config.substr(0, config.size() / 2));
  expect_refused("--model " + nano, nano + "/config.json: line ");
  write_text(nano + "/config.json", R"({"model_type": "gpt2", "activation_function": "relu"})");
  expect_refused("--model " + nano,
                 nano + R"(/config.json: activation_function is "relu"; only "gelu_new")");
  std::string padded = config;
  padded.replace(padded.find("\"vocab_size\": 64"), 16, "\"vocab_size\": 96");
  write_text(nano + "/config.json", padded);
  expect_refused("--model " + nano, "the model's vocabulary is 96, the file's 64");
  write_text(nano + "/config.json", config);
  fs::resize_file(nano + "/model.safetensors", fs::file_size(nano + "/model.safetensors") - 1);
  expect_refused("--model " + nano, nano + "/model.safetensors: tensor ");
}

TEST_F(HuggingFaceCommand, EstimatesPublishedModels) {
  const auto parameters = [&](const std::string& text) {
    write_text(at("config.json"), text);
    const Ran ran =
        run_program(fmt::format("estimate --json --length 64 --model {}", at("config.json")));
    EXPECT_EQ(ran.exit_code, 0) << ran.err;
    return parse_json(ran.out, "output").at("parameters").at("total").get<std::int64_t>();
  };
  EXPECT_EQ(parameters(R"({"model_type": "gpt2", "n_embd": 768, "n_head": 12, "n_layer": 12,
                           "n_positions": 1024, "vocab_size": 50257})"),
            124'439'808);
  EXPECT_EQ(parameters(R"({"model_type": "llama", "hidden_size": 4096, "intermediate_size": 11008,
                           "num_attention_heads": 32, "num_hidden_layers": 32,
                           "num_key_value_heads": 32, "vocab_size": 32000})"),
            6'738'415'616);
  EXPECT_EQ(parameters(R"({"model_type": "mixtral", "hidden_size": 4096, "num_local_experts": 8,
                           "intermediate_size": 14336, "num_attention_heads": 32,
                           "num_hidden_layers": 32, "num_key_value_heads": 8, "vocab_size": 32000,
                           "max_position_embeddings": 32768})"),
            46'702'792'704);
  EXPECT_EQ(run_program("estimate --json -t 64 --model " + folder_.path()).exit_code, 0);
  EXPECT_EQ(run_program("estimate --model " + at("none/")).exit_code, 2);
}

}  // namespace
}  // namespace trireme
