// What a run keeps, who owns it, and how it resumes.
#include <algorithm>
#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "cli/training_runs.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

const std::string kSmallShape = "train --model gpt-nano --batch 6 --length 32 ";

class TrainResume : public TrainRanks {
 protected:
  static std::vector<std::string> checkpoints(const std::string& run) {
    return names_in(run + "/checkpoints");
  }
  /// The checkpoints of a folder.
  static std::vector<std::string> names_in(const std::string& folder) {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (entry.is_directory()) {
        names.push_back(entry.path().filename().string());
      }
    }
    std::ranges::sort(names);
    return names;
  }

  static std::string last_line(const std::string& text) {
    const std::size_t end = text.find_last_not_of('\n');
    const std::size_t begin = text.rfind('\n', end);
    return text.substr(begin == std::string::npos ? 0 : begin + 1);
  }

  /// The lowest validation loss in metrics.jsonl, and its step.
  static std::pair<double, std::int64_t> lowest_validation(const std::string& run) {
    std::pair<double, std::int64_t> lowest{1e30, 0};
    std::istringstream in(read_text(run + "/metrics.jsonl"));
    for (std::string line; std::getline(in, line);) {
      const Json json = Json::parse(line);
      if (json.contains("validation_loss") &&
          json["validation_loss"].get<double>() < lowest.first) {
        lowest = {json["validation_loss"].get<double>(), json["step"].get<std::int64_t>()};
      }
    }
    return lowest;
  }

  static void expect_steps(const std::string& run, std::int64_t last) {
    std::istringstream in(read_text(run + "/metrics.jsonl"));
    std::int64_t step = 0;
    for (std::string line; std::getline(in, line);) {
      EXPECT_EQ(Json::parse(line)["step"].get<std::int64_t>(), ++step);
    }
    EXPECT_EQ(step, last);
  }

  /// All files of a folder by name.
  static std::map<std::string, std::string> contents(const std::string& folder) {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      files[entry.path().string()] =
          entry.is_regular_file() ? read_text(entry.path().string()) : "folder";
    }
    return files;
  }

  [[nodiscard]] std::string text_file(const std::string& name, std::size_t size = 200'000) const {
    std::string text;
    for (std::size_t i = 0; text.size() < size; ++i) {
      text += fmt::format("{} rowers pull as one. ", i);
    }
    return folder_.file(name, text);
  }

  static Ran expect_success(const std::string& arguments) {
    Ran ran = run_program(arguments);
    EXPECT_EQ(ran.exit_code, 0) << arguments << "\n" << ran.err;
    return ran;
  }

  static void expect_error(const std::string& arguments, const std::string& words) {
    const Ran ran = run_program(arguments);
    EXPECT_EQ(ran.exit_code, 2) << arguments << "\n" << ran.out << ran.err;
    EXPECT_NE(ran.err.find(words), std::string::npos) << arguments << "\n" << ran.err;
  }
};

TEST_F(TrainResume, SavesByTime) {
  const std::string run = new_run();
  const std::unique_ptr<Started> started = start(run, "-n 2 --save-every 20ms --keep 1");
  const std::string latest = run + "/checkpoints/latest";
  ASSERT_TRUE(becomes_true([&] { return fs::exists(latest); }, kAMinute));
  const std::string first = read_text(latest);
  EXPECT_TRUE(becomes_true([&] { return read_text(latest) != first; }, kAMinute));
}

TEST_F(TrainResume, KeepsRequestedNumberOfCheckpoints) {
  const std::string run = new_run();
  (void)expect_success(kSmall + "--steps 6 --save-every 1 --keep 2 --run-folder " + run);
  EXPECT_EQ(checkpoints(run), (std::vector<std::string>{"step-000005", "step-000006"}));
}

TEST_F(TrainResume, RunWithoutCheckpointStartsOver) {
  for (const char* ranks : {"", "-n 2"}) {
    const std::string run = new_run();
    const std::unique_ptr<Started> started = start(run, ranks);
    kill(started->process(), SIGKILL);
    (void)started->wait(kAMinute);
    ASSERT_FALSE(fs::exists(run + "/checkpoints"));
    // The ranks of a killed process end a moment later.
    ASSERT_TRUE(becomes_true(
        [&] { return run_program("train --steps 4 --resume " + run).exit_code == 0; }, kAMinute));
    expect_steps(run, 4);
  }
}

