// `trireme evaluate`: the loss of a trained model on data.
#include <memory>

#include <fmt/format.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/inference_options.h"
#include "command_line/patience.h"
#include "trireme/cpu_device.h"
#include "trireme/evaluate.h"

namespace trireme::cli {
namespace {

struct EvaluateArguments {
  InferenceOptions inference{};
  EvaluateOptions evaluate{};
};

void print_progress(std::int64_t done, std::int64_t all) {
  fmt::print(stderr, "\r{} of {} sequences{}", done, all, done == all ? "\n" : "");
}

void print_summary(const EvaluateSummary& summary) {
  fmt::print("model       {}\n", summary.model);
  fmt::print("data        {}, {} tokens\n", summary.data, summary.tokens);
  fmt::print("loss        {:.4f}\n", summary.loss);
  fmt::print("perplexity  {:.2f}\n", perplexity(summary));
  fmt::print("speed       {:.0f} tokens/s\n",
             static_cast<double>(summary.tokens) / summary.time.count);
}

void run(const EvaluateArguments& args) {
  EvaluateOptions options = args.evaluate;
  const bool json = args.inference.json;
  options.source = args.inference.source;
  options.plan = args.inference.plan();
  options.make_device = cpu_devices(args.inference.threads);
  options.input.standard_input = read_standard_input(options.data);
  if (!json && isatty(STDERR_FILENO) != 0) {
    options.on_progress = print_progress;
  }
  options.on_end = [&](const EvaluateSummary& summary) {
    if (json) {
      fmt::print("{}\n", to_json(summary));
    } else {
      print_summary(summary);
    }
    (void)std::fflush(stdout);  // a forked rank does not return to main()
  };
  evaluate(options);
}

}  // namespace

void add_evaluate_command(Command& app) {
  auto args = std::make_shared<EvaluateArguments>();
  Command* command =
      app.add_subcommand("evaluate", "Measure loss and perplexity of a trained model");
  command->section("Data");
  command->add_option("--data", args->evaluate.data,
                      "text files, tokens (*.bin), folders of them, or - (default: the run's "
                      "validation data)");
  command->add_option("--length", args->evaluate.length,
                      "tokens per sequence (default: the run's, or the model's context, at most "
                      "1024)");
  command->add_option("--batch", args->evaluate.batch,
                      "sequences at a time (default: the run's, or 8)");
  add_inference_options(command, args->inference);
  command->callback([args] {
    const Patience patience;
    run(*args);
  });
}

}  // namespace trireme::cli
