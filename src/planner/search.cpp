// Exhaustive search. The loops are ordered so that what a block costs is computed once for all numbers of stages,
// schedules and ZeRO levels; the innermost step is a few dozen floating-point operations.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "trireme/error.h"
#include "trireme/planner.h"

namespace trireme {
namespace {

constexpr double kUsableMemory = 0.92;  // the rest: the driver, libraries, fragmentation

bool allows(const std::vector<int>& wanted, int value) {
  return wanted.empty() || std::ranges::find(wanted, value) != wanted.end();
}

bool is_power_of_two(int value) {
  return (value & (value - 1)) == 0;
}

/// Divisors of n in increasing order.
std::vector<int> divisors(std::int64_t n, std::int64_t most) {
  std::vector<int> small;
  std::vector<int> large;
  for (std::int64_t d = 1; d * d <= n; ++d) {
    if (n % d != 0) {
      continue;
    }
    if (d <= most) {
      small.push_back(static_cast<int>(d));
    }
    if (d * d != n && n / d <= most) {
      large.push_back(static_cast<int>(n / d));
    }
  }
  small.insert(small.end(), large.rbegin(), large.rend());
  return small;
}

class Search {
 public:
  Search(const TransformerCost& cost, const SearchOptions& options)
      : cost_(cost), options_(options), space_(options.space) {
    const std::optional<Bytes> memory = cost.cluster().device.memory;
    if (!options.memory_bytes && !memory) {
      throw Error(ErrorKind::Usage,
                  fmt::format("the memory of {} is not known; give --memory-limit",
                              cost.cluster().device.name));
    }
    result_.memory_limit = options.memory_bytes
                               ? *options.memory_bytes
                               : kUsableMemory * static_cast<double>(memory->count);
  }

  PlanSearch run() {
    const auto start = std::chrono::steady_clock::now();
    const int devices = cost_.cluster().devices();
    for (const int tensor : choices(divisors(devices, cost_.model().model.width), space_.tensor)) {
      if (tensor_fits(tensor)) {
        layout_.tensor = tensor;
        search_context(devices / tensor);
      }
    }
    finish();
    result_.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return std::move(result_);
  }

 private:
  [[nodiscard]] bool wide() const { return space_.extent == SearchSpace::Extent::Wide; }

  /// The candidates that the space allows; by default powers of two unless the search is wide.
  [[nodiscard]] std::vector<int> choices(const std::vector<int>& all,
                                         const std::vector<int>& wanted) const {
    std::vector<int> chosen;
    for (const int value : all) {
      if (wanted.empty() ? wide() || is_power_of_two(value) : allows(wanted, value)) {
        chosen.push_back(value);
      }
    }
    return chosen;
  }

  [[nodiscard]] bool tensor_fits(int tensor) const {
    const ModelConfig& m = cost_.model().model;
    return m.heads % tensor == 0 && m.hidden % tensor == 0 &&
           (tensor <= cost_.cluster().devices_per_node || wide() || !space_.tensor.empty());
  }

  void search_context(int rest) {
    constexpr std::int64_t kLongEnough =
        16384;  // tokens; below it, context parallelism must be requested
    const std::int64_t length = cost_.workload().length;
    const bool may = wide() || length >= kLongEnough || !space_.context.empty();
    for (const int context : choices(divisors(rest, may ? length : 1), space_.context)) {
      if (length % context == 0) {
        layout_.context = context;
        search_pass(rest / context);
      }
    }
  }

  /// Everything that changes what a block costs.
  void search_pass(int rest) {
    constexpr int kLargestMicrobatch = 64;
    const bool mixture = cost_.model().is_mixture();
    const auto experts = mixture ? cost_.model().model.experts : 1;
    for (const int expert :
         choices(divisors(std::gcd<std::int64_t>(rest, experts), experts), space_.expert)) {
      layout_.expert = expert;
      for (const int microbatch :
           choices(divisors(cost_.workload().batch, kLargestMicrobatch), space_.microbatch)) {
        layout_.microbatch = microbatch;
        for (const RecomputeMode mode : recompute_modes()) {
          layout_.recompute = mode;
          layout_.sequence = layout_.tensor > 1;
          blocks_ = cost_.blocks(layout_);
          search_pipe(rest);
        }
      }
    }
  }

