// Errors of `trireme train`: one message that names the problem and the fix, exit code 2 (1 if memory does not
// suffice), and no run folder left behind.
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <limits>
#include <span>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "cli/program.h"
#include "cli/program_says.h"
#include "temporary_folder.h"
#include "train/checkpoint/checkpoint.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

const std::string kSmallBatch = "train --model gpt-nano --batch 4 --length 32 ";

class TrainErrors : public ::testing::Test {
 protected:
  [[nodiscard]] std::string run_folder() const { return folder_ / "run"; }

  /// Runs it with a new folder; expects this exit code, these words, and no folder.
  Ran expect_refused(const std::string& arguments, const std::string& words, int code = 2) {
    Ran ran = run_program("train --model gpt-nano --steps 2 --run-folder " + run_folder() + " " +
                          arguments);
    EXPECT_EQ(ran.exit_code, code) << arguments << ": " << ran.err;
    EXPECT_NE(ran.err.find(words), std::string::npos)
        << arguments << ": '" << ran.err << "' has no '" << words << "'";
    EXPECT_EQ(ran.err.find("trireme: "), 0U) << ran.err;
    EXPECT_EQ(ran.out, "") << arguments;
    EXPECT_FALSE(fs::exists(run_folder())) << arguments;
    fs::remove_all(run_folder());
    return ran;
  }

  /// The same, in one line.
  void expect_one_line(const std::string& arguments, const std::string& words) {
    const Ran ran = expect_refused(arguments, words);
    EXPECT_EQ(std::ranges::count(ran.err, '\n'), 1) << ran.err;
  }

  TemporaryFolder folder_;
};

TEST_F(TrainErrors, NameInvalidOption) {
  for (const RefusedCase& one : std::initializer_list<RefusedCase>{
           {"--batch 0", "--batch is 0; it must be 1 to"},
           {"--batch -3", "--batch is -3"},
           {"--batch 99999999999", "--batch is 99999999999"},
           {"--batch 9999999999999999999999", "--batch"},
           {"--batch 1.5", "--batch: invalid value '1.5': expected an integer"},
           {"--batch many", "--batch: invalid value 'many': expected a number"},
           {"--batch 268435456 --length 2", "536870912 tokens per step; the limit is"},
           {"--length 0", "--length is 0"},
           {"--length -1", "--length is -1"},
           {"--length 9223372036854775807", "--length is"},

           {"--clip -1", "--clip is -1; it must be above 0, or 0 to never clip"},
           {"--clip nan", "--clip is nan"},
           {"--clip inf", "--clip is inf"},
           {"--optimizer adam", "--optimizer: unknown optimizer 'adam'; did you mean adamw?"},
           {"--optimizer adamw,bta2=0.9",
            "--optimizer: unknown setting of adamw 'bta2'; did you mean beta2?"},
           {"--rate cosine:1,warm=3",
            "--rate: learning rate: unknown setting of cosine 'warm'; did you mean warmup?"},
           {"--experts 4,per-tokn=1",
            "--experts: unknown setting 'per-tokn'; did you mean per-token?"},
           {"--experts foo", "--experts: expected a number of experts, got 'foo'"},
           {"--etcd-ca x", "--etcd-ca requires --sync ps:…, and --sync is allreduce"},
           {"--patience 3", "--patience requires --validate-every and validation data"},
           {"--optimizer adamw,weight-decay=-1", "weight-decay of adamw is '-1'"},
           {"--optimizer muon -n 2 --sync ps:bsp", "parameter servers apply adamw, sgd, momentum"},
           {"--rate -3e-4", "--rate"},
           {"--ps-servers 3",
            "--ps-servers requires --sync ps:…, and --sync is allreduce; leave it out"},
           {"--keep-best", "--keep-best requires --validate-every and validation data"},
           {"--dropout 1", "--dropout is 1; it must be 0 or more and below 1"},
           {"--dropout nan", "--dropout is nan"},
           {"--validation 1", "--validation is 1"},
           {"--validation -0.1", "--validation is -0.1"},
           {"--dtype i32", "--dtype: cannot train in 'i32'; use f32, bf16, f16 or f64"},
           {"--dtype f8", "--dtype: cannot train in 'f8'; use f32, bf16, f16 or f64"},
           {"--dtype bf16 --master f64", "--master: unknown 'f64'; use f32 or none"},
           {"--loss-scale 8", "--loss-scale is for --dtype f16"},
           {"--dtype f16 --loss-scale 0", "--loss-scale is 0; it must be 1 to 1e+30"},
           {"--dtype f33", "--dtype: cannot train in 'f33'; use f32"},
           {"--rate fast", "--rate: learning rate: unknown schedule 'fast'"},
           {"--rate constant:-1", "--rate: learning rate: the peak is '-1'"},
           {"--seed -1", "--seed is"},
           {"--threads -1", "--threads is -1"},
           {"--threads 100000", "--threads is 100000"},
           {"--save-every -1", "invalid interval '-1': steps must be 1 or more; write it as steps"},
           {"--save-every x",
            "--save-every: invalid interval 'x'; write it as steps (200), a time"},
           {"--validate-every -1", "--validate-every is -1"},
           {"--recompute most", "--recompute: unknown recomputation 'most'; use none"},
           {"--recompute 5x", "--recompute: '5x' is not a size"},
           {"--recompute 1KiB", "give more, or make the batch smaller"},
           {"--memory-limit -1", "--memory-limit: '-1' is not a size"},
           {"--tokenizer x.json", "--tokenizer is for the text of --data"},
           {"--bogus 1", "--bogus"}}) {
    expect_one_line(one.arguments, one.words);
  }
}

