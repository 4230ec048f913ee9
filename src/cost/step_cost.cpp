// What a training step costs: the pipeline of all micro-batches, gradients, optimizer, memory.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/indexed_vector.h"
#include "cost/in_flight.h"
#include "cost/smooth_max.h"
#include "cost/step_counts.h"
#include "cost/word.h"
#include "trireme/cost.h"

namespace trireme {
namespace {

constexpr double kOptimizerBytes = 30;  // per parameter, read and written by Adam

double& part(StepCost& cost, TimePart p) {
  return cost.time[position_of(p)];
}

double& part(StepCost& cost, CostedMemory p) {
  return cost.memory[position_of(p)];
}

}  // namespace

/// Seconds of one micro-batch, of all blocks together.
struct TransformerCost::Pass {
  double forward = 0;
  double input = 0;
  double weight = 0;
  double recompute = 0;
  double launch = 0;
  double head_launch = 0;  ///< part of `head`
  double useful = 0;
  double memory_bound = 0;
  double tensor = 0;
  double context = 0;
  double expert = 0;
  double head = 0;

  [[nodiscard]] double compute() const { return forward + input + weight + recompute + launch; }
  [[nodiscard]] double blocks() const { return compute() + tensor + context + expert; }
  [[nodiscard]] double total() const { return blocks() + head; }
};

double StepCost::memory_bytes() const noexcept {
  return std::accumulate(memory.begin(), memory.end(), 0.0);
}

double StepCost::bubble() const noexcept {
  return part(TimePart::Bubble) / seconds;
}

double StepCost::exposed_communication() const noexcept {
  const auto* const first = time.begin() + static_cast<std::ptrdiff_t>(TimePart::Tensor);
  const auto* const last = time.begin() + static_cast<std::ptrdiff_t>(TimePart::Data);
  return std::accumulate(first, last + 1, 0.0) / seconds;
}

TransformerCost::Pass TransformerCost::pass(const ParallelLayout& /*layout*/,
                                            const Blocks& blocks) const {
  const auto sum = [&](double BlockCost::*member) {
    return dense_blocks_ * blocks.dense.*member + mixture_blocks_ * blocks.mixture.*member;
  };
  return {.forward = sum(&BlockCost::forward),
          .input = sum(&BlockCost::backward_input),
          .weight = sum(&BlockCost::backward_weight),
          .recompute = sum(&BlockCost::recompute),
          .launch = sum(&BlockCost::launch),
          .head_launch = blocks.head_launch,
          .useful = sum(&BlockCost::useful) + blocks.head_useful,
          .memory_bound = sum(&BlockCost::memory_bound) + blocks.head_memory_bound,
          .tensor = sum(&BlockCost::tensor),
          .context = sum(&BlockCost::context),
          .expert = sum(&BlockCost::expert),
          .head = blocks.head_forward + blocks.head_backward + blocks.head_launch};
}

namespace {

/// The time of a micro-batch on the rank that has most to do. Stages have whole blocks. If blocks divide evenly, the last
/// rank has the head as well; else blocks and the two ends together are dealt out, an end counting as a block; see
/// deal_blocks().
double slowest_rank(const ParallelLayout& layout, double layers, double block, double head) {
  const double per_stage = layers / (layout.pipe * layout.chunks);
  if (layout.pipe == 1 || per_stage == std::floor(per_stage)) {
    return layers / layout.pipe * block + head;
  }
  const double with_ends = std::ceil((layers + 2) / layout.pipe);
  return std::max(with_ends * block, (with_ends - 1) * block + head);
}

/// A micro-batch on the slowest rank and on all ranks together; and on an average rank, its passes.
struct StageTimes {
  double slowest = 0;
  double total = 0;
  double forward = 0;
  double input = 0;
  double weight = 0;
};

/// n micro-batches on p ranks, in the published closed forms. Those of zero-bubble schedules assume that n is not small;
/// even one micro-batch passes all ranks forward and backward, and then the first computes its gradients of weights.
double pipeline_seconds(const ParallelLayout& layout, double n, const StageTimes& t) {
  const double p = layout.pipe;
  const double both = t.forward + t.input;
  const double least = t.total - (p - 1) * t.weight;
  switch (layout.schedule) {
    case PipelineForm::Naive:
      return n * t.total;
    case PipelineForm::Gpipe:
    case PipelineForm::OneFOneB:
      return (n - 1) * t.slowest + t.total;
    case PipelineForm::Interleaved:
      return n * t.slowest + (p - 1) / p * t.total / layout.chunks;
    case PipelineForm::ZbH1:
      return std::max(least, n * t.slowest + (p - 1) * std::max(0.0, both - t.weight));
    case PipelineForm::ZbH2:
      return std::max(least, n * t.slowest + (p - 1) * std::max(0.0, both - 2 * t.weight));
    case PipelineForm::ZbV:
      return std::max(least, n * t.slowest + (p - 1) * std::max(0.0, both - 2 * t.weight) / 2);
  }
  return 0;
}

}  // namespace

double TransformerCost::parameters_per_rank(const ParallelLayout& layout) const {
  const double blocks = dense_blocks_ * block_parameters_ + mixture_blocks_ * mixture_parameters_ +
                        mixture_blocks_ * expert_parameters_ / layout.expert;
  const bool both_ends = layout.pipe == 1 && !model_.model.tied;
  return (blocks / layout.pipe + (both_ends ? 2 : 1) * edge_parameters_) / layout.tensor;
}

GroupShape TransformerCost::data_group(const ParallelLayout& layout) const {
  const int node = links_.devices_per_node();
  if (layout.order == ParallelLayout::Order::PipeOutermost) {
    return GroupShape::of(layout.data * layout.context, layout.tensor, node);
  }
  const int stride = layout.tensor * layout.context * layout.pipe;
  return GroupShape::product(GroupShape::of(layout.context, layout.tensor, node),
                             GroupShape::of(layout.data, stride, node));
}

/// Tensors of a rank's parameters, by each of which Trireme's programs reduce gradients and gather under ZeRO: weights and
/// biases of GPT-2, or without biases and with one more matrix.
double TransformerCost::tensors_per_rank(const ParallelLayout& layout) const {
  const bool is_gpt = model_.model.family == Family::Gpt2;
  const double of_dense = is_gpt ? 16 : 9;
  const double of_mixture = of_dense + 1 + (model_.model.shared_experts > 0 ? 3 : 0);  // a router
  const double of_ends = is_gpt ? 4 : 3;
  return (dense_blocks_ * of_dense + mixture_blocks_ * of_mixture + of_ends) / layout.pipe;
}

/// What starting each tensor's collective adds to one collective of them all.
double TransformerCost::starts(const ParallelLayout& layout, const GroupShape& group) const {
  return layout.zero > 0 && runs_own_programs()
             ? (tensors_per_rank(layout) - 1) * links_.small_collective(group)
             : 0;
}

/// Exposed communication of gradients and, with ZeRO, of parameters that are gathered once per step. ZeRO 2 reduces
/// gradients after each micro-batch, the others after the last one; as much overlaps as fits into `backward`, the
/// backward pass of a micro-batch. Trireme's programs gather updated parameters at the end of the step, when nothing is
/// left to overlap with.
double TransformerCost::reduce_seconds(const ParallelLayout& layout, double parameters,
                                       double backward) const {
  const GroupShape group = data_group(layout);
  const double rounds = layout.zero == 2 ? microbatches_of(layout, work_) : 1;
  const double overlapped = work_.overlap_data ? rounds * eff_.overlap * backward : 0;
  const double gradients = parameters * work_.recipe.gradient_bytes;
  const double buckets =
      layout.bucket.count > 0 ? std::ceil(gradients / static_cast<double>(layout.bucket.count)) : 1;
  const double reduce = layout.zero == 0 ? links_.allreduce(group, gradients / buckets)
                                         : links_.reduce_scatter(group, gradients / buckets);
  const double gather =
      layout.zero == 0 ? 0 : links_.allgather(group, parameters * word_ / buckets);
  if (layout.zero > 0 && runs_own_programs()) {
    const double each = starts(layout, group);
    return smooth_max(rounds * (buckets * reduce + each), overlapped) - overlapped +
           buckets * gather + each;
  }
  const double last = layout.bucket.count > 0 ? reduce + gather : 0;
  return smooth_max(buckets * (rounds * reduce + gather) - last, overlapped) - overlapped + last;
}

/// ZeRO 3 gathers the parameters of a block for each forward and backward pass and reduces its gradients after each
/// backward pass, overlapping with the computation of other blocks; the first and the last block have nothing to overlap with.
double TransformerCost::data_seconds(const ParallelLayout& layout, double parameters,
                                     const Pass& pass, double pipeline) const {
  const GroupShape group = data_group(layout);
  if (group.ranks <= 1) {
    return 0;
  }
  if (layout.zero < 3) {
    return reduce_seconds(layout, parameters, (pass.compute() - pass.forward) / layout.pipe);
  }
  const bool flat = work_.flat_gathers && group.per_node < group.ranks;
  const GroupShape rings = flat ? GroupShape{.ranks = group.ranks, .per_node = 1} : group;
  const double blocks = static_cast<double>(model_.model.layers) / layout.pipe;
  const double gather = links_.allgather(rings, parameters * word_ / blocks);
  const double scatter =
      links_.reduce_scatter(rings, parameters * work_.recipe.gradient_bytes / blocks);
  const double all = microbatches_of(layout, work_) *
                     (blocks * (2 * gather + scatter) + 3 * starts(layout, group));
  const double beside = work_.overlap_data ? eff_.overlap * pipeline : 0;
  return smooth_max(all, beside) - beside + gather + scatter;
}

/// A rank waits for its neighbor's message before each pass of each chunk.
double TransformerCost::message_seconds(const ParallelLayout& layout, double microbatches) const {
  if (layout.pipe == 1) {
    return 0;
  }
  const int inside = layout.tensor * layout.context;
  const int stride =
      layout.order == ParallelLayout::Order::PipeOutermost ? layout.data * inside : inside;
  const double one = links_.message(GroupShape::of(layout.pipe, stride, links_.devices_per_node()),
                                    word_ * tokens(layout) * h_ / layout.tensor);
  return (microbatches + layout.pipe - 1) * 2 * layout.chunks * one *
         (work_.overlap_pipe ? 1 - eff_.overlap : 1);
}

void TransformerCost::add_memory(const ParallelLayout& layout, const Blocks& blocks,
                                 double parameters, StepCost& cost) const {
  if (runs_own_programs()) {
    cost.memory = program_memory(layout, blocks);
    return;
  }
  const double n = microbatches_of(layout, work_);
  const double kept = (dense_blocks_ * blocks.dense.activation_bytes +
                       mixture_blocks_ * blocks.mixture.activation_bytes) /
                      layout.pipe;
  const double ranks = shards(layout);
  part(cost, CostedMemory::Parameters) = parameters * word_ / (layout.zero >= 3 ? ranks : 1);
  part(cost, CostedMemory::Gradients) =
      parameters * work_.recipe.gradient_bytes / (layout.zero >= 2 ? ranks : 1);
  part(cost, CostedMemory::OptimizerState) =
      parameters * state_bytes_ / (layout.zero >= 1 ? ranks : 1);
  const double first = in_flight(layout, n) * kept + (layout.pipe == 1 ? blocks.head_bytes : 0);
  const double last = in_flight_last(layout, n) * kept + blocks.head_bytes;
  part(cost, CostedMemory::Activations) =
      std::max(first, last) + std::max(blocks.dense.working_bytes, blocks.mixture.working_bytes);
  part(cost, CostedMemory::Communication) =
      layout.zero >= 3 ? 2 * word_ * block_parameters_ / layout.tensor : 0;
  // One bucket is filled while another is reduced.
  part(cost, CostedMemory::Communication) += std::min(2 * static_cast<double>(layout.bucket.count),
                                                      parameters * work_.recipe.gradient_bytes);
}

StepCost TransformerCost::step(const ParallelLayout& layout) const {
  return step(layout, blocks(layout));
}

StepCost TransformerCost::step(const ParallelLayout& layout, const Blocks& blocks) const {
  const Pass pass = this->pass(layout, blocks);
  const double n = microbatches_of(layout, work_);
  const double p = layout.pipe;
  const double layers = dense_blocks_ + mixture_blocks_;
  const double beside = 0.5 * (pass.tensor + pass.context + pass.expert);
  const double launched = pass.compute() / (pass.compute() - pass.launch);  // all passes wait alike
  const StageTimes times{.slowest = slowest_rank(layout, layers, pass.blocks() / layers, pass.head),
                         .total = pass.total(),
                         .forward = (pass.forward * launched + beside) / p,
                         .input = ((pass.input + pass.recompute) * launched + beside) / p,
                         .weight = pass.weight * launched / p};
  const double pipeline = pipeline_seconds(layout, n, times);
  const double parameters = parameters_per_rank(layout);
  const double share = n / p;  // of a micro-batch's work that an average rank does in a step

  StepCost cost;
  part(cost, TimePart::Useful) = share * pass.useful;
  part(cost, TimePart::MemoryBound) = share * pass.memory_bound;
  part(cost, TimePart::Shape) = share * (pass.forward + pass.input + pass.weight + pass.head -
                                         pass.head_launch - pass.useful - pass.memory_bound);
  part(cost, TimePart::Launch) = share * (pass.launch + pass.head_launch);
  part(cost, TimePart::Recompute) = share * pass.recompute;
  part(cost, TimePart::Tensor) = share * pass.tensor;
  part(cost, TimePart::Context) = share * pass.context;
  part(cost, TimePart::Expert) = share * pass.expert;
  part(cost, TimePart::Pipe) = message_seconds(layout, n);
  part(cost, TimePart::Data) = data_seconds(layout, parameters, pass, pipeline);
  part(cost, TimePart::Bubble) = pipeline - share * pass.total();
  part(cost, TimePart::Update) =
      rates_.moving(parameters * kOptimizerBytes / (layout.zero >= 1 ? shards(layout) : 1));
  part(cost, TimePart::Other) = eff_.step.count;
  cost.seconds = std::accumulate(cost.time.begin(), cost.time.end(), 0.0);
  cost.peak = rates_.peak() * layout.devices();
  cost.model_flops = part(cost, TimePart::Useful) * cost.peak;
  cost.hardware_flops = cost.model_flops * hardware_[position_of(layout.recompute)];
  add_memory(layout, blocks, parameters, cost);
  return cost;
}

StageCost TransformerCost::stage(const ParallelLayout& layout, const Blocks& blocks,
                                 const StageShape& shape) const {
  const Pass pass = this->pass(layout, blocks);
  const double share = shape.blocks / (dense_blocks_ + mixture_blocks_);  // of all blocks
  const double head = shape.last ? 1 : 0;
  const double useful = share * (pass.useful - blocks.head_useful) + head * blocks.head_useful;
  const double memory_bound =
      share * (pass.memory_bound - blocks.head_memory_bound) + head * blocks.head_memory_bound;
  StageCost cost;
  const auto set = [&](TimePart p, double seconds) {
    cost.time[position_of(p)] = seconds;
    return seconds;
  };
  cost.seconds =
      set(TimePart::Useful, useful) + set(TimePart::MemoryBound, memory_bound) +
      set(TimePart::Shape, share * (pass.forward + pass.input + pass.weight) +
                               head * (pass.head - pass.head_launch) - useful - memory_bound) +
      set(TimePart::Launch, share * pass.launch + head * pass.head_launch) +
      set(TimePart::Recompute, share * pass.recompute) +
      set(TimePart::Tensor, share * pass.tensor) + set(TimePart::Context, share * pass.context) +
      set(TimePart::Expert, share * pass.expert);

  const double all = dense_blocks_ * block_parameters_ + mixture_blocks_ * mixture_parameters_ +
                     mixture_blocks_ * expert_parameters_ / layout.expert;
  const double ends = (shape.first ? 1 : 0) + (shape.last && !model_.model.tied ? 1 : 0);
  const double parameters = (share * all + ends * edge_parameters_) / layout.tensor;
  const double ranks = shards(layout);
  const double backward = share * (pass.compute() - pass.forward);
  cost.once = set(TimePart::Data, ranks > 1 ? reduce_seconds(layout, parameters, backward) : 0) +
              set(TimePart::Update,
                  rates_.moving(parameters * kOptimizerBytes / (layout.zero >= 1 ? ranks : 1)));

  if (runs_own_programs()) {
    cost.memory = program_memory(layout, blocks, shape);
    return cost;
  }
  const double kept = share * (dense_blocks_ * blocks.dense.activation_bytes +
                               mixture_blocks_ * blocks.mixture.activation_bytes);
  cost.memory = {
      parameters * word_, parameters * work_.recipe.gradient_bytes / (layout.zero >= 2 ? ranks : 1),
      parameters * state_bytes_ / (layout.zero >= 1 ? ranks : 1),
      shape.in_flight * kept + std::max(blocks.dense.working_bytes, blocks.mixture.working_bytes) +
          head * blocks.head_bytes,
      std::min(2 * static_cast<double>(layout.bucket.count),
               parameters * work_.recipe.gradient_bytes)};
  return cost;
}

}  // namespace trireme
