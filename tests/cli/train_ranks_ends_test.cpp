// How training on several ranks starts and ends: external launchers, killed ranks, interrupts, invalid options.
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "cli/program_says.h"
#include "cli/training_runs.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

TEST_F(TrainRanks, KilledRankEndsAllRanks) {
  const std::unique_ptr<Started> started = start(new_run(), "--mesh data=2,tensor=2");
  const std::vector<pid_t> ranks = started->ranks();
  ASSERT_EQ(ranks.size(), 4U);
  kill(ranks[2], SIGKILL);
  const Ran ran = started->wait(kAFewSeconds);
  EXPECT_EQ(ran.exit_code, 1) << ran.err;
  EXPECT_NE(ran.err.find("rank 2 was killed by SIGKILL (Killed)"), std::string::npos) << ran.err;
  EXPECT_NE(ran.err.find("rank 0: "), std::string::npos) << ran.err;
  EXPECT_TRUE(std::ranges::none_of(ranks, is_alive)) << ran.err;
}

TEST_F(TrainRanks, RanksEndWithFirstProcess) {
  const std::unique_ptr<Started> started = start(new_run(), "-n 2");
  const std::vector<pid_t> ranks = started->ranks();
  ASSERT_EQ(ranks.size(), 2U);
  kill(started->process(), SIGKILL);
  EXPECT_EQ(started->wait(kAFewSeconds).exit_code, -1);
  EXPECT_TRUE(becomes_true([&] { return std::ranges::none_of(ranks, is_alive); }, kAFewSeconds));
}

/// Ctrl-C and a closed terminal reach all processes, `docker stop` only the parent; `kill` on a single rank has the same
/// effect.
TEST_F(TrainRanks, StopSignalSavesAndSaysHowToResume) {
  struct Stop {
    const char* whom;
    int signal;
  };
  for (const auto& [whom, signal] :
       {Stop{"all", SIGINT}, Stop{"first", SIGTERM}, Stop{"rank", SIGINT}, Stop{"all", SIGHUP}}) {
    const std::string run = new_run();
    const std::unique_ptr<Started> started = start(run, "-n 2");
    const std::vector<pid_t> ranks = started->ranks();
    ASSERT_EQ(ranks.size(), 2U);
    const pid_t process = started->process();
    kill(*whom == 'a' ? -process : *whom == 'f' ? process : ranks[1], signal);
    const Ran ran = started->wait(kAMinute);
    EXPECT_EQ(ran.exit_code, 128 + signal) << whom << ": " << ran.err;
    EXPECT_EQ(ran.err, kAcknowledgment) << whom;
    EXPECT_NE(ran.out.find("Stopped after"), std::string::npos) << ran.out;
    EXPECT_NE(ran.out.find(fmt::format("train --resume {} --steps 1000000", run)),
              std::string::npos)
        << ran.out;
    EXPECT_TRUE(fs::exists(run + "/checkpoints/latest")) << whom;
    EXPECT_TRUE(std::ranges::none_of(ranks, is_alive)) << whom;
  }
}

TEST_F(TrainRanks, StopSignalEndsSingleDeviceRun) {
  const std::string run = new_run();
  const std::unique_ptr<Started> started = start(run, "");
  kill(started->process(), SIGTERM);
  const Ran ran = started->wait(kAMinute);
  EXPECT_EQ(ran.exit_code, 143) << ran.err;
  EXPECT_EQ(ran.err, kAcknowledgment);
  EXPECT_NE(ran.out.find(fmt::format("train --resume {} --steps 1000000", run)), std::string::npos)
      << ran.out;
  EXPECT_TRUE(fs::exists(run + "/checkpoints/latest"));
  // Nobody waits for a last validation and a sample.
  EXPECT_EQ(ran.out.find("(validation "), std::string::npos) << ran.out;
  EXPECT_EQ(ran.out.find("sample: "), std::string::npos) << ran.out;
}

/// A port of this host that nothing listens on.
std::string unused_port() {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t size = sizeof(address);
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  EXPECT_EQ(bind(socket, reinterpret_cast<const sockaddr*>(&address), size), 0);
  EXPECT_EQ(getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size), 0);
  close(socket);
  return fmt::format("{}", ntohs(address.sin_port));
}

