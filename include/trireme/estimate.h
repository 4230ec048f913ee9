// Estimates: a transformer's parameters, the FLOPs and bytes of its training, the best time that a device could reach,
// and how a measured time compares. The usual closed formulas, next to counts on the real graph. All functions are pure
// and may be called from any thread.
//
// Three conventions for counting FLOPs, and a rule of thumb; every number says which it uses. Only multiply-adds of
// matrix products and of attention count, 2 FLOPs each; a backward pass is two forward passes.
//
//   model     3 forward passes: the mathematical minimum. MFU counts these
//   causal    the same with half of the attention, because of the causal mask
//   hardware  FLOPs executed: the model's plus recomputation. HFU counts these
//   6N        6 FLOPs per active parameter and token
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/cluster.h"
#include "trireme/flops.h"
#include "trireme/model.h"
#include "trireme/program.h"
#include "trireme/recompute.h"
#include "trireme/training.h"
#include "trireme/valid.h"

namespace trireme {

// The model.

/// The sizes of a transformer. Covers more than make_model can build; estimates need no graph.
struct Architecture {
  ModelConfig model{};
  std::int64_t expert_hidden = 0;  ///< of one expert; 0: same as `model.hidden`

  [[nodiscard]] bool is_mixture() const noexcept { return model.experts > 1; }
  /// Blocks with experts, and without.
  [[nodiscard]] std::int64_t mixture_blocks() const noexcept;
  [[nodiscard]] std::int64_t dense_blocks() const noexcept;
  [[nodiscard]] std::int64_t hidden_of_expert() const noexcept;
  /// Whether make_model(model) builds this architecture.
  [[nodiscard]] bool is_buildable() const noexcept;
};

/// What is wrong, in words that name the conflicting numbers; empty if nothing.
[[nodiscard]] std::vector<std::string> problems(const Architecture& architecture);

/// The presets of model.h and other published models: "gpt3-175b", "llama3-70b", "llama4-maverick", …
[[nodiscard]] std::vector<std::string> architecture_names();
/// Throws Error(Usage) naming the nearest match, or listing all.
[[nodiscard]] Architecture architecture(std::string_view name);

// Parameters.

struct ParameterCount {
  std::int64_t embedding = 0;     ///< token and, if learned, position embeddings
  std::int64_t attention = 0;     ///< projections, with their biases
  std::int64_t feed_forward = 0;  ///< of blocks without experts, and shared experts
  std::int64_t experts = 0;       ///< routed experts only
  std::int64_t routers = 0;
  std::int64_t norms = 0;
  std::int64_t head = 0;  ///< the output layer; 0 if tied to the embedding
  std::int64_t experts_for_a_token = 0;

  [[nodiscard]] std::int64_t total() const noexcept;
  /// The parameters that one token uses.
  [[nodiscard]] std::int64_t active() const noexcept;
};
[[nodiscard]] ParameterCount count_parameters(const Architecture& architecture);

// FLOPs in closed form.

/// Of one token, forward. For a GPT of width h, L layers, s tokens and V words:
/// projections 8h²L, attention 4shL, feed-forward 16h²L, logits 2hV.
struct TokenFlops {
  double projections = 0;   ///< queries, keys, values, output
  double attention = 0;     ///< scores, and the weighted sum of values; no mask
  double feed_forward = 0;  ///< for a mixture of experts: the chosen and the shared experts
  double routers = 0;
  double logits = 0;

  [[nodiscard]] double layers() const noexcept;
  [[nodiscard]] double total() const noexcept { return layers() + logits; }
};
[[nodiscard]] TokenFlops forward_flops(const Architecture& architecture, std::int64_t length);

/// Of one token, in training.
struct TrainingFlops {
  double model = 0;
  double causal = 0;
  /// By the usual formula: full recomputation adds a forward pass of the layers, but not of the logits; selective adds
  /// one of attention. GraphEstimate has the exact count of a graph.
  double hardware = 0;
  double six_n = 0;
};
[[nodiscard]] TrainingFlops training_flops(const Architecture& architecture, std::int64_t length,
                                           RecomputeMode recompute = RecomputeMode::None);

// Roofline.

/// FLOPs per byte moved between memory and device: 2MNK FLOPs over three matrices; n FLOPs over reading and writing n
/// elements.
[[nodiscard]] double matmul_intensity(double m, double n, double k, double element_bytes);
[[nodiscard]] double elementwise_intensity(double flops_per_element, double element_bytes);

enum class Bound : std::uint8_t { Compute, Memory };
[[nodiscard]] std::string_view to_text(Bound bound);

/// A device at its best: either compute-bound at `peak`, or memory-bound.
struct Roofline {
  FlopRate peak{};
  ByteRate bandwidth{};

