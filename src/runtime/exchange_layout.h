// The data movement of a communication op: contiguous operands as `comm` requires them, and the blocks to pack or
// unpack. Callable from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trireme/communicator.h"
#include "trireme/device.h"

namespace trireme::runtime {

/// A tensor viewed as [outer, size, inner] around the dimension that is exchanged, and its blocks along it.
struct BlockedTensor {
  DType dtype = DType::F32;
  std::int64_t outer = 1;
  std::int64_t size = 1;
  std::int64_t inner = 1;
  std::vector<IndexRange> blocks{};

  /// Elements of each block.
  [[nodiscard]] std::vector<std::int64_t> counts() const;
  /// Whether every block is contiguous where it is.
  [[nodiscard]] bool contiguous() const { return outer == 1; }
};

/// A contiguous operand: an input, the result, or a part of the op's scratch (its second output).
struct OperandPlace {
  enum class Where : std::uint8_t { Input, Output, Scratch } where = Where::Input;
  std::int64_t offset = 0;  ///< in bytes
  Bytes size{};
};

struct ExchangeLayout {
  std::optional<OperandPlace> source{};  ///< the data to send; absent: this rank only receives
  /// The destination of received data; absent: this rank only sends.
  std::optional<OperandPlace> target{};
  std::optional<BlockedTensor> packed{};    ///< the input is packed into the source block by block
  std::optional<BlockedTensor> unpacked{};  ///< the target is unpacked into the output
  /// The operation may have one buffer as its source and its target.
  bool in_place = false;
};

/// A collective operation along an axis of the mesh, without its operands.
struct CollectiveCall {
  std::string axis{};
  Call call{};
};

/// Starts the operation on host memory.
using StartOnHost =
    std::function<Pending(std::span<const std::byte> source, std::span<std::byte> target)>;

/// Throws Error(Usage) if the op does not communicate.
[[nodiscard]] ExchangeLayout layout_of(const KernelRequest& request);
/// Nothing if it is a message between two ranks.
[[nodiscard]] std::optional<CollectiveCall> collective_of(const KernelRequest& request);
[[nodiscard]] StartOnHost operation_of(const KernelRequest& request, Communicator& communicator);

}  // namespace trireme::runtime