/// Ranks that a launcher started have no parent that would report it.
TEST_F(TrainRanks, SurvivorsOfKilledLaunchedRankSayHowToResume) {
  const std::string run = new_run();
  const std::string store = "127.0.0.1:" + unused_port();
  std::vector<std::unique_ptr<Started>> ranks;
  for (const std::string rank : {"0", "1"}) {
    const std::string own = folder_ / ("rank-" + rank);
    fs::create_directories(own);
    const std::string command =
        fmt::format("{}--steps 1000000 --save-every 1 --run-folder {}", kSmall, run);
    ranks.push_back(std::make_unique<Started>(command, own, [&] {
      for (const auto& [name, value] : {std::pair("TRIREME_RANK", rank),
                                        {"TRIREME_SIZE", "2"},
                                        {"TRIREME_STORE", store},
                                        {"TRIREME_SECRET", std::string(64, '5')}}) {
        setenv(name, value.c_str(), 1);  // NOLINT(concurrency-mt-unsafe): in a new process
      }
    }));
  }
  ASSERT_TRUE(becomes_true([&] { return fs::exists(run + "/trace.json"); }, kAMinute));
  kill(ranks[1]->process(), SIGKILL);
  const Ran ran = ranks[0]->wait(kAMinute);
  EXPECT_EQ(ran.exit_code, 1) << ran.err;
  EXPECT_NE(ran.err.find("; the run can be resumed with --resume " + run + "\n"), std::string::npos)
      << ran.err;
}

/// A signal that comes as soon as the run exists, before the first step.
TEST_F(TrainRanks, StopSignalDuringStartupSavesInitialState) {
  for (const char* ranks : {"", "-n 2"}) {
    const std::string run = new_run();
    Started started("train --model gpt-nano --steps 1000000 --run-folder " + run + " " + ranks,
                    folder_.path());
    ASSERT_TRUE(becomes_true([&] { return fs::exists(run); }, kAMinute));
    kill(started.process(), SIGTERM);
    const Ran ran = started.wait(kAMinute);
    EXPECT_EQ(ran.exit_code, 143) << ran.err;
    EXPECT_TRUE(fs::exists(run + "/checkpoints/latest")) << ran.out << ran.err;
    EXPECT_NE(ran.out.find("train --resume " + run), std::string::npos) << ran.out;
  }
}

/// Nobody may ever write to the pipe.
TEST_F(TrainRanks, StopSignalInterruptsReadOfStandardInput) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  const std::string run = new_run();
  Started started(kSmall + "--data - --run-folder " + run, folder_.path(),
                  [&] { dup2(ends[0], STDIN_FILENO); });
  ASSERT_TRUE(becomes_true([&] { return catches(started.process(), SIGTERM); }, kAMinute));
  kill(started.process(), SIGTERM);
  const Ran ran = started.wait(kAFewSeconds);
  close(ends[0]);
  close(ends[1]);
  EXPECT_EQ(ran.exit_code, 143) << ran.err;
  EXPECT_EQ(ran.err, "\ntrireme: stopping: the run has not begun, nothing to save\n");
  EXPECT_FALSE(fs::exists(run));
}

/// Also while libraries are initialized, of which UCX's discards it. If it were lost, the end of the empty input would end
/// the run with exit code 2.
TEST_F(TrainRanks, HangUpRightAfterStartIsNotLost) {
  // UCX's handler of this process would be that of the child, too, until it executes the program.
  const auto before = std::signal(SIGHUP, SIG_DFL);
  for (int milliseconds = 0; milliseconds < 20; ++milliseconds) {
    std::array<int, 2> ends{};
    ASSERT_EQ(pipe(ends.data()), 0);
    Started started(kSmall + "--data - --run-folder " + new_run(), folder_.path(), [&] {
      dup2(ends[0], STDIN_FILENO);
      close(ends[1]);
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    kill(started.process(), SIGHUP);
    close(ends[1]);
    close(ends[0]);
    const Ran ran = started.wait(kAMinute);
    EXPECT_TRUE(ran.exit_code == -1 || ran.exit_code == 129) << milliseconds << ran.err;
  }
  std::signal(SIGHUP, before);
}

/// UCX's library installs handlers for these when it is loaded; they would hide the core dump of a crash.
TEST_F(TrainRanks, CrashIsNotCaught) {
  const std::unique_ptr<Started> started = start(new_run(), "-n 2");
  std::vector<pid_t> processes = started->ranks();
  ASSERT_EQ(processes.size(), 2U);
  processes.push_back(started->process());
  for (const pid_t process : processes) {
    EXPECT_TRUE(catches(process, SIGTERM));
    for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE}) {
      EXPECT_FALSE(catches(process, signal)) << signal;
    }
  }
}

