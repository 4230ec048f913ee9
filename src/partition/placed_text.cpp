#include <fmt/format.h>

#include "partition/placed.h"
#include "trireme/op.h"

namespace trireme::partition {
namespace {

std::string_view to_text(ChangeKind kind) {
  switch (kind) {
    case ChangeKind::Slice:
      return "slice";
    case ChangeKind::AllGather:
      return "all-gather";
    case ChangeKind::AllToAll:
      return "all-to-all";
    case ChangeKind::AllReduce:
      return "all-reduce";
    case ChangeKind::ReduceScatter:
      return "reduce-scatter";
  }
  return "?";
}

}  // namespace

std::string to_text(const Placed& placed) {
  const auto placement = [&](CopyId id) {
    const Copy& copy = placed.copies[id];
    return fmt::format("%{}{}", placed.graph.value(copy.value).name,
                       to_text(copy.placement, placed.placements.axes));
  };
  std::string text;
  for (const PlacedStep& step : placed.steps) {
    const std::string what = step.node.valid()
                                 ? std::string(placed.graph.node(step.node).op->name)
                                 : fmt::format("{} {}", to_text(step.change.kind),
                                               placed.placements.axes[step.change.axis].name);
    std::string line = fmt::format("{} {}:", to_text(step.phase), step.stage);
    for (const CopyId output : step.outputs) {
      line += " " + placement(output);
    }
    line += " = " + what;
    for (const CopyId input : step.inputs) {
      line += " " + placement(input);
    }
    text += line + "\n";
  }
  return text;
}

}  // namespace trireme::partition
