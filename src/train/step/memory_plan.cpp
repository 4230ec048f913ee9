#include "train/step/memory_plan.h"

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "trireme/error.h"
#include "trireme/execution.h"
#include "trireme/op.h"
#include "trireme/optimize.h"
#include "trireme/recompute.h"

namespace trireme::train {
namespace {

constexpr std::size_t kShown = 4;
/// The search for a budget stops within this fraction of the best one.
constexpr double kNearEnough = 0.02;
constexpr int kMaxZero = 3;

std::string place_text(const Instruction& instruction) {
  return fmt::format("{}{}", to_text(instruction.phase),
                     instruction.block < 0 ? "" : fmt::format(", block {}", instruction.block));
}

/// The origin of a tensor: "parameter", "forward, block 3".
std::string origin_text(const Program& program, const Buffer& buffer) {
  const BufferId id{static_cast<std::int32_t>(&buffer - program.buffers.data())};
  for (const Instruction& instruction : program.instructions) {
    if (buffer.origin == Origin::Node &&
        std::ranges::find(instruction.outputs, id) != instruction.outputs.end()) {
      return place_text(instruction);
    }
  }
  return std::string(to_text(buffer.category));
}

std::vector<LargeTensor> largest_at(const Program& program, std::int32_t moment) {
  std::vector<const Buffer*> alive;
  std::set<std::int32_t> seen;
  for (const Buffer& buffer : program.buffers) {
    if (buffer.first <= moment && moment <= buffer.last && seen.insert(buffer.storage).second) {
      alive.push_back(&buffer);
    }
  }
  std::ranges::stable_sort(alive, std::greater<>(),
                           [](const Buffer* buffer) { return size_of(buffer->type); });
  std::vector<LargeTensor> largest;
  for (const Buffer* buffer : std::span(alive).first(std::min(kShown, alive.size()))) {
    largest.push_back({buffer->name, buffer->type, origin_text(program, *buffer)});
  }
  return largest;
}

std::string moment_text(const Program& program, std::int32_t moment) {
  const auto at = static_cast<std::size_t>(moment);
  if (at >= program.instructions.size()) {
    return "the beginning";
  }
  const Instruction& instruction = program.instructions[at];
  return fmt::format("{} in {}", instruction.op->name, place_text(instruction));
}

double tokens_of(const TrainerOptions& options) {
  return static_cast<double>(options.batch.sequences * options.batch.length);
}

/// Tries changes that may reduce memory.
class Search {
 public:
  Search(const TrainerOptions& options, Bytes limit, Device& device, int rank)
      : options_(options),
        limit_(limit),
        device_(device),
        rank_(rank),
        flops_(plan_memory(options, device, rank).flops / tokens_of(options)) {
    find_whether_to_shard();
  }

  std::vector<MemoryFix> run() {
    try_zero();
    try_recomputation();
    consider(with_bf16(options_));
    try_batch(options_);
    if (std::ranges::none_of(fixes_, [&](const MemoryFix& fix) {
          return fix.options.batch.sequences == options_.batch.sequences;
        })) {
      try_together();
    }
    std::ranges::stable_sort(fixes_, {}, &MemoryFix::extra_flops);
    return std::move(fixes_);
  }

  /// Assignments of ops that the changed step does not have do not count.
  [[nodiscard]] MemoryFix fix_of(TrainerOptions options) const {
    if (!options.plan.ops.empty() || !options.plan.values.empty()) {
      const Model model = make_model(options.model, options.batch);
      options.plan = with_assignments_in(make_step_graph(model, options).graph, options.plan);
    }
    const MemoryNeed need = plan_memory(options, device_, rank_);
    return {.options = options,
            .need = need.total(),
            .extra_flops = need.flops / tokens_of(options) / flops_ - 1};
  }

  static TrainerOptions with_mode(TrainerOptions options, RecomputeMode mode) {
    options.plan.recompute = {.mode = mode};
    return options;
  }
  static TrainerOptions with_bf16(TrainerOptions options) {
    set_dtype(options.model, DType::BF16);
    options.training.loss_scaling.reset();
    return options;
  }
  static TrainerOptions with_batch(TrainerOptions options, std::int64_t sequences) {
    options.batch.sequences = sequences;
    return options;
  }
  static TrainerOptions with_zero(TrainerOptions options, int level) {
    options.plan.zero = level;
    return options;
  }
  [[nodiscard]] MemoryFix least() const {
    return fix_of(with_bf16(with_batch(smallest(), least_batch(options_))));
  }

 private:
  /// Records the fix if it fits. Returns whether it does.
  bool consider(const TrainerOptions& options) {
    MemoryFix fix = fix_of(options);
    if (fix.need > limit_) {
      return false;
    }
    fixes_.push_back(std::move(fix));
    return true;
  }

  /// Checks whether a higher ZeRO level is compatible with the rest of the plan.
  void find_whether_to_shard() {
    if (options_.plan.mesh.size("data") == 1 || options_.plan.zero == kMaxZero) {
      return;
    }
    try {
      (void)fix_of(with_zero(options_, kMaxZero));
      may_shard_ = true;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::Usage) {
        throw;
      }
    }
  }
  /// Tries to find the lowest ZeRO level that fits.
  void try_zero() {
    for (int level = options_.plan.zero + 1; may_shard_ && level <= kMaxZero; ++level) {
      if (consider(with_zero(options_, level))) {
        return;
      }
    }
  }

