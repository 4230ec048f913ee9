// `trireme train` as a user runs it.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/json.h"
#include "cli/program.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

/// The contents of each event file of a run, in order.
std::vector<std::string> event_files(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().filename().string().starts_with("events.out.tfevents.")) {
      files.push_back(read_text(entry.path().string()));
    }
  }
  return files;
}

std::size_t count_of(const std::string& text, const std::string& word) {
  std::size_t count = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    ++count;
  }
  return count;
}

/// Provides a folder that is removed after the test.
class TrainCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) /
              fmt::format("trireme-train-{}-{}", ::getpid(),
                          ::testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  [[nodiscard]] std::string run_folder() const { return (folder_ / "run").string(); }

  /// The output lines of a run with --json.
  std::vector<Json> train(const std::string& arguments) {
    return train_model("gpt-nano --batch 4 --length 32", arguments);
  }
  std::vector<Json> train_model(const std::string& model, const std::string& arguments) {
    return lines_of("--model " + model + " " + arguments);
  }
  std::vector<Json> train_more(const std::string& arguments) {
    return lines_of("--resume " + run_folder() + " " + arguments);
  }

  static std::vector<Json> lines_of(const std::string& arguments) {
    const Ran ran = run_program("train --json " + arguments);
    EXPECT_EQ(ran.exit_code, 0) << ran.err;
    std::vector<Json> lines;
    std::istringstream out(ran.out);
    for (std::string line; std::getline(out, line);) {
      lines.push_back(Json::parse(line));
    }
    return lines;
  }

  fs::path folder_;
};

TEST_F(TrainCommand, LearnsLanguage) {
  const std::vector<Json> lines = train("--steps 60 --run-folder " + run_folder());
  ASSERT_EQ(lines.size(), 61U);
  EXPECT_NEAR(lines.front()["loss"].get<double>(), std::log(64.0), 0.2);
  const Json& summary = lines.back();
  EXPECT_LT(summary["final_loss"].get<double>(), summary["uninformed_loss"].get<double>());
  EXPECT_GT(summary["final_loss"].get<double>(), summary["floor"].get<double>());
  for (const char* key : {"step", "loss", "tokens_per_second", "mfu", "hfu", "peak_memory_bytes"}) {
    EXPECT_TRUE(lines.front().contains(key)) << key;
  }
  for (const char* file : {"settings.json", "metrics.jsonl", "trace.json", "checkpoints/latest"}) {
    EXPECT_TRUE(fs::exists(folder_ / "run" / file)) << file;
  }
}

/// A run that is stopped and resumed has the same losses, bit for bit, as an uninterrupted one.
TEST_F(TrainCommand, ResumesBitForBit) {
  const std::string rate = "--rate constant:0.001 ";
  const std::vector<Json> whole =
      train(rate + "--steps 8 --run-folder " + (folder_ / "whole").string());
  (void)train(rate + "--steps 5 --run-folder " + run_folder());
  const std::vector<Json> rest = train_more("--steps 8");
  ASSERT_EQ(rest.size(), 4U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(rest[i]["step"], 6 + i);
    EXPECT_EQ(rest[i]["loss"].get<double>(), whole[5 + i]["loss"].get<double>());
  }
}

/// A model without sequences uses the same loop: it trains on generated examples, toward a known floor.
TEST_F(TrainCommand, TrainsEveryKindOfModel) {
  for (const char* model : {"mlp", "mlp-deep", "conv-mini"}) {
    const std::vector<Json> lines =
        train_model(std::string(model) + " --threads 1 --batch 64",
                    "--steps 200 --run-folder " + (folder_ / model).string());
    const Json& summary = lines.back();
    EXPECT_LT(summary["final_loss"].get<double>(), summary["uninformed_loss"].get<double>())
        << model;
    EXPECT_LT(summary["validation_loss"].get<double>(), summary["uninformed_loss"].get<double>())
        << model;
    EXPECT_GT(summary["final_loss"].get<double>(), summary["floor"].get<double>()) << model;
    EXPECT_TRUE(lines.front().contains("examples_per_second")) << model;
  }
  for (const char* model : {"depths-mini", "experts-mini", "switch-mini"}) {
    const std::vector<Json> lines =
        train_model(std::string(model) + " --threads 1 --batch 2 --length 32",
                    "--steps 25 --run-folder " + (folder_ / model).string());
    EXPECT_LT(lines.back()["validation_loss"].get<double>(), lines.front()["loss"].get<double>())
        << model;
  }
}

