#include "trireme/parallelism.h"

#include <algorithm>

#include <fmt/format.h>

namespace trireme {
namespace {

std::vector<std::string> dims_of(const Plan& plan, const std::string& axis) {
  std::vector<std::string> dims;
  for (const AxisSharding& row : plan.sharding) {
    if (row.axis == axis) {
      dims.insert(dims.end(), row.dims.begin(), row.dims.end());
    }
  }
  return dims;
}

Parallelism pipeline(const PipelineTable& table) {
  Parallelism row{.name = "pipeline parallelism",
                  .by = "",
                  .classic = ClassicView::Model,
                  .operators = OperatorView::InterOp,
                  .why = "each device has different layers; micro-batches pass through them"};
  if (table.copies > 1) {
    row.classic = ClassicView::Both;
    row.why = fmt::format(
        "each device has layers of {} copies of the model, which share the micro-batches",
        table.copies);
  }
  return row;
}

/// Classifies an axis by the dimensions it shards.
Parallelism sharding(const Plan& plan, const std::string& axis) {
  const std::vector<std::string> dims = dims_of(plan, axis);
  const auto shards = [&](std::string_view dim) {
    return std::ranges::find(dims, dim) != dims.end();
  };
  const bool of_model = std::ranges::any_of(
      dims, [](const std::string& dim) { return dim != "batch" && dim != "sequence"; });
  Parallelism row{.name = "",
                  .by = "",
                  .classic = ClassicView::Neither,
                  .operators = OperatorView::IntraOp,
                  .why = ""};
  if (shards("batch") && shards("experts")) {
    row.name = "expert parallelism";
    row.classic = ClassicView::Both;
    row.why = "each device has some examples and some experts; tokens move to their experts";
  } else if (shards("batch") && of_model) {
    row.name = "data and tensor parallelism";
    row.classic = ClassicView::Both;
    row.why =
        "each device has some examples and a part of some weights; tokens move to the weights";
  } else if (shards("batch")) {
    row.name = "data parallelism";
    row.classic = ClassicView::Data;
    row.why = "each device computes every op on its part of the batch";
  } else if (of_model) {
    row.name = "tensor parallelism";
    row.classic = ClassicView::Model;
    row.why = "each device has a part of every weight matrix";
  } else {
    row.name = fmt::format("context parallelism ({})", to_text(plan.context));
    row.why =
        "each device has a part of every sequence, so neither the batch nor the model is divided";
  }
  return row;
}

Parallelism zero(int stage) {
  constexpr std::string_view kKept[] = {"", "optimizer state", "optimizer state and gradients",
                                        "optimizer state, gradients and parameters"};
  return {.name = "sharded data parallelism (ZeRO, FSDP)",
          .by = fmt::format("ZeRO stage {}", stage),
          .classic = ClassicView::Neither,
          .operators = OperatorView::Neither,
          .why = fmt::format("each device keeps a part of the {}; its computation stays the same",
                             kKept[stage])};
}

bool has_axis(const Plan& plan, std::string_view name) {
  return plan.mesh.size(name) > 1;
}

}  // namespace

std::string_view to_text(ClassicView view) {
  switch (view) {
    case ClassicView::Data:
      return "data";
    case ClassicView::Model:
      return "model";
    case ClassicView::Both:
      return "data and model";
    case ClassicView::Neither:
      return "neither";
  }
  return "?";
}

std::string_view to_text(OperatorView view) {
  switch (view) {
    case OperatorView::IntraOp:
      return "intra-op";
    case OperatorView::InterOp:
      return "inter-op";
    case OperatorView::Neither:
      return "neither";
  }
  return "?";
}

std::vector<Parallelism> parallelism_of(const Plan& plan) {
  std::vector<Parallelism> rows;
  for (const MeshAxis& axis : plan.mesh.axes()) {
    if (axis.size == 1 || (axis.name == "pipe" && !plan.ops.empty())) {
      continue;
    }
    rows.push_back(axis.name == "pipe" ? pipeline(table_of(plan)) : sharding(plan, axis.name));
    rows.back().by = fmt::format("{}={}", axis.name, axis.size);
  }
  if (plan.zero > 0 && has_axis(plan, "data")) {
    rows.push_back(zero(plan.zero));
  }
  if (plan.sequence && has_axis(plan, "tensor")) {
    rows.push_back({"sequence parallelism", "--sequence", ClassicView::Neither,
                    OperatorView::IntraOp,
                    "between tensor-parallel ops each device has a part of every sequence"});
  }
  if (!plan.ops.empty() && has_axis(plan, "pipe")) {
    rows.push_back({"operator placement", fmt::format("pipe={}", plan.mesh.size("pipe")),
                    ClassicView::Model, OperatorView::InterOp,
                    "single ops run on the devices that the plan names"});
  }
  if (!plan.values.empty()) {
    rows.push_back({"operator sharding", "values of the plan", ClassicView::Model,
                    OperatorView::IntraOp, "single values are sharded as the plan says"});
  }
  return rows;
}

}  // namespace trireme
