// A training graph on one device, and on as many ranks as a plan has, with the same numbers.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "trireme/comm.h"
#include "trireme/device.h"
#include "trireme/model.h"
#include "trireme/partition.h"
#include "trireme/plan.h"
#include "trireme/program.h"

namespace trireme {

/// Values by name, in f64 (integers too).
using Numbers = std::map<std::string, std::vector<double>>;

/// Bytes by op: "all_reduce", "send", …
using OpBytes = std::map<std::string, double>;

/// How often something is in a program or graph: "all_reduce forward", 3 times.
using Counts = std::map<std::string, int>;

/// How closely losses and parameters of a plan, in f64, have to agree with those of one device.
inline constexpr double kTolerance = 1e-10;

struct Trained {
  std::vector<double> losses{};
  Numbers kept{};               ///< parameters and states after the last step
  std::vector<Numbers> held{};  ///< by rank: its shard of them; empty for one device
  /// By rank: what a step should send, according to traffic_of(), and with rings; and what was sent in all steps, as
  /// counted by messages.
  std::vector<OpBytes> traffic{};
  std::vector<OpBytes> predicted{};
  std::vector<OpBytes> sent{};
};

/// Inputs of each step, by name; all of them.
using Batches = std::vector<Numbers>;

/// Makes the device of a rank; called on the rank's thread. The default: one thread of the CPU.
using MakeDevice = std::function<std::unique_ptr<Device>()>;
[[nodiscard]] std::unique_ptr<Device> make_one_thread();

[[nodiscard]] Trained train_alone(const Graph& graph, const Numbers& first, const Batches& batches);

/// The outputs of a graph with these leaves, computed once.
[[nodiscard]] Numbers evaluate_alone(const Graph& graph, const Numbers& leaves);

/// On threads, each a rank, which communicate by messages. Throws what a rank threw.
[[nodiscard]] Trained train_on_ranks(const Graph& graph, const Plan& plan,
                                     const PlacementSpec& placements, const PipelineTable& table,
                                     const Numbers& first, const Batches& batches,
                                     const MakeDevice& make_device = make_one_thread);
/// With the placements and the table of the plan, and its recomputation.
[[nodiscard]] Trained train_on_ranks(const Graph& whole, const Plan& plan, const DimNames& names,
                                     const Numbers& first, const Batches& batches,
                                     const MakeDevice& make_device = make_one_thread);

/// What each rank runs, on a device with these fusions.
[[nodiscard]] std::vector<Program> programs_of(const Graph& whole, const Plan& plan,
                                               const DimNames& names, const Fusions& fusions = {});

}  // namespace trireme
