#include "cli/train_options.h"

#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/files.h"
#include "cli/load_model.h"
#include "cli/parsed.h"
#include "trireme/error.h"

namespace trireme::cli {
namespace {

namespace fs = std::filesystem;

/// For an option that takes a path: an empty one, from a variable that is not set say, is no path.
std::string named(const std::string& path) {
  return path.empty() ? "no file is named" : "";
}

/// What a run is made from.
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

/// How it is run, and where its files go.
void add_run_options(CLI::App* command, TrainOptions& o) {
  command->add_option("--bind", o.bind,
                      "where ranks on other hosts reach this one: an address of this machine");
  command->add_flag("--encrypt", o.encrypt, "encrypt what goes to other hosts (TLS 1.3)");
  command->add_option("--threads", o.threads, "0: all cores")->capture_default_str();
  command->add_option_function<std::string>(
      "--memory-limit",
      [&o](const std::string& text) {
        o.memory_limit = parsed("--memory-limit", text, parse_bytes);
      },
      "refuse to begin if a rank would need more (default: what the machine and its control groups "
      "have left)");
  CLI::Option* folder = command
                            ->add_option("--run-folder", o.run_folder,
                                         "where the run's files go (default: runs/MODEL-NUMBER)")
                            ->check(named);
  command
      ->add_option("--export", o.export_folder,
                   "write config.json and model.safetensors into this folder at the end")
      ->check(named);
  command
      ->add_option(
          "--resume", o.resume,
          "go on with the run in this folder; --steps, --rate, --clip, --decay, --dropout, "
          "--batch and --recompute may differ")
      ->excludes(folder)
      ->check(named);
  command->add_option("--save-every", o.save_every,
                      "save a checkpoint every so many steps (it is saved at the end in any case)");
  command->add_option("--validate-every", o.validate_every,
                      "measure the validation loss every so many steps");
  command->add_flag("--tensorboard", o.tensorboard,
                    "write the scalars of each step for TensorBoard, into the run's folder");
  command->add_flag("--json", o.json, "a line of JSON for each step, and one at the end");
}

}  // namespace

void add_train_options(CLI::App* command, TrainOptions& options) {
  add_settings(command, options.settings);
  add_run_options(command, options);
}

TrainOptions completed(TrainOptions options) {
  if (options.resume.empty()) {
    return options;
  }
  const std::string path = options.resume + "/settings.json";
  if (!fs::exists(path)) {
    throw Error(ErrorKind::Usage, fmt::format("--resume: '{}' is no run's folder: it has no "
                                              "settings.json",
                                              options.resume));
  }
  options.settings = resumed_settings(parse_train_settings(read_file(path), path), options.settings,
                                      options.given);
  return options;
}

void verify(const TrainOptions& o) {
  constexpr int kMostThreads = 1024;
  o.settings.verify();
  require(o.settings.steps > 0 || !o.resume.empty() || !o.export_folder.empty() ||
              !o.settings.weights.empty() || is_model_path(o.settings.model),
          "--steps is 0; it must be 1 or more, unless a model is exported or comes from a file");
  require(o.threads >= 0 && o.threads <= kMostThreads,
          fmt::format("--threads is {}; it must be 0 (all cores) to {}", o.threads, kMostThreads));
  require(o.save_every >= 0,
          fmt::format("--save-every is {}; it must be 0 (at the end only) or more", o.save_every));
  require(o.validate_every >= 0,
          fmt::format("--validate-every is {}; it must be 0 (at the end only) or more",
                      o.validate_every));
  require(o.run_folder.empty() || !fs::exists(o.run_folder + "/settings.json"),
          fmt::format("--run-folder: there is a run in '{0}' already; go on with it by --resume "
                      "{0}, or choose another folder",
                      o.run_folder));
  require(o.run_folder.empty() || !fs::exists(o.run_folder) || fs::is_directory(o.run_folder),
          fmt::format("--run-folder: '{}' is no folder", o.run_folder));
}

}  // namespace trireme::cli
