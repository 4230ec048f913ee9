// Functions that build pipeline tables. Each takes options that the catalogue has checked.
#pragma once

#include <string_view>
#include <vector>

#include "trireme/pipeline.h"

namespace trireme {

/// Of one rank, in order.
using Tasks = std::vector<PipelineTask>;

[[nodiscard]] PipelineTable make_naive(const PipelineOptions& options);
[[nodiscard]] PipelineTable make_gpipe(const PipelineOptions& options);
[[nodiscard]] PipelineTable make_terapipe(const PipelineOptions& options);
[[nodiscard]] PipelineTable make_ampnet(const PipelineOptions& options);
[[nodiscard]] PipelineTable make_1f1b(const PipelineOptions& options);
[[nodiscard]] PipelineTable make_pipedream(const PipelineOptions& options);
[[nodiscard]] PipelineTable make_pipedream_2bw(const PipelineOptions& options);
[[nodiscard]] PipelineTable make_interleaved(const PipelineOptions& options);
[[nodiscard]] PipelineTable make_zb_h1(const PipelineOptions& options);
[[nodiscard]] PipelineTable make_zb_v(const PipelineOptions& options);
[[nodiscard]] PipelineTable make_chimera(const PipelineOptions& options);

/// The schedule whose micro-batches are slices of sequences. It can be timed and drawn; training divides the batch.
inline constexpr std::string_view kTokenSchedule = "terapipe";

/// A table without tasks whose stages are assigned to the ranks round-robin: stage s of every copy
/// is on rank s mod ranks.
[[nodiscard]] PipelineTable empty_pipeline(std::string name, const PipelineOptions& options,
                                           int chunks);

}  // namespace trireme
