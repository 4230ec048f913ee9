// `trireme generate`: continues a text with a trained model.
#include <iostream>
#include <memory>

#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/inference_options.h"
#include "command_line/interrupt.h"
#include "command_line/patience.h"
#include "trireme/cpu_device.h"
#include "trireme/generate.h"

namespace trireme::cli {
namespace {

struct GenerateArguments {
  InferenceOptions inference{};
  GenerateOptions generate{};
  bool no_cache = false;
};

constexpr StopReply kStops{.text = "stopping after this token (again: stops immediately)"};

void print_summary(const GenerateSummary& summary) {
  const double seconds = summary.time.count;
  fmt::print(stderr, "{} tokens in {}, {:.1f} tokens/s; prompt: {} tokens in {}\n",
             summary.tokens.size(), to_text(summary.time),
             seconds > 0 ? static_cast<double>(summary.tokens.size()) / seconds : 0.0,
             summary.prompt.size(), to_text(summary.prompt_time));
}

void run(const GenerateArguments& args, Outcome& outcome) {
  CpuOptions cpu;
  cpu.threads = args.inference.threads;
  cpu.row_invariant = true;
  GenerateOptions options = args.generate;
  options.source = args.inference.source;
  options.plan = args.inference.plan();
  options.make_device = cpu_devices(cpu);
  options.cache = args.no_cache ? KeyValueCache::Unused : KeyValueCache::Used;
  const bool json = args.inference.json;
  std::string text;
  options.on_text = [&](std::string_view part) {
    text += part;
    if (!json) {
      std::cout << part << std::flush;
    }
  };
  options.on_end = [&](const GenerateSummary& summary) {
    std::cout << (json ? to_json(summary, text) : "") << std::endl;
    if (!json) {
      print_summary(summary);
    }
  };
  SharedNumber interrupted;
  options.should_stop = [&] { return interrupted.get() != 0; };
  const InterruptGuard guard(interrupted, kStops);
  SharedNumber has_begun;  // from then on, text appears
  const Patience patience({.until = &has_begun});
  options.on_begin = [&] {
    has_begun.set(1);
    std::cout << (json ? "" : options.prompt) << std::flush;
  };
  generate(options);
  if (interrupted.get() != 0) {
    outcome.exit_code = exit_code_of(interrupted.get());
  }
}

}  // namespace

void add_generate_command(Command& app, Outcome& outcome) {
  auto args = std::make_shared<GenerateArguments>();
  Command* command = app.add_subcommand("generate", "Continue a text with a trained model");
  command->section("Text");
  command->add_option("--prompt", args->generate.prompt, "the text to continue")->required();
  command->add_option("--tokens", args->generate.tokens,
                      "how many tokens to generate (default: 100, within the model's context)");
  SamplingOptions& sampling = args->generate.sampling;
  command->section("Sampling");
  command->add_option("--temperature", sampling.temperature,
                      "divides the logits: below 1 likelier tokens are drawn more often; 0 always "
                      "takes the likeliest");
  command->add_option("--top-k", sampling.top_k, "draw among the k likeliest tokens; 0: all");
  command->add_option("--top-p", sampling.top_p,
                      "draw among the likeliest tokens whose probabilities add up to this");
  command->add_option("--seed", sampling.seed, "random seed for sampling");
  add_inference_options(command, args->inference);
  command->add_flag("--no-cache", args->no_cache,
                    "recompute all positions for every token: slow, same text");
  command->callback([args, &outcome] { run(*args, outcome); });
}

}  // namespace trireme::cli