/// A model without sequences reports examples, not tokens.
TEST_F(TrainCommand, ReportsExamples) {
  const Ran ran = run_program(
      "train --model conv-mini --steps 3 --threads 1 --tensorboard --run-folder " + run_folder());
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  for (const char* words : {"a step   16 examples; ", "48 examples, in 0:0", " examples a second",
                            "2.079  guessing uniformly among the classes",
                            "0.296  the floor: the entropy of the wrong labels"}) {
    EXPECT_NE(ran.out.find(words), std::string::npos) << words << " is not in:\n" << ran.out;
  }
  EXPECT_EQ(ran.out.find("token"), std::string::npos) << ran.out;
  EXPECT_EQ(count_of(event_files(run_folder()).at(0), "speed/examples_per_second"), 3U);
  const Ran large = run_program("train --model conv-mini --batch 64 --memory-limit 1MiB");
  EXPECT_EQ(large.exit_code, 1);
  EXPECT_NE(large.err.find("examples a step, not 64"), std::string::npos) << large.err;
}

TEST_F(TrainCommand, ResumesTasksBitForBit) {
  const std::string model = "mlp --threads 1";
  const std::string rate = "--rate constant:0.001 ";
  const std::vector<Json> whole =
      train_model(model, rate + "--steps 8 --run-folder " + (folder_ / "whole").string());
  (void)train_model(model, rate + "--steps 5 --run-folder " + run_folder());
  const std::vector<Json> rest = train_model(model, "--steps 8 --resume " + run_folder());
  ASSERT_EQ(rest.size(), 4U);
  EXPECT_EQ(rest[2]["loss"].get<double>(), whole[7]["loss"].get<double>());
}

TEST_F(TrainCommand, TrainsMixtureOfExperts) {
  const auto parameters = [&](const char* name, const std::string& arguments) {
    return train(arguments + " --threads 1 --steps 1 --run-folder " + (folder_ / name).string())
        .back()["parameters"]
        .get<std::int64_t>();
  };
  // Two blocks of width 64 and hidden 256; experts have no biases.
  const std::int64_t dense = parameters("dense", "");
  const std::int64_t four = parameters("four", "--experts 4,per-token=1");
  const std::int64_t more = parameters("more", "--experts 4,gate=softmax-first,shared=1,noise");
  EXPECT_EQ(four - dense, 2 * (3 * 2 * 64 * 256 + 4 * 64 - (256 + 64)));
  EXPECT_EQ(more - four, 2 * (2 * 64 * 256 + 4 * 64));
  const std::int64_t second = parameters("second", "--experts 4,per-token=1,every=2");
  EXPECT_EQ(2 * (second - dense), four - dense);
}

TEST_F(TrainCommand, TrainsInBf16) {
  const std::vector<Json> lines =
      train("--dtype bf16 --threads 1 --steps 60 --run-folder " + run_folder());
  EXPECT_LT(lines.back()["final_loss"].get<double>(),
            lines.back()["uninformed_loss"].get<double>());
}

/// The initial scale overflows and adapts; a resumed run restores it from its checkpoint.
TEST_F(TrainCommand, TrainsInF16AndResumesBitForBit) {
  const std::string options = "--dtype f16 --threads 1 --rate constant:0.001 ";
  const std::vector<Json> whole =
      train(options + "--loss-scale 1e9 --steps 8 --run-folder " + (folder_ / "whole").string());
  EXPECT_LT(whole[0]["loss_scale"].get<double>(), 1e9);
  EXPECT_GT(whole.back()["overflows"].get<int>(), 0);
  EXPECT_LT(whole[7]["loss"].get<double>(), whole[0]["loss"].get<double>());
  (void)train(options + "--loss-scale 1e9 --steps 5 --run-folder " + run_folder());
  const std::vector<Json> rest = train_more("--threads 1 --steps 8");
  ASSERT_EQ(rest.size(), 4U);
  EXPECT_EQ(rest.back()["overflows"], 0);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(rest[i]["loss"].get<double>(), whole[5 + i]["loss"].get<double>());
    EXPECT_EQ(rest[i]["loss_scale"], whole[5 + i]["loss_scale"]);
  }
  const std::vector<Json> f32 = train("--threads 1 --rate constant:0.001 --steps 8 --run-folder " +
                                      (folder_ / "f32").string());
  EXPECT_FALSE(f32[0].contains("loss_scale"));
  for (std::size_t i = 0; i < 8; ++i) {
    const double loss = f32[i]["loss"].get<double>();
    EXPECT_NEAR(whole[i]["loss"].get<double>(), loss, 0.01 * loss);
  }
}

