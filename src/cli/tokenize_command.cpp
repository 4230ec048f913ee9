// `trireme tokenize`: writes the tokens of text files to a *.bin file.
#include <chrono>
#include <memory>

#include <fmt/format.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/inference_options.h"
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

void run(const TokenizeArguments& args) {
  TokenizeOptions options = args.tokenize;
  options.input.standard_input = read_standard_input(options.files);
  Progress progress;
  if (!args.json && isatty(STDERR_FILENO) != 0) {
    options.on_progress = [&](Bytes done, Bytes all) { progress.print(done, all); };
  }
  const TokenizeSummary summary = tokenize(options);
  if (args.json) {
    fmt::print("{}\n", to_json(summary));
    return;
  }
  fmt::print("{}: {} tokens of {} bytes from {} of text; vocabulary {}\n", summary.output,
             summary.tokens, summary.token_bytes, to_text(summary.text), summary.vocabulary);
}

}  // namespace

void add_tokenize_command(Command& app) {
  auto args = std::make_shared<TokenizeArguments>();
  Command* command =
      app.add_subcommand("tokenize", "Write the tokens of text files to a *.bin file");
  command->add_option("files", args->tokenize.files, "text files, folders of them, or -")
      ->required();
  command
      ->add_option("--tokenizer", args->tokenize.tokenizer,
                   "a tokenizer.json, or a folder with one")
      ->required();
  command->add_option("-o,--output", args->tokenize.output, "the file to write, *.bin")->required();
  command->add_flag("--json", args->json, "print one line of JSON");
  command->callback([args] { run(*args); });
}

}  // namespace trireme::cli
