// Layouts: their text, and what a model, a batch and a cluster allow.
#include <algorithm>

#include <fmt/format.h>

#include "base/enum_names.h"
#include "trireme/cost.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr auto kForms =
    enum_names<PipelineForm>("naive", "gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2", "zb-v");
constexpr auto kAttentions = enum_names<Workload::Attention>("fused", "unfused");

}  // namespace

std::string_view to_text(PipelineForm form) {
  return kForms[form];
}

PipelineForm parse_pipeline_form(std::string_view text) {
  return kForms.parse("schedule", text);
}

std::string_view to_text(Workload::Attention attention) {
  return kAttentions[attention];
}

Workload::Attention parse_attention(std::string_view text) {
  return kAttentions.parse("attention", text);
}

std::string_view to_text(ParallelLayout::Order order) {
  static constexpr auto kNames =
      enum_names<ParallelLayout::Order>("pipe outermost", "data outermost");
  return kNames[order];
}

std::string_view to_text(TimePart part) {
  static constexpr auto kNames = enum_names<TimePart>(
      "useful", "shape", "memory-bound", "launch", "recomputation", "tensor", "context", "expert",
      "pipe", "data", "bubble", "uneven devices", "optimizer", "other");
  return kNames[part];
}

std::string_view to_text(CostedMemory part) {
  static constexpr auto kNames = enum_names<CostedMemory>("parameters", "gradients", "optimizer",
                                                          "activations", "communication");
  return kNames[part];
}

std::string mesh_text(const ParallelLayout& layout) {
  std::string text;
  const auto add = [&](const char* axis, int size) {
    if (size > 1) {
      text += fmt::format("{}{}={}", text.empty() ? "" : ",", axis, size);
    }
  };
  const bool pipe_first = layout.order == ParallelLayout::Order::PipeOutermost;
  add("pipe", pipe_first ? layout.pipe : 1);
  add("data", layout.data);
  add("pipe", pipe_first ? 1 : layout.pipe);
  add("context", layout.context);
  add("tensor", layout.tensor);
  return text;
}

std::vector<int> deal_blocks(int blocks, int pipe, int chunks) {
  const int stages = pipe * chunks;
  if (blocks % stages == 0) {
    return std::vector<int>(stages, blocks / stages);
  }
  const int each = (blocks + 2) / stages;
  const int more = (blocks + 2) % stages;
  std::vector<int> dealt(stages, each);
  for (int i = 0; i < more; ++i) {
    ++dealt[i];  // stage s is on rank s mod pipe: each rank in turn
  }
  --dealt.front();
  --dealt.back();
  return std::ranges::min(dealt) < 1 ? std::vector<int>{} : dealt;
}

std::string misfit(const ParallelLayout& layout, const Architecture& model, const Workload& work,
                   const Cluster& cluster) {
  const ModelConfig& m = model.model;
  const std::int64_t per_pass = static_cast<std::int64_t>(layout.data) * layout.microbatch;
  if (layout.devices() > cluster.devices()) {
    return fmt::format("needs {} devices, the cluster has {}", layout.devices(), cluster.devices());
  }
  if (work.batch % per_pass != 0) {
    return fmt::format("a batch of {} is not a multiple of {} ranks x {} sequences", work.batch,
                       layout.data, layout.microbatch);
  }
  if (layout.pipe > m.layers + 2) {
    return fmt::format("{} pipeline stages, but {} blocks", layout.pipe, m.layers);
  }
  if (m.width % layout.tensor != 0) {
    return fmt::format("tensor={} does not divide the width {}", layout.tensor, m.width);
  }
  if (layout.data % layout.expert != 0) {
    return fmt::format("expert={} does not divide data={}", layout.expert, layout.data);
  }
  return {};
}

}  // namespace trireme
