// Cost: time, bytes and memory of a transformer's training step under a layout on a cluster, in closed form. Nothing is
// built or run, so a search can try a million layouts a second.
//
// Pure; all functions may be called from any thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/cluster.h"
#include "trireme/efficiency.h"
#include "trireme/estimate.h"
#include "trireme/group_costs.h"
#include "trireme/kernel_rates.h"
#include "trireme/plan.h"
#include "trireme/recompute_choice.h"
#include "trireme/training_recipe.h"
#include "trireme/valid.h"

namespace trireme {

/// The pipeline schedules whose time has a closed form.
enum class PipelineForm : std::uint8_t { Naive, Gpipe, OneFOneB, Interleaved, ZbH1, ZbH2, ZbV };
/// "naive", "gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2", "zb-v": the names of pipeline_schedules().
[[nodiscard]] std::string_view to_text(PipelineForm form);
/// Throws Error(Usage) listing the names.
[[nodiscard]] PipelineForm parse_pipeline_form(std::string_view text);

/// One point of the search: the degrees of parallelism and the other usual choices for a transformer.
struct ParallelLayout {
  int data = 1;
  int tensor = 1;
  int pipe = 1;
  int context = 1;
  int expert =
      1;  ///< divides data: experts are sharded over ranks that otherwise work on different sequences
  int microbatch = 1;  ///< sequences that a data-parallel rank computes at once
  int chunks = 1;      ///< stages per pipeline rank; more than 1 for Interleaved, 2 for ZbV
  PipelineForm schedule = PipelineForm::OneFOneB;
  int zero = 0;  ///< as Plan::zero
  RecomputeMode recompute = RecomputeMode::None;
  bool sequence = false;  ///< as Plan::sequence
  Plan::Context context_mode = Plan::Context::Gather;
  /// Which axis has the most distant ranks. DataOutermost puts the stages of a pipeline next to each other.
  enum class Order : std::uint8_t { PipeOutermost, DataOutermost } order = Order::PipeOutermost;
  /// Gradients are reduced in buckets of this size: each costs a latency, and nothing overlaps with the last one. 0: the
  /// framework's own way, assumed to be free of either.
  Bytes bucket{};

  [[nodiscard]] int devices() const noexcept { return data * tensor * pipe * context; }
  friend bool operator==(const ParallelLayout&, const ParallelLayout&) = default;
};
[[nodiscard]] std::string_view to_text(ParallelLayout::Order order);
/// "pipe=4,data=8,tensor=8", the axes of size 1 left out; the order of Mesh: tensor groups are neighbors.
[[nodiscard]] std::string mesh_text(const ParallelLayout& layout);
/// How many of the blocks each stage has: equally many if that is possible. Otherwise embedding and head count as a
/// block each, and every pipeline rank has as many as another, or one more: 126 blocks on 16 ranks are 7, 8, …, 8, 7.
/// Empty if a stage would have none.
[[nodiscard]] std::vector<int> deal_blocks(int blocks, int pipe, int chunks);

/// What a step computes, and how its kernels work.
struct Workload {
  std::int64_t batch = 1;   ///< sequences of a step, over all ranks
  std::int64_t length = 0;  ///< tokens of a sequence; 0: the model's context
  std::string dtype =
      "bf16";  ///< of matrix products: bf16, f16, f8, f4, …; attention is 16 bits wide at least
  /// Fused attention never writes its scores to memory.
  enum class Attention : std::uint8_t { Fused, Unfused } attention = Attention::Fused;
  TrainingRecipe recipe{};
  /// Whether communication of each kind overlaps with computation; if not, computation waits for it.
  bool overlap_data = true;
  bool overlap_tensor = false;
  bool overlap_pipe = false;
  /// ZeRO 3 gathers through one ring over all ranks, which leaves each node by one port (DeepSpeed in 2021), instead of as
  /// many rings as a node has ports (NCCL's own).
  bool flat_gathers = false;
};
[[nodiscard]] std::string_view to_text(Workload::Attention attention);
/// "fused", "unfused". Throws Error(Usage) that lists them.
[[nodiscard]] Workload::Attention parse_attention(std::string_view text);

/// Where the time of an average rank goes, in seconds per step. The parts add up to the step time.
enum class TimePart : std::uint8_t {
  Useful,       ///< the model's FLOPs at the device's peak
  Shape,        ///< matrix products and attention below the peak
  MemoryBound,  ///< norms, activations, residuals, softmax, loss
  Launch,       ///< waiting for the host to launch kernels
  Recompute,    ///< activation recomputation
  Tensor,       ///< exposed communication of each kind
  Context,
  Expert,
  Pipe,
  Data,
  Bubble,  ///< waiting for other pipeline stages, and stages of unequal length
  Uneven,  ///< faster devices waiting for slower ones that do as much
  Update,  ///< the optimizer
  Other,   ///< per-step overhead
};
inline constexpr int kTimeParts = 14;
[[nodiscard]] std::string_view to_text(TimePart part);
[[nodiscard]] constexpr bool is_communication(TimePart part) {
  return part >= TimePart::Tensor && part <= TimePart::Data;
}

/// Bytes on the rank that needs the most.
enum class CostedMemory : std::uint8_t {
  Parameters,
  Gradients,
  OptimizerState,
  Activations,
  Communication
};
inline constexpr int kCostedMemory = 5;
[[nodiscard]] std::string_view to_text(CostedMemory part);

struct StepCost {
  double seconds = 0;
  std::array<double, kTimeParts> time{};
  std::array<double, kCostedMemory> memory{};
  double model_flops = 0;     ///< of the whole step, all ranks
  double hardware_flops = 0;  ///< with recomputation
  double peak = 0;            ///< FLOP/s of all devices together