/// A diverging learning rate is reported, since no smaller scale would help.
TEST_F(TrainCommand, ReportsNaNLossInF16) {
  const Ran ran = run_program(
      "train --model gpt-nano --batch 4 --length 32 --steps 9 --dtype f16 --rate constant:1e4 "
      "--run-folder " +
      run_folder());
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_NE(ran.err.find("it began where"), std::string::npos) << ran.err;
}

TEST_F(TrainCommand, TrainsOnBytes) {
  const std::string text = (folder_ / "text").string();
  std::ofstream file(text);
  for (int i = 0; i < 2000; ++i) {
    file << "the rowers pull as one. ";
  }
  file.close();
  const std::vector<Json> lines =
      train("--steps 40 --data " + text + " --run-folder " + run_folder());
  EXPECT_LT(lines.back()["final_loss"].get<double>(), 3.5);
  EXPECT_TRUE(lines.back()["floor"].is_null());
}

TEST_F(TrainCommand, WritesTensorBoardEvents) {
  (void)train("--steps 3 --tensorboard --validate-every 2 --run-folder " + run_folder());
  const std::vector<std::string> first = event_files(run_folder());
  ASSERT_EQ(first.size(), 1U);
  EXPECT_EQ(count_of(first[0], "brain.Event:2"), 1U);
  for (const char* tag :
       {"loss/training", "optimizer/learning_rate", "optimizer/gradient_norm",
        "speed/tokens_per_second", "speed/mfu", "speed/hfu", "memory/peak_bytes"}) {
    EXPECT_EQ(count_of(first[0], tag), 3U) << tag;
  }
  EXPECT_EQ(count_of(first[0], "loss/validation"), 2U) << "after steps 2 and 3, the last";
  (void)train_more("--steps 5 --tensorboard");
  const std::vector<std::string> both = event_files(run_folder());
  ASSERT_EQ(both.size(), 2U);
  EXPECT_EQ(count_of(both[0], "loss/training") + count_of(both[1], "loss/training"), 5U);
  (void)train_more("--steps 6 --tensorboard=false");
  EXPECT_EQ(event_files(run_folder()).size(), 2U) << "written only with --tensorboard";
}

/// The summary: what happened, the floor, where the files are, and what to type next, with the user's command name.
TEST_F(TrainCommand, LastLinesExplainResultToNewcomer) {
  ::setenv("TRIREME_CALLED_AS", "./run", 1);  // NOLINT(concurrency-mt-unsafe): one thread
  const Ran ran = run_program(
      "train --model gpt-nano --batch 4 --length 32 --steps 3 --run-folder " + run_folder());
  ::unsetenv("TRIREME_CALLED_AS");  // NOLINT(concurrency-mt-unsafe)
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  const std::string last = ran.out.substr(ran.out.find("\nTrained for 3 steps, 384 "));
  for (const std::string& words :
       {std::string("384 tokens, in 0:0"), std::string("(MFU)"), std::string("loss "),
        std::string("(validation "), std::string("4.159  guessing uniformly"),
        std::string("1.213  the floor"), "In " + run_folder() + ":", std::string("checkpoints/"),
        "./run train --resume " + run_folder() + " --steps 6   resume from here",
        std::string("./run train --data FILE")}) {
    EXPECT_NE(last.find(words), std::string::npos) << words << " is not in:\n" << last;
  }
}

TEST_F(TrainCommand, RejectsInvalidOptions) {
  const auto error = [](const std::string& arguments) {
    const Ran ran = run_program("train " + arguments);
    EXPECT_NE(ran.exit_code, 0) << arguments;
    return ran.err;
  };
  EXPECT_NE(error("--model gpt9").find("unknown model 'gpt9'"), std::string::npos);
  EXPECT_NE(error("--data /no/such/file").find("/no/such/file"), std::string::npos);
  EXPECT_NE(error("--model mlp --data book.txt").find("generated data only"), std::string::npos);
  EXPECT_NE(error("--model conv-mini --dropout 0.1").find("no dropout"), std::string::npos);
  EXPECT_NE(error("--model mlp --experts 4").find("no experts"), std::string::npos);
  EXPECT_NE(error("--model mlp --length 64").find("leave out --length"), std::string::npos);
  EXPECT_NE(error("--model conv-mini --length 128").find("leave out --length"), std::string::npos);
  EXPECT_NE(error("--experts 4,gate=first").find("softmax-first or top-k-first"),
            std::string::npos);
  EXPECT_NE(error("--experts 2,per-token=3").find("each token goes to 3 experts, but there are 2"),
            std::string::npos);
  EXPECT_NE(error("--recompute most").find("none, selective or full"), std::string::npos);
  EXPECT_NE(error("--resume " + run_folder()).find("settings.json"), std::string::npos);
}

}  // namespace
}  // namespace trireme
