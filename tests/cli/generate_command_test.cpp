// Generating, evaluating and tokenizing from the command line.
#include <cmath>
#include <filesystem>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "base/text.h"
#include "cli/program.h"
#include "cli/program_says.h"
#include "temporary_folder.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

/// A tokenizer of Llama 2's kind whose tokens are bytes, "▁" and "▁the".
constexpr const char* kMerges = R"(["t h", "th e", "▁ the"])";

std::string tokenizer_json() {
  std::string vocabulary;
  for (int byte = 0; byte < 256; ++byte) {
    vocabulary += fmt::format("\"<0x{:02X}>\": {}, ", byte, byte);
  }
  vocabulary += R"("▁": 256, "t": 257, "h": 258, "e": 259, "th": 260, "the": 261, "▁the": 262)";
  return fmt::format(
      R"({{"pre_tokenizer": {{"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first",
          "split": false}}, "model": {{"type": "BPE", "byte_fallback": true, "vocab": {{{}}},
          "merges": {}}}}})",
      vocabulary, kMerges);
}

class GenerateCommand : public ::testing::Test {
 protected:
  GenerateCommand() {
    std::string text;
    for (int i = 0; i < 400; ++i) {
      text += fmt::format("the cat {} sees the dog\n", i % 10);
    }
    text_ = folder_.file("cats.txt", text);
  }

  std::string done(const std::string& arguments) {
    const Ran ran = run_program(arguments);
    EXPECT_EQ(ran.exit_code, 0) << arguments << "\n" << ran.err;
    return ran.out;
  }
  Json json(const std::string& arguments) {
    const std::string out = done(arguments + " --json");
    return parse_json(out.empty() ? "{}" : split(trim(out), '\n').back(), "output");
  }
  void train(const std::string& run, const std::string& arguments) {
    (void)done(fmt::format("train --batch 4 --length 32 --threads 1 --data {} --run-folder {} {}",
                           text_, run, arguments));
  }

  TemporaryFolder folder_;
  std::string text_;
};

TEST_F(GenerateCommand, TextIsIdenticalWithAndWithoutCacheOnEveryMesh) {
  const std::string run = folder_ / "run";
  train(run, "--model gpt-nano --steps 30");
  for (const char* mesh : {"", "-n 2 --mesh tensor=2", "-n 2 --mesh pipe=2"}) {
    const std::string command =
        fmt::format("generate --run {} --prompt 'the cat' --tokens 12 {}", run, mesh);
    const std::string text = done(command);
    EXPECT_TRUE(text.starts_with("the cat")) << text;
    EXPECT_EQ(done(command + " --no-cache"), text) << mesh;
  }
  const Json summary = json(fmt::format("generate --run {} --prompt 'the' --tokens 5", run));
  EXPECT_EQ(summary.at("tokens").size(), 5U);
  EXPECT_EQ(summary.at("prompt_tokens"), 3);
}