  [[nodiscard]] double memory_bytes() const noexcept;
  [[nodiscard]] double mfu() const noexcept { return model_flops / (seconds * peak); }
  [[nodiscard]] double hfu() const noexcept { return hardware_flops / (seconds * peak); }
  [[nodiscard]] double bubble() const noexcept;
  [[nodiscard]] double exposed_communication() const noexcept;
  [[nodiscard]] double part(TimePart p) const noexcept { return time[static_cast<std::size_t>(p)]; }
};

/// Bytes that an average rank sends in a step, by the lower bounds of collectives.
struct StepTraffic {
  double gradient = 0;
  double parameter = 0;  ///< ZeRO: gathered after the update, or before each use
  double activation =
      0;  ///< between tensor, context and expert groups and stages, their gradients included
};

/// Why the layout cannot run: sizes that do not divide, or too many or too few devices. Empty if it can. Memory is not
/// considered.
[[nodiscard]] std::string misfit(const ParallelLayout& layout, const Architecture& model,
                                 const Workload& work, const Cluster& cluster);

/// The costs of one pass of one micro-batch through one block on one rank. Independent of how many stages, replicas and
/// micro-batches there are, so a search computes it once for many layouts.
struct BlockCost {
  double useful = 0;   ///< forward and backward FLOPs at peak, without recomputation
  double forward = 0;  ///< compute seconds; communication excluded
  double backward_input = 0;
  double backward_weight = 0;
  double recompute = 0;
  double launch = 0;        ///< the part of these four that waits for the host
  double memory_bound = 0;  ///< the part of forward and backward in memory-bound kernels
  double attention = 0;     ///< the part of forward and backward in attention
  double tensor = 0;        ///< exposed communication of a micro-batch, forward and backward
  double context = 0;
  double expert = 0;
  double activation_bytes = 0;  ///< kept from forward to backward
  double working_bytes = 0;     ///< needed beyond that while the block runs
  // Of Trireme's own programs only.
  double whole_bytes = 0;        ///< all that the backward pass reads, recomputed or not
  double received_bytes = 0;     ///< the part of activation_bytes that other ranks sent
  double working_received = 0;   ///< needed while the block runs, gathered from other ranks
  double working_gradients = 0;  ///< bytes of gradients that exist when working_bytes do
  double delayed_bytes = 0;  ///< kept instead of activation_bytes for a delayed gradient of weights
  double delayed_received = 0;  ///< the same, gathered from other ranks

  [[nodiscard]] double compute() const noexcept {
    return forward + backward_input + backward_weight + recompute;
  }
};

/// A stage of a pipeline whose stages differ.
struct StageShape {
  int blocks = 1;
  bool first = false;  ///< has the embedding
  bool last = false;   ///< has the head
  int in_flight = 1;   ///< micro-batches whose activations it keeps
};

struct StageCost {
  double seconds = 0;  ///< of one micro-batch, forward and backward
  double once = 0;     ///< per step: exposed communication of gradients, and the optimizer
  std::array<double, kTimeParts> time{};       ///< parts of `seconds` and `once`
  std::array<double, kCostedMemory> memory{};  ///< bytes of a rank
};

/// Costs layouts of one model on one cluster.
class TransformerCost {
 public:
  /// Throws Error(Usage) if the device has no peak for the type or no memory bandwidth.
  TransformerCost(Architecture model, Workload work, Cluster cluster, Efficiency efficiency);

  [[nodiscard]] const Architecture& model() const noexcept { return model_; }
  [[nodiscard]] const Workload& workload() const noexcept { return work_; }
  [[nodiscard]] const Cluster& cluster() const noexcept { return cluster_; }
  [[nodiscard]] const Efficiency& efficiency() const noexcept { return eff_; }
  /// Of the optimizer, per parameter.
  [[nodiscard]] double state_bytes() const noexcept { return state_bytes_; }

  /// Requires that misfit() finds nothing.
  [[nodiscard]] StepCost step(const ParallelLayout& layout) const;

  /// Requires the same.
  [[nodiscard]] StepTraffic sent(const ParallelLayout& layout) const;

  // The two halves of step(), for searches.

