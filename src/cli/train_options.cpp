#include "cli/train_options.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/parsed.h"
#include "trireme/error.h"
#include "trireme/load_model.h"

namespace trireme::cli {
namespace {

/// Rejects an empty path, such as one from an unset variable.
std::string named(const std::string& path) {
  return path.empty() ? "no file is named" : "";
}

/// Adds the settings that define a run.
void add_settings(CLI::App* command, TrainSettings& s) {
  command
      ->add_option("--model", s.model,
                   fmt::format("one of {}; or a config.json of Hugging Face's (gpt2, llama, "
                               "mixtral), or its folder, with the weights that are in it",
                               fmt::join(preset_any_model_names(), ", ")))
      ->capture_default_str();
  command
      ->add_option("--weights", s.weights,
                   "a safetensors file, an index of several, or a folder, to begin with "
                   "(default: those in the folder that --model names; else random ones)")
      ->check(named);
  command
      ->add_option("--data", s.data,
                   "a text file, or tokens of two bytes (*.bin); default: a generated language "
                   "whose entropy is known")
      ->check(named);
  command->add_option("--tokenizer", s.tokenizer, "a tokenizer.json (GPT-2's BPE) for --data")
      ->check(named);
  command->add_option("--steps", s.steps, "steps of the whole run")->capture_default_str();
  command->add_option("--batch", s.batch, "sequences, or examples, in a step")
      ->capture_default_str();
  command->add_option("--length", s.length, "tokens in a sequence")->capture_default_str();
  command->add_option(
      "--rate", s.rate,
      "learning rate: cosine:PEAK,warmup=W,steps=N,least=L, or linear, wsd, constant "
      "(default: cosine over the steps)");
  command->add_option("--clip", s.clip, "largest norm of all gradients; 0: any")
      ->capture_default_str();
  command->add_option("--decay", s.decay, "weight decay of matrices")->capture_default_str();
  command->add_option("--dropout", s.dropout, "share that is dropped")->capture_default_str();
  command->add_option("--experts", s.experts,
                      "a mixture of experts: NUMBER,per-token=K,every=BLOCKS,"
                      "gate=softmax-first|top-k-first,capacity=F,balance=W,shared=S,noise "
                      "(default: as the model has it)");
  command->add_option("--validation", s.validation, "share of the data kept for validation")
      ->capture_default_str();
  command->add_option("--dtype", s.dtype, "f32, bf16, f16 or f64")->capture_default_str();
  command
      ->add_option("--master", s.master,
                   "of bf16 and f16: the optimizer moves a copy of the parameters in f32, or none")
      ->capture_default_str();
  command
      ->add_option("--loss-scale", s.loss_scale,
                   "of f16: what gradients are multiplied by at first, so that small ones do not "
                   "vanish; halved when they overflow, doubled after 2000 steps")
      ->capture_default_str();
  command
      ->add_option("--recompute", s.recompute,
                   "activations that the backward computes again: none, selective, full, or what "
                   "it takes to keep at most a SIZE of them")
      ->capture_default_str();
  command->add_option("--seed", s.seed, "of the first weights, the data's order and dropout")
      ->capture_default_str();
}

/// Adds the options that control how it runs and where its files go.
void add_run_options(CLI::App* command, TrainOptions& o) {
  command->add_option("--bind", o.bind,
                      "where ranks on other hosts reach this one: an address of this machine");
  command->add_flag("--encrypt", o.encrypt, "encrypt what goes to other hosts (TLS 1.3)");
  command->add_option("--threads", o.threads, "0: all cores")->capture_default_str();
  command->add_option_function<std::string>(
      "--memory-limit",
      [&o](const std::string& text) {
        o.run.memory_limit = parsed("--memory-limit", text, parse_bytes);
      },
      "refuse to begin if a rank would need more (default: what the machine and its control groups "
      "have left)");
  CLI::Option* folder = command
                            ->add_option("--run-folder", o.run.run_folder,
                                         "where the run's files go (default: runs/MODEL-NUMBER)")
                            ->check(named);
  command
      ->add_option("--export", o.run.export_folder,
                   "write config.json and model.safetensors into this folder at the end")
      ->check(named);
  command
      ->add_option("--resume", o.run.resume,
                   "resume the run in this folder; --steps, --rate, --clip, --decay, --dropout, "
                   "--batch and --recompute may differ")
      ->excludes(folder)
      ->check(named);
  command->add_option("--save-every", o.run.save_every,
                      "save a checkpoint every so many steps (it is saved at the end in any case)");
  command->add_option("--validate-every", o.run.validate_every,
                      "measure the validation loss every so many steps");
  command->add_flag("--tensorboard", o.run.tensorboard,
                    "write the scalars of each step for TensorBoard, into the run's folder");
  command->add_flag("--json", o.json, "a line of JSON for each step, and one at the end");
}

}  // namespace

void add_train_options(CLI::App* command, TrainOptions& options) {
  add_settings(command, options.run.settings);
  add_run_options(command, options);
}

void complete_settings(TrainOptions& options) {
  if (!options.run.resume.empty()) {
    options.run.settings =
        resumed_settings(load_settings(options.run.resume), options.run.settings, options.given);
  }
}

void require_valid(const TrainOptions& o) {
  constexpr int kMostThreads = 1024;
  trireme::require_valid(o.run);
  require(o.threads >= 0 && o.threads <= kMostThreads,
          fmt::format("--threads is {}; it must be 0 (all cores) to {}", o.threads, kMostThreads));
  const bool has_length = std::ranges::find(o.given, "length") != o.given.end();
  if (has_length && o.run.resume.empty()) {
    const NamedModel named = parsed("--model", o.run.settings.model, load_model);
    require(std::holds_alternative<ModelConfig>(named.config),
            fmt::format("{} has no sequences, and so no length; leave out --length",
                        name_of(named.config)));
  }
}

}  // namespace trireme::cli