TEST_F(TrainResume, RunHasOneOwner) {
  const std::string run = new_run();
  const std::unique_ptr<Started> started = start(run, "--save-every 2");
  ASSERT_TRUE(becomes_true([&] { return fs::exists(run + "/checkpoints/latest"); }, kAMinute));
  for (const char* ranks : {"", "-n 2"}) {
    const Ran ran = run_program(fmt::format("train --resume {} {}", run, ranks));
    EXPECT_EQ(ran.exit_code, 2) << ran.out << ran.err;
    EXPECT_NE(ran.err.find(fmt::format("is in use by process {} on ", started->process())),
              std::string::npos)
        << ran.err;
  }
  kill(started->process(), SIGKILL);
  (void)started->wait(kAMinute);
  const std::int64_t saved = std::stoll(read_text(run + "/checkpoints/latest").substr(5));
  (void)expect_success(fmt::format("train --steps {} --resume {}", saved + 1, run));
}

TEST_F(TrainResume, RestoresAllOptions) {
  const std::string run = new_run();
  (void)expect_success(
      kSmall +
      "--steps 2 --save-every 7,1h --keep 2 --validate-every 2 --tensorboard "
      "--threads 1 --device cpu --gpu-exchange host --deterministic --memory-limit 1GiB "
      "--mesh data=2 --zero 1 --microbatches 3 --run-folder " +
      run);
  const Json before = Json::parse(read_text(run + "/settings.json"));
  EXPECT_EQ(before["threads"], 1);
  EXPECT_EQ(before["device"], "cpu");
  EXPECT_EQ(before["gpu-exchange"], "host");
  EXPECT_EQ(before["deterministic"], true);
  EXPECT_EQ(before["memory-limit"], "1GiB");
  EXPECT_EQ(before["encrypt"], false);
  const std::string plan = read_text(run + "/plan.json");
  (void)expect_success("train --steps 4 --resume " + run);
  Json expected = before;
  expected["steps"] = 4;
  EXPECT_EQ(Json::parse(read_text(run + "/settings.json")), expected);
  EXPECT_EQ(read_text(run + "/plan.json"), plan);
  expect_steps(run, 4);
  EXPECT_NE(read_text(run + "/metrics.jsonl").rfind("validation_loss"), std::string::npos);
  const auto is_events = [](const fs::directory_entry& entry) {
    return entry.path().filename().string().starts_with("events.out");
  };
  EXPECT_EQ(std::ranges::count_if(fs::directory_iterator(run), is_events), 2);
  (void)expect_success("train --steps 5 --keep 4 -n 1 --resume " + run);
  EXPECT_EQ(Json::parse(read_text(run + "/settings.json"))["keep"].get<int>(), 4);
  EXPECT_EQ(read_text(run + "/plan.json").find("data=2"), std::string::npos);
}

TEST_F(TrainResume, ExportLeavesRunUnchanged) {
  const std::string run = new_run();
  (void)expect_success(kSmall + "--mesh data=2 --steps 3 --run-folder " + run);
  const std::map<std::string, std::string> before = contents(run);
  (void)expect_success(
      fmt::format("train --resume {} --steps 0 --export {}", run, folder_ / "out"));
  EXPECT_EQ(contents(run), before);
  EXPECT_TRUE(fs::exists(folder_ / "out/model.safetensors"));
  (void)expect_success(fmt::format("train --resume {} --export {}", run, folder_ / "out2"));
  EXPECT_EQ(contents(run), before);
}

