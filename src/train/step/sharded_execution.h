// ShardedExecution runs a compiled graph on all ranks of its plan behind the interface of a single device: values are
// written and read whole. Without a communicator it uses one device. One thread at a time; all ranks make the same
// calls in the same order.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/communicator.h"
#include "trireme/compiled_plan.h"
#include "trireme/device.h"
#include "trireme/execution.h"

namespace trireme::train {

/// One number, as write() takes it.
template <class T>
[[nodiscard]] std::span<const std::byte> scalar_bytes(const T& number) {
  return std::as_bytes(std::span(&number, 1));
}

class ShardedExecution {
 public:
  /// `compiled`, the device and the communicator must outlive this object; a plan for several ranks requires a
  /// communicator. Throws what Execution throws.
  ShardedExecution(const CompiledPlan& compiled, Device& device, Communicator* communicator);
  ~ShardedExecution();
  ShardedExecution(const ShardedExecution&) = delete;
  ShardedExecution& operator=(const ShardedExecution&) = delete;

  /// This rank's program and memory.
  [[nodiscard]] const Program& program() const { return execution_->program(); }
  [[nodiscard]] Bytes memory() const { return execution_->memory(); }
  [[nodiscard]] std::map<std::string, double> bytes_sent() const {
    return execution_->bytes_sent();
  }

  /// Writes a whole input, parameter or state; each rank keeps its shard. All ranks pass the same elements.
  void write(std::string_view name, std::span<const std::byte> whole);
  /// Likewise an input, as Execution::write_ahead().
  void write_ahead(std::string_view name, std::span<const std::byte> whole);
  /// Reads a whole parameter, state or output on rank 0. The other ranks send their shards; their `whole` is not
  /// written.
  void read(std::string_view name, std::span<std::byte> whole);
  /// A scalar output of the last step, available on all ranks.
  [[nodiscard]] double number(std::string_view output) const { return execution_->number(output); }

  /// With a trace, ranks start together so that their times are comparable.
  void run(Trace* trace = nullptr, const std::function<void()>& while_computing = nullptr);
  [[nodiscard]] Execution& execution() { return *execution_; }

 private:
  /// This rank's shard, in `whole` or `room`; nothing if it has none.
  [[nodiscard]] std::optional<std::span<const std::byte>> shard_of(
      std::string_view name, std::span<const std::byte> whole, std::vector<std::byte>& room) const;

  const CompiledPlan& compiled_;
  Communicator* communicator_;
  int rank_;
  std::unique_ptr<Execution> execution_;
};

}  // namespace trireme::train
