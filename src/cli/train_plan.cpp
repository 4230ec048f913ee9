#include "cli/train_plan.h"

#include <algorithm>
#include <cstdio>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "trireme/message.h"
#include "trireme/named_architecture.h"
#include "trireme/recompute_choice.h"

namespace trireme::cli {

void add_plan_options(Command* command, PlanOptions& o, const std::string& mesh_help) {
  command->section("Parallelism");
  command->add_option("-n,--ranks", o.ranks, "number of ranks (default: the size of the mesh)");
  Option* file = command->add_option(
      "--plan", o.file, "a .plan.json; replaces the parallelism options and --recompute");
  const auto add = [&](Option* option) { option->excludes(file); };
  add(command->get_option("--recompute"));
  add(command->add_option(
      "--mesh", o.mesh,
      std::string("ranks by axis, such as data=2,tensor=2,pipe=2; axes are data, tensor, "
                  "context, expert and pipe") +
          mesh_help));
  add(command->add_option(
      "--microbatches", o.microbatches,
      "micro-batches per batch, for gradient accumulation and pipelines (default: 1)"));
  add(command->add_option(
      "--schedule", o.schedule,
      fmt::format("pipeline schedule: a .pipeline file with a table, or one of: {}",
                  fmt::join(plan_schedule_names(), " "))));
  add(command->add_option("--chunks", o.chunks, "pipeline stages per rank"));
  add(command->add_option("--zero", o.zero,
                          "ZeRO stage, sharded along data: 1 optimizer state, 2 also gradients, 3 "
                          "also parameters, as FSDP does (default: 0); one of: 0 1 2 3"));
  add(command->add_flag("--sequence", o.sequence,
                        "sequence parallelism: shard activations between blocks along the sequence "
                        "over the tensor axis"));
  add(command->add_option(
      "--context", o.context,
      "attention with the sequence sharded along context: gather keys and values, "
      "all-to-all over heads, or ring; one of: gather all-to-all ring"));
  add(command->add_option(
      "--compress", o.compression,
      "gradient compression along data; the residual is carried to the next step; "
      "one of: none top-k:SHARE sign ternary int8 fp16 power:RANK"));
}

Plan plan_with_notes(const PlanOptions& options, const std::string& recompute) {
  constexpr int kMostRanks = 16'384;
  Plan plan = options.plan();
  require(plan.mesh.devices() <= kMostRanks,
          fmt::format("the mesh {} has {} devices; step programs are compiled for at most {}, "
                      "'trireme plan' and 'trireme estimate' compute larger plans in closed form",
                      to_text(plan.mesh), plan.mesh.devices(), kMostRanks));
  if (options.file.empty()) {
    plan.recompute = parsed("--recompute", recompute, parse_recompute);
  }
  for (const std::string& note : plan_notes(plan)) {
    fmt::print(stderr, "trireme: note: {}\n", note);
  }
  return plan;
}

NamedModel load_any_model(const std::string& model) {
  const std::vector<std::string> presets = preset_any_model_names();
  if (is_model_path(model) || std::ranges::find(presets, model) != presets.end()) {
    return load_model(model);
  }
  const Architecture known = named_architecture(model);
  require(known.is_buildable(), "no graph of " + model + " can be built; only estimates know it");
  NamedModel named;
  named.config = known.model;
  named.is_preset = true;
  return named;
}

}  // namespace trireme::cli
