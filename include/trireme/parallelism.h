// Classifies the parallelism of a plan, in two views. Plain data; any thread.
//
// The classic view asks what is divided among devices: the data or the model. It does not cover every method: ZeRO
// divides neither the data nor the model's computation, only the state kept between uses; experts divide both. The
// operator view asks how ops of the graph are assigned: one op to many devices (intra-op, which leads to collectives)
// or different ops to different devices (inter-op, which leads to messages).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/plan.h"

namespace trireme {

/// What is divided.
enum class ClassicView : std::uint8_t { Data, Model, Both, Neither };
/// "data", "model", "data and model", "neither".
[[nodiscard]] std::string_view to_text(ClassicView view);

/// How ops are assigned to devices.
enum class OperatorView : std::uint8_t { IntraOp, InterOp, Neither };
/// "intra-op", "inter-op", "neither".
[[nodiscard]] std::string_view to_text(OperatorView view);

struct Parallelism {
  std::string name{};  ///< "tensor parallelism"
  std::string by{};    ///< its source in the plan: "tensor=4", "ZeRO stage 2 along data=8"
  ClassicView classic = ClassicView::Neither;
  OperatorView operators = OperatorView::Neither;
  std::string why{};  ///< the share of each device, in one sentence
};

/// In the order of the mesh's axes, then ZeRO, sequence parallelism and assignments of single ops. Empty for one device.
/// Axes are classified by the dimensions that they shard, not by their names. Requires a valid plan.
[[nodiscard]] std::vector<Parallelism> parallelism_of(const Plan& plan);

}  // namespace trireme