  void search_pipe(int rest) {
    const auto layers = static_cast<int>(cost_.model().model.layers);
    const std::int64_t batch = cost_.workload().batch;
    for (const int pipe : pipes(rest, layers)) {
      layout_.pipe = pipe;
      layout_.data = rest / pipe;
      const std::int64_t per_pass = static_cast<std::int64_t>(layout_.data) * layout_.microbatch;
      if (layout_.data % layout_.expert != 0 || batch % per_pass != 0 ||
          !allows(space_.data, layout_.data)) {
        continue;
      }
      search_schedules(static_cast<int>(batch / per_pass), layers / pipe);
    }
  }

  /// Divisors of the ranks; by default those that divide the blocks too, with or without the two ends.
  [[nodiscard]] std::vector<int> pipes(int rest, int layers) const {
    std::vector<int> found;
    for (const int pipe : divisors(rest, layers)) {
      const bool even = layers % pipe == 0 || (layers + 2) % pipe == 0;
      if (space_.pipe.empty() ? even || wide() : allows(space_.pipe, pipe)) {
        found.push_back(pipe);
      }
    }
    return found;
  }

  [[nodiscard]] std::vector<RecomputeMode> recompute_modes() const {
    return !space_.recompute.empty()
               ? space_.recompute
               : std::vector{RecomputeMode::None, RecomputeMode::Selective, RecomputeMode::Full};
  }

  void search_schedules(int microbatches, int blocks) {
    for (const PipelineForm form : forms()) {
      layout_.schedule = form;
      layout_.chunks = form == PipelineForm::ZbV ? 2 : 1;
      if (form == PipelineForm::Interleaved) {
        search_chunks(microbatches, blocks);
      } else if (blocks % layout_.chunks == 0) {
        search_zero();
      }
    }
  }

  /// Interleaved stages need whole blocks, and micro-batches in groups of the pipeline's size.
  void search_chunks(int microbatches, int blocks) {
    for (const int chunks : divisors(blocks, blocks)) {
      if (chunks > 1 && microbatches % layout_.pipe == 0 && allows(space_.chunks, chunks)) {
        layout_.chunks = chunks;
        search_zero();
      }
    }
  }

  [[nodiscard]] std::vector<PipelineForm> forms() const {
    if (layout_.pipe == 1) {
      return {PipelineForm::OneFOneB};
    }
    if (!space_.schedules.empty()) {
      return space_.schedules;
    }
    if (wide()) {
      return {PipelineForm::Gpipe, PipelineForm::OneFOneB, PipelineForm::Interleaved,
              PipelineForm::ZbH1, PipelineForm::ZbV};
    }
    return {PipelineForm::OneFOneB, PipelineForm::Interleaved};
  }

  void search_zero() {
    const bool alone = layout_.data * layout_.context == 1;
    for (const int zero : {0, 1, 2, 3}) {
      // Gradients and parameters that are sharded are reduced and gathered for each micro-batch, which a pipeline cannot
      // afford: by default, ZeRO 2 and 3 run without stages.
      const bool usual = !(alone && zero > 0) && (layout_.pipe == 1 || zero < 2 || wide());
      if (space_.zero.empty() ? usual : allows(space_.zero, zero)) {
        layout_.zero = zero;
        consider();
      }
    }
  }

  void consider() {
    const StepCost cost = cost_.step(layout_, blocks_);
    ++result_.searched;
    const double memory = cost.memory_bytes();
    if (memory > result_.memory_limit) {
      ++result_.too_large;
      if (!result_.smallest || memory < result_.smallest->cost.memory_bytes()) {
        result_.smallest = RankedLayout{layout_, cost, {}};
      }
      return;
    }
    if (cost.seconds < worst_) {
      insert(cost);
    }
  }

  static bool same_mesh(const ParallelLayout& a, const ParallelLayout& b) {
    return a.data == b.data && a.tensor == b.tensor && a.pipe == b.pipe && a.context == b.context &&
           a.expert == b.expert;
  }

