// Execution: a Program on a Device. Memory is taken and kernels are made ready once; a step then runs them in
// order and allocates nothing.
//
// One thread at a time.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "trireme/device.h"
#include "trireme/program.h"
#include "trireme/trace.h"

namespace trireme {

class Execution {
 public:
  /// The device must live as long. Throws Error(Usage) if the device lacks a kernel, Error(System) if memory
  /// is short.
  Execution(Program program, Device& device);
  ~Execution();
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;

  [[nodiscard]] const Program& program() const noexcept { return program_; }
  /// All that it holds: the arena and the workspace.
  [[nodiscard]] Bytes memory() const noexcept;

  /// An input, parameter, state or output by name; as many bytes as it has. Throws Error(Usage) otherwise.
  void write(std::string_view name, std::span<const std::byte> data);
  void read(std::string_view name, std::span<std::byte> data) const;

  /// One step. With a trace: a span for each instruction, with its FLOPs and bytes.
  void run(Trace* trace = nullptr);

 private:
  Program program_;
  Device& device_;
  std::unique_ptr<DeviceMemory> arena_;
  std::unique_ptr<DeviceMemory> workspace_;
  Bytes workspace_bytes_{};
  std::vector<std::unique_ptr<PreparedKernel>> prepared_;
  std::vector<std::unique_ptr<Kernel>> kernels_;  ///< by instruction; none for a view
};

}  // namespace trireme
