// Estimates: how many parameters a transformer has, how many FLOPs and bytes its training takes, what a device
// could reach at best, and how a measured time compares. Closed formulas where people use them, and counts of the
// real graph beside them. All functions are pure and may be called from any thread.
//
// Three conventions of FLOPs, and a thumb rule; every number says which it is. Only multiply-adds of matrix
// products and of attention count, 2 FLOPs each; a backward is two forwards.
//
//   model     3 forwards: what the mathematics needs. MFU counts these
//   causal    the same, with half of the attention: what a causal mask leaves
//   hardware  what is executed: the model's, and what is computed again. HFU counts these
//   6N        6 FLOPs for each active parameter and token
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

// What is estimated.

/// The sizes of a transformer. Says more than make_model can build; estimates need no graph.
struct Architecture {
  ModelConfig model{};
  std::int64_t expert_hidden = 0;  ///< of one expert; 0: as `model.hidden`

  [[nodiscard]] bool is_mixture() const noexcept { return model.experts > 1; }
  /// Blocks with experts, and without.
  [[nodiscard]] std::int64_t mixture_blocks() const noexcept;
  [[nodiscard]] std::int64_t dense_blocks() const noexcept;
  [[nodiscard]] std::int64_t hidden_of_expert() const noexcept;
  /// Whether make_model(model) is this architecture.
  [[nodiscard]] bool is_buildable() const noexcept;
};

/// What is wrong, in words that name the numbers that do not go together; empty if nothing.
[[nodiscard]] std::vector<std::string> problems(const Architecture& architecture);

/// The presets of model.h and published models beyond: "gpt3-175b", "llama3-70b", "llama4-maverick", …
[[nodiscard]] std::vector<std::string> architecture_names();
/// Throws Error(Usage) that names the nearest, or lists them.
[[nodiscard]] Architecture architecture(std::string_view name);

// Parameters.

struct ParameterCount {
  std::int64_t embedding = 0;     ///< of tokens and, where they are learned, of positions
  std::int64_t attention = 0;     ///< projections, with their biases
  std::int64_t feed_forward = 0;  ///< of blocks without experts, and shared experts
  std::int64_t experts = 0;       ///< the routed ones
  std::int64_t routers = 0;
  std::int64_t norms = 0;
  std::int64_t head = 0;  ///< the output layer; 0 if it is the embedding
  std::int64_t experts_for_a_token = 0;

  [[nodiscard]] std::int64_t total() const noexcept;
  /// What one token passes.
  [[nodiscard]] std::int64_t active() const noexcept;
};
[[nodiscard]] ParameterCount count_parameters(const Architecture& architecture);

// FLOPs in closed form.

/// Of one token, forward. For a GPT of width h, L layers, s tokens and V words:
/// projections 8h²L, attention 4shL, feed-forward 16h²L, logits 2hV.
struct TokenFlops {
  double projections = 0;   ///< queries, keys, values, output
  double attention = 0;     ///< scores, and the sum of values that they weigh; no mask
  double feed_forward = 0;  ///< of a mixture: of the chosen and the shared experts
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
  /// By the usual formula: full recomputation is a fourth forward of the layers, but not of the logits;
  /// selective one of the attention. A graph's own count is in GraphEstimate.
  double hardware = 0;
  double six_n = 0;
};
[[nodiscard]] TrainingFlops training_flops(const Architecture& architecture, std::int64_t length,
                                           RecomputeMode recompute = RecomputeMode::None);

// Roofline.

/// FLOPs for each byte that moves between memory and the device: 2MNK FLOPs over three matrices; n FLOPs over
/// reading and writing n elements.
[[nodiscard]] double matmul_intensity(double m, double n, double k, double element_bytes);
[[nodiscard]] double elementwise_intensity(double flops_per_element, double element_bytes);

enum class Bound : std::uint8_t { Compute, Memory };
[[nodiscard]] std::string_view to_text(Bound bound);

/// A device at its best: it computes at `peak`, or waits for its memory.
struct Roofline {
  FlopRate peak{};
  ByteRate bandwidth{};

