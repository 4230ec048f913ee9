#include "train/step/memory_fixes.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "tensor/half.h"
#include "train/step/step_graph.h"
#include "trireme/error.h"
#include "trireme/recompute.h"

namespace trireme::train {
namespace {

/// The search for a budget stops within this fraction of the best one.
constexpr double kNearEnough = 0.02;
/// Candidates whose predicted need is this much above the limit are not compiled. Gaps between buffers and the kernels'
/// workspace, which are not predicted, vary by less.
constexpr double kMargin = 0.05;
constexpr int kMaxZero = 3;
/// The maximum to try: a step with more takes too long to compile for advice.
constexpr int kMostMicrobatches = 64;

double tokens_of(const TrainerOptions& options) {
  return static_cast<double>(options.batch.sequences * options.batch.length);
}

double ratio(Bytes a, Bytes b) {
  return static_cast<double>(a.count) / static_cast<double>(b.count);
}

/// Tries changes that may reduce memory.
class Search {
 public:
  Search(const TrainerOptions& options, Bytes limit, Device& device, int rank)
      : options_(options), limit_(limit), device_(device), rank_(rank) {
    const MemoryNeed need = plan_memory(options, device, rank);
    flops_ = need.flops / tokens_of(options);
    unpredicted_ = ratio(need.total(), train::predict_memory(options, rank).total());
    find_whether_to_shard();
  }