TEST_F(TrainRanks, SecondSignalStopsImmediately) {
  const std::unique_ptr<Started> started = start(new_run(), "");
  kill(started->process(), SIGSTOP);  // so that both arrive before the step ends
  kill(started->process(), SIGTERM);
  kill(started->process(), SIGINT);
  kill(started->process(), SIGCONT);
  const Ran ran = started->wait(kAMinute);
  EXPECT_NE(ran.exit_code, 0) << ran.out;
}

/// As under nohup.
TEST_F(TrainRanks, IgnoredSignalStaysIgnored) {
  const std::string run = new_run();
  Started started("train --model gpt-nano --steps 3 --run-folder " + run, folder_.path(),
                  [] { std::signal(SIGHUP, SIG_IGN); });
  ASSERT_TRUE(becomes_true([&] { return catches(started.process(), SIGTERM); }, kAMinute));
  EXPECT_FALSE(catches(started.process(), SIGHUP));
  kill(started.process(), SIGHUP);
  EXPECT_EQ(started.wait(kAMinute).exit_code, 0);
}

TEST_F(TrainRanks, RejectsBadInputInOneLine) {
  for (const RefusedCase& one : std::initializer_list<RefusedCase>{
           {"--mesh data", "--mesh: 'data' is not a mesh; write it like"},
           {"--mesh data=0", "axis 'data' has size 0"},
           {"--mesh data=2,data=2", "given twice"},
           {"--mesh data=100000", "at most 256 processes"},
           {"--mesh rows=2",
            "mesh rows=2: unknown axis 'rows'; use data, tensor, context, expert or pipe"},
           {"--mesh data=2,tensr=2", "unknown axis 'tensr'; did you mean tensor?"},
           {"--mesh pipe=2 --schedule 1f1",
            "--schedule: unknown pipeline schedule '1f1'; did you mean 1f1b?"},
           {"--device gpu", "--device: unknown device 'gpu'; use auto, cpu, cuda or cuda:N"},
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
           {"--mesh pipe=2 --schedule round", "unknown pipeline schedule 'round'"},
           {"--mesh pipe=2 --schedule chimera", "no micro-batch goes through"},
           {"--mesh pipe=2 --microbatches 2 --schedule pipedream", "use --clip 0"},
           {"-n 2 --zero 4", "--zero is 4; it must be 0, 1, 2 or 3"},
           {"-n 2 --context spiral", "--context: unknown context parallelism 'spiral'"},
           {"-n 2 --compress top-k:0", "--compress: 'top-k:0': the share"},
           {"-n 2 --compress top-k:2", "above 0 and at most 1, such as top-k:0.01"},
           {"-n 2 --compress power:-1", "--compress: 'power:-1': the rank"},
           {"-n 2 --compress zstd", "--compress: unknown compression 'zstd'; use"},
           {"--compress sign", "does not have; leave it out, or add data=2 to the mesh"},
           {"--mesh tensor=2 --compress int8",
            "compression int8 is for gradients reduced along data, which the mesh 'tensor=2' does "
            "not have"},
           {"-n 2 --dtype f16 --compress sign", "use no compression, or --dtype bf16 or f32"},
           {"--mesh data=2,pipe=2 --microbatches 2 --schedule pipedream --clip 0 --compress sign",
            "use no compression, or pipedream-2bw"},
           {"-n 2 --data /no/such/file", "--data: cannot read '/no/such/file'"},
           {"-n 2 --bind 10.0.0.1", "--bind and --encrypt are for ranks on several hosts"},
           {"--encrypt", "--bind and --encrypt are for ranks on several hosts"}}) {
    expect_refused(one.arguments, one.words);
  }
}