TEST_F(TrainErrors, NameOptionOfFile) {
  const std::string plan = folder_.file("empty.json", "{}");
  expect_one_line("--plan " + plan, "--plan: " + plan + ": plan: mesh is missing");
  expect_one_line("--weights /no/such/file", "--weights: cannot read '/no/such/file'");
  const std::string weights = folder_.file("weights", "x");
  expect_one_line("--weights " + weights,
                  "--weights: " + weights + ": is not a safetensors file: it has 1 byte; ");
}

std::string numbers(const std::vector<std::int32_t>& values, std::size_t count) {
  std::vector<std::int32_t> all = values;
  all.resize(count);
  std::string bytes(count * sizeof(std::int32_t), '\0');
  std::memcpy(bytes.data(), all.data(), bytes.size());
  return bytes;
}

/// llm.c's header, followed by zero bytes.
std::string token_file(std::int32_t magic, std::int32_t version, std::int32_t count,
                       std::size_t bytes) {
  return numbers({magic, version, count}, 256) + std::string(bytes, '\0');
}

TEST_F(TrainErrors, NameDataFile) {
  constexpr std::int32_t kMagic = 20240520;
  const auto refused = [&](const std::string& name, const std::string& content,
                           const std::string& words) {
    const std::string path = folder_.file(name, content);
    expect_one_line("--data " + path, path + ": " + words);
  };
  refused("empty", "", "is empty");
  refused("short", "hello",
          "has 5 tokens; windows of 128 tokens in two parts need at least 258: use more data or a "
          "smaller --length");
  refused("one-byte-short", std::string(257, 'a'), "has 257 tokens");
  refused("empty.bin", "", "holds no tokens");
  refused("odd.bin", std::string(201, 'a'), "has 201 bytes, an odd number");
  refused("short.bin", std::string(10, '\0'), "has 5 tokens");
  refused("cut-off.bin", numbers({kMagic, 1, 100}, 3), "is truncated: 12 bytes, but the header");
  refused("headless.bin", token_file(kMagic, 1, 1000, 100),
          "has 100 bytes of tokens, but its header says 1000");
  refused("negative.bin", token_file(kMagic, 1, -5, 2000),
          "has 2000 bytes of tokens, but its header says -5");
  refused("newer.bin", token_file(kMagic, 9, 1000, 2000),
          "is a token file of llm.c, of version 9; only 1 can");
  refused("wide.bin", token_file(20240801, 1, 500, 2000),
          "is a token file of llm.c, of version 1; only 7 can");
  refused("beyond.bin", std::string(200, '\0') + "\xFF\xFF" + std::string(200, '\0'),
          "token 65535 at position 100 is beyond the vocabulary of 50257");
}

TEST_F(TrainErrors, NameUnreadableDataFile) {
  expect_one_line("--data /no/such/file/with/a/long/name", "--data: cannot read '/no/such/file");
  const TemporaryFolder empty;
  expect_one_line("--data " + empty.path(), "is a folder without files");
  expect_one_line("--data /dev/zero", "it is not a regular file");
  expect_one_line("--data ''", "--data: expected a path");
}

