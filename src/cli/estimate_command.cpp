// `trireme estimate`: parameters, FLOPs, memory, roofline and utilization of a model on a device.
#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/terminal.h"
#include "report/estimate_json.h"
#include "report/estimate_text.h"
#include "report/example_text.h"
#include "trireme/error.h"
#include "trireme/estimate_report.h"
#include "trireme/message.h"
#include "trireme/model_sizes.h"
#include "trireme/named_architecture.h"

namespace trireme::cli {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  trireme estimate --model gpt2-small --batch 8 --device h100\n"
    "  trireme estimate --model gpt2-small --batch 64 --device h200 --step-time 123ms\n"
    "                                                        is this MFU good?\n"
    "  trireme estimate --model llama3-70b --batch 1 --recompute full --device h200\n"
    "                                                        does it fit?\n"
    "  trireme estimate --model gpt3-175b --tokens 300e9 --mfu 0.4 --devices 1024 --device a100\n"
    "                                                        how many days?\n"
    "  trireme estimate --model gpt2-small --layers 24 --width 1024 --heads 16\n"
    "  trireme estimate --model path/to/config.json          a Hugging Face model\n"
    "  trireme estimate --example list                       worked examples\n"
    "  trireme estimate --example zero --set devices=1024    with a number of one's own\n"
    "\n"
    "Every number names its convention: model FLOPs are three forwards, hardware FLOPs what is\n"
    "executed; peaks are dense. A peak that no document gives is unknown, never guessed.";

constexpr std::int64_t kLongestDefault = 8192;
constexpr std::int64_t kMax = std::int64_t{1} << 40;

struct Options {
  std::string model = "gpt2-small";
  std::int64_t batch = 1;
  std::int64_t length = 0;  // 0: the model's context
  std::string device = "h100";
  std::string dtype = "bf16";
  std::string recompute = "none";
  std::string optimizer = "adamw";
  std::string family;
  int devices = 1;
  std::string step_time;
  double tokens = 0;
  double mfu = 0;
  int ops = 10;
  std::string example;
  std::vector<std::string> set;
  bool json = false;
  ModelSizes sizes;
};

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorKind::Usage, message);
}

/// The dtype of the graph; tf32 only changes how f32 is multiplied.
DType parse_graph_type(const std::string& text) {
  if (text == "tf32") {
    return DType::F32;
  }
  const DType dtype = parse_dtype(text);
  if (!is_float(dtype)) {
    refuse(fmt::format("models are not trained in {}; use bf16, f16, tf32, f32 or f64", text));
  }
  return dtype;
}

/// The value of an option if given, else the default.
std::int64_t given_or(std::int64_t option, std::int64_t otherwise) {
  return option > 0 ? option : otherwise;
}

Architecture make_architecture(const Options& o) {
  ModelSizes sizes = o.sizes;
  if (!o.family.empty()) {
    sizes.family = parsed("--family", o.family, parse_family);
  }
  if (o.length > 0 && sizes.context == 0) {
    sizes.least_context = o.length;
  }
  return resized(parsed("--model", o.model, named_architecture), sizes);
}

EstimateRequest make_request(const Options& o) {
  EstimateRequest request{.architecture = make_architecture(o),
                          .device = parsed("--device", o.device, device_preset),
                          .peak_type = o.dtype,
                          .optimizer = o.optimizer,
                          .devices = o.devices};
  const std::int64_t context = request.architecture.model.context;
  request.step = {.batch = {o.batch, given_or(o.length, std::min(context, kLongestDefault))},
                  .dtype = parsed("--dtype", o.dtype, parse_graph_type),
                  .recompute = parsed("--recompute", o.recompute, parse_recompute_mode),
                  .optimizer = parsed("--optimizer", o.optimizer, parse_optimizer)};
  if (request.step.batch.length > context) {
    refuse(fmt::format("--length: {} tokens are more than the context of {}, {}",
                       request.step.batch.length, o.model, context));
  }
  if (!o.step_time.empty()) {
    request.step_time = parsed("--step-time", o.step_time, parse_seconds);
    if (request.step_time->count <= 0) {
      refuse("--step-time: must be more than 0");
    }
  }
  if (o.tokens > 0) {
    request.run_tokens = o.tokens;
  }
  if (o.mfu > 0) {
    request.run_mfu = o.mfu;
  }
  return request;
}

