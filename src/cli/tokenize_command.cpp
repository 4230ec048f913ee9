// `trireme tokenize`: writes the tokens of text files to a *.bin file.
#include <chrono>
#include <memory>

#include <fmt/format.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/inference_options.h"
#include "command_line/files.h"
#include "command_line/interrupt.h"
#include "trireme/error.h"
#include "trireme/tokenize.h"

namespace trireme::cli {
namespace {

struct TokenizeArguments {
  TokenizeOptions tokenize{};
  bool json = false;
};

/// Prints at most ten times a second.
class Progress {
 public:
  void print(Bytes done, Bytes all) {
    const auto now = std::chrono::steady_clock::now();
    if (done < all && now - last_ < std::chrono::milliseconds(100)) {
      return;
    }
    last_ = now;
    fmt::print(stderr, "\r{} of {}{}", to_text(done), to_text(all), done < all ? "" : "\n");
  }

 private:
  std::chrono::steady_clock::time_point last_{};
};

constexpr StopReply kWritesNothing{.text = "stopping; no file is written"};

void print_summary(const TokenizeSummary& summary, bool json) {
  if (json) {
    fmt::print("{}\n", to_json(summary));
    return;
  }
  fmt::print("{}: {} tokens of {} bytes from {} of text; vocabulary {}\n", summary.output,
             summary.tokens, summary.token_bytes, to_text(summary.text), summary.vocabulary);
}

void run(const TokenizeArguments& args, Outcome& outcome) {
  TokenizeOptions options = args.tokenize;
  options.input.standard_input = read_standard_input(options.files);
  Progress progress;
  if (!args.json && isatty(STDERR_FILENO) != 0) {
    options.on_progress = [&](Bytes done, Bytes all) { progress.print(done, all); };
  }
  SharedNumber interrupted;
  options.should_stop = [&] { return interrupted.get() != 0; };
  const InterruptGuard guard(interrupted, kWritesNothing);
  try {
    print_summary(tokenize(options), args.json);
  } catch (const Error&) {
    if (interrupted.get() == 0) {
      throw;
    }
    outcome.exit_code = exit_code_of(interrupted.get());
  }
}

}  // namespace

void add_tokenize_command(Command& app, Outcome& outcome) {
  auto args = std::make_shared<TokenizeArguments>();
  Command* command =
      app.add_subcommand("tokenize", "Write the tokens of text files to a *.bin file");
  command->add_option("files", args->tokenize.files, "text files, folders of them, or -")
      ->required();
  command
      ->add_option("--tokenizer", args->tokenize.tokenizer,
                   "a tokenizer.json, or a folder with one")
      ->required();
  command
      ->add_option("-o,--output", args->tokenize.output, "the file to write, *.bin", writable_path)
      ->required();
  command->add_flag("--json", args->json, "print one line of JSON");
  command->callback([args, &outcome] { run(*args, outcome); });
}

}  // namespace trireme::cli