  /// FLOPs per byte from which on computing takes longer than moving.
  [[nodiscard]] double ridge() const noexcept { return peak.count / bandwidth.count; }
  [[nodiscard]] FlopRate attainable(double intensity) const noexcept;
  [[nodiscard]] Seconds time(double flops, double bytes) const noexcept;
  [[nodiscard]] Bound bound(double flops, double bytes) const noexcept;
};
/// Nothing if the device's peak for this type, or its bandwidth, is unknown.
[[nodiscard]] std::optional<Roofline> roofline_of(const DeviceSpec& device, std::string_view dtype);

// Utilization.

/// The share of the peak of all devices that so many FLOPs in this time are: MFU of the model's FLOPs, HFU of the
/// hardware's. 1e12 FLOPs in 10 s at 1e13 FLOP/s are 0.01.
[[nodiscard]] double utilization(double flops, Seconds time, FlopRate peak, double devices = 1);

/// MFU / HFU where a share rho of the forward is computed again: 3 / (3 + rho).
[[nodiscard]] double mfu_over_hfu(double rho);

/// What is usually reported for a kind of device.
struct TypicalMfu {
  double low = 0;
  double high = 0;
  std::string note{};
};
/// Nothing for devices without such figures.
[[nodiscard]] std::optional<TypicalMfu> typical_mfu(std::string_view device);

/// How long so many FLOPs take on devices that reach `mfu` of their peak; how many it takes to be done in time.
[[nodiscard]] Seconds run_time(double flops, FlopRate peak, double mfu = 1, double devices = 1);
[[nodiscard]] double devices_needed(double flops, FlopRate peak, double mfu, Seconds time);

// Memory.

/// Bytes for each parameter, whatever the batch.
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

/// Nodes of one kind together. Products of the same sizes are a kind: "matmul 8192x768x3072", rows x inner x
/// columns.
struct OpKind {
  std::string name{};
  std::int64_t nodes = 0;
  double flops = 0;
  double bytes = 0;  ///< operands read once, results written once
  [[nodiscard]] double intensity() const noexcept { return bytes > 0 ? flops / bytes : 0; }
};

/// Those with the most bytes first. What is only seen differently (a reshape) is left out.
[[nodiscard]] std::vector<OpKind> op_kinds(const Graph& graph);
/// The least time of all of them, one after the other.
[[nodiscard]] Seconds least_time(const std::vector<OpKind>& kinds, const Roofline& roofline);

struct GraphEstimate {
  FlopCount flops{};
  std::vector<OpKind> kinds{};
  MemoryUse memory{};
  Bytes kept{};  ///< activations that wait for the backward
};

/// Of a training step's graph. Plans its memory; runs and allocates nothing.
[[nodiscard]] GraphEstimate estimate_graph(const Graph& graph);

struct StepOptions {
  BatchShape batch{};
  DType dtype = DType::BF16;
  RecomputeMode recompute = RecomputeMode::None;
  Optimizer optimizer = AdamW{};
  bool fused = false;  ///< element-wise nodes become one where they follow one another
};
/// The training step of a buildable architecture, as a graph.
[[nodiscard]] Graph training_step(const Architecture& architecture, const StepOptions& options);

/// The least time, and the MFU and HFU that follow from it. A causal mask saves no time here, and what it hides
/// counts.
struct RooflineEstimate {
  Seconds time{};
  double mfu = 0;
  double hfu = 0;
};
[[nodiscard]] RooflineEstimate at_roofline(const GraphEstimate& graph, const Roofline& roofline);

// Gradients between workers, by bandwidth alone: n bytes, B bytes per second.

[[nodiscard]] Seconds server_time(int workers, double bytes,
                                  ByteRate bandwidth);  ///< 2Kn/B, one port
[[nodiscard]] Seconds tree_server_time(int workers, double bytes,
                                       ByteRate bandwidth);  ///< 4n/B a level, ⌊log2 K⌋ levels
[[nodiscard]] Seconds ring_time(int workers, double bytes,
                                ByteRate bandwidth);  ///< 2(K-1)/K n/B; K shards on K servers too

}  // namespace trireme
