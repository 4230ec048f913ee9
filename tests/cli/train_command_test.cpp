// `trireme train` as a user runs it.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "cli/program.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

/// A folder that is gone with the test.
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

  /// The lines of a run with --json.
  std::vector<Json> train(const std::string& arguments) {
    return train_model("gpt-nano --batch 4 --length 32", arguments);
  }
  std::vector<Json> train_model(const std::string& model, const std::string& arguments) {
    const Ran ran = run_program("train --json --model " + model + " " + arguments);
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

TEST_F(TrainCommand, LearnsTheLanguage) {
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

/// A run that is stopped and resumed has the same losses, bit for bit, as one that never stopped.
TEST_F(TrainCommand, ResumesBitForBit) {
  const std::string rate = "--rate constant:0.001 ";
  const std::vector<Json> whole =
      train(rate + "--steps 8 --run-folder " + (folder_ / "whole").string());
  (void)train(rate + "--steps 5 --run-folder " + run_folder());
  const std::vector<Json> rest = train("--steps 8 --resume " + run_folder());
  ASSERT_EQ(rest.size(), 4U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(rest[i]["step"], 6 + i);
    EXPECT_EQ(rest[i]["loss"].get<double>(), whole[5 + i]["loss"].get<double>());
  }
}

/// A model without sequences trains by the same loop: on generated examples, towards a known floor.
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

TEST_F(TrainCommand, MakesAMixtureOfExperts) {
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
}

TEST_F(TrainCommand, TrainsInBf16) {
  const std::vector<Json> lines =
      train("--dtype bf16 --threads 1 --steps 60 --run-folder " + run_folder());
  EXPECT_LT(lines.back()["final_loss"].get<double>(),
            lines.back()["uninformed_loss"].get<double>());
}

TEST_F(TrainCommand, TrainsOnAFileOfBytes) {
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

TEST_F(TrainCommand, RefusesWhatCannotBe) {
  const auto error = [](const std::string& arguments) {
    const Ran ran = run_program("train " + arguments);
    EXPECT_NE(ran.exit_code, 0) << arguments;
    return ran.err;
  };
  EXPECT_NE(error("--model gpt9").find("'gpt9' is no model"), std::string::npos);
  EXPECT_NE(error("--data /no/such/file").find("/no/such/file"), std::string::npos);
  EXPECT_NE(error("--model mlp --data book.txt").find("not on files"), std::string::npos);
  EXPECT_NE(error("--model conv-mini --dropout 0.1").find("no dropout"), std::string::npos);
  EXPECT_NE(error("--model mlp --experts 4").find("no experts"), std::string::npos);
  EXPECT_NE(error("--model mlp --length 64").find("leave out --length"), std::string::npos);
  EXPECT_NE(error("--model conv-mini --length 128").find("leave out --length"), std::string::npos);
  EXPECT_NE(error("--experts 4,gate=first").find("softmax-first or top-k-first"),
            std::string::npos);
  EXPECT_NE(error("--experts 2,per-token=3").find("3 experts for each token of 2"),
            std::string::npos);
  EXPECT_NE(error("--recompute most").find("none, selective or full"), std::string::npos);
  EXPECT_NE(error("--resume " + run_folder()).find("settings.json"), std::string::npos);
}

}  // namespace
}  // namespace trireme