TEST_F(TrainErrors, NameTokenizer) {
  const std::string text = folder_.file("text", std::string(500, 'a'));
  const auto refused = [&](const std::string& content, const std::string& words) {
    const std::string path = folder_.file("tokenizer.json", content);
    expect_one_line("--data " + text + " --tokenizer " + path, path + ": " + words);
  };
  refused("", "line 1");
  refused("no json", "line 1, column");
  refused("{}", "'model' is missing");
  refused("[1]", "'model' is missing");
  refused(R"({"model": {"type": "WordPiece", "vocab": {}}})",
          "its model is \"WordPiece\"; only BPE");
  refused(R"({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []},
              "pre_tokenizer": {"type": "ByteLevel"}})",
          "byte 0 needs the token");
  expect_one_line("--data " + text + " --tokenizer /no/such/file", "--tokenizer");
  const TemporaryFolder empty;
  expect_one_line("--data " + text + " --tokenizer " + empty.path(),
                  "tokenizer.json': No such file or directory");
}

TEST_F(TrainErrors, NameRunFolder) {
  const std::string file = folder_.file("file", "x");
  const auto refused = [](const std::string& arguments, const std::string& words) {
    const Ran ran = run_program(kSmallBatch + arguments);
    EXPECT_EQ(ran.exit_code, 2) << ran.err;
    EXPECT_NE(ran.err.find(words), std::string::npos) << ran.err;
  };
  refused("--steps 0", "--steps is 0; it must be 1 or more, unless a model is exported");
  refused("--steps -1", "--steps is -1");
  refused("--run-folder " + file, "is not a folder");
  refused("--run-folder " + file + "/x", "cannot create the folder");
  refused("--export " + file + "/x",
          "cannot export to '" + file + "/x': '" + file + "' is not a folder; name another");
  refused("--resume " + folder_.path(),
          "--resume: '" + folder_.path() + "' is not the folder of a run");
  refused("--resume a --run-folder b", "--run-folder and --resume exclude each other");

  ASSERT_EQ(run_program(kSmallBatch + "--steps 2 --run-folder " + run_folder()).exit_code, 0);
  refused("--run-folder " + run_folder(), "resume it with --resume " + run_folder());
  const Ran done = run_program("train --resume " + run_folder());
  EXPECT_EQ(done.exit_code, 2);
  EXPECT_NE(done.err.find("already took its 2 steps; request more, such as --steps 4"),
            std::string::npos)
      << done.err;
  const Ran other = run_program("train --steps 3 --model gpt-mini --resume " + run_folder());
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_NE(other.err.find("--model: this run started with \"gpt-nano\""), std::string::npos)
      << other.err;
  const Ran batch = run_program("train --json --steps 3 --batch 2 --resume " + run_folder());
  EXPECT_EQ(batch.exit_code, 0) << "--batch may change: " << batch.err;
}

// Non-finite values.

/// Reports the step, the node, the tensor and what is saved; the run resumes from the saved checkpoint.
TEST_F(TrainErrors, ReportWhereLossOverflowed) {
  const Ran ran =
      run_program(kSmallBatch + "--steps 9 --rate constant:1e30 --run-folder " + run_folder());
  EXPECT_EQ(ran.exit_code, 2);
  for (const char* words :
       {"step 2: the loss is nan; it began where einsum(%", "%h.0.", "in forward, block 0 gave %",
        "is inf", "the rate was 1e+30", "--rate cosine:"}) {
    EXPECT_NE(ran.err.find(words), std::string::npos) << words << ": " << ran.err;
  }
  const std::string saved = run_folder() + "/checkpoints/step-000001";
  EXPECT_NE(ran.err.find("the newest checkpoint is " + saved), std::string::npos) << ran.err;
  EXPECT_EQ(train::load_checkpoint(saved).info.step, 1);
  EXPECT_EQ(std::ranges::count(ran.err, '\n'), 1);
}

/// An update that overflows f32 is reported and never saved.
TEST_F(TrainErrors, NeverSaveNonFiniteValues) {
  const std::string rate = "--rate constant:3e38 --run-folder " + run_folder();
  const Ran last = run_program(kSmallBatch + "--steps 1 " + rate);
  EXPECT_EQ(last.exit_code, 2);
  EXPECT_NE(last.err.find("step 1: the loss is"), std::string::npos) << last.err;
  EXPECT_NE(last.err.find("the update overflowed; it began in the parameter %"), std::string::npos)
      << last.err;
  EXPECT_FALSE(fs::exists(run_folder() + "/checkpoints"));
  fs::remove_all(run_folder());

  const Ran next = run_program(kSmallBatch + "--steps 2 " + rate);
  EXPECT_EQ(next.exit_code, 2);
  EXPECT_NE(
      next.err.find("step 2: the loss is nan; the update before it overflowed, in the parameter"),
      std::string::npos)
      << next.err;
  EXPECT_NE(next.err.find("no earlier step was saved"), std::string::npos) << next.err;
}

