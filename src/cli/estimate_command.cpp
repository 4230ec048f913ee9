// `trireme estimate`: parameters, FLOPs, memory, roofline and utilization of a model on a device.
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "cli/commands.h"
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

struct Options {
  EstimateOptions estimate;
  int ops = 10;
  std::string example;
  std::vector<std::string> set;
  bool json = false;
};

Example make_example(const Options& o) {
  const ExampleInputs inputs = parse_inputs(o.set);
  return parsed(inputs.empty() ? "--example" : "--set", o.example,
                [&](const std::string& name) { return example(name, inputs); });
}

void run_example(const Options& o) {
  if (o.example == "list") {
    std::cout << (o.json ? report::example_list_json()
                         : report::example_list_text(standard_output()));
    return;
  }
  const Example shown = make_example(o);
  std::cout << (o.json ? report::example_json(shown)
                       : report::example_text(shown, standard_output()));
}

void run(const Options& o) {
  if (!o.example.empty()) {
    run_example(o);
    return;
  }
  const EstimateReport report = make_estimate(make_estimate_request(o.estimate));
  std::cout << (o.json
                    ? report::estimate_json(report)
                    : report::estimate_text(report, {.terminal = standard_output(), .ops = o.ops}));
}

std::string words(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) {
    out += (out.empty() ? "" : " ") + name;
  }
  return out;
}

void add_what_options(Command& command, Options& o) {
  command.add_option("-m,--model", o.estimate.model,
                     "a config.json, its folder, or one of: " + words(architecture_names()));
  command.add_option("-b,--batch", o.estimate.batch, "sequences of a step on each device",
                     integer_in(std::int64_t{1}, kMax));
  command.add_option("-t,--length", o.estimate.length,
                     "tokens of a sequence (default: the model's context, at most 8192)",
                     integer_in(std::int64_t{1}, kMax));
  command.add_option("-d,--device", o.estimate.device, "one of: " + words(device_preset_names()));
  command.add_option("--devices", o.estimate.devices, "number of devices, each with its own batch",
                     integer_in(1, 1 << 24));
  command.add_option("--dtype", o.estimate.dtype, "one of: bf16 f16 tf32 f32 f64");
  command.add_option("--recompute", o.estimate.recompute, "one of: none selective full");
  command.add_option("--optimizer", o.estimate.optimizer,
                     "one of: adamw sgd momentum adagrad lion muon");
  command.add_option("--step-time", o.estimate.step_time,
                     "measured time of a step, such as 350ms: gives MFU and HFU");
  command.add_option("--tokens", o.estimate.tokens,
                     "tokens of a whole run, such as 300e9: gives FLOPs and days", above_zero());
  command.add_option("--mfu", o.estimate.mfu, "of the run, such as 0.4 (default: from --step-time)",
                     number_in(1e-6, 1.0));
}

void add_size_options(Command& command, Options& o) {
  command.section("Sizes, in place of the model's");
  const auto size = [&](const char* name, std::int64_t& value, const char* what) {
    command.add_option(name, value, what, integer_in(std::int64_t{1}, kMax));
  };
  command.add_option("--family", o.estimate.family, "one of: gpt2 llama");
  size("--layers", o.estimate.sizes.layers, "blocks of the model");
  size("--width", o.estimate.sizes.width, "of the residual stream; heads and feed-forward follow");
  size("--heads", o.estimate.sizes.heads, "of attention");
  size("--key-heads", o.estimate.sizes.key_heads, "heads of keys and values, for grouped queries");
  size("--head-width", o.estimate.sizes.head_width, "of one head (default: width / heads)");
  size("--hidden", o.estimate.sizes.hidden, "width of the feed-forward part");
  size("--vocabulary", o.estimate.sizes.vocabulary, "words");
  size("--context", o.estimate.sizes.context, "longest sequence");
  size("--experts", o.estimate.sizes.experts, "of a mixture, in each block that has them");
  size("--experts-per-token", o.estimate.sizes.experts_per_token, "that each token is routed to");
  size("--expert-hidden", o.estimate.sizes.expert_hidden,
       "width of one expert (default: as --hidden)");
  size("--shared-experts", o.estimate.sizes.shared_experts, "that every token passes as well");
  size("--mixture-every", o.estimate.sizes.mixture_every, "experts only in every n-th block");
  command.add_flag("--untied", o.estimate.sizes.untied, "the output layer has its own weights");
}

}  // namespace

void add_estimate_command(Command& app) {
  auto options = std::make_shared<Options>();
  Command* command = app.add_subcommand(
      "estimate", "Parameters, FLOPs, memory, roofline and MFU of a model on a device");
  add_what_options(*command, *options);
  add_size_options(*command, *options);
  command->section("Output");
  command->add_option("--ops", options->ops, "rows in the table of ops", integer_in(0, 1000));
  std::vector<std::string> names{"list"};
  for (const Example& shown : all_examples()) {
    names.push_back(shown.name);
  }
  Option* shown = command->add_option("--example", options->example,
                                      "show a worked example; one of: " + words(names));
  command
      ->add_option("--set", options->set,
                   "NAME=NUMBER: replace a given number of the example; repeat for several")
      ->needs(shown)
      ->one_value_each();
  command->add_flag("--json", options->json, "one JSON object");
  command->callback([options] { run(*options); });
}

}  // namespace trireme::cli