class MemoryOfRanks : public TrainRanks {
 protected:
  void expect_checked_before_the_first_step(const char* plan) {
    const std::string run = new_run();
    const auto limited_to = [&](std::int64_t kibibytes) {
      return fmt::format("train --model gpt-nano --length 32 --steps 1 {} --memory-limit {}KiB ",
                         plan, kibibytes);
    };
    // The memory that kernels need depends on the processor. ZeRO saves about 200 KiB.
    const std::string error = run_program(limited_to(1) + "--run-folder " + run).err;
    constexpr std::string_view kNeeds = "this run needs ";
    ASSERT_NE(error.find(kNeeds), std::string::npos) << error;
    const double mebibytes = std::stod(error.substr(error.find(kNeeds) + kNeeds.size()));
    const std::string limited = limited_to(static_cast<std::int64_t>(mebibytes * 1024) - 100);
    const Ran ran = run_program(fmt::format("{}--run-folder {}", limited, run));
    EXPECT_EQ(ran.exit_code, 1) << ran.err;
    EXPECT_EQ(ran.out, "");
    EXPECT_FALSE(fs::exists(run));
    EXPECT_NE(ran.err.find("of memory on rank "), std::string::npos) << ran.err;
    EXPECT_EQ(ran.err.find("this run needs", ran.err.find("this run needs") + 1), std::string::npos)
        << "reported twice: " << ran.err;
    const std::vector<std::string> options = fitting_options(ran.err);
    EXPECT_NE(std::ranges::find_if(
                  options, [](const std::string& one) { return one.starts_with("--zero "); }),
              options.end())
        << ran.err;
    for (const std::string& one : options) {
      const Ran fits = run_program(fmt::format("{}{} --run-folder {}", limited, one, new_run()));
      EXPECT_EQ(fits.exit_code, 0) << one << ": " << fits.err;
    }
  }
};
using LongMemoryOfRanks = MemoryOfRanks;

TEST_F(MemoryOfRanks, IsCheckedBeforeFirstStep) {
  expect_checked_before_the_first_step("-n 2");
}
TEST_F(LongMemoryOfRanks, IsCheckedBeforeFirstStep) {
  expect_checked_before_the_first_step("--mesh data=2,tensor=2");
}

TEST_F(TrainRanks, RejectsInvalidPlanFile) {
  for (const RefusedCase& one : std::initializer_list<RefusedCase>{
           {"", "line 1"},
           {"{}", "mesh"},
           {R"({"mesh": "rows=2"})", "mesh rows=2: unknown axis 'rows'"},
           {R"({"mesh": "data=2", "zero": "all"})", "zero"},
           {R"({"mesh": "data=2", "recompute": "all"})",
            "recompute is invalid: unknown recomputation 'all'"},
           {R"({"mesh": "data=2", "colour": 1})", "colour"}}) {
    const std::string file = folder_.file("bad.plan.json", one.arguments);
    expect_refused("--plan " + file, one.words);
    expect_refused("--plan " + file, "--plan: " + file + ": ");
  }
}

/// Exactly one rank reports it, with the same exit code as on one device.
TEST_F(TrainRanks, NonFiniteLossIsReportedOnce) {
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

TEST_F(TrainRanks, RunsUnderMpirun) {
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
  for (const RefusedCase& one : std::initializer_list<RefusedCase>{
           {" --mesh data=3", "has 3 devices, but Open MPI started 2 ranks; make them agree"},
           {" --mesh pipe=2 --schedule chimera", "no micro-batch goes through"}}) {
    const std::string run = new_run();
    const Ran ran = run_under(mpirun, more + run + one.arguments);
    EXPECT_NE(ran.exit_code, 0);
    const std::size_t first = ran.err.find(one.words);
    ASSERT_NE(first, std::string::npos) << ran.err;
    EXPECT_EQ(ran.err.find(one.words, first + 1), std::string::npos) << ran.err;
    EXPECT_FALSE(fs::exists(run));
  }
}

}  // namespace
}  // namespace trireme