/// Rewrites the newest checkpoint of a run with one tensor scaled or replaced.
void change_tensor(const std::string& run, const std::string& name, float factor, float planted) {
  const std::string folder = run + "/checkpoints";
  auto loaded = train::load_latest(folder);
  ASSERT_TRUE(loaded);
  std::vector<TensorView> tensors = loaded->checkpoint.model.tensors();
  std::vector<float> values;
  for (TensorView& tensor : tensors) {
    if (tensor.spec.name == name) {
      values.resize(tensor.bytes.size() / sizeof(float));
      std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
      for (float& value : values) {
        value *= factor;
      }
      values.at(5) = planted == 0 ? values.at(5) : planted;
      tensor.bytes = std::as_bytes(std::span(values));
    }
  }
  ASSERT_FALSE(values.empty()) << name;
  train::save_checkpoint(folder,
                         {.info = loaded->checkpoint.info,
                          .model = train::tensor_set(tensors),
                          .optimizer = train::tensor_set(loaded->checkpoint.optimizer->tensors())});
}

TEST_F(TrainErrors, NameNonFiniteWeight) {
  ASSERT_EQ(run_program(kSmallBatch + "--steps 2 --run-folder " + run_folder()).exit_code, 0);
  change_tensor(run_folder(), "h.1.ln_1.weight", 1, std::numeric_limits<float>::quiet_NaN());
  const Ran ran = run_program("train --steps 4 --resume " + run_folder());
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_NE(ran.err.find("cannot resume from " + run_folder() +
                         "/checkpoints/step-000002: the "
                         "parameter %h.1.ln_1.weight f32[64], whose [5] is nan"),
            std::string::npos)
      << ran.err;
}

/// Weights that are fine in the forward pass but make the gradient norm overflow: the scale of the last norm is tiny
/// and its input is huge, so the gradient of the scale is huge.
TEST_F(TrainErrors, ReportGradientOverflowWithFiniteLoss) {
  ASSERT_EQ(run_program("train --model llama-tiny --batch 2 --length 16 --steps 2 --run-folder " +
                        run_folder())
                .exit_code,
            0);
  change_tensor(run_folder(), "model.norm.weight", 1e-25F, 0);
  change_tensor(run_folder(), "lm_head.weight", 1e25F, 0);
  const Ran ran = run_program("train --steps 4 --resume " + run_folder());
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_NE(ran.err.find("step 3: the loss is 3."), std::string::npos) << ran.err;
  EXPECT_NE(
      ran.err.find("but the gradients are not finite; it began where sum_squares(%d_model.norm"
                   ".weight) in update"),
      std::string::npos)
      << ran.err;
  EXPECT_NE(ran.err.find("start over with --rate"), std::string::npos) << ran.err;
}

// Memory.

TEST_F(TrainErrors, ReportRequiredMemoryAndSuggestFit) {
  const Ran ran =
      expect_refused("--length 32 --memory-limit 6MiB", "6 MiB is allowed by --memory-limit", 1);
  for (const char* words :
       {"this run needs", "memory peaks at", "in backward, block 1", "MiB activation",
        "KiB parameter", "KiB optimizer", "the largest tensors at that point: %",
        "options that fit, cheapest first:", "--batch ", "--dtype bf16"}) {
    EXPECT_NE(ran.err.find(words), std::string::npos) << words << ": " << ran.err;
  }
  (void)expect_refused(
      "--memory-limit 1KiB",
      "no options fit: even --batch 1 --recompute full --dtype bf16 --master none needs", 1);
}

TEST_F(TrainErrors, SuggestedPlanFits) {
  for (const std::string limit : {"7MiB", "6MiB", "4MiB"}) {
    const std::string whole = "--length 32 --memory-limit " + limit + " ";
    const std::vector<std::string> options =
        fitting_options(run_program("train --model gpt-nano " + whole).err);
    ASSERT_FALSE(options.empty()) << limit;
    for (const std::string& option : options) {
      fs::remove_all(run_folder());
      const Ran ran =
          run_program(fmt::format("train --json --model gpt-nano --steps 1 --run-folder {} {} {}",
                                  run_folder(), whole, option));
      EXPECT_EQ(ran.exit_code, 0) << limit << ": " << option << ": " << ran.err;
    }
  }
}

}  // namespace
}  // namespace trireme
