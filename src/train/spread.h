// Spread: a graph that runs on all ranks of a plan together and looks like one device: values are written whole and
// read whole. Without a communicator it is one device.
//
// One thread at a time. All ranks make the same calls in the same order.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "trireme/communicator.h"
#include "trireme/device.h"
#include "trireme/execution.h"
#include "trireme/partition.h"
#include "trireme/parts.h"
#include "trireme/plan.h"

namespace trireme::train {

/// Where a computation runs. The communicator, if there is one, must live as long as what uses it.
struct Ranks {
  Plan plan{};
  Communicator* communicator = nullptr;

  [[nodiscard]] int rank() const {
    return communicator == nullptr ? 0 : communicator->world().rank();
  }
  [[nodiscard]] int count() const { return plan.mesh.devices(); }
};

class Spread {
 public:
  /// The device must live as long. Throws Error(Usage) if the plan does not go with the graph, and what Execution
  /// throws.
  Spread(const Graph& graph, const DimNames& names, const Ranks& ranks, Device& device);
  ~Spread();
  Spread(const Spread&) = delete;
  Spread& operator=(const Spread&) = delete;

  /// This rank's program, and all that it holds.
  [[nodiscard]] const Program& program() const { return execution_->program(); }
  [[nodiscard]] Bytes memory() const { return execution_->memory(); }
  [[nodiscard]] std::map<std::string, double> bytes_sent() const {
    return execution_->bytes_sent();
  }

  /// An input, parameter or state, whole; this rank keeps its part. All ranks are given the same.
  void write(std::string_view name, std::span<const std::byte> whole);
  /// A parameter, state or output. Rank 0 gets the whole; the other ranks send what they have, and nothing is written
  /// to theirs.
  void read(std::string_view name, std::span<std::byte> whole);
  /// An output that is a number, which all ranks have.
  [[nodiscard]] double number(std::string_view output) const;

  /// Ranks that write down what they do begin together, so that their times can be compared.
  void run(Trace* trace = nullptr);
  [[nodiscard]] Execution& execution() { return *execution_; }

 private:
  [[nodiscard]] Part part_at(const Value& value, int rank) const;
  [[nodiscard]] bool has(const Value& value, int rank) const;

  Graph graph_;
  Ranks ranks_;
  Wishes wishes_;
  PipelineTable table_;
  std::unique_ptr<Partition> partition_;
  std::unique_ptr<Execution> execution_;
};

}  // namespace trireme::train
