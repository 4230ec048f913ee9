// Measured training runs, published or one's own, as data: what was trained, how, and how long a step took. The cost
// model is calibrated on them and validated against them.
//
// Plain values; all functions may be called from any thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/cluster.h"
#include "trireme/cost.h"

namespace trireme {

struct MeasuredRun {
  int line = 0;          ///< in the file
  std::string source{};  ///< a paper, a table, a repository
  std::string device{};  ///< as the file names it
  Architecture model{};
  Workload work{};
  Cluster cluster{};
  ParallelLayout layout{};
  double seconds = 0;                   ///< of a step
  double published_mfu = 0;             ///< percent; 0: none
  double published_hfu = 0;             ///< percent; 0: none
  double published_tflops = 0;          ///< TFLOP/s per device; 0: none
  double parameters = 0;                ///< as published; 0: not stated
  std::vector<std::string> features{};  ///< "tensor", "pipe", "recompute", …: for error statistics

  [[nodiscard]] std::string describe() const;
};

/// A row that was not used, and why.
struct SkippedRow {
  int line = 0;
  std::string source{};
  std::string reason{};
};

struct MeasuredRuns {
  std::vector<MeasuredRun> runs{};
  std::vector<SkippedRow> skipped{};
};

/// Reads a CSV file with a header row: either the columns source, model, layers, hidden, heads, kv_heads, ffn, vocab,
/// seq, gpu, gpus, tp, pp, cp, dp, ep, interleave, microbatch, global_batch, recompute, precision, seconds_per_step, …,
/// and optionally zero (0 to 3), schedule, attention (fused, unfused), sequence, overlap_data, overlap_tensor and
/// overlap_pipe (yes, no), which are otherwise inferred from the names of known sources; or those of vTrain's files ("# GPUs", "global batch", …), which `name` tells apart. Rows that lack a number that the
/// cost model needs are skipped with the reason. Throws Error(Input) if a column is missing or a number is invalid.
[[nodiscard]] MeasuredRuns parse_runs(std::string_view text, std::string_view name);

// Accounting: what the source's own formula makes of the measured time.

/// Formulas for FLOPs, as sources use them. B sequences, s tokens, L layers, h the width, V words, N parameters.
enum class FlopConvention : std::uint8_t {
  MegatronHardware,  ///< 96 B s L h² (1 + s/6h + V/16Lh): with full recomputation (Narayanan et al. 2021, eq. 3)
  MegatronModel,  ///< 72 B s L h² (1 + s/6h + V/12Lh): without (Korthikanti et al. 2022, eq. 7)
  SixNAttention,  ///< (6 N + 12 L h s) per token (MosaicML's llm-foundry)
  SixNCausal,     ///< (6 N + 6 L h s) per token (llm.c)
};
[[nodiscard]] std::string_view to_text(FlopConvention convention);

struct Accounting {
  FlopConvention convention = FlopConvention::MegatronModel;
  double tflops = 0;       ///< TFLOP/s per device
  double utilization = 0;  ///< percent of the dense peak: MFU, or HFU for MegatronHardware
  double published = 0;    ///< what the source prints, in the unit of `compared`
  enum class Compared : std::uint8_t { Utilization, Tflops } compared = Compared::Utilization;
  /// "utilization", "tflops".
  [[nodiscard]] friend std::string_view to_text(Compared what) {
    return what == Compared::Utilization ? "utilization" : "tflops";
  }

  /// In points of percent for a utilization, in percent for TFLOP/s.
  [[nodiscard]] double difference() const;
};

/// Nothing if the source prints no figure, or its formula is not known.
[[nodiscard]] std::optional<Accounting> account(const MeasuredRun& run);

// Calibration.

struct FitOptions {
  /// How far the fitted shares may be from the given ones, as the standard deviation of their logarithm; see fit().
  double freedom = 0.06;
  double noise = 0.03;  ///< of the measured times, outliers aside
};

/// Multipliers of the shares of an efficiency; the same for all devices of a source.
struct Correction {
  static constexpr int kParts = 9;
  /// Of matmul, depth, attention, memory, launch, node, network, overlap; and, added, not multiplied, contention.
  std::array<double, kParts> log{};
  [[nodiscard]] Efficiency apply(const Efficiency& efficiency) const;
};

/// The correction under which the predicted times are closest to the measured ones. With few runs it stays near 1; with
/// many it may be farther from 1 than `freedom` suggests, if cross-validation says so.
[[nodiscard]] Correction fit(const std::vector<const MeasuredRun*>& runs,
                             const FitOptions& options);

/// The predicted time of a step of this run.
[[nodiscard]] StepCost predicted_cost(const MeasuredRun& run, const Correction& correction);

}  // namespace trireme