TEST_F(GenerateCommand, UsesAndStoresTokenizer) {
  const std::string run = folder_ / "run";
  const std::string tokenizer = folder_.file("tokenizer.json", tokenizer_json());
  const std::string model = folder_ / "model";
  train(run, fmt::format("--model llama-tiny --steps 20 --mesh tensor=2 --tokenizer {} --export {}",
                         tokenizer, model));
  EXPECT_TRUE(fs::exists(run + "/tokenizer.json"));
  EXPECT_TRUE(fs::exists(model + "/tokenizer.json"));
  fs::remove(tokenizer);
  const std::string options = "--prompt 'the cat' --tokens 10 --temperature 0 --json";
  const Json from_run = parse_json(done(fmt::format("generate --run {} {}", run, options)), "run");
  const Json from_model =
      parse_json(done(fmt::format("generate --model {} {}", model, options)), "model");
  EXPECT_EQ(from_run.at("prompt_tokens"), 5);  // "▁the", "▁", and "cat" as bytes, of which t is one
  EXPECT_EQ(from_run.at("tokens"), from_model.at("tokens"));
  // Text is encoded by the folder's own tokenizer, and so is a file of tokens made with it.
  const std::string tokens = folder_ / "cats.bin";
  const Json made =
      json(fmt::format("tokenize {} --tokenizer {} --output {}", text_, model, tokens));
  EXPECT_EQ(made.at("vocabulary"), 263);
  const auto loss = [&](const std::string& arguments) {
    return json(fmt::format("evaluate --threads 1 --length 32 {}", arguments))
        .at("loss")
        .get<double>();
  };
  const double expected = loss(fmt::format("--model {} --data {}", model, text_));
  EXPECT_LT(expected, 5);
  EXPECT_NEAR(loss(fmt::format("--model {} --data {}", model, tokens)), expected, 1e-6);
  EXPECT_NEAR(loss(fmt::format("--run {} --data {} -n 2 --mesh pipe=2", run, tokens)), expected,
              1e-4);
  const Json validation = json(fmt::format("evaluate --run {} --threads 1", run));
  EXPECT_NEAR(validation.at("perplexity").get<double>(),
              std::exp(validation.at("loss").get<double>()), 1e-9);
}

/// A resumed run uses its own copy, and the one that is given must be the same.
TEST_F(GenerateCommand, TokenizerOfResumedRunMayOnlyMove) {
  const std::string run = folder_ / "run";
  const std::string tokenizer = folder_.file("tokenizer.json", tokenizer_json());
  train(run, "--model llama-tiny --steps 1 --tokenizer " + tokenizer);
  const std::string moved = folder_ / "moved.json";
  fs::rename(tokenizer, moved);
  (void)done(fmt::format("train --resume {} --steps 2 --tokenizer {}", run, moved));
  expect_refused(fmt::format("train --resume {} --steps 3 --tokenizer {}", run, tokenizer),
                 {fmt::format("--tokenizer: cannot read '{}'", tokenizer)});
  const std::string other = folder_.file("other.json", tokenizer_json() + " ");
  expect_refused(fmt::format("train --resume {} --steps 3 --tokenizer {}", run, other),
                 {fmt::format("--tokenizer: '{}' is not what this run was trained with", other)});
  expect_refused(fmt::format("generate --run {} --prompt a --tokenizer {}", run, tokenizer),
                 {fmt::format("--tokenizer: cannot read '{}'", tokenizer)});
}

TEST_F(GenerateCommand, ReadsStandardInput) {
  const std::string run = folder_ / "run";
  const Ran ran = run_program(fmt::format(
      "train --model gpt-nano --batch 2 --length 16 --steps 2 --threads 1 --run-folder {} --data - "
      "-n 2 < {}",
      run, text_));
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_NE(ran.out.find("standard input"), std::string::npos) << ran.out;
}

TEST_F(GenerateCommand, ReportsErrors) {
  const auto refused = [](const std::string& arguments, const std::string& words) {
    const Ran ran = run_program(arguments);
    EXPECT_EQ(ran.exit_code, 2) << arguments;
    EXPECT_NE(ran.err.find(words), std::string::npos) << ran.err;
  };
  refused("generate --prompt a", "either --run FOLDER or --model FOLDER");
  refused("generate --prompt a --run /no/such/run", "is not the folder of a run");
  refused("generate --prompt a --model gpt-mini", "--model: 'gpt-mini' has no weights");
  refused("generate --prompt a --run x --top-p 2", "--top-p is 2");
  refused("generate --prompt a --run x -n 3 --mesh tensor=2",
          "-n is 3, but the mesh tensor=2 has 2");
  refused("evaluate --model x", "a --model folder has no data: give --data");
  refused("tokenize a.txt --tokenizer t --output out.txt", "must end in .bin");
}

}  // namespace
}  // namespace trireme