/// "devices=1024" adds an input.
void add_input(const std::string& text, ExampleInputs& inputs) {
  const std::size_t equals = text.find('=');
  const std::string value = equals == std::string::npos ? "" : text.substr(equals + 1);
  char* end = nullptr;
  const double number = std::strtod(value.c_str(), &end);
  if (equals == 0 || value.empty() || end != value.c_str() + value.size()) {
    refuse(
        fmt::format("--set: invalid input '{}': expected NAME=NUMBER, such as devices=64", text));
  }
  if (!inputs.emplace(text.substr(0, equals), number).second) {
    refuse(fmt::format("--set: '{}' is set twice", text.substr(0, equals)));
  }
}

Example make_example(const Options& o) {
  ExampleInputs inputs;
  for (const std::string& text : o.set) {
    add_input(text, inputs);
  }
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
  const EstimateReport report = make_estimate(make_request(o));
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
  command
      .add_option("-m,--model", o.model,
                  "a config.json, its folder, or one of: " + words(architecture_names()))
      ->show_default();
  command.add_option("-b,--batch", o.batch, "sequences of a step on each device")
      ->show_default()
      ->check(integer_in(std::int64_t{1}, kMax));
  command
      .add_option("-t,--length", o.length,
                  "tokens of a sequence (default: the model's context, at most 8192)")
      ->check(integer_in(std::int64_t{1}, kMax));
  command.add_option("-d,--device", o.device, "one of: " + words(device_preset_names()))
      ->show_default();
  command.add_option("--devices", o.devices, "number of devices, each with its own batch")
      ->show_default()
      ->check(integer_in(1, 1 << 24));
  command.add_option("--dtype", o.dtype, "one of: bf16 f16 tf32 f32 f64")->show_default();
  command.add_option("--recompute", o.recompute, "one of: none selective full")->show_default();
  command.add_option("--optimizer", o.optimizer, "one of: adamw sgd momentum adagrad lion muon")
      ->show_default();
  command.add_option("--step-time", o.step_time,
                     "measured time of a step, such as 350ms: gives MFU and HFU");
  command
      .add_option("--tokens", o.tokens,
                  "tokens of a whole run, such as 300e9: gives FLOPs and days")
      ->check(above_zero());
  command.add_option("--mfu", o.mfu, "of the run, such as 0.4 (default: from --step-time)")
      ->check(number_in(1e-6, 1.0));
}

void add_size_options(Command& command, Options& o) {
  command.section("Sizes, in place of the model's");
  const auto size = [&](const char* name, std::int64_t& value, const char* what) {
    command.add_option(name, value, what)->check(integer_in(std::int64_t{1}, kMax));
  };
  command.add_option("--family", o.family, "one of: gpt2 llama");
  size("--layers", o.sizes.layers, "blocks of the model");
  size("--width", o.sizes.width, "of the residual stream; heads and feed-forward follow");
  size("--heads", o.sizes.heads, "of attention");
  size("--key-heads", o.sizes.key_heads, "heads of keys and values, for grouped queries");
  size("--head-width", o.sizes.head_width, "of one head (default: width / heads)");
  size("--hidden", o.sizes.hidden, "width of the feed-forward part");
  size("--vocabulary", o.sizes.vocabulary, "words");
  size("--context", o.sizes.context, "longest sequence");
  size("--experts", o.sizes.experts, "of a mixture, in each block that has them");
  size("--experts-per-token", o.sizes.experts_per_token, "that each token is routed to");
  size("--expert-hidden", o.sizes.expert_hidden, "width of one expert (default: as --hidden)");
  size("--shared-experts", o.sizes.shared_experts, "that every token passes as well");
  size("--mixture-every", o.sizes.mixture_every, "experts only in every n-th block");
  command.add_flag("--untied", o.sizes.untied, "the output layer has its own weights");
}

}  // namespace

void add_estimate_command(Command& app) {
  auto options = std::make_shared<Options>();
  Command* command = app.add_subcommand(
      "estimate", "Parameters, FLOPs, memory, roofline and MFU of a model on a device");
  add_what_options(*command, *options);
  add_size_options(*command, *options);
  command->section("Output");
  command->add_option("--ops", options->ops, "rows in the table of ops")
      ->show_default()
      ->check(integer_in(0, 1000));
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
  command->footer(kExamples);
  command->callback([options] { run(*options); });
}

}  // namespace trireme::cli
