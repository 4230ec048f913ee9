// `trireme train` on several ranks, as a user runs it: real processes. What they compute is what one computes.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <functional>
#include <sstream>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/program.h"
#include "temporary_folder.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

/// Of a loss in f32, where sums are taken in another order.
constexpr double kTolerance = 1e-5;
/// A rank needs a moment to see that another is gone; a busy machine needs more.
constexpr std::chrono::seconds kAFewSeconds{10};
/// For what computes, too.
constexpr std::chrono::seconds kAMinute{60};

const std::string kSmall = "train --model gpt-nano --batch 6 --length 32 --rate constant:0.001 ";

std::vector<double> losses_in(const std::string& lines) {
  std::vector<double> losses;
  std::istringstream in(lines);
  for (std::string line; std::getline(in, line);) {
    const Json json = Json::parse(line);
    if (!json.contains("summary")) {
      losses.push_back(json["loss"].get<double>());
    }
  }
  return losses;
}

void expect_same(const std::vector<double>& one, const std::vector<double>& many,
                 const std::string& what) {
  ASSERT_FALSE(one.empty());
  ASSERT_EQ(one.size(), many.size()) << what;
  for (std::size_t i = 0; i < one.size(); ++i) {
    EXPECT_NEAR(one[i], many[i], kTolerance * one[i]) << what << ", line " << i;
  }
}