  /// FLOPs per byte above which a kernel is compute-bound.
  [[nodiscard]] double ridge() const noexcept { return peak.count / bandwidth.count; }
  [[nodiscard]] FlopRate attainable(double intensity) const noexcept;
  [[nodiscard]] Seconds time(double flops, double bytes) const noexcept;
  [[nodiscard]] Bound bound(double flops, double bytes) const noexcept;
};
/// nullopt if the device's peak for this type, or its bandwidth, is unknown.
[[nodiscard]] std::optional<Roofline> roofline_of(const DeviceSpec& device, std::string_view dtype);

// Utilization.

/// The share of the devices' combined peak that these FLOPs in this time represent: MFU for model FLOPs, HFU for
/// hardware FLOPs. 1e12 FLOPs in 10 s at 1e13 FLOP/s are 0.01.
[[nodiscard]] double utilization(double flops, Seconds time, FlopRate peak, double devices = 1);

/// MFU / HFU where a share rho of the forward pass is recomputed: 3 / (3 + rho).
[[nodiscard]] double mfu_over_hfu(double rho);

/// The MFU usually reported for a kind of device.
struct TypicalMfu {
  double low = 0;
  double high = 0;
  std::string note{};
};
/// nullopt for devices without such figures.
[[nodiscard]] std::optional<TypicalMfu> typical_mfu(std::string_view device);

/// The time for this many FLOPs on devices that reach `mfu` of their peak; the number of devices needed to finish in
/// time.
[[nodiscard]] Seconds run_time(double flops, FlopRate peak, double mfu = 1, double devices = 1);
[[nodiscard]] double devices_needed(double flops, FlopRate peak, double mfu, Seconds time);

// Memory.

/// Bytes per parameter, regardless of the batch.
struct MemoryRecipe {
  std::string name{};
  double parameters = 0;
  double gradients = 0;
  double optimizer = 0;
  [[nodiscard]] double total() const noexcept { return parameters + gradients + optimizer; }
};
/// Mixed-precision Adam (16 bytes) first.
[[nodiscard]] const std::vector<MemoryRecipe>& memory_recipes();

// Counted on the graph.

/// Nodes of one kind, summed. Products of the same sizes are a kind: "matmul 8192x768x3072", rows x inner x columns.
struct OpKind {
  std::string name{};
  std::int64_t nodes = 0;
  double flops = 0;
  double bytes = 0;  ///< operands read once, results written once
  [[nodiscard]] double intensity() const noexcept { return bytes > 0 ? flops / bytes : 0; }
};

/// Sorted by bytes, descending. Excludes views, such as reshapes.
[[nodiscard]] std::vector<OpKind> op_kinds(const Graph& graph);
/// The roofline time of all kinds, run sequentially.
[[nodiscard]] Seconds least_time(const std::vector<OpKind>& kinds, const Roofline& roofline);

struct GraphEstimate {
  FlopCount flops{};
  std::vector<OpKind> kinds{};
  MemoryUse memory{};
  Bytes kept{};  ///< activations kept for the backward pass
};

/// Takes the graph of a training step. Plans its memory; runs and allocates nothing.
[[nodiscard]] GraphEstimate estimate_graph(const Graph& graph);

struct StepOptions {
  BatchShape batch{};
  DType dtype = DType::BF16;
  RecomputeMode recompute = RecomputeMode::None;
  Optimizer optimizer = AdamW{};
  bool fused = false;  ///< fuse adjacent element-wise nodes
};
/// The training step of a buildable architecture, as a graph.
[[nodiscard]] Graph training_step(const Architecture& architecture, const StepOptions& options);

/// The roofline time, with the resulting MFU and HFU. A causal mask saves no time here, and masked FLOPs count.
struct RooflineEstimate {
  Seconds time{};
  double mfu = 0;
  double hfu = 0;
};
[[nodiscard]] RooflineEstimate at_roofline(const GraphEstimate& graph, const Roofline& roofline);

// Gradient exchange between workers, by bandwidth alone: n bytes, B bytes per second.

[[nodiscard]] Seconds server_time(int workers, double bytes,
                                  ByteRate bandwidth);  ///< 2Kn/B, one port
[[nodiscard]] Seconds tree_server_time(int workers, double bytes,
                                       ByteRate bandwidth);  ///< 4n/B per level, ⌊log2 K⌋ levels
[[nodiscard]] Seconds ring_time(int workers, double bytes,
                                ByteRate bandwidth);  ///< 2(K-1)/K n/B; K shards on K servers too

}  // namespace trireme