  /// Keeps the fastest layout of each mesh. Ties keep the first: the simpler one.
  void insert(const StepCost& cost) {
    auto& best = result_.best;
    const auto same = std::ranges::find_if(
        best, [&](const RankedLayout& r) { return same_mesh(r.layout, layout_); });
    if (same != best.end()) {
      if (same->cost.seconds <= cost.seconds) {
        return;
      }
      best.erase(same);
    }
    const auto place = std::ranges::upper_bound(
        best, cost.seconds, {}, [](const RankedLayout& r) { return r.cost.seconds; });
    best.insert(place, {layout_, cost, {}});
    if (best.size() > static_cast<std::size_t>(options_.keep)) {
      best.pop_back();
    }
    worst_ = best.size() == static_cast<std::size_t>(options_.keep)
                 ? best.back().cost.seconds
                 : std::numeric_limits<double>::infinity();
  }

  void finish();
  [[nodiscard]] std::string advise() const;

  const TransformerCost& cost_;
  const SearchOptions& options_;
  const SearchSpace& space_;
  ParallelLayout layout_{};
  TransformerCost::Blocks blocks_{};
  double worst_ = std::numeric_limits<double>::infinity();
  PlanSearch result_{};
};

/// The parts that grew most, in percent of the first one's step time.
std::string explain(const StepCost& cost, const StepCost& first) {
  std::vector<std::pair<double, TimePart>> growth;
  for (int i = 0; i < kTimeParts; ++i) {
    const auto part = static_cast<TimePart>(i);
    growth.emplace_back((cost.part(part) - first.part(part)) / first.seconds, part);
  }
  std::ranges::sort(growth, std::greater{}, [](const auto& g) { return g.first; });
  std::string text;
  for (std::size_t i = 0; i < 2 && growth[i].first > 0.001; ++i) {
    text += fmt::format("{}{} +{:.1f} %", text.empty() ? "" : ", ", to_text(growth[i].second),
                        100 * growth[i].first);
  }
  return text;
}

void Search::finish() {
  if (result_.searched == 0) {
    throw Error(ErrorKind::Usage,
                fmt::format("no layout of {} devices fits the model, the batch of {} sequences and "
                            "the given axes: sizes must divide",
                            cost_.cluster().devices(), cost_.workload().batch));
  }
  for (std::size_t i = 1; i < result_.best.size(); ++i) {
    result_.best[i].why = explain(result_.best[i].cost, result_.best.front().cost);
  }
  if (result_.best.empty()) {
    result_.advice = advise();
  } else {
    result_.smallest.reset();
  }
}

std::string Search::advise() const {
  const RankedLayout& least = *result_.smallest;
  const auto& memory = least.cost.memory;
  const auto largest = std::ranges::max_element(memory) - memory.begin();
  const auto part = static_cast<CostedMemory>(largest);
  const double need = least.cost.memory_bytes();
  std::string advice = fmt::format("{} take most", to_text(part));
  if (part == CostedMemory::Activations) {
    advice +=
        "; use shorter sequences (--length), context parallelism (--mesh context=N) or more "
        "devices";
  } else {
    const double factor = std::ceil(need / result_.memory_limit);
    advice += fmt::format("; use about {} devices, or devices with more memory",
                          static_cast<std::int64_t>(factor) * cost_.cluster().devices());
  }
  return advice;
}

}  // namespace

PlanSearch search_plans(const TransformerCost& cost, const SearchOptions& options) {
  return Search(cost, options).run();
}

Plan to_plan(const ParallelLayout& layout, const Workload& work) {
  std::vector<MeshAxis> axes;
  const auto add = [&](const char* name, int size) {
    if (size > 1) {
      axes.push_back({name, size});
    }
  };
  add("pipe", layout.pipe);
  add("data", layout.data / layout.expert);
  add("expert", layout.expert);
  add("context", layout.context);
  add("tensor", layout.tensor);
  Plan plan;
  plan.mesh = Mesh(axes);
  plan.microbatches =
      static_cast<int>(work.batch / (static_cast<std::int64_t>(layout.data) * layout.microbatch));
  plan.schedule = std::string(to_text(layout.schedule));
  plan.chunks = layout.chunks;
  plan.zero = layout.zero;
  plan.sequence = layout.sequence && layout.tensor > 1;
  plan.recompute.mode = layout.recompute;
  require_valid(plan, ErrorKind::Usage, "plan");
  return plan;
}

}  // namespace trireme
