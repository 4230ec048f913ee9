// Shared by the kernels of this folder: wraps functions as kernels, and declares the tables in which a device looks
// them up.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "trireme/kernel.h"
#include "trireme/op.h"

namespace trireme::cpu {

/// Prepares the kernel; nothing if it does not support these types.
using Prepare = std::unique_ptr<PreparedKernel> (*)(const KernelRequest&);

struct KernelRow {
  std::string_view op;
  Prepare prepare = nullptr;
};

/// In the tables, the einsum of a device with CpuOptions::row_invariant.
inline constexpr std::string_view kEinsumByRows = "einsum by rows";

using Run = std::function<void(const KernelMemory&)>;

class FunctionKernel : public Kernel {
 public:
  FunctionKernel(Run run, KernelMemory memory) : run_(std::move(run)), memory_(std::move(memory)) {}
  void enqueue(Stream&) override { run_(memory_); }

 private:
  Run run_;
  KernelMemory memory_;
};

class PreparedFunction : public PreparedKernel {
 public:
  explicit PreparedFunction(Run run, Bytes workspace = {})
      : run_(std::move(run)), workspace_(workspace) {}
  [[nodiscard]] Bytes workspace() const override { return workspace_; }
  [[nodiscard]] std::unique_ptr<Kernel> bind(const KernelMemory& memory) override {
    return std::make_unique<FunctionKernel>(run_, memory);
  }

 private:
  Run run_;
  Bytes workspace_;
};

[[nodiscard]] inline std::unique_ptr<PreparedKernel> kernel(Run run, Bytes workspace = {}) {
  return std::make_unique<PreparedFunction>(std::move(run), workspace);
}

[[nodiscard]] inline Signature signature_of(const KernelRequest& request) {
  return {.op = request.op, .inputs = request.inputs, .attributes = &request.attributes};
}

/// Kernels by oneDNN, for all processors.
[[nodiscard]] std::span<const KernelRow> library_kernels();

// The loops of this folder, compiled for one instruction set each.
namespace baseline {
[[nodiscard]] std::span<const KernelRow> loop_kernels();
}
namespace avx2 {
[[nodiscard]] std::span<const KernelRow> loop_kernels();
}
namespace avx512 {
[[nodiscard]] std::span<const KernelRow> loop_kernels();
}

/// Whether a kernel table has a row for the op.
[[nodiscard]] bool has_kernel(std::string_view op);

/// An op that may run by its reference, and when.
struct ReferenceUse {
  std::string_view op;
  std::string_view when;
};
/// All of them, by name. A test compares this list with the tables of kernels; references never compute other ops.
[[nodiscard]] std::span<const ReferenceUse> reference_uses();

/// A kernel that runs the op's reference, for ops too rare to deserve a loop. Slow, and it allocates. Throws
/// Error(Usage) that names the op and its types if reference_uses() does not list the op.
[[nodiscard]] std::unique_ptr<PreparedKernel> reference_kernel(const KernelRequest& request);

}  // namespace trireme::cpu