TEST_F(TrainResume, DataMayMoveButNotChange) {
  const std::string run = new_run();
  const std::string data = text_file("a");
  (void)expect_success(kSmall + "--steps 2 --data " + data + " --run-folder " + run);
  const std::string moved = folder_ / "b";
  fs::rename(data, moved);
  expect_error("train --steps 3 --resume " + run,
               "if it has moved, give its new place with --data");
  (void)expect_success("train --steps 3 --resume " + run + " --data " + moved);
  (void)expect_success("train --steps 4 --resume " + run);
  std::string text = read_text(moved);
  text[100'000] = '#';
  write_text(moved, text);
  for (const char* ranks : {"", " -n 2"}) {
    expect_error("train --steps 5 --resume " + run + ranks, "are not what");
  }
  expect_error("train --steps 5 --resume " + run + " --data " + folder_.file("c", "too short"),
               "c: has 9 tokens");
}

/// Nothing of the last bytes is in a window, but what is held out for validation depends on their number.
TEST_F(TrainResume, DataMayNotGrowByLessThanWindow) {
  const std::string run = new_run();
  const std::string data = text_file("a");
  (void)expect_success(kSmall + "--steps 2 --data " + data + " --run-folder " + run);
  write_text(data, read_text(data) + "x");
  expect_error("train --steps 3 --resume " + run, "are not what");
}

TEST_F(TrainResume, ValidationDataMayMove) {
  const std::string run = new_run();
  const std::string held_out = text_file("held-out", 5000);
  (void)expect_success(kSmall + "--steps 2 --data " + text_file("a") + " --validation-data " +
                       held_out + " --run-folder " + run);
  const std::string moved = folder_ / "moved";
  fs::rename(held_out, moved);
  expect_error("train --steps 3 --resume " + run,
               "if it has moved, give its new place with --validation-data");
  (void)expect_success("train --steps 3 --resume " + run + " --validation-data " + moved);
}

TEST_F(TrainResume, GeneratedDataStaysGenerated) {
  const std::string run = new_run();
  (void)expect_success(kSmall + "--steps 2 --run-folder " + run);
  expect_error("train --steps 3 --resume " + run + " --data " + text_file("a"),
               "--data: this run started without it, which cannot change later");
  expect_error("train --steps 3 --vocabulary 70 --resume " + run,
               "--vocabulary: this run started without it, which cannot change later");
}

TEST_F(TrainResume, TruncatedDataEndsRunCleanly) {
  for (const char* ranks : {"", "-n 2"}) {
    const std::string run = new_run();
    const std::string data = text_file("book");
    const std::string text = read_text(data);
    const std::unique_ptr<Started> started = start(run, fmt::format("--data {} {}", data, ranks));
    ASSERT_EQ(truncate(data.c_str(), 1000), 0);
    const Ran ran = started->wait(kAMinute);
    EXPECT_EQ(ran.exit_code, 2) << ran.err;
    EXPECT_NE(ran.err.find("book' was truncated while in use"), std::string::npos) << ran.err;
    EXPECT_NE(ran.err.find("is saved: restore the data, then --resume " + run), std::string::npos)
        << ran.err;
    const std::string metrics = read_text(run + "/metrics.jsonl");
    const std::int64_t steps = std::ranges::count(metrics, '\n');
    EXPECT_EQ(read_text(run + "/checkpoints/latest"), fmt::format("step-{:06}\n", steps));
    write_text(data, text);
    (void)expect_success(fmt::format("train --steps {} --resume {}", steps + 2, run));
    expect_steps(run, steps + 2);
  }
}

TEST_F(TrainResume, CommandsQuotePaths) {
  const std::string run = folder_ / "my run";
  const Ran ran = expect_success(kSmall + "--steps 2 --run-folder '" + run + "'");
  EXPECT_NE(ran.out.find("train --resume '" + run + "' --steps 4"), std::string::npos) << ran.out;
}

/// The first lines show what the check demands.
TEST_F(TrainResume, MemoryLineMatchesCheck) {
  const std::string small = kSmall + "--threads 1 --steps 1 --run-folder ";
  const Ran ran = expect_success(small + new_run());
  const std::size_t at = ran.out.find("memory   ") + 9;
  const std::string needs = ran.out.substr(at, ran.out.find(':', at) - at);
  const Ran refused = run_program(small + new_run() + " --memory-limit 1KiB");
  EXPECT_NE(refused.err.find(fmt::format("this run needs {} of memory", needs)), std::string::npos)
      << needs << refused.err;
}

/// The last stage has the head, and so the most.
TEST_F(TrainResume, MemoryLineReportsLargestRank) {
  const std::string small =
      kSmall + "--threads 1 --steps 1 --mesh pipe=2 --microbatches 2 --run-folder ";
  const std::string run = new_run();
  const Ran ran = expect_success(small + run);
  const Json facts = Json::parse(read_text(run + "/facts.json"));
  const auto needs = facts["memory_bytes"].get<std::int64_t>();
  EXPECT_NE(ran.out.find(fmt::format("on rank {}: ", facts["memory_rank"].get<int>())),
            std::string::npos)
      << ran.out;
  (void)expect_success(fmt::format("{}{} --memory-limit {}", small, new_run(), needs));
  const Ran refused =
      run_program(fmt::format("{}{} --memory-limit {}", small, new_run(), needs - 1));
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_NE(refused.err.find(
                fmt::format("({} B) of memory on rank {}", needs, facts["memory_rank"].get<int>())),
            std::string::npos)
      << refused.err;
}

TEST_F(TrainResume, LimitOneByteTooLowIsDistinguishable) {
  const std::string small = kSmall + "--threads 1 --steps 1 --run-folder ";
  const std::string run = new_run();
  (void)expect_success(small + run);
  const auto needs =
      Json::parse(read_text(run + "/facts.json"))["memory_bytes"].get<std::int64_t>();
  (void)expect_success(fmt::format("{}{} --memory-limit {}", small, new_run(), needs));
  const Ran refused =
      run_program(fmt::format("{}{} --memory-limit {}", small, new_run(), needs - 1));
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_NE(refused.err.find(fmt::format("({} B) of memory", needs)), std::string::npos)
      << refused.err;
  EXPECT_NE(refused.err.find(fmt::format("({} B) is allowed", needs - 1)), std::string::npos)
      << refused.err;
}

/// So that the lowest loss reported is the lowest, however many steps there are.
TEST_F(TrainResume, ValidatesAfterLastStep) {
  const std::string run = new_run();
  const Ran ran =
      expect_success(kSmall + "--steps 5 --validate-every 2 --keep-best --run-folder " + run);
  const std::size_t line = ran.out.find("step      5/5");
  ASSERT_NE(line, std::string::npos) << ran.out;
  const std::string shown = ran.out.substr(line, ran.out.find('\n', line) - line);
  const std::size_t at = shown.find("validation ");
  ASSERT_NE(at, std::string::npos) << shown;
  const std::string loss = shown.substr(at, shown.find(' ', at + 11) - at);
  EXPECT_NE(ran.out.find("(" + loss + ")"), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find("at step 5; kept in"), std::string::npos) << ran.out;
}

/// Each optimizer with settings of its own, on one device and under ZeRO: a run in two parts takes the steps of a whole
/// one.
constexpr std::array kOptimizers{"sgd",
                                 "momentum,nesterov=on",
                                 "adagrad,eps=1e-6",
                                 "adamw,beta2=0.999,weight-decay=0.01",
                                 "lion,beta1=0.8",
                                 "muon,momentum=0.9"};

class ResumedOptimizer : public TrainResume {
 protected:
  void expect_restored(const std::string& optimizer, const std::string& plan) {
    const std::string options =
        fmt::format("{}--rate constant:3e-4 --optimizer {} {} ", kSmallShape, optimizer, plan);
    const std::string whole = new_run();
    (void)expect_success(options + "--steps 6 --run-folder " + whole);
    const std::string run = new_run();
    (void)expect_success(options + "--steps 3 --run-folder " + run);
    (void)expect_success("train --steps 6 --resume " + run);
    expect_same(losses_in(read_text(whole + "/metrics.jsonl")),
                losses_in(read_text(run + "/metrics.jsonl")), options);
    EXPECT_EQ(Json::parse(read_text(run + "/settings.json"))["optimizer"].get<std::string>(),
              optimizer);
  }
};

/// Each optimizer under one of the plans.
TEST_F(ResumedOptimizer, RestoresState) {
  for (std::size_t i = 0; i < kOptimizers.size(); ++i) {
    expect_restored(kOptimizers.at(i), i % 2 == 0 ? "-n 1" : "--mesh data=2 --zero 1");
  }
}

using LongResumedOptimizer = ResumedOptimizer;
TEST_F(LongResumedOptimizer, RestoresState) {
  for (const char* optimizer : kOptimizers) {
    for (const char* plan : {"-n 1", "--mesh data=2 --zero 1"}) {
      expect_restored(optimizer, plan);
    }
  }
}

TEST_F(TrainResume, RejectsStateOfAnotherOptimizer) {
  const std::string run = new_run();
  (void)expect_success(kSmall + "--optimizer lion --steps 2 --run-folder " + run);
  expect_error("train --steps 3 --optimizer adamw --resume " + run,
               "--optimizer: this run started with lion, whose state adamw cannot use; keep lion");
  (void)expect_success("train --steps 3 --optimizer lion,beta2=0.9 --resume " + run);
}

/// The lowest validation loss is kept, exported, and remembered by a resumed run; the run stops when it is not beaten.
TEST_F(TrainResume, KeepsBestAndStopsEarly) {
  for (const char* plan : {"-n 1", "--mesh data=2,tensor=2"}) {
    const std::string run = new_run();
    const std::string out = run + "-model";
    // The rate is so large that the loss rises after the first steps.
    const std::string options =
        fmt::format("{}--rate constant:0.3 --validate-every 2 --keep-best --patience 3 --json {} ",
                    kSmallShape, plan);
    (void)expect_success(fmt::format("{}--steps 4 --run-folder {}", options, run));
    const Ran ran = expect_success(
        fmt::format("train --json --steps 1000 --resume {} --export {} {}", run, out, plan));
    const Json end = Json::parse(last_line(ran.out));
    EXPECT_TRUE(end["stopped_early"].get<bool>()) << plan;
    EXPECT_FALSE(end["interrupted"].get<bool>()) << plan;
    const auto best = end["best_step"].get<std::int64_t>();
    const auto [lowest, at] = lowest_validation(run);
    EXPECT_EQ(best, at) << plan;
    EXPECT_EQ(end["best_validation_loss"].get<double>(), lowest) << plan;
    EXPECT_EQ(end["step"].get<std::int64_t>(), best + 3 * 2) << plan;
    EXPECT_EQ(names_in(run + "/best"), (std::vector<std::string>{fmt::format("step-{:06}", best)}));
    const Ran check = expect_success(fmt::format(
        "train --batch 6 --length 32 --steps 0 --json --model {} --run-folder {}", out, new_run()));
    EXPECT_NEAR(Json::parse(last_line(check.out))["validation_loss"].get<double>(), lowest,
                1e-4 * lowest)
        << plan;
  }
}

class TrainExperts : public TrainResume {
 protected:
  std::vector<Json> steps_of(const std::string& options) {
    const std::string run = new_run();
    (void)expect_success(kSmall + "--steps 2 --run-folder " + run + " " + options);
    std::vector<Json> lines;
    std::istringstream in(read_text(run + "/metrics.jsonl"));
    for (std::string text; std::getline(in, text);) {
      lines.push_back(Json::parse(text));
    }
    return lines;
  }
};

/// 6 sequences of 32 tokens with 2 choices each; the same under every plan.
TEST_F(TrainExperts, ReportsLoadAndDropsPerBlock) {
  const std::string experts = "--experts 4,per-token=2,capacity=1,balance=0 ";
  const std::vector<Json> one = steps_of(experts);
  ASSERT_EQ(one.size(), 2U);
  for (const char* plan : {"", "--mesh data=2", "--mesh pipe=2 --microbatches 3", "--mesh expert=2",
                           "--microbatches 2"}) {
    const std::vector<Json> steps = steps_of(experts + plan);
    ASSERT_EQ(steps.size(), 2U) << plan;
    const Json& blocks = steps[0]["experts"];
    ASSERT_EQ(blocks.size(), 2U) << plan;
    for (std::size_t i = 0; i < 2; ++i) {
      double sum = 0;
      for (const Json& load : blocks[i]["load"]) {
        sum += load.get<double>();
      }
      EXPECT_EQ(sum, 6 * 32 * 2) << plan;
      EXPECT_GT(blocks[i]["dropped"].get<double>(), 0) << plan;
      EXPECT_GT(blocks[i]["imbalance"].get<double>(), 1) << plan;
      EXPECT_EQ(blocks[i], one[0]["experts"][i]) << plan;
    }
  }
  EXPECT_EQ(steps_of("--experts 4,capacity=0")[0]["experts"][0]["dropped"].get<double>(), 0);
}

}  // namespace
}  // namespace trireme
