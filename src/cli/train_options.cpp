#include "cli/train_options.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "trireme/error.h"
#include "trireme/load_model.h"
#include "trireme/message.h"

namespace trireme::cli {
namespace {

/// Rejects an empty path, such as one from an unset variable.
std::string named(const std::string& path) {
  return path.empty() ? "expected a path" : "";
}

/// Adds the settings that define a run.
void add_settings(CLI::App* command, TrainSettings& s) {
  command
      ->add_option("--model", s.model,
                   fmt::format("one of {}; or a Hugging Face config.json (gpt2, llama, mixtral), "
                               "or a folder with one and its weights",
                               fmt::join(preset_any_model_names(), ", ")))
      ->capture_default_str();
  command
      ->add_option("--weights", s.weights,
                   "initial weights: a safetensors file, an index, or a folder (default: those in "
                   "the --model folder, else random)")
      ->check(named);
  command
      ->add_option("--data", s.data,
                   "a text file, or two-byte tokens (*.bin) (default: a generated language with "
                   "known entropy)")
      ->check(named);
  command->add_option("--tokenizer", s.tokenizer, "a tokenizer.json (GPT-2's BPE) for --data")
      ->check(named);
  command->add_option("--steps", s.steps, "total number of steps")->capture_default_str();
  command->add_option("--batch", s.batch, "sequences (or examples) per step")
      ->capture_default_str();
  command->add_option("--length", s.length, "tokens per sequence")->capture_default_str();
  command->add_option(
      "--rate", s.rate,
      "learning rate: cosine:PEAK,warmup=W,steps=N,least=L, or linear, wsd, constant "
      "(default: cosine over the steps)");
  command->add_option("--clip", s.clip, "maximum global gradient norm; 0 disables clipping")
      ->capture_default_str();
  command->add_option("--decay", s.decay, "weight decay (matrices only)")->capture_default_str();
  command->add_option("--dropout", s.dropout, "dropout probability")->capture_default_str();
  command->add_option("--experts", s.experts,
                      "a mixture of experts: NUMBER,per-token=K,every=BLOCKS,"
                      "gate=softmax-first|top-k-first,capacity=F,balance=W,shared=S,noise "
                      "(default: from the model)");
  command->add_option("--validation", s.validation, "fraction of the data held out for validation")
      ->capture_default_str();
  command->add_option("--dtype", s.dtype, "f32, bf16, f16 or f64")->capture_default_str();
  command
      ->add_option("--master", s.master,
                   "for bf16 and f16: master weights that the optimizer updates: f32 or none")
      ->capture_default_str();
  command
      ->add_option("--loss-scale", s.loss_scale,
                   "for f16: initial loss scale, which keeps small gradients from underflowing; "
                   "halved on overflow, doubled after 2000 steps without one")
      ->capture_default_str();
  command
      ->add_option("--recompute", s.recompute,
                   "activation recomputation: none, selective, full, or a memory budget SIZE for "
                   "kept activations")
      ->capture_default_str();
  command
      ->add_option("--sync", s.sync,
                   "how data-parallel workers synchronize: allreduce, tree, gossip, group=WORKERS, "
                   "local=STEPS or hogwild; see docs/synchronization.md")
      ->capture_default_str();
  command->add_option("--seed", s.seed, "seed for initial weights, data order and dropout")
      ->capture_default_str();
}

/// Adds the options that control how it runs and where its files go.
void add_run_options(CLI::App* command, TrainOptions& o) {
  command->add_option("--bind", o.bind,
                      "address of this machine that ranks on other hosts connect to");
  command->add_flag("--encrypt", o.encrypt, "encrypt traffic between hosts (TLS 1.3)");
  command->add_option("--threads", o.threads, "compute threads per rank; 0: all cores")
      ->capture_default_str();
  command->add_option_function<std::string>(
      "--memory-limit",
      [&o](const std::string& text) {
        o.run.memory_limit = parsed("--memory-limit", text, parse_bytes);
      },
      "fail before the first step if a rank needs more (default: what the machine and its control "
      "groups have left)");
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
                   "--batch, --recompute and --sync may differ")
      ->excludes(folder)
      ->check(named);
  command->add_option("--save-every", o.run.save_every,
                      "save a checkpoint every N steps (one is always saved at the end)");
  command->add_option("--validate-every", o.run.validate_every,
                      "measure the validation loss every N steps");
  command->add_flag("--tensorboard", o.run.tensorboard,
                    "write TensorBoard event files into the run's folder");
  command->add_flag("--json", o.json, "print one line of JSON per step, and a summary");
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
  constexpr int kMaxThreads = 1024;
  trireme::require_valid(o.run);
  require(o.threads >= 0 && o.threads <= kMaxThreads,
          fmt::format("--threads is {}; it must be 0 (all cores) to {}", o.threads, kMaxThreads));
  const bool has_length = std::ranges::find(o.given, "length") != o.given.end();
  if (has_length && o.run.resume.empty()) {
    const NamedModel named = parsed("--model", o.run.settings.model, load_model);
    require(std::holds_alternative<ModelConfig>(named.config),
            fmt::format("{} has no sequences, and so no length; leave out --length",
                        name_of(named.config)));
  }
}

}  // namespace trireme::cli
