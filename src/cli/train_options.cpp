#include "cli/train_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/etcd_options.h"
#include "cli/path_option.h"
#include "trireme/load_model.h"
#include "trireme/message.h"

namespace trireme::cli {
namespace {

void add_model_options(Command* command, TrainSettings& s) {
  command->section("Model");
  command->add_option(
      "--model", s.model,
      fmt::format("a Hugging Face config.json (gpt2, llama, mixtral), a folder with "
                  "one and its weights, or one of: {}",
                  fmt::join(preset_any_model_names(), " ")));
  command->add_option(
      "--weights", s.weights,
      "initial weights: a safetensors file, an index, or a folder (default: those in "
      "the --model folder, else random)",
      non_empty_path);
  command->add_option("--experts", s.experts,
                      "a mixture of experts: NUMBER,per-token=K,every=BLOCKS,"
                      "gate=softmax-first|top-k-first,capacity=F,balance=W,"
                      "per=batch|microbatch,shared=S,noise "
                      "(default: from the model)");
  command->add_option("--dropout", s.dropout, "dropout probability");
  command->add_option("--dtype", s.dtype, "one of: f32 bf16 f16 f64");
}

void add_data_options(Command* command, TrainSettings& s) {
  command->section("Data");
  command->add_option("--data", s.data,
                      "text files, or tokens (*.bin of llm.c or nanoGPT); folders of them; - for "
                      "standard input; with {rank} in a name, each rank along data reads its own "
                      "(default: a generated language with known entropy)",
                      non_empty_path);
  command->add_option("--validation-data", s.validation_data,
                      "files for validation (default: the fraction --validation of the data)",
                      non_empty_path);
  command->add_option(
      "--tokenizer", s.tokenizer,
      "a tokenizer.json (BPE), or a folder with one, for --data (default: the one in the "
      "--model folder, else a token per byte)",
      non_empty_path);
  command->add_option(
      "--vocabulary", s.vocabulary,
      "number of tokens in the vocabulary (default: the model's or the tokenizer's; "
      "for a preset on *.bin files 50257, or 128256 if their tokens have four "
      "bytes)");
  command->add_option("--length", s.length, "tokens per sequence");
  command->add_option("--validation", s.validation, "fraction of the data held out for validation");
}

void add_optimization_options(Command* command, TrainSettings& s) {
  command->section("Optimization");
  command->add_option("--steps", s.steps, "total number of steps");
  command->add_option("--batch", s.batch, "sequences (or examples) per step");
  command->add_option(
      "--optimizer", s.optimizer,
      "adamw,beta1=B,beta2=B,eps=E,weight-decay=W (matrices only), or one of: adamw "
      "sgd momentum adagrad lion muon");
  command->add_option(
      "--rate", s.rate,
      "peak of the learning rate, such as 3e-4 (default: by width and optimizer), or a schedule: "
      "cosine:PEAK,warmup=W,steps=N,least=L, linear, wsd, constant (default: cosine over the "
      "steps)");
  command->add_option("--clip", s.clip, "maximum global gradient norm; 0 disables clipping");
  command->add_option(
      "--master", s.master,
      "for bf16 and f16: master weights that the optimizer updates; one of: f32 none");
  command->add_option("--loss-scale", s.loss_scale,
                      "for f16: initial loss scale, which keeps small gradients from underflowing; "
                      "halved on overflow, doubled after 2000 steps without one");
  command->add_option(
      "--recompute", s.recompute,
      "activation recomputation, also called activation checkpointing: a memory budget "
      "SIZE for kept activations, or one of: none selective full");
  command->add_option("--seed", s.seed, "seed for initial weights, data order and dropout");
}

/// For --sync ps:….
void add_server_options(Command* command, RunServers& servers) {
  command->add_option("--ps", servers.address,
                      "with --sync ps: the coordinator of parameter servers that are running, "
                      "HOST:PORT or etcd://HOST:PORT,.../NAME; TRIREME_PS_SECRET has their secret "
                      "(default: start servers)");
  command->add_flag("--ps-encrypt", servers.encrypt,
                    "with --ps: its servers use TLS, as started with ps serve --encrypt");
  add_etcd_tls_options(*command, servers.etcd_tls);
  command->add_option("--ps-servers", servers.count,
                      "with --sync ps: parameter servers to start (default: one per worker)");
  command->add_option("--ps-replicas", servers.replicas,
                      "with --sync ps: servers to start that hold each part of the model");
  command->add_option_function(
      "--ps-lease",
      [&servers](const std::string& text) {
        servers.lease = parsed("--ps-lease", text, parse_seconds);
      },
      "with --sync ps: how long a server may be silent; the same as for the servers at --ps "
      "(default: "
      "2s)");
}

/// The plan's options are in the same section.
void add_parallelism_options(Command* command, TrainOptions& o) {
  command->section("Parallelism");
  TrainSettings& settings = o.run.settings;
  command->add_option(
      "--device", settings.device,
      "device to train on; auto: a GPU if there is one; one of: auto cpu cuda cuda:N");
  command->add_option("--gpu-exchange", settings.gpu_exchange,
                      "how ranks on GPUs exchange; auto: by NCCL if each has its own GPU, else "
                      "through host memory; one of: auto nccl ipc host");
  command->add_flag("--deterministic", settings.deterministic,
                    "the same bits in every run on the same GPUs; on CPUs they always are");
  command->add_option("--threads", settings.threads, "compute threads per rank; 0: all cores");
  command->add_option(
      "--sync", settings.sync,
      "how data-parallel workers synchronize (see docs/synchronization.md); one of: "
      "allreduce tree gossip group=WORKERS local=STEPS hogwild ps:bsp "
      "ps:ssp=STALENESS ps:essp=STALENESS ps:async");
  add_server_options(command, o.run.servers);
  command->add_option("--bind", o.bind,
                      "address of this machine that ranks on other hosts connect to");
  command->add_flag("--encrypt", settings.encrypt, "encrypt traffic between hosts (TLS 1.3)");
  command->add_option(
      "--memory-limit", settings.memory_limit,
      "fail before the first step if a rank needs more (default: what the machine and its control "
      "groups have left)");
}

void add_checkpoint_options(Command* command, RunOptions& run) {
  command->section("Checkpoints");
  Option* folder =
      command->add_option("--run-folder", run.run_folder,
                          "where the run's files go (default: runs/MODEL-NUMBER)", non_empty_path);
  command
      ->add_option(
          "--resume", run.resume,
          "resume the run in this folder with its own options, except --ps*, --etcd-*, --bind, "
          "--export, --watch and --json, which are of one start; --steps, --rate, --clip, "
          "--dropout, --batch, --recompute, --sync, --save-every, --keep, --keep-best, "
          "--validate-every, --patience, --tensorboard, --threads, --device, --gpu-exchange, "
          "--deterministic, --memory-limit, --encrypt, the settings of --optimizer and the plan "
          "may differ; --data, "
          "--validation-data and --tokenizer may have moved",
          non_empty_path)
      ->excludes(folder);
  command->add_option(
      "--save-every", run.settings.save_every,
      "save a checkpoint every N steps (200), after a time (10min), or whichever comes "
      "first (200,10min); 0: only at the end, where one is always saved");
  command->add_option("--keep", run.settings.keep, "number of checkpoints to keep");
  command->add_flag("--keep-best", run.settings.keep_best,
                    "also keep the checkpoint with the lowest validation loss; --export takes it");
  command->add_option("--export", run.export_folder,
                      "write config.json and model.safetensors into this folder at the end",
                      non_empty_path);
}

void add_output_options(Command* command, TrainOptions& o) {
  command->section("Output");
  TrainSettings& s = o.run.settings;
  command->add_option("--validate-every", s.validate_every,
                      "measure the validation loss, and so the perplexity, every N steps");
  command->add_option("--patience", s.patience,
                      "stop after N validations without a new lowest loss (default: never)");
  command->add_flag("--tensorboard", s.tensorboard,
                    "write TensorBoard event files into the run's folder");
  command->add_flag("--json", o.json, "print one line of JSON per step, and a summary");
  constexpr int kLastPort = 65535;
  command->add_option(
      "--watch", o.watch,
      "serve the run's report, as by trireme report, live on this port of 127.0.0.1; "
      "0: any free port",
      integer_in(0, kLastPort));
}

}  // namespace

void add_train_options(Command* command, TrainOptions& options) {
  add_model_options(command, options.run.settings);
  add_data_options(command, options.run.settings);
  add_optimization_options(command, options.run.settings);
  add_plan_options(command, options.plan, "; auto: the plan that is predicted to be fastest here");
  add_parallelism_options(command, options);
  add_checkpoint_options(command, options.run);
  add_output_options(command, options);
}

}  // namespace trireme::cli
