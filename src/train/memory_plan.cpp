#include "train/memory_plan.h"

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "graph/op.h"
#include "trireme/execution.h"
#include "trireme/optimize.h"
#include "trireme/recompute.h"

namespace trireme::train {
namespace {

constexpr std::size_t kShown = 4;
/// A search for a budget ends when it is as near as this to the best one.
constexpr double kNearEnough = 0.02;

std::string place_text(const Instruction& instruction) {
  return fmt::format("{}{}", to_text(instruction.phase),
                     instruction.block < 0 ? "" : fmt::format(", block {}", instruction.block));
}

/// Where a tensor comes from: "parameter", "forward, block 3".
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

/// Tries what may help.
class Search {
 public:
  Search(const TrainerOptions& options, Bytes limit, Device& device)
      : options_(options),
        limit_(limit),
        device_(device),
        flops_(plan_memory(options, device).flops / tokens_of(options)) {}

  std::vector<MemoryFix> run() {
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

  [[nodiscard]] MemoryFix fix_of(const TrainerOptions& options) const {
    const MemoryNeed need = plan_memory(options, device_);
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

 private:
  /// Keeps it if it fits.
  bool consider(const TrainerOptions& options) {
    MemoryFix fix = fix_of(options);
    if (fix.need > limit_) {
      return false;
    }
    fixes_.push_back(std::move(fix));
    return true;
  }

  void try_recomputation() {
    if (!consider(with_mode(options_, RecomputeMode::Full))) {
      return;
    }
    if (!consider(with_mode(options_, RecomputeMode::Selective))) {
      try_budget();
    }
  }

  /// The largest budget that fits lies between what full recomputation keeps and what is kept now.
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
    if (best && best->extra_flops < fixes_.back().extra_flops) {  // than in full
      fixes_.push_back(*best);
    }
  }

  /// Easier to type than bytes.
  static Bytes in_mebibytes(Bytes bytes) {
    constexpr std::int64_t kMebi = std::int64_t{1} << 20U;
    return bytes.count >= kMebi ? Bytes{bytes.count / kMebi * kMebi} : bytes;
  }

  /// The largest that fits. Memory grows with the batch along a line, nearly: the place where the line meets
  /// the limit is tried, and the middle where that alone would take long.
  void try_batch(const TrainerOptions& options) {
    if (options.batch.sequences < 2) {
      return;
    }
    MemoryFix low = fix_of(with_batch(options, 1));
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

  static std::int64_t batch_of(const MemoryFix& fix) { return fix.options.batch.sequences; }

  void try_together() {
    const TrainerOptions full = with_mode(options_, RecomputeMode::Full);
    try_batch(full);
    if (!consider(with_bf16(full))) {
      try_batch(with_bf16(full));
    }
  }

  const TrainerOptions& options_;  // the caller's, for the call
  Bytes limit_;
  Device& device_;
  double flops_;  ///< for each token, as it is
  std::vector<MemoryFix> fixes_;
};

}  // namespace

Bytes MemoryNeed::total() const {
  return {arena.count + workspace.count + evaluation.count};
}

MemoryNeed plan_memory(const TrainerOptions& options, Device& device) {
  const StepGraph step = make_step_graph(make_model(options.model, options.batch), options);
  const Program program = make_program(fuse_elementwise(step.graph));
  const Program evaluation = make_program(fuse_elementwise(make_evaluation_model(options).graph));
  MemoryNeed need;
  need.arena = program.arena;
  need.workspace = workspace_of(program, device);
  need.evaluation = {evaluation.arena.count + workspace_of(evaluation, device).count};
  need.use = memory_use(program);
  need.moment = moment_text(program, need.use.moment);
  need.largest = largest_at(program, need.use.moment);
  need.flops = step.flops.hardware().products;
  return need;
}

std::vector<MemoryFix> find_memory_fixes(const TrainerOptions& options, Bytes limit,
                                         Device& device) {
  return Search(options, limit, device).run();
}

MemoryFix least_memory(const TrainerOptions& options, Device& device) {
  return Search(options, {}, device)
      .fix_of(Search::with_bf16(
          Search::with_mode(Search::with_batch(options, 1), RecomputeMode::Full)));
}

}  // namespace trireme::train
