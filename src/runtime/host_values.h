// Transfers between host and device in every step: inputs before it, scalar results after it. Both have their own
// staging memory, for asynchronous copies.
//
// One thread at a time.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/device.h"
#include "trireme/program.h"

namespace trireme::runtime {

/// A program's inputs in host memory; none of them if the device runs inline.
class StagedInputs {
 public:
  StagedInputs(const Program& program, Device& device, std::byte* arena);

  [[nodiscard]] bool has(BufferId buffer) const { return slots_.contains(buffer.index); }
  /// Enqueues the copy of an input. `data` may be reused on return. Blocks only if the last copy of this input is not
  /// done yet.
  void write(BufferId buffer, std::span<const std::byte> data, Stream& stream);
  /// Likewise, but on a stream of its own and to other device memory, while a step may use the input.
  void write_ahead(BufferId buffer, std::span<const std::byte> data);
  /// Enqueues the copies of inputs that were written ahead to where the step has them.
  void move_in(Stream& stream);

 private:
  struct Slot {
    std::size_t offset = 0;  ///< in memory_, and in ahead_
    std::size_t size = 0;
    std::byte* to = nullptr;
    std::unique_ptr<Event> copied{};
    bool is_ahead = false;  ///< its next elements are in ahead_
  };
  void stage(Slot& slot, std::span<const std::byte> data, std::byte* to, Stream& stream);

  Device& device_;
  std::size_t size_ = 0;                ///< of all slots
  std::map<std::int32_t, Slot> slots_;  ///< by buffer
  std::unique_ptr<HostMemory> memory_;
  std::unique_ptr<DeviceMemory> ahead_;  ///< allocated on first use
  std::unique_ptr<Event> moved_in_;      ///< on the stream of the steps
  std::unique_ptr<Stream> copies_;       ///< last, so that its work ends before what it uses
};

/// A program's scalar outputs in host memory.
class FetchedNumbers {
 public:
  FetchedNumbers(const Program& program, Device& device, const std::byte* arena);

  void enqueue_copies(Stream& stream);
  /// As of the last copies, which must be done. Throws Error(Usage) if there is no such output.
  [[nodiscard]] double number(std::string_view output) const;

 private:
  struct Slot {
    std::string name{};
    DType dtype = DType::F32;
    std::size_t size = 0;
    std::size_t offset = 0;  ///< in memory_
    const std::byte* from = nullptr;
  };
  std::vector<Slot> slots_;
  std::unique_ptr<HostMemory> memory_;
};

}  // namespace trireme::runtime
