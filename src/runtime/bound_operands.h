// The operands of a communication op at their addresses. Callable from any thread.
#pragma once

#include "runtime/exchange_layout.h"
#include "runtime/packing.h"
#include "trireme/kernel.h"

namespace trireme::runtime {

/// With the kernels that pack and unpack them.
struct BoundOperands {
  std::byte* source = nullptr;
  std::byte* target = nullptr;
  Bytes source_size{};
  Bytes target_size{};
  KernelSequence pack{};
  KernelSequence unpack{};
};

[[nodiscard]] BoundOperands bind_operands(const ExchangeLayout& layout, Packing& packing,
                                          const KernelMemory& memory);

}  // namespace trireme::runtime
