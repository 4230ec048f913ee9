// What every command has: help, suggestions for misspelled names, and checked values.
#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "cli/program.h"
#include "cli/program_says.h"
#include "report/help_examples.h"

namespace trireme {
namespace {

void expect_in_order(const std::string& text, const std::vector<std::string>& parts) {
  std::size_t at = 0;
  for (const std::string& part : parts) {
    at = text.find(part, at);
    ASSERT_NE(at, std::string::npos) << part << " in\n" << text;
  }
}

TEST(CommandLine, PrintsOverviewWithoutCommand) {
  const Ran bare = run_program("");
  EXPECT_EQ(bare.exit_code, 0);
  EXPECT_EQ(bare.err, "");
  EXPECT_EQ(bare.out, run_program("--help").out);
  EXPECT_EQ(bare.out, run_program("help").out);
}

TEST(CommandLine, HelpCommandMatchesHelpOption) {
  EXPECT_EQ(run_program("help train").out, run_program("train --help").out);
  EXPECT_EQ(run_program("help plan show").out, run_program("plan show --help").out);
  expect_refused("help trian", {"unknown command 'trian'", "did you mean train?"});
}

TEST(CommandLine, GroupsOptionsOfTrain) {
  expect_in_order(run_program("train --help").out,
                  {"\nModel:\n", "--model", "\nData:\n", "--data", "\nOptimization:\n", "--rate",
                   "\nParallelism:\n", "--mesh", "\nCheckpoints:\n", "--resume", "\nOutput:\n",
                   "--json", "\nExamples:\n"});
}

TEST(CommandLine, GroupsOptionsOfLongCommands) {
  expect_in_order(run_program("generate --help").out,
                  {"\nText:\n", "--prompt", "\nSampling:\n", "--top-k", "\nModel:\n", "--run",
                   "\nExecution:\n", "--mesh"});
  expect_in_order(run_program("bench --help").out,
                  {"\nWhat to time:\n", "--sizes", "\nPredictions and tuning:\n", "--tune",
                   "\nOutput:\n", "--json"});
  expect_in_order(run_program("schedule --help").out,
                  {"\nCollective:\n", "--algorithm", "\nCost model:\n", "--alpha", "\nOutput:\n",
                   "--svg", "\nComparison:\n", "--sizes"});
}

/// The words that people search for.
TEST(CommandLine, TrainHelpUsesStandardTerms) {
  setenv("COLUMNS", "1000", 1);  // NOLINT(concurrency-mt-unsafe): unwrapped
  const std::string help = run_program("train --help").out;
  unsetenv("COLUMNS");  // NOLINT(concurrency-mt-unsafe)
  for (const char* term :
       {"gradient accumulation", "activation checkpointing", "FSDP", "perplexity", "prompt"}) {
    EXPECT_NE(help.find(term), std::string::npos) << term;
  }
}

TEST(CommandLine, ListsOnlySupportedOptions) {
  for (const char* command : {"train", "plan show", "simulate"}) {
    const std::string help = run_program(std::string(command) + " --help").out;
    EXPECT_EQ(help.find("terapipe"), std::string::npos) << command;
    EXPECT_EQ(help.find("auto: the plan") != std::string::npos, std::string(command) == "train");
  }
}

TEST(CommandLine, ReportsErrorsClearly) {
  expect_refused("help train foo", {"trireme train has no subcommands; leave out 'foo'"});
  expect_refused("evaluate --model a --model b", {"--model is given 2 times; give it once"});
  expect_refused("train --steps", {"--steps needs a value"});
  expect_refused("report", {"missing argument runs"});
  expect_refused("ps", {"missing command (see trireme ps --help)"});
  expect_refused("train --plan x --recompute full", {"--recompute and --plan exclude each other"});
  expect_refused("bench allredce", {"unknown operation 'allredce'; did you mean allreduce?"});
  expect_refused("bench foo", {"use all, matrix, broadcast"});
  expect_refused("repartition --shape 3", {"'3' is not rows x columns; write it like 512x256"});
}

/// Files and folders to read. The name does not exist; the test of data is tests/cli/train_errors_test.cpp.
TEST(CommandLine, MissingFilesAreInvalidOptions) {
  for (const RefusedCase& one : std::initializer_list<RefusedCase>{
           {"train --plan none.json", "--plan: cannot read 'none.json': No such file"},
           {"train --weights none", "--weights: cannot read 'none': No such file"},
           {"train --model ./none.json", "--model: cannot read './none.json': No such file"},
           {"train --data none", "--data: cannot read 'none': No such file"},
           {"train --mesh pipe=2 --schedule none.pipeline", "--schedule: cannot read"},
           {"train --resume none", "--resume: 'none' is not the folder of a run"},
           {"generate --prompt x --run none", "--run: 'none' is not the folder of a run"},
           {"generate --prompt x --model ./none", "--model: cannot read './none': No such file"},
           {"evaluate --data none --model ./none", "--model: cannot read './none': No such file"},
           {"report none", "'none' is not the folder of a run"},
           {"tokenize none --tokenizer none -o x.bin", "--tokenizer: cannot read 'none'"},
           {"estimate --model ./none.json", "--model: cannot read './none.json': No such file"},
           {"plan --model ./none.json", "--model: cannot read './none.json': No such file"},
           {"plan --cluster none.json", "--cluster: cannot read 'none.json': No such file"},
           {"plan show --plan none.json", "--plan: cannot read 'none.json': No such file"},
           {"simulate --cluster none.json", "--cluster: cannot read 'none.json': No such file"},
           {"schedule allreduce --cluster none.json", "--cluster: cannot read 'none.json'"},
           {"schedule --file none.schedule", "--file: cannot read 'none.schedule'"},
           {"pipeline --file none.pipeline", "--file: cannot read 'none.pipeline'"},
           {"cluster none.json", "cannot read 'none.json': No such file"},
           {"bench allreduce --tuning none.json", "--tuning: cannot read 'none.json'"},
           {"validate --runs none.csv", "--runs: cannot read 'none.csv': No such file"},
           {"calibrate --runs none.csv -c dgx-h100", "--runs: cannot read 'none.csv'"}}) {
    expect_refused(one.arguments, {one.words});
  }
}

TEST(CommandLine, FoldersInPlaceOfFilesAreInvalidOptions) {
  expect_refused("cluster /tmp/", {"cannot read '/tmp/': Is a directory"});
  expect_refused("schedule --file /tmp", {"--file: cannot read '/tmp': Is a directory"});
  expect_refused("train --plan /tmp", {"--plan: cannot read '/tmp': Is a directory"});
}

/// Errors of the file system that no command expects.
TEST(CommandLine, NamesInaccessiblePath) {
  const std::string name(300, 'a');
  for (const std::string command : {"report ", "train --resume ", "generate --prompt x --run "}) {
    expect_refused(command + name, {"'" + name + "/settings.json': File name too long"});
  }
}

/// Nothing else is on standard error: no computation has begun.
TEST(CommandLine, FindsUnwritableOutputsBeforeComputing) {
  for (const RefusedCase& one : std::initializer_list<RefusedCase>{
           {"probe -o /none/x", "--output"},
           {"straggler --svg /none/x", "--svg"},
           {"bench all --svg /none/x", "--svg"},
           {"bench all --tune /none/x", "--tune"},
           {"plan -o /none/x", "--output"},
           {"simulate --trace /none/x", "--trace"},
           {"schedule allreduce --svg /none/x", "--svg"},
           {"schedule allreduce --trace /none/x", "--trace"},
           {"pipeline --svg /none/x", "--svg"},
           {"pipeline --trace /none/x", "--trace"},
           {"report none -o /none/x", "--output"},
           {"tokenize none --tokenizer none -o /none/x", "--output"},
           {"calibrate --runs none -c dgx-h100 -o /none/x", "--output"}}) {
    expect_refused(one.arguments, {std::string(one.words) +
                                   ": cannot write '/none/x': No such file or directory (see"});
  }
  expect_refused("straggler --svg /tmp", {"--svg: cannot write '/tmp': Is a directory"});
}

TEST(CommandLine, NamesNumberOfWorkers) {
  expect_refused("straggler --workers 0", {"--workers: invalid value '0': expected an integer"});
}

std::size_t widest_line(const std::string& text) {
  std::istringstream lines(text);
  std::size_t widest = 0;
  for (std::string line; std::getline(lines, line);) {
    widest = std::max(widest, line.size());
  }
  return widest;
}

TEST(CommandLine, WrapsHelpToTerminalWidth) {
  unsetenv("COLUMNS");  // NOLINT(concurrency-mt-unsafe): one thread
  EXPECT_LE(widest_line(run_program("train --help").out), 80);
  setenv("COLUMNS", "65", 1);  // NOLINT(concurrency-mt-unsafe)
  EXPECT_LE(widest_line(run_program("train --help").out), 65);
  setenv("COLUMNS", "150", 1);  // NOLINT(concurrency-mt-unsafe)
  EXPECT_GT(widest_line(run_program("train --help").out), 100);
  unsetenv("COLUMNS");  // NOLINT(concurrency-mt-unsafe)
}

TEST(CommandLine, WrapsHelpOfEveryCommand) {
  for (const report::HelpExamples& row : report::help_examples()) {
    const std::string command(row.command);
    const std::size_t words = std::min(command.find(' '), command.size());
    EXPECT_LE(widest_line(run_program(command.substr(words) + " --help").out), 80) << command;
  }
}

/// The first words of a line up to an option or an argument: "trireme plan show".
std::string command_of(const std::string& line, const std::vector<std::string>& commands) {
  std::string longest;
  for (const std::string& command : commands) {
    if (line.starts_with(command + " ") && command.size() > longest.size()) {
      longest = command;
    }
  }
  return longest;
}

/// Its options in the help of the command. Options of other programs come after a pipe.
void expect_known_options(const std::string& example, const std::string& command) {
  const std::string help = run_program(command.substr(command.find(' ') + 1) + " --help").out;
  std::istringstream words(example.substr(0, example.find('|')));
  for (std::string word; words >> word;) {
    if (word.starts_with("--")) {
      EXPECT_NE(help.find(word), std::string::npos) << word << " in: " << example;
    }
  }
}

TEST(CommandLine, ExamplesUseExistingOptions) {
  std::vector<std::string> commands;
  for (const report::HelpExamples& row : report::help_examples()) {
    commands.emplace_back(row.command);
    EXPECT_TRUE(row.text.starts_with("Examples:\n  trireme ")) << row.command;
  }
  for (const report::HelpExamples& row : report::help_examples()) {
    std::istringstream lines{std::string(row.text)};
    for (std::string line; std::getline(lines, line);) {
      const std::string example = line.substr(std::min<std::size_t>(2, line.size()));
      const std::string command = command_of(example, commands);
      if (line.starts_with("  trireme ") && command != "trireme") {
        expect_known_options(example.substr(0, example.find("   ")), command);
      }
    }
  }
}

TEST(CommandLine, SuggestsSimilarOption) {
  expect_refused("train --stpes 5",
                 {"unknown option '--stpes'", "did you mean --steps?", "see trireme train --help"});
  expect_refused("bench --siezs 5", {"unknown option '--siezs'", "did you mean --sizes?"});
  expect_refused("plan show --rnak 3", {"did you mean --rank?", "see trireme plan show --help"});
  expect_refused("schedule allreduce --frobnicate", {"unknown option '--frobnicate' (see"});
  expect_refused("tour 5", {"unexpected argument '5'"});
}

TEST(CommandLine, SuggestsSimilarCommand) {
  expect_refused("plan shwo", {"unknown command 'shwo'", "did you mean show?"});
  expect_refused("ps stauts", {"unknown command 'stauts'", "did you mean status?"});
  expect_refused("ps", {"see trireme ps --help"});
}

TEST(CommandLine, SuggestsSimilarModel) {
  expect_refused("train --model gpt-mni", {"--model", "unknown model", "did you mean gpt-mini?"});
  expect_refused("estimate --model lama3-8b", {"--model", "did you mean llama3-8b?"});
}

TEST(CommandLine, ListsAcceptedValuesOfOption) {
  expect_refused("pipeline --stages 0",
                 {"--stages: invalid value '0': expected an integer from 1"});
  expect_refused("estimate --tokens 0", {"--tokens: invalid value '0': expected a number above 0"});
  expect_refused("validate --runs x --calibrate-on 2", {"expected a number from 0 to 0.9"});
  expect_refused("ps serve --role servr",
                 {"--role: unknown value 'servr'", "did you mean server?"});
  expect_refused("train --batch 1.5", {"--batch: invalid value '1.5': expected an integer"});
}

TEST(CommandLine, ShortOptionNSetsRankCount) {
  EXPECT_EQ(json_of("schedule allreduce -n 6 --json")["ranks"], 6);
  EXPECT_EQ(json_of("pipeline -n 3 --json")["ranks"], 3);
}

}  // namespace
}  // namespace trireme