bool becomes_true(const std::function<bool()>& holds, std::chrono::seconds limit) {
  const Clock::time_point end = Clock::now() + limit;
  while (!holds()) {
    if (Clock::now() > end) {
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

bool is_alive(pid_t process) {
  return kill(process, 0) == 0;
}

/// The program under way, in a process group of its own. What is left of it ends with the test.
class Started {
 public:
  Started(const std::string& arguments, const std::string& folder)
      : out_(folder + "/out"), err_(folder + "/err") {
    std::istringstream in(arguments);
    std::vector<std::string> words{TRIREME_PROGRAM};
    for (std::string word; in >> word;) {
      words.push_back(word);
    }
    std::vector<char*> pointers;
    for (std::string& word : words) {
      pointers.push_back(word.data());
    }
    pointers.push_back(nullptr);
    process_ = fork();
    if (process_ == 0) {
      setpgid(0, 0);
      redirect(out_, STDOUT_FILENO);
      redirect(err_, STDERR_FILENO);
      execv(TRIREME_PROGRAM, pointers.data());
      _exit(127);
    }
    setpgid(process_, process_);
  }
  ~Started() {
    if (process_ > 0) {
      kill(-process_, SIGKILL);
      waitpid(process_, nullptr, 0);
    }
  }
  Started(const Started&) = delete;
  Started& operator=(const Started&) = delete;

  [[nodiscard]] pid_t process() const { return process_; }

  /// Those that it has forked, in order: rank 0 is first.
  [[nodiscard]] std::vector<pid_t> ranks() const {
    std::istringstream in(read_text(fmt::format("/proc/{0}/task/{0}/children", process_)));
    std::vector<pid_t> ranks;
    for (pid_t rank = 0; in >> rank;) {
      ranks.push_back(rank);
    }
    return ranks;
  }

  /// Its end, which must come within the limit; -1 if it did not, or came by a signal.
  Ran wait(std::chrono::seconds limit) {
    int status = 0;
    const bool ended =
        becomes_true([&] { return waitpid(process_, &status, WNOHANG) == process_; }, limit);
    if (ended) {
      process_ = 0;
    }
    return {ended && WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_text(out_),
            read_text(err_)};
  }

 private:
  static void redirect(const std::string& path, int to) {
    constexpr mode_t kMode = 0600;
    const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kMode);
    if (file < 0 || dup2(file, to) < 0) {
      _exit(127);
    }
  }

  std::string out_;
  std::string err_;
  pid_t process_ = 0;
};

class TrainRanks : public ::testing::Test {
 protected:
  /// Another name each time.
  std::string new_run() { return folder_ / fmt::format("run-{}", ++runs_); }

  std::vector<double> losses(const std::string& options) {
    const Ran ran =
        run_program(kSmall + "--steps 3 --json --run-folder " + new_run() + " " + options);
    EXPECT_EQ(ran.exit_code, 0) << options << ": " << ran.err;
    EXPECT_EQ(ran.err, "") << options;
    return losses_in(ran.out);
  }

  static std::vector<double> resumed(const std::string& run, const std::string& options) {
    const Ran ran = run_program("train --json --resume " + run + " " + options);
    EXPECT_EQ(ran.exit_code, 0) << options << ": " << ran.err;
    return losses_in(ran.out);
  }

  /// Refused in one line with exit code 2, before there is a folder.
  void expect_refused(const std::string& options, const std::string& words) {
    const std::string run = new_run();
    const Ran ran = run_program(kSmall + "--steps 3 --run-folder " + run + " " + options);
    EXPECT_EQ(ran.exit_code, 2) << options << ": " << ran.err;
    EXPECT_EQ(ran.err.find("trireme: "), 0U) << options << ": " << ran.err;
    EXPECT_NE(ran.err.find(words), std::string::npos) << options << ": " << ran.err;
    EXPECT_EQ(std::ranges::count(ran.err, '\n'), 1) << options << ": " << ran.err;
    EXPECT_EQ(ran.out, "") << options;
    EXPECT_FALSE(fs::exists(run)) << options;
  }

  /// A run without end, once its first steps are done.
  std::unique_ptr<Started> start(const std::string& run, const std::string& options) {
    auto started = std::make_unique<Started>(
        kSmall + "--steps 1000000 --run-folder " + run + " " + options, folder_.path());
    // The third step is recorded.
    EXPECT_TRUE(becomes_true([&] { return fs::exists(run + "/trace.json"); }, kAMinute));
    return started;
  }

  TemporaryFolder folder_;
  int runs_ = 0;
};

TEST_F(TrainRanks, LossesAreThoseOfOneDevice) {
  const std::vector<double> one = losses("");
  for (const char* options :
       {"-n 1", "-n 2", "-n 4 --mesh data=2,tensor=2 --zero 2", "--mesh pipe=2 --microbatches 2",
        "--mesh pipe=2 --microbatches 3 --schedule gpipe",
        "--mesh pipe=2 --microbatches 4 --schedule chimera", "--mesh tensor=2 --sequence",
        "--mesh context=2 --context all-to-all", "--mesh context=3 --context ring",
        "--mesh data=3 --zero 3", "--microbatches 2"}) {
    expect_same(one, losses(options), options);
  }
  expect_same(losses("--experts 4"), losses("--experts 4 --mesh expert=2"), "experts");
  expect_same(losses("--experts 4,every=2"),
              losses("--experts 4,every=2 --mesh data=2,expert=2 --zero 1"),
              "experts in every second block");
}

/// All ranks come to the same scale, and so to the losses of one device.
TEST_F(TrainRanks, LossScalesAreThoseOfOneDevice) {
  const auto lines = [&](const std::string& options) {
    const Ran ran =
        run_program(kSmall + "--steps 3 --json --dtype f16 --loss-scale 1e9 --run-folder " +
                    new_run() + " " + options);
    EXPECT_EQ(ran.exit_code, 0) << options << ": " << ran.err;
    std::vector<Json> all;
    std::istringstream in(ran.out);
    for (std::string line; std::getline(in, line);) {
      all.push_back(Json::parse(line));
    }
    return all;
  };
  const std::vector<Json> one = lines("--threads 1");
  for (const char* options : {"-n 2 --mesh data=2", "--mesh data=2 --zero 2 --microbatches 2",
                              "--mesh pipe=2 --microbatches 2"}) {
    const std::vector<Json> many = lines(options);
    ASSERT_EQ(many.size(), one.size());
    EXPECT_EQ(many.back()["overflows"], one.back()["overflows"]) << options;
    for (std::size_t i = 0; i < 3; ++i) {
      const double loss = one[i]["loss"].get<double>();
      EXPECT_EQ(many[i]["loss_scale"], one[i]["loss_scale"]) << options;
      EXPECT_NEAR(many[i]["loss"].get<double>(), loss, 1e-3 * loss) << options;
    }
  }
}

// G6: a table that no schedule makes. The second stage goes back before the first is through.
TEST_F(TrainRanks, ATableOfOnesOwnRuns) {
  const std::string head = "ranks 2\nstages 2\nmicrobatches 3\nweights single\nplace 0 1\n";
  const std::string table =
      folder_.file("mine.pipeline", "trireme pipeline 1\nname mine\n" + head +
                                        "rank 0: F0.1 F0.0 B0.1 F0.2 B0.0 B0.2 U0.2\n"
                                        "rank 1: F1.1 B1.1 F1.0 B1.0 F1.2 B1.2 U1.2\nend\n");
  const std::vector<double> one = losses("");
  expect_same(one, losses("--mesh pipe=2 --schedule " + table), table);
  // The plan that the run writes has it.
  expect_same(one, losses("--plan " + (folder_ / "run-2/plan.json")), "its plan");
  expect_refused("--mesh pipe=2 --microbatches 2 --schedule " + table,
                 "the table mine is for 2 ranks and 3 micro-batches");
  const std::string wrong =
      folder_.file("wrong.pipeline", "trireme pipeline 1\nname wrong\n" + head +
                                         "rank 0: F0.0 F0.1 F0.2 B0.0 B0.1 B0.2 U0.2\n"
                                         "rank 1: F1.0 F1.1 F1.2 B1.0 B1.1 U1.2\nend\n");
  expect_refused("--mesh pipe=2 --schedule " + wrong, "the table wrong: micro-batch 2 goes back");
}

// E4: weights that are behind learn as well, if not the same.
TEST_F(TrainRanks, TheLossFallsWithOlderWeights) {
  for (const char* schedule : {"pipedream --clip 0", "pipedream-2bw"}) {
    const std::string run = new_run();
    const Ran ran = run_program(fmt::format(
        "train --model gpt-nano --batch 16 --length 32 --rate constant:0.003 --steps 40 "
        "--json --mesh pipe=2 --microbatches 4 --schedule {} --run-folder {}",
        schedule, run));
    ASSERT_EQ(ran.exit_code, 0) << ran.err;
    const std::vector<double> all = losses_in(ran.out);
    EXPECT_LT(all.back(), 0.8 * all.front()) << schedule;
  }
}

TEST_F(TrainRanks, APlanFileIsWhatTheOptionsSay) {
  const std::string plan = folder_.file(
      "my.plan.json",
      R"({"mesh": "data=2,pipe=2", "microbatches": 2, "schedule": "gpipe", "zero": 1})");
  const std::string options = "--mesh data=2,pipe=2 --microbatches 2 --schedule gpipe --zero 1";
  EXPECT_EQ(losses("--plan " + plan), losses(options));
  // The run's folder has the plan of either.
  EXPECT_EQ(read_text(folder_ / "run-1/plan.json"), read_text(folder_ / "run-2/plan.json"));
  EXPECT_EQ(losses("--plan " + (folder_ / "run-2/plan.json")), losses(options));
  expect_refused("--mesh data=2 --plan " + plan, "--plan");
}

/// FLOPs that a run's first step executes, for each of the model's.
double executed_share(const std::string& run) {
  const std::string metrics = read_text(run + "/metrics.jsonl");
  const Json step = Json::parse(metrics.substr(0, metrics.find('\n')));
  return step["hfu"].get<double>() / step["mfu"].get<double>();
}

TEST_F(TrainRanks, APlanSaysWhatIsComputedAgain) {
  const auto recompute_in = [&](const std::string& file) {
    return Json::parse(read_text(folder_ / file))["recompute"];
  };
  const std::vector<double> kept = losses("-n 2");
  // By the option, which goes into the plan; by a plan; and on one device.
  EXPECT_EQ(losses("-n 2 --recompute full"), kept);
  EXPECT_EQ(recompute_in("run-2/plan.json"), "full");
  EXPECT_EQ(losses("--plan " + (folder_ / "run-2/plan.json")), kept);
  EXPECT_EQ(recompute_in("run-3/settings.json"), "full");
  const std::string alone = folder_.file("alone.json", R"({"mesh": "", "recompute": "selective"})");
  expect_same(losses("--plan " + alone), kept, "one device");
  EXPECT_EQ(recompute_in("run-4/settings.json"), "selective");
  EXPECT_LT(executed_share(folder_ / "run-1"), executed_share(folder_ / "run-4"));
  EXPECT_LT(executed_share(folder_ / "run-4"), executed_share(folder_ / "run-2"));
  EXPECT_DOUBLE_EQ(executed_share(folder_ / "run-2"), executed_share(folder_ / "run-3"));
  // A run goes on as it was, unless a plan or the option says otherwise.
  (void)resumed(folder_ / "run-2", "--steps 4");
  EXPECT_EQ(recompute_in("run-2/settings.json"), "full");
  (void)resumed(folder_ / "run-2", "--steps 5 --plan " + alone);
  EXPECT_EQ(recompute_in("run-2/settings.json"), "selective");
  (void)resumed(folder_ / "run-2", "--steps 6 --recompute 1GiB");
  EXPECT_EQ(recompute_in("run-2/settings.json"), "1024MiB");
  expect_refused("--recompute full --plan " + alone, "--recompute excludes --plan");
  expect_refused("--zero 1 --plan " + alone, "--plan excludes --zero");
  expect_refused("-n 2 --recompute 1KiB", "activations cannot be kept within 1 KiB");
}

TEST_F(TrainRanks, ACheckpointResumesUnderAnyMesh) {
  const std::string whole_run = new_run();
  const std::string run = new_run();
  const Ran whole = run_program(kSmall + "--steps 6 --json --run-folder " + whole_run);
  ASSERT_EQ(whole.exit_code, 0) << whole.err;
  const Ran first = run_program(
      kSmall +
      "--steps 2 --json --mesh data=2,tensor=2,pipe=2 --microbatches 2 --zero 1 --run-folder " +
      run);
  ASSERT_EQ(first.exit_code, 0) << first.err;
  std::vector<double> chain = losses_in(first.out);
  for (const char* options :
       {"-n 3 --steps 4 --zero 3", "--mesh pipe=2 --microbatches 2 --schedule chimera --steps 5",
        "--steps 6"}) {
    const std::vector<double> more = resumed(run, options);
    chain.insert(chain.end(), more.begin(), more.end());
  }
  expect_same(losses_in(whole.out), chain,
              "data=2,tensor=2,pipe=2, then 3 ranks, then two copies, then 1");
}

/// The hashes of the model's tensors, of a run whose parameters stay as they begin.
TEST_F(TrainRanks, HashesOfTensorsDoNotDependOnTheMesh) {
  const auto hashes = [&](const std::string& options) {
    const std::string run = new_run();
    const Ran ran = run_program(
        "train --model gpt-nano --batch 6 --length 32 --rate constant:0 --steps 1 --json "
        "--run-folder " +
        run + " " + options);
    EXPECT_EQ(ran.exit_code, 0) << options << ": " << ran.err;
    const std::string manifest = read_text(run + "/checkpoints/step-000001/manifest.json");
    const std::size_t begin = manifest.find("model.safetensors");
    std::string model = manifest.substr(begin, manifest.find(']', begin) - begin);
    EXPECT_GT(std::ranges::count(model, '\n'), 10) << manifest;
    return model;
  };
  const std::string one = hashes("");
  for (const char* options :
       {"-n 3 --zero 3", "--mesh data=2,tensor=2,pipe=2 --microbatches 2 --zero 2"}) {
    EXPECT_EQ(hashes(options), one) << options;
  }
}

// G5: the bytes that are told, on the screen and to machines; and that it may begin and end anywhere in a run.
TEST_F(TrainRanks, MemoryIsShownByWhatItIsFor) {
  const auto memory_of = [&](const std::string& options) {
    const Ran ran =
        run_program(kSmall + "--steps 1 --json --run-folder " + new_run() + " " + options);
    EXPECT_EQ(ran.exit_code, 0) << ran.err;
    const Json summary = Json::parse(ran.out.substr(ran.out.find('\n') + 1));
    double sum = 0;
    for (const auto& [what, bytes] : summary["memory"].items()) {
      sum += bytes.get<double>();
    }
    EXPECT_EQ(sum, summary["peak_memory_bytes"].get<double>()) << ran.out;
    return summary["memory"];
  };
  const Json one = memory_of("");
  const Json many = memory_of("--mesh data=2 --zero 3");
  EXPECT_EQ(one["communication_bytes"], 0);
  EXPECT_GT(many["communication_bytes"], 0);
  EXPECT_NEAR(many["parameter_bytes"].get<double>() / one["parameter_bytes"].get<double>(), 0.5,
              0.05);
  const Ran text =
      run_program(kSmall + "--steps 1 --mesh data=2 --zero 3 --run-folder " + new_run());
  EXPECT_NE(text.out.find(" communication"), std::string::npos) << text.out;
}

TEST_F(TrainRanks, CompressedGradientsAreFewerBytes) {
  const std::string run = new_run();
  const Ran text = run_program(kSmall + "--steps 3 -n 2 --compress top-k:0.01 --run-folder " + run);
  ASSERT_EQ(text.exit_code, 0) << text.err;
  EXPECT_NE(text.out.find("ranks    2 ranks: data=2, gradients by top-k:0.01\n"), std::string::npos)
      << text.out;
  EXPECT_NE(text.out.find("along data in a step; uncompressed"), std::string::npos) << text.out;
  EXPECT_EQ(Json::parse(read_text(run + "/plan.json"))["compression"], "top-k:0.01");
  const Ran json =
      run_program("train --json --steps 5 --resume " + run + " --plan " + run + "/plan.json");
  ASSERT_EQ(json.exit_code, 0) << json.err;
  std::istringstream lines(json.out);
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const Json one = Json::parse(line);
    EXPECT_GT(one["data_bytes_uncompressed"].get<double>(),
              10 * one["data_bytes_sent"].get<double>())
        << line;
    EXPECT_GT(one["data_bytes_sent"].get<double>(), 0) << line;
  }
  EXPECT_EQ(count, 3);
  EXPECT_EQ(resumed(run, "-n 3 --compress power:2 --steps 6").size(), 1U);
  EXPECT_EQ(resumed(run, "--mesh data=2,tensor=2 --compress sign --zero 1 --steps 7").size(), 1U);
  EXPECT_EQ(resumed(run, "--steps 8").size(), 1U);
  const Ran plain = run_program(kSmall + "--steps 1 -n 2 --json --run-folder " + new_run());
  EXPECT_EQ(plain.out.find("data_bytes"), std::string::npos);
}

TEST_F(TrainRanks, ARankThatIsKilledEndsAll) {
  const std::unique_ptr<Started> started = start(new_run(), "--mesh data=2,tensor=2");
  const std::vector<pid_t> ranks = started->ranks();
  ASSERT_EQ(ranks.size(), 4U);
  kill(ranks[2], SIGKILL);
  const Ran ran = started->wait(kAFewSeconds);
  EXPECT_EQ(ran.exit_code, 1) << ran.err;
  EXPECT_NE(ran.err.find("rank 2: ended by signal 9"), std::string::npos) << ran.err;
  EXPECT_NE(ran.err.find("rank 0: "), std::string::npos) << ran.err;
  EXPECT_TRUE(std::ranges::none_of(ranks, is_alive)) << ran.err;
}

TEST_F(TrainRanks, RanksEndWithTheFirstProcess) {
  const std::unique_ptr<Started> started = start(new_run(), "-n 2");
  const std::vector<pid_t> ranks = started->ranks();
  ASSERT_EQ(ranks.size(), 2U);
  kill(started->process(), SIGKILL);
  EXPECT_EQ(started->wait(kAFewSeconds).exit_code, -1);
  EXPECT_TRUE(becomes_true([&] { return std::ranges::none_of(ranks, is_alive); }, kAFewSeconds));
}

/// Ctrl-C goes to all processes; `kill -INT`, to the first one or to a rank alone, has the same effect.
TEST_F(TrainRanks, AnInterruptSavesAndSaysHowToGoOn) {
  for (const char* whom : {"all", "first", "rank"}) {
    const std::string run = new_run();
    const std::unique_ptr<Started> started = start(run, "-n 2");
    const std::vector<pid_t> ranks = started->ranks();
    ASSERT_EQ(ranks.size(), 2U);
    const pid_t process = started->process();
    kill(*whom == 'a' ? -process : *whom == 'f' ? process : ranks[1], SIGINT);
    const Ran ran = started->wait(kAMinute);
    EXPECT_EQ(ran.exit_code, 0) << whom << ": " << ran.err;
    EXPECT_EQ(ran.err, "") << whom;
    EXPECT_NE(ran.out.find("Stopped after"), std::string::npos) << ran.out;
    EXPECT_NE(
        ran.out.find(fmt::format("train --resume {0} --plan {0}/plan.json --steps 1000000", run)),
        std::string::npos)
        << ran.out;
    EXPECT_TRUE(fs::exists(run + "/checkpoints/latest")) << whom;
    EXPECT_TRUE(std::ranges::none_of(ranks, is_alive)) << whom;
  }
}

struct Case {
  const char* options;
  const char* words;
};

TEST_F(TrainRanks, RefusesInOneLineWhatCannotBe) {
  for (const Case& one : std::initializer_list<Case>{
           {"--mesh data", "--mesh: 'data' is not a mesh; write it like"},
           {"--mesh data=0", "axis 'data' has size 0"},
           {"--mesh data=2,data=2", "given twice"},
           {"--mesh data=100000", "at most 256 processes"},
           {"--mesh rows=2", "nothing is cut along the axis 'rows'"},
           {"-n 0", "-n is 0; it must be 1 or more"},
           {"-n -1", "-n is -1"},
           {"-n 3 --mesh data=2", "-n is 3, but the mesh data=2 has 2 devices"},
           {"--mesh pipe=3", "3 stages are more than the 2 blocks of the model"},
           {"--mesh pipe=2 --chunks 2 --schedule interleaved --microbatches 2",
            "4 stages are more than the 2 blocks"},
           {"--chunks 0", "0 chunks"},
           {"-n 2 --microbatches 7", "7 micro-batches are more than the 6"},
           {"--microbatches 7", "7 micro-batches are more than the 6"},
           {"-n 2 --microbatches 0", "0 micro-batches"},
           {"--mesh pipe=2 --schedule round", "'round' is no pipeline schedule"},
           {"--mesh pipe=2 --schedule chimera", "no micro-batch goes through"},
           {"--mesh pipe=2 --microbatches 2 --schedule pipedream", "use --clip 0"},
           {"-n 2 --zero 4", "there is no ZeRO level 4"},
           {"-n 2 --context spiral", "--context: 'spiral' is no way for attention"},
           {"-n 2 --compress top-k:0", "--compress: 'top-k:0': the share"},
           {"-n 2 --compress top-k:2", "above 0 and at most 1, such as top-k:0.01"},
           {"-n 2 --compress power:-1", "--compress: 'power:-1': the rank"},
           {"-n 2 --compress zstd", "--compress: 'zstd' is no way to compress gradients; ways are"},
           {"--compress sign", "leave out the compression sign, or add data=2 to the mesh"},
           {"--mesh tensor=2 --compress int8", "the mesh 'tensor=2' has no such"},
           {"-n 2 --dtype f16 --compress sign", "train in bf16 or f32 (--dtype)"},
           {"--mesh data=2,pipe=2 --microbatches 2 --schedule pipedream --clip 0 --compress sign",
            "leave out the compression sign, or use pipedream-2bw"},
           {"-n 2 --data /no/such/file", "--data: cannot read '/no/such/file'"},
           {"-n 2 --export somewhere", "--export is for one device"}}) {
    expect_refused(one.options, one.words);
  }
}

TEST_F(TrainRanks, RefusesAPlanFileThatIsNone) {
  for (const Case& one : std::initializer_list<Case>{
           {"", "line 1"},
           {"{}", "mesh"},
           {R"({"mesh": "rows=2"})", "nothing is cut along the axis 'rows'"},
           {R"({"mesh": "data=2", "zero": "all"})", "zero"},
           {R"({"mesh": "data=2", "recompute": "all"})", "recompute 'all' is no way to recompute"},
           {R"({"mesh": "data=2", "colour": 1})", "colour"}}) {
    const std::string file = folder_.file("bad.plan.json", one.options);
    expect_refused("--plan " + file, one.words);
    expect_refused("--plan " + file, "--plan: " + file + ": ");
  }
}

/// One rank tells, with the code that one device would have.
TEST_F(TrainRanks, ALossThatIsNoNumberIsToldOnce) {
  const std::string run = new_run();
  const Ran ran = run_program(
      "train --model gpt-nano --batch 4 --length 32 --steps 9 --rate constant:1e30 --mesh "
      "data=2,tensor=2 --run-folder " +
      run);
  EXPECT_EQ(ran.exit_code, 2) << ran.err;
  EXPECT_EQ(ran.err.find("rank 0: step 2: the loss is nan; it began where"), 0U) << ran.err;
  EXPECT_EQ(std::ranges::count(ran.err, '\n'), 2) << ran.err;
  EXPECT_TRUE(fs::exists(run + "/checkpoints/step-000001"));
}

/// Runs `COMMAND trireme ARGUMENTS`.
Ran run_under(const std::string& command, const std::string& arguments) {
  const std::string out = scratch_folder() + "/under-out";
  const std::string err = scratch_folder() + "/under-err";
  const int status = std::system(  // NOLINT(concurrency-mt-unsafe): one thread
      (command + " '" TRIREME_PROGRAM "' " + arguments + " </dev/null >" + out + " 2>" + err)
          .c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_text(out), read_text(err)};
}

TEST_F(TrainRanks, MpirunStartsThem) {
  const std::string mpirun = "mpirun -n 2 --oversubscribe --allow-run-as-root";
  // NOLINTNEXTLINE(concurrency-mt-unsafe): one thread
  if (std::system((mpirun + " true >/dev/null 2>&1").c_str()) != 0) {
    GTEST_SKIP() << "no mpirun";
  }
  const std::string more = kSmall + "--steps 3 --json --run-folder ";
  for (const char* options : {" --mesh data=2", " --mesh pipe=2 --microbatches 2", ""}) {
    const Ran ran = run_under(mpirun, more + new_run() + options);
    ASSERT_EQ(ran.exit_code, 0) << ran.err;
    expect_same(losses(""), losses_in(ran.out), options);
  }
  for (const Case& one : std::initializer_list<Case>{
           {" --mesh data=3", "has 3 devices, but Open MPI started 2 ranks; make them agree"},
           {" --mesh pipe=2 --schedule chimera", "no micro-batch goes through"}}) {
    const std::string run = new_run();
    const Ran ran = run_under(mpirun, more + run + one.options);
    EXPECT_NE(ran.exit_code, 0);
    const std::size_t first = ran.err.find(one.words);
    ASSERT_NE(first, std::string::npos) << ran.err;
    EXPECT_EQ(ran.err.find(one.words, first + 1), std::string::npos) << ran.err;
    EXPECT_FALSE(fs::exists(run));
  }
}

}  // namespace
}  // namespace trireme