  /// Everything that saves memory without changing the batch or the dtype.
  [[nodiscard]] TrainerOptions smallest() const {
    return with_mode(may_shard_ ? with_zero(options_, kMaxZero) : options_, RecomputeMode::Full);
  }

  void try_recomputation() {
    if (!consider(with_mode(options_, RecomputeMode::Full))) {
      return;
    }
    if (!consider(with_mode(options_, RecomputeMode::Selective))) {
      try_budget();
    }
  }

  /// Bisects between what full recomputation keeps and what is kept now.
  void try_budget() {
    const Model model = make_model(options_.model, options_.batch);
    const Graph graph = make_training_graph(model.graph, training_of(options_));
    Bytes low = kept_bytes(recompute(graph, {.mode = RecomputeMode::Full, .blocks = {}}));
    Bytes high = kept_bytes(graph);
    const auto near_enough =
        static_cast<std::int64_t>(kNearEnough * static_cast<double>(high.count));
    std::optional<MemoryFix> best;
    while (high.count - low.count > near_enough) {
      const Bytes middle = in_mebibytes({low.count + (high.count - low.count) / 2});
      if (middle <= low) {
        break;
      }
      TrainerOptions options = options_;
      options.plan.recompute = {.mode = RecomputeMode::None, .budget = middle};
      const MemoryFix fix = fix_of(options);
      (fix.need <= limit_ ? low : high) = middle;
      if (fix.need <= limit_) {
        best = fix;
      }
    }
    if (best && best->extra_flops < fixes_.back().extra_flops) {  // cheaper than full recomputation
      fixes_.push_back(*best);
    }
  }

  /// Rounds down to MiB, which is easier to type.
  static Bytes in_mebibytes(Bytes bytes) {
    constexpr std::int64_t kMebi = std::int64_t{1} << 20U;
    return bytes.count >= kMebi ? Bytes{bytes.count / kMebi * kMebi} : bytes;
  }

  /// Finds the largest batch that fits. Memory grows almost linearly with the batch, so the search alternates between
  /// linear interpolation and bisection.
  void try_batch(const TrainerOptions& options) {
    if (options.batch.sequences <= least_batch(options)) {
      return;
    }
    MemoryFix low = fix_of(with_batch(options, least_batch(options)));
    MemoryFix high = fix_of(options);
    if (low.need > limit_ || high.need <= limit_) {
      return;
    }
    for (bool along_line = true; batch_of(high) - batch_of(low) > 1; along_line = !along_line) {
      const auto left = static_cast<double>(limit_.count - low.need.count);
      const auto whole = static_cast<double>(high.need.count - low.need.count);
      const double share = along_line ? left / whole : 0.5;
      const auto more =
          static_cast<std::int64_t>(share * static_cast<double>(batch_of(high) - batch_of(low)));
      MemoryFix middle = fix_of(with_batch(
          options, std::clamp(batch_of(low) + more, batch_of(low) + 1, batch_of(high) - 1)));
      (middle.need <= limit_ ? low : high) = std::move(middle);
    }
    fixes_.push_back(std::move(low));
  }

  /// One example per micro-batch on each rank that has its own examples.
  static std::int64_t least_batch(const TrainerOptions& options) {
    std::int64_t least = options.plan.microbatches;
    for (const AxisSharding& axis : options.plan.sharding) {
      if (std::ranges::find(axis.dims, "batch") != axis.dims.end()) {
        least *= options.plan.mesh.size(axis.axis);
      }
    }
    return std::min(least, options.batch.sequences);
  }
  static std::int64_t batch_of(const MemoryFix& fix) { return fix.options.batch.sequences; }

  void try_together() {
    const TrainerOptions full = smallest();
    try_batch(full);
    if (!consider(with_bf16(full))) {
      try_batch(with_bf16(full));
    }
  }

  const TrainerOptions& options_;  // owned by the caller; outlives the search
  Bytes limit_;
  Device& device_;
  int rank_;
  double flops_;  ///< per token, with the options unchanged
  bool may_shard_ = false;
  std::vector<MemoryFix> fixes_;
};

}  // namespace

Bytes MemoryNeed::total() const {
  return {arena.count + workspace.count + evaluation.count};
}

MemoryNeed plan_memory(const CompiledTraining& compiled, Device& device, int rank) {
  const Program& program = compiled.step.program(rank);
  const Program& evaluation = compiled.evaluation.program(rank);
  MemoryNeed need;
  need.arena = program.arena;
  need.workspace = workspace_of(program, device);
  need.evaluation = {evaluation.arena.count + workspace_of(evaluation, device).count};
  need.use = memory_use(program);
  need.moment = moment_text(program, need.use.moment);
  need.largest = largest_at(program, need.use.moment);
  need.flops = compiled.flops.hardware().products;
  return need;
}

MemoryNeed plan_memory(const TrainerOptions& options, Device& device, int rank) {
  return plan_memory(compile_training(options, rank), device, rank);
}

std::vector<MemoryFix> find_memory_fixes(const TrainerOptions& options, Bytes limit, Device& device,
                                         int rank) {
  return Search(options, limit, device, rank).run();
}

MemoryFix least_memory(const TrainerOptions& options, Device& device, int rank) {
  return Search(options, {}, device, rank).least();
}

}  // namespace trireme::train
