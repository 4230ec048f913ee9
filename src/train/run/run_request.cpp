#include "trireme/run_request.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "train/data/bpe.h"
#include "trireme/error.h"
#include "trireme/files.h"
#include "trireme/load_model.h"
#include "trireme/message.h"
#include "trireme/recompute_choice.h"
#include "trireme/sync.h"

namespace trireme {
namespace {

RecomputeChoice recompute_of(const RunRequest& request) {
  return parsed("--recompute", request.run.settings.recompute, parse_recompute);
}

/// The plan of the resumed run, unless the options or the launcher request another. A model is exported on one device.
std::optional<Plan> find_own_plan(const RunRequest& request) {
  const RunOptions& run = request.run;
  if (run.resume.empty() || !run.export_folder.empty() || request.plan != PlanOptions{}) {
    return std::nullopt;
  }
  Plan plan = load_plan(run.resume);
  const int ranks = request.launched.size;
  return ranks == 1 || plan.mesh.devices() == ranks ? std::optional(std::move(plan)) : std::nullopt;
}

std::vector<int> divisors_from_largest(int number) {
  std::vector<int> found;
  for (int divisor = number; divisor >= 1; --divisor) {
    if (number % divisor == 0) {
      found.push_back(divisor);
    }
  }
  return found;
}

void require_sequences_for_length(const RunRequest& request) {
  const bool has_length = std::ranges::find(request.given, "length") != request.given.end();
  if (!has_length || !request.run.resume.empty()) {
    return;
  }
  const NamedModel named = parsed("--model", request.run.settings.model, load_model);
  require(std::holds_alternative<ModelConfig>(named.config),
          fmt::format("{} has no sequences, and so no length; leave out --length",
                      name_of(named.config)));
}

/// A tokenizer that is given when a run resumes may be elsewhere, but not another one: the run uses its own copy.
void require_same_tokenizer(const RunOptions& run) {
  const std::string own = run.resume + "/tokenizer.json";
  if (!std::filesystem::exists(own)) {
    return;
  }
  const std::string file = train::tokenizer_file(run.settings.tokenizer);
  require(parsed("--tokenizer", file, read_file) == read_file(own),
          fmt::format("--tokenizer: '{}' is not what this run was trained with, which is in '{}'; "
                      "leave out --tokenizer, or start a new run",
                      file, own));
}

}  // namespace

void complete_settings(RunRequest& request) {
  RunOptions& run = request.run;
  if (!run.resume.empty()) {
    run.settings = resumed_settings(parsed("--resume", run.resume, load_settings), run.settings,
                                    request.given);
    if (std::ranges::find(request.given, "tokenizer") != request.given.end()) {
      require_same_tokenizer(run);
    }
  }
  if (!run.settings.memory_limit.empty()) {
    run.memory_limit = parsed("--memory-limit", run.settings.memory_limit, parse_bytes);
  }
  require_sequences_for_length(request);
}

bool chooses_plan(const RunRequest& request) {
  const bool all_reduce =
      parsed("--sync", request.run.settings.sync, parse_sync).kind == SyncSpec::Kind::Allreduce;
  require(all_reduce || !request.plan.is_automatic(),
          "--mesh auto chooses among plans with --sync allreduce; give the axes, such as --mesh "
          "data=4");
  const std::optional<HostCosts>& host = request.run.host;
  return request.launched.size == 1 &&
         (request.plan.is_automatic() ||
          (all_reduce && request.plan.is_only_ranks() && host && host->compute));
}

PlanChoice choose_plan(const RunRequest& request, int cores) {
  PlanChoiceOptions choose;
  choose.ranks =
      request.plan.ranks ? std::vector{*request.plan.ranks} : divisors_from_largest(cores);
  choose.threads = static_cast<int>(request.run.settings.threads);
  choose.fixed = request.plan.fixed_part();
  choose.fixed.recompute = recompute_of(request);
  choose.search_zero = !request.plan.zero;
  choose.search_microbatches = !request.plan.microbatches;
  return choose_plan(request.run, choose);
}

Plan requested_plan(const RunRequest& request) {
  const LaunchedRank& launched = request.launched;
  const std::optional<Plan> own = find_own_plan(request);
  Plan plan = own ? *own : request.plan.plan();
  if (request.plan.file.empty()) {
    plan.recompute = recompute_of(request);
  }
  if (!own && launched.size > 1 && request.plan.mesh.empty() && request.plan.file.empty()) {
    plan.mesh = Mesh({{"data", launched.size}});
  }
  require(launched.size == 1 || plan.mesh.devices() == launched.size,
          fmt::format("the mesh {} has {} devices, but {} started {} ranks; make them agree",
                      to_text(plan.mesh), plan.mesh.devices(), launched.launcher, launched.size));
  return plan;
}

}  // namespace trireme
