// Execution: a Program on a Device. Memory is taken and kernels are made ready once; a step then runs them in
// order and allocates nothing.
//
// One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/communicator.h"
#include "trireme/device.h"
#include "trireme/program.h"
#include "trireme/trace.h"

namespace trireme {

namespace runtime {
class Exchange;
}

/// An element that is infinite or no number.
struct NonFinite {
  BufferId buffer{};
  std::int64_t element = 0;       ///< the first such of the buffer, row-major
  double value = 0;               ///< its value
  std::int32_t instruction = -1;  ///< that made it; -1: it was there before the step
};

/// "einsum(%x, %h.3.mlp.c_fc.weight) in forward, block 3 gave %y f32[4,32,256], whose [0,5,17] is inf".
[[nodiscard]] std::string to_text(const NonFinite& found, const Program& program);

/// The scratch that the program's kernels need on this device, besides the arena. Takes no memory for it.
[[nodiscard]] Bytes workspace_of(const Program& program, Device& device);

class Execution {
 public:
  /// The device, and the communicator, which a program with exchanges needs, must live as long. Throws
  /// Error(Usage) if the device lacks a kernel, Error(System) if memory is short.
  Execution(Program program, Device& device, Communicator* communicator = nullptr);
  ~Execution();
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;

  [[nodiscard]] const Program& program() const noexcept { return program_; }
  /// All that it holds: the arena and the workspace.
  [[nodiscard]] Bytes memory() const noexcept;

  /// An input, parameter, state or output by name; as many bytes as it has. Throws Error(Usage) otherwise.
  void write(std::string_view name, std::span<const std::byte> data);
  void read(std::string_view name, std::span<std::byte> data) const;

  /// One step. Exchanges go on while later instructions compute, until one needs their result. With a trace: a
  /// span for each instruction, with its FLOPs and bytes, one for each exchange from its beginning to the moment
  /// its result was there for the first that needs it, and one for each wait. Throws CommError if another rank
  /// failed.
  void run(Trace* trace = nullptr);
  /// Whether exchanges go on while later instructions compute (the default), or each is waited for at once: for
  /// measuring what the former hides.
  void set_overlap(bool overlap) noexcept { overlap_ = overlap; }
  /// Bytes that a step sends to other ranks, by op.
  [[nodiscard]] std::map<std::string, double> bytes_sent() const;

  /// One step that looks at everything: first at what is kept and given, then at the results of each
  /// instruction. Stops behind the first that is not finite, unless other ranks wait for its exchanges; nothing if
  /// all is finite, and then the step was taken. Slow: for finding out what went wrong. All ranks call it.
  [[nodiscard]] std::optional<NonFinite> run_checked();
  /// Looks at what is kept and given alone; runs nothing.
  [[nodiscard]] std::optional<NonFinite> find_non_finite_leaf();

 private:
  void run_traced(Trace& trace);
  [[nodiscard]] std::optional<NonFinite> first_non_finite(BufferId id);

  Program program_;
  Device& device_;
  int rank_ = 0;
  bool overlap_ = true;
  std::unique_ptr<DeviceMemory> arena_;
  std::unique_ptr<DeviceMemory> workspace_;
  Bytes workspace_bytes_{};
  std::vector<std::unique_ptr<Kernel>>
      kernels_;  ///< by instruction; none for a view or an exchange
  std::vector<std::unique_ptr<runtime::Exchange>> exchanges_;  ///< by instruction
  std::vector<std::vector<std::size_t>>
      waits_;  ///< by instruction, and for the end: exchanges to finish first
  std::vector<std::byte> looked_at_;  ///< of run_checked
};

}  // namespace trireme
