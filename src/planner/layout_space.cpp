#include "planner/layout_space.h"

#include <algorithm>
#include <numeric>

namespace trireme::planner {
namespace {

constexpr int kLargestMicrobatch = 64;
constexpr std::int64_t kKiB = 1 << 10;
constexpr int kSmallestBucket = 2 << 10;  // KiB
constexpr int kLargestBucket = 512 << 10;
/// Tokens; below it, context parallelism must be requested.
constexpr std::int64_t kLongSequence = 8192;
constexpr int kMostChunks = 64;  // of a pipeline table

bool allows(const std::vector<int>& wanted, int value) {
  return wanted.empty() || std::ranges::find(wanted, value) != wanted.end();
}

bool is_power_of_two(std::int64_t value) {
  return (value & (value - 1)) == 0;
}

template <class Enum>
void add_all(const std::vector<Enum>& values, std::vector<int>& out) {
  for (const Enum value : values) {
    out.push_back(static_cast<int>(value));
  }
}

}  // namespace

LayoutSpace::LayoutSpace(const TransformerCost& cost, const SearchSpace& space)
    : cost_(cost), space_(space) {}

void LayoutSpace::choices(Decision decision, const ParallelLayout& layout,
                          std::vector<int>& out) const {
  out.clear();
  const std::int64_t experts = cost_.model().is_mixture() ? cost_.model().model.experts : 1;
  switch (decision) {
    case Decision::Tensor:
      return add_tensor(out);
    case Decision::Context:
      return add_context(layout, out);
    case Decision::ContextMode:
      return add_context_modes(layout, out);
    case Decision::Expert:
      return add_divisors(
          std::gcd<std::int64_t>(devices() / layout.tensor / layout.context, experts), experts,
          space_.expert, out);
    case Decision::Microbatch:
      return add_divisors(cost_.workload().batch, kLargestMicrobatch, space_.microbatch, out);
    case Decision::Recompute:
      return space_.recompute.empty()
                 ? add_all(std::vector{RecomputeMode::None, RecomputeMode::Selective,
                                       RecomputeMode::Full},
                           out)
                 : add_all(space_.recompute, out);
    case Decision::Pipe:
      return add_pipe(layout, out);
    case Decision::Order:
      out.push_back(0);
      if (wide() && layout.pipe > 1 && layout.data > 1 && layout.expert == 1) {
        out.push_back(1);
      }
      return;
    case Decision::Schedule:
      return add_schedules(layout, out);
    case Decision::Chunks:
      return add_chunks(layout, out);
    case Decision::Zero:
      return add_zero(layout, out);
    case Decision::Bucket:
      return add_buckets(layout, out);
  }
}

void LayoutSpace::set(Decision decision, int value, ParallelLayout& layout) const {
  switch (decision) {
    case Decision::Tensor:
      layout.tensor = value;
      layout.sequence = value > 1;
      return;
    case Decision::Context:
      layout.context = value;
      return;
    case Decision::ContextMode:
      layout.context_mode = static_cast<Plan::Context>(value);
      return;
    case Decision::Expert:
      layout.expert = value;
      return;
    case Decision::Microbatch:
      layout.microbatch = value;
      return;
    case Decision::Recompute:
      layout.recompute = static_cast<RecomputeMode>(value);
      return;
    case Decision::Pipe:
      layout.pipe = value;
      layout.data = devices() / layout.tensor / layout.context / value;
      return;
    case Decision::Order:
      layout.order = static_cast<ParallelLayout::Order>(value);
      return;
    case Decision::Schedule:
      layout.schedule = static_cast<PipelineForm>(value);
      return;
    case Decision::Chunks:
      layout.chunks = value;
      return;
    case Decision::Zero:
      layout.zero = value;
      return;
    case Decision::Bucket:
      layout.bucket = {value * kKiB};
      return;
  }
}

int LayoutSpace::get(Decision decision, const ParallelLayout& layout) {
  switch (decision) {
    case Decision::Tensor:
      return layout.tensor;
    case Decision::Context:
      return layout.context;
    case Decision::ContextMode:
      return static_cast<int>(layout.context_mode);
    case Decision::Expert:
      return layout.expert;
    case Decision::Microbatch:
      return layout.microbatch;
    case Decision::Recompute:
      return static_cast<int>(layout.recompute);
    case Decision::Pipe:
      return layout.pipe;
    case Decision::Order:
      return static_cast<int>(layout.order);
    case Decision::Schedule:
      return static_cast<int>(layout.schedule);
    case Decision::Chunks:
      return layout.chunks;
    case Decision::Zero:
      return layout.zero;
    case Decision::Bucket:
      return static_cast<int>(layout.bucket.count / kKiB);
  }
  return 0;
}

void LayoutSpace::add_divisors(std::int64_t n, std::int64_t most, const std::vector<int>& wanted,
                               std::vector<int>& out) const {
  const auto add = [&](std::int64_t d) {
    const bool usual = wide() || is_power_of_two(d);
    if (d <= most && (wanted.empty() ? usual : allows(wanted, static_cast<int>(d)))) {
      out.push_back(static_cast<int>(d));
    }
  };
  std::int64_t d = 1;
  for (; d * d <= n; ++d) {
    if (n % d == 0) {
      add(d);
    }
  }
  for (--d; d > 0; --d) {
    if (n % d == 0 && d * d != n) {
      add(n / d);
    }
  }
}

void LayoutSpace::add_tensor(std::vector<int>& out) const {
  const ModelConfig& m = cost_.model().model;
  const int most = wide() || !space_.tensor.empty() ? static_cast<int>(m.width)
                                                    : cost_.cluster().devices_per_node;
  add_divisors(devices(), most, space_.tensor, out);
  std::erase_if(out, [&](int t) { return m.heads % t != 0 || m.hidden % t != 0; });
}

void LayoutSpace::add_context(const ParallelLayout& layout, std::vector<int>& out) const {
  const std::int64_t length = cost_.workload().length;
  const bool may = wide() || length >= kLongSequence || !space_.context.empty();
  add_divisors(devices() / layout.tensor, may ? length : 1, space_.context, out);
  std::erase_if(out, [&](int context) { return length % context != 0; });
}

/// All-to-all needs heads, and key heads, for each rank.
void LayoutSpace::add_context_modes(const ParallelLayout& layout, std::vector<int>& out) const {
  if (layout.context == 1) {
    out.push_back(static_cast<int>(Plan::Context::Gather));
    return;
  }
  const ModelConfig& m = cost_.model().model;
  const int ranks = layout.tensor * layout.context;
  std::vector<Plan::Context> modes = space_.context_modes;
  if (modes.empty()) {
    modes = wide()
                ? std::vector{Plan::Context::Gather, Plan::Context::AllToAll, Plan::Context::Ring}
                : std::vector{Plan::Context::Gather};
  }
  if (m.heads % ranks != 0 || m.key_heads % ranks != 0) {
    std::erase(modes, Plan::Context::AllToAll);
  }
  add_all(modes, out);
}

/// Whether stages of this model can be that many.
bool LayoutSpace::may_deal(int pipe, int chunks) const {
  const auto layers = static_cast<int>(cost_.model().model.layers);
  const int stages = pipe * chunks;
  return layers % stages == 0 ||
         ((wide() || (layers + 2) % stages == 0) && (layers + 2) / stages >= 2);
}

/// Divisors of the ranks; by default those that divide the blocks too, with or without the two ends.
void LayoutSpace::add_pipe(const ParallelLayout& layout, std::vector<int>& out) const {
  const auto layers = static_cast<int>(cost_.model().model.layers);
  const std::int64_t batch = cost_.workload().batch;
  const int rest = devices() / layout.tensor / layout.context;
  for (int pipe = 1; pipe <= std::min(rest, layers); ++pipe) {
    const int data = rest / pipe;
    const bool even = layers % pipe == 0 || (layers + 2) % pipe == 0;
    const bool wanted = space_.pipe.empty() ? even || wide() : allows(space_.pipe, pipe);
    if (rest % pipe == 0 && wanted && data % layout.expert == 0 && allows(space_.data, data) &&
        batch % (static_cast<std::int64_t>(data) * layout.microbatch) == 0) {
      out.push_back(pipe);
    }
  }
}

void LayoutSpace::add_schedules(const ParallelLayout& layout, std::vector<int>& out) const {
  if (layout.pipe == 1) {
    add_all(std::vector{PipelineForm::OneFOneB}, out);
  } else if (!space_.schedules.empty()) {
    add_all(space_.schedules, out);
  } else if (wide()) {
    add_all(std::vector{PipelineForm::Gpipe, PipelineForm::OneFOneB, PipelineForm::Interleaved,
                        PipelineForm::ZbH1, PipelineForm::ZbV},
            out);
  } else {
    add_all(std::vector{PipelineForm::OneFOneB, PipelineForm::Interleaved, PipelineForm::ZbH1,
                        PipelineForm::ZbV},
            out);
  }
}

/// Interleaved stages need micro-batches in groups of the pipeline's size.
void LayoutSpace::add_chunks(const ParallelLayout& layout, std::vector<int>& out) const {
  if (layout.schedule != PipelineForm::Interleaved) {
    const int chunks = layout.schedule == PipelineForm::ZbV ? 2 : 1;
    if (chunks == 1 || may_deal(layout.pipe, chunks)) {
      out.push_back(chunks);
    }
    return;
  }
  const std::int64_t microbatches =
      cost_.workload().batch / (static_cast<std::int64_t>(layout.data) * layout.microbatch);
  const int most =
      std::min(kMostChunks, static_cast<int>(cost_.model().model.layers) / layout.pipe);
  for (int chunks = 2; chunks <= most && microbatches % layout.pipe == 0; ++chunks) {
    if (may_deal(layout.pipe, chunks) && allows(space_.chunks, chunks)) {
      out.push_back(chunks);
    }
  }
}

/// Sharded parameters are gathered for each micro-batch, which a pipeline cannot afford: by default, ZeRO 3 runs without
/// stages.
void LayoutSpace::add_zero(const ParallelLayout& layout, std::vector<int>& out) const {
  const bool alone = layout.data * layout.context == 1;
  for (int zero = 0; zero <= 3; ++zero) {
    const bool usual = !(alone && zero > 0) && (layout.pipe == 1 || zero < 3 || wide());
    if (space_.zero.empty() ? usual : allows(space_.zero, zero)) {
      out.push_back(zero);
    }
  }
}

/// ZeRO 3 gathers and reduces block by block.
void LayoutSpace::add_buckets(const ParallelLayout& layout, std::vector<int>& out) const {
  const bool reduces = layout.data * layout.context > 1 && layout.zero < 3;
  if (!reduces || (space_.buckets.empty() && !wide())) {
    out.push_back(0);
  } else if (!space_.buckets.empty()) {
    for (const Bytes bucket : space_.buckets) {
      out.push_back(static_cast<int>(bucket.count / kKiB));
    }
  } else {
    for (int bucket = kSmallestBucket; bucket <= kLargestBucket; bucket *= 4) {
      out.push_back(bucket);
    }
  }
}

}  // namespace trireme::planner
