// ShardedExecution: a compiled graph that runs on all ranks of its plan and looks like one device: values are written
// whole and read whole. Without a communicator it is one device.
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
#include "trireme/compiled_plan.h"
#include "trireme/device.h"
#include "trireme/execution.h"

namespace trireme::train {

class ShardedExecution {
 public:
  /// `compiled` and the device must live as long, and so must the communicator, which a plan for several ranks needs.
  /// Throws what Execution throws.
  ShardedExecution(const CompiledPlan& compiled, Device& device, Communicator* communicator);
  ~ShardedExecution();
  ShardedExecution(const ShardedExecution&) = delete;
  ShardedExecution& operator=(const ShardedExecution&) = delete;

  /// This rank's program, and the memory that it holds.
  [[nodiscard]] const Program& program() const { return execution_->program(); }
  [[nodiscard]] Bytes memory() const { return execution_->memory(); }
  [[nodiscard]] std::map<std::string, double> bytes_sent() const {
    return execution_->bytes_sent();
  }

  /// An input, parameter or state, whole; this rank keeps its shard. All ranks pass the same.
  void write(std::string_view name, std::span<const std::byte> whole);
  /// A parameter, state or output. Rank 0 gets the whole; the other ranks send their shards, and their `whole` is not
  /// written.
  void read(std::string_view name, std::span<std::byte> whole);
  /// A scalar output, which all ranks have.
  [[nodiscard]] double number(std::string_view output) const;

  /// Ranks that record a trace start together, so that their times can be compared.
  void run(Trace* trace = nullptr);
  [[nodiscard]] Execution& execution() { return *execution_; }

 private:
  const CompiledPlan& compiled_;
  Communicator* communicator_;
  int rank_;
  std::unique_ptr<Execution> execution_;
};

}  // namespace trireme::train
