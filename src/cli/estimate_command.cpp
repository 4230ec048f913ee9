// `trireme estimate`: parameters, FLOPs, memory, roofline and utilization of a model on a device.
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/commands.h"
#include "command_line/patience.h"
#include "command_line/terminal.h"
#include "report/estimate_json.h"
#include "report/estimate_text.h"
#include "report/example_text.h"
#include "trireme/error.h"
#include "trireme/estimate_options.h"
#include "trireme/message.h"
#include "trireme/named_architecture.h"

namespace trireme::cli {
namespace {

constexpr std::int64_t kMax = std::int64_t{1} << 40;

struct EstimateArguments {
  EstimateOptions estimate;
  int ops = 10;
  std::string example;
  std::vector<std::string> set;
  bool json = false;
};

Example make_example(const EstimateArguments& args) {
  const ExampleInputs inputs = parse_inputs(args.set);
  return parsed(inputs.empty() ? "--example" : "--set", args.example,
                [&](const std::string& name) { return example(name, inputs); });
}

void run_example(const EstimateArguments& args) {
  if (args.example == "list") {
    std::cout << (args.json ? report::example_list_json()
                            : report::example_list_text(standard_output()));
    return;
  }
  const Example shown = make_example(args);
  std::cout << (args.json ? report::example_json(shown)
                          : report::example_text(shown, standard_output()));
}

void run(const EstimateArguments& args) {
  if (!args.example.empty()) {
    run_example(args);
    return;
  }
  const EstimateReport report = make_estimate(make_estimate_request(args.estimate));
  std::cout << (args.json ? report::estimate_json(report)
                          : report::estimate_text(
                                report, {.terminal = standard_output(), .ops = args.ops}));
}

void add_what_options(Command& command, EstimateArguments& args) {
  command.add_option("-m,--model", args.estimate.model,
                     fmt::format("a config.json, its folder, or one of: {}",
                                 fmt::join(architecture_names(), " ")));
  command.add_option("-b,--batch", args.estimate.batch, "sequences per step on each device",
                     integer_in(std::int64_t{1}, kMax));
  command.add_option("-t,--length", args.estimate.length,
                     "tokens per sequence (default: the model's context, at most 8192)",
                     integer_in(std::int64_t{1}, kMax));
  command.add_option("-d,--device", args.estimate.device,
                     fmt::format("one of: {}", fmt::join(device_preset_names(), " ")));
  command.add_option("--devices", args.estimate.devices,
                     "number of devices, each with its own batch", integer_in(1, 1 << 24));
  command.add_option("--dtype", args.estimate.dtype, "one of: bf16 f16 tf32 f32 f64");
  command.add_option("--recompute", args.estimate.recompute, "one of: none selective full");
  command.add_option("--optimizer", args.estimate.optimizer,
                     "one of: adamw sgd momentum adagrad lion muon");
  command.add_option("--step-time", args.estimate.step_time,
                     "measured time of a step, such as 350ms: gives MFU and HFU");
  command.add_option("--tokens", args.estimate.tokens,
                     "tokens of a whole run, such as 300e9: gives FLOPs and days", above_zero());
  command.add_option("--mfu", args.estimate.mfu,
                     "MFU of the run, such as 0.4 (default: from --step-time)",
                     number_in(1e-6, 1.0));
}

void add_size_options(Command& command, EstimateArguments& args) {
  command.section("Sizes, in place of the model's");
  const auto size = [&](const char* name, std::int64_t& value, const char* what) {
    command.add_option(name, value, what, integer_in(std::int64_t{1}, kMax));
  };
  command.add_option("--family", args.estimate.family, "one of: gpt2 llama");
  size("--layers", args.estimate.sizes.layers, "number of blocks");
  size("--width", args.estimate.sizes.width,
       "width of the residual stream; scales heads and feed-forward layers");
  size("--heads", args.estimate.sizes.heads, "number of attention heads");
  size("--key-heads", args.estimate.sizes.key_heads,
       "number of key-value heads (grouped-query attention)");
  size("--head-width", args.estimate.sizes.head_width, "width of a head (default: width / heads)");
  size("--hidden", args.estimate.sizes.hidden, "width of the feed-forward layers");
  size("--vocabulary", args.estimate.sizes.vocabulary, "number of tokens in the vocabulary");
  size("--context", args.estimate.sizes.context, "maximum sequence length");
  size("--experts", args.estimate.sizes.experts,
       "number of experts in each mixture-of-experts block");
  size("--experts-per-token", args.estimate.sizes.experts_per_token,
       "experts that each token is routed to");
  size("--expert-hidden", args.estimate.sizes.expert_hidden,
       "width of an expert (default: --hidden)");
  size("--shared-experts", args.estimate.sizes.shared_experts,
       "experts that every token also passes through");
  size("--mixture-every", args.estimate.sizes.mixture_every,
       "use experts in every n-th block only");
  command.add_flag("--untied", args.estimate.sizes.untied,
                   "do not share weights between embedding and output layer");
}

}  // namespace

void add_estimate_command(Command& app) {
  auto args = std::make_shared<EstimateArguments>();
  Command* command = app.add_subcommand(
      "estimate", "Estimate parameters, FLOPs, memory, roofline and MFU of a model");
  add_what_options(*command, *args);
  add_size_options(*command, *args);
  command->section("Output");
  command->add_option("--ops", args->ops, "rows in the table of ops", integer_in(0, 1000));
  std::vector<std::string> names{"list"};
  for (const Example& shown : all_examples()) {
    names.push_back(shown.name);
  }
  Option* shown =
      command->add_option("--example", args->example,
                          fmt::format("show a worked example; one of: {}", fmt::join(names, " ")));
  command
      ->add_option("--set", args->set,
                   "NAME=NUMBER: replace a given number of the example; repeat for several")
      ->needs(shown)
      ->one_value_each();
  command->add_flag("--json", args->json, "one JSON object");
  command->callback([args] {
    const Patience patience;
    run(*args);
  });
}

}  // namespace trireme::cli