  struct Blocks {
    BlockCost dense{};
    BlockCost mixture{};      ///< of blocks with experts
    double head_forward = 0;  ///< final norm, logits and loss of a micro-batch
    double head_backward = 0;
    double head_launch = 0;  ///< of the host: launching embedding, head and loss
    double head_useful = 0;
    double head_memory_bound = 0;
    double head_bytes = 0;  ///< activations
  };
  /// Depends on tensor, context, expert, microbatch, recompute, sequence, and where the groups' ranks are.
  [[nodiscard]] Blocks blocks(const ParallelLayout& layout) const;
  [[nodiscard]] StepCost step(const ParallelLayout& layout, const Blocks& blocks) const;
  /// One stage, if the others are on other devices. For 1F1B and ZeRO 0 to 2.
  [[nodiscard]] StageCost stage(const ParallelLayout& layout, const Blocks& blocks,
                                const StageShape& shape) const;
  /// The messages between stages in a step.
  [[nodiscard]] double message_seconds(const ParallelLayout& layout, double microbatches) const;

 private:
  struct Pass;  ///< what a micro-batch costs on all ranks of a pipeline together
  void add_products(const ParallelLayout& layout, double hidden, double used,
                    BlockCost& cost) const;
  void add_attention(const ParallelLayout& layout, BlockCost& cost) const;
  void add_element_wise(const ParallelLayout& layout, double hidden, double used,
                        BlockCost& cost) const;
  void add_block_communication(const ParallelLayout& layout, BlockCost& cost) const;
  [[nodiscard]] BlockCost block(const ParallelLayout& layout, double hidden, double used) const;
  [[nodiscard]] double kept_bytes(const ParallelLayout& layout, double hidden, double used) const;
  struct FeedForward;
  void hold_as_programs(const ParallelLayout& layout, const FeedForward& part,
                        BlockCost& cost) const;
  void hold_as_programs(const ParallelLayout& layout, Blocks& blocks) const;
  [[nodiscard]] Pass pass(const ParallelLayout& layout, const Blocks& blocks) const;
  [[nodiscard]] double context_seconds(const ParallelLayout& layout, double passes,
                                       const BlockCost& cost) const;
  [[nodiscard]] double sent_by_block(const ParallelLayout& layout) const;
  [[nodiscard]] GroupShape data_group(const ParallelLayout& layout) const;
  [[nodiscard]] double tensors_per_rank(const ParallelLayout& layout) const;
  [[nodiscard]] double starts(const ParallelLayout& layout, const GroupShape& group) const;
  [[nodiscard]] double reduce_seconds(const ParallelLayout& layout, double parameters,
                                      double backward) const;
  [[nodiscard]] double data_seconds(const ParallelLayout& layout, double parameters,
                                    const Pass& pass, double pipeline) const;
  [[nodiscard]] double parameters_per_rank(const ParallelLayout& layout) const;
  void add_memory(const ParallelLayout& layout, const Blocks& blocks, double parameters,
                  StepCost& cost) const;
  [[nodiscard]] double strided_parameters(const ParallelLayout& layout) const;
  [[nodiscard]] static bool gathers_keys(const ParallelLayout& layout);
  [[nodiscard]] double attention_working(const ParallelLayout& layout) const;
  [[nodiscard]] double attention_received(const ParallelLayout& layout) const;
  struct HeldStage;
  using Memory = std::array<double, kCostedMemory>;
  [[nodiscard]] Memory program_memory(const ParallelLayout& layout, const Blocks& blocks,
                                      const HeldStage& stage) const;
  [[nodiscard]] Memory program_memory(const ParallelLayout& layout, const Blocks& blocks) const;
  [[nodiscard]] Memory program_memory(const ParallelLayout& layout, const Blocks& blocks,
                                      const StageShape& shape) const;
  [[nodiscard]] bool runs_own_programs() const {
    return work_.recipe.software == TrainingRecipe::Software::Trireme;
  }
  [[nodiscard]] double tokens(const ParallelLayout& layout) const {
    return layout.microbatch * length_ / layout.context;
  }

  Architecture model_;
  Workload work_;
  Cluster cluster_;
  Efficiency eff_;
  GroupCosts links_;
  KernelRates rates_;
  double word_ = 2;         ///< bytes of an activation, and of a parameter as computed with
  double state_bytes_ = 0;  ///< of the optimizer, per parameter
  double length_ = 0;
  double dense_blocks_ = 0;
  double mixture_blocks_ = 0;
  double block_parameters_ = 0;       ///< of a dense block, on all ranks
  double mixture_parameters_ = 0;     ///< of a mixture block without its routed experts
  double expert_parameters_ = 0;      ///< of the routed experts of a mixture block
  double edge_parameters_ = 0;        ///< embedding, or head
  std::array<double, 3> hardware_{};  ///< hardware FLOPs over model FLOPs, by recomputation mode
  double h_ = 0;                      ///< width
  double q_ = 0;                      ///< width of all queries
  double kv_ = 0;                     ///< width of all keys
  double up_ = 1;                     ///< matrices that widen to the hidden width: two if gated
};

}  // namespace trireme