  std::vector<MemoryFix> run() {
    try_zero();
    try_microbatches(options_);
    try_recomputation();
    if (has_master(options_)) {
      consider(without_master(options_));
    }
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

  [[nodiscard]] MemoryFix least() const {
    return compiled(without_master(with_bf16(with_batch(smallest(), least_batch(options_)))));
  }

 private:
  static TrainerOptions with_mode(TrainerOptions options, RecomputeMode mode) {
    options.plan.recompute = {.mode = mode};
    return options;
  }
  static TrainerOptions with_budget(TrainerOptions options, Bytes budget) {
    options.plan.recompute = {.mode = RecomputeMode::None, .budget = budget};
    return options;
  }
  static TrainerOptions with_bf16(TrainerOptions options) {
    set_dtype(options.model, DType::BF16);
    options.training.loss_scaling.reset();
    return options;
  }
  /// Whether the optimizer updates f32 copies of half-precision weights.
  static bool has_master(const TrainerOptions& options) {
    return options.training.master_weights && is_half(dtype_of(options.model));
  }
  static TrainerOptions without_master(TrainerOptions options) {
    options.training.master_weights = false;
    return options;
  }
  static TrainerOptions with_microbatches(TrainerOptions options, int count) {
    options.plan.microbatches = count;
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

  // Need.

  /// The options without assignments of ops that the changed step does not have.
  static TrainerOptions applicable(TrainerOptions options) {
    if (!options.plan.ops.empty() || !options.plan.values.empty()) {
      const Model model = make_model(options.model, options.batch);
      options.plan = with_assignments_in(make_step_graph(model, options).graph, options.plan);
    }
    return options;
  }
  [[nodiscard]] MemoryFix compiled(const TrainerOptions& changed) const {
    const TrainerOptions options = applicable(changed);
    const MemoryNeed need = plan_memory(options, device_, rank_);
    return {.options = options,
            .need = need.total(),
            .extra_flops = need.flops / tokens_of(options) / flops_ - 1};
  }
  /// If gaps and workspace are as large, in proportion, as with the original options.
  [[nodiscard]] Bytes predicted(const TrainerOptions& options) const {
    const auto peaks =
        static_cast<double>(train::predict_memory(applicable(options), rank_).total().count);
    return {static_cast<std::int64_t>(unpredicted_ * peaks)};
  }
  [[nodiscard]] bool may_fit(const TrainerOptions& options) const {
    return ratio(predicted(options), limit_) <= 1 + kMargin;
  }

  /// Records the fix if it fits. Returns whether it does.
  bool consider(const TrainerOptions& options) {
    if (!may_fit(options)) {
      return false;
    }
    MemoryFix fix = compiled(options);
    if (fix.need > limit_) {
      return false;
    }
    fixes_.push_back(std::move(fix));
    return true;
  }

  // ZeRO.

  /// Checks whether a higher ZeRO level is compatible with the rest of the plan.
  void find_whether_to_shard() {
    may_shard_ = options_.plan.mesh.size("data") > 1 && options_.plan.zero < kMaxZero &&
                 is_possible(with_zero(options_, kMaxZero));
  }
  /// Whether the model and the plan allow these options.
  [[nodiscard]] bool is_possible(const TrainerOptions& options) const {
    try {
      (void)predicted(options);
      return true;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::Usage) {
        throw;
      }
      return false;
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

  // Micro-batches.

  /// Tries to find the fewest micro-batches, doubling their number, that fit. A table has a fixed number of them.
  bool try_microbatches(const TrainerOptions& options) {
    if (options.plan.table || !may_fit(with_batch(options, least_batch(options)))) {
      return false;
    }
    const std::int64_t ranks = least_batch(options) / options.plan.microbatches;
    for (int count = 2 * options.plan.microbatches;
         count <= kMostMicrobatches && count * ranks <= options.batch.sequences; count *= 2) {
      const TrainerOptions more = with_microbatches(options, count);
      if (options.batch.sequences % (count * ranks) != 0 || !is_possible(with_fewer(more))) {
        return false;
      }
      if (may_fit(with_fewer(more)) && consider(more)) {
        return true;
      }
    }
    return false;
  }
  /// Keeps only as many micro-batches as are alive at the same time. They need the memory of all, and a step with
  /// hundreds takes minutes to compile.
  static TrainerOptions with_fewer(TrainerOptions options) {
    const int alive = 2 * options.plan.mesh.size("pipe") * options.plan.chunks;
    if (options.plan.microbatches > alive) {
      options.batch.sequences = options.batch.sequences / options.plan.microbatches * alive;
      options.plan.microbatches = alive;
    }
    return options;
  }

  // Recomputation.

  void try_recomputation() {
    if (!consider(with_mode(options_, RecomputeMode::Full))) {
      return;
    }
    if (!consider(with_mode(options_, RecomputeMode::Selective))) {
      try_budget();
    }
  }

  /// Bisects by prediction between the activations of full recomputation and the current ones; compiles the result, and
  /// again with a smaller one if that does not fit.
  void try_budget() {
    const Model model = make_model(options_.model, options_.batch);
    const Graph graph = make_training_graph(model.graph, training_of(options_, model.graph));
    const Bytes least = kept_bytes(recompute(graph, {.mode = RecomputeMode::Full, .blocks = {}}));
    Bytes most = kept_bytes(graph);
    const auto near_enough =
        static_cast<std::int64_t>(kNearEnough * static_cast<double>(most.count));
    while (const std::optional<Bytes> budget = predicted_budget(least, most, near_enough)) {
      const MemoryFix fix = compiled(with_budget(options_, *budget));
      if (fix.need <= limit_) {
        if (fix.extra_flops < fixes_.back().extra_flops) {  // cheaper than full recomputation
          fixes_.push_back(fix);
        }
        return;
      }
      most = {budget->count - near_enough};
    }
  }
  /// The largest budget from `low` to `high`, both excluded, that is predicted to fit.
  [[nodiscard]] std::optional<Bytes> predicted_budget(Bytes low, Bytes high,
                                                      std::int64_t near_enough) const {
    std::optional<Bytes> best;
    while (high.count - low.count > near_enough) {
      const Bytes middle = in_mebibytes({low.count + (high.count - low.count) / 2});
      if (middle <= low) {
        break;
      }
      const bool fits = predicted(with_budget(options_, middle)) <= limit_;
      (fits ? low : high) = middle;
      best = fits ? middle : best;
    }
    return best;
  }

  /// Rounds down to MiB, which is easier to type.
  static Bytes in_mebibytes(Bytes bytes) {
    constexpr std::int64_t kMebi = std::int64_t{1} << 20U;
    return bytes.count >= kMebi ? Bytes{bytes.count / kMebi * kMebi} : bytes;
  }

  // The batch.

  /// Finds the largest batch that fits; the options' own does not. The first guess is the largest that is predicted to fit; each compiled one
  /// corrects the next guess.
  void try_batch(const TrainerOptions& options) {
    const std::int64_t least = least_batch(options);
    if (options.batch.sequences <= least || !may_fit(with_batch(options, least))) {
      return;
    }
    MemoryFix best = compiled(with_batch(options, least));
    if (best.need > limit_) {
      return;
    }
    std::int64_t too_many = options.batch.sequences;
    double limit = static_cast<double>(limit_.count);  // of the predicted memory
    while (too_many - best.options.batch.sequences > 1) {
      const std::int64_t guess =
          predicted_batch(options, limit, best.options.batch.sequences, too_many);
      const MemoryFix tried = compiled(with_batch(options, guess));
      limit = static_cast<double>(limit_.count) / ratio(tried.need, predicted(tried.options));
      if (tried.need <= limit_) {
        best = tried;
      } else {
        too_many = guess;
      }
    }
    fixes_.push_back(std::move(best));
  }
  /// A batch between `fits` and `too_many`, both excluded: the largest that is predicted to need at most `limit`. Memory
  /// grows almost linearly with the batch, so the search alternates between linear interpolation and bisection.
  [[nodiscard]] std::int64_t predicted_batch(const TrainerOptions& options, double limit,
                                             std::int64_t fits, std::int64_t too_many) const {
    const auto need = [&](std::int64_t sequences) {
      return static_cast<double>(predicted(with_batch(options, sequences)).count);
    };
    const std::int64_t first = fits + 1;
    double low = need(fits);
    double high = need(too_many);
    for (bool along_line = true; too_many - fits > 1; along_line = !along_line) {
      const double share =
          along_line && high > low ? std::clamp((limit - low) / (high - low), 0.0, 1.0) : 0.5;
      const auto more = static_cast<std::int64_t>(share * static_cast<double>(too_many - fits));
      const std::int64_t middle = std::clamp(fits + more, fits + 1, too_many - 1);
      const double of_middle = need(middle);
      (of_middle <= limit ? fits : too_many) = middle;
      (of_middle <= limit ? low : high) = of_middle;
    }
    return std::max(fits, first);
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

  void try_together() {
    const TrainerOptions full = smallest();
    if ((may_shard_ && consider(full)) || try_microbatches(full)) {
      return;
    }
    try_batch(full);
    if (!consider(with_bf16(full)) && !consider(without_master(with_bf16(full)))) {
      try_batch(without_master(with_bf16(full)));
    }
  }

  const TrainerOptions& options_;  // owned by the caller; outlives the search
  Bytes limit_;
  Device& device_;
  int rank_;
  double flops_ = 0;        ///< per token, with the options unchanged
  double unpredicted_ = 1;  ///< a run's memory relative to the predicted peaks
  bool may_shard_ = false;
  std::vector<MemoryFix> fixes_;
};

}  // namespace

std::vector<MemoryFix> find_memory_fixes(const TrainerOptions& options, Bytes limit, Device& device,
                                         int rank) {
  return Search(options, limit, device, rank).run();
}

MemoryFix least_memory(const TrainerOptions& options, Device& device, int rank) {
  return Search(options, {}, device, rank).least();
}

}  // namespace trireme::train
