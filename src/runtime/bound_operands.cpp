#include "runtime/bound_operands.h"

namespace trireme::runtime {
namespace {

/// Inputs are only read, but share a type with outputs.
std::byte* address_of(const OperandPlace& place, const KernelMemory& memory) {
  switch (place.where) {
    case OperandPlace::Where::Input:
      return const_cast<std::byte*>(  // NOLINT(cppcoreguidelines-pro-type-const-cast)
          memory.inputs[0]);
    case OperandPlace::Where::Output:
      return memory.outputs[0];
    default:
      return memory.outputs[1] + place.offset;
  }
}

}  // namespace

BoundOperands bind_operands(const ExchangeLayout& layout, Packing& packing,
                            const KernelMemory& memory) {
  BoundOperands bound;
  if (layout.source) {
    bound.source = address_of(*layout.source, memory);
    bound.source_size = layout.source->size;
  }
  if (layout.target) {
    bound.target = address_of(*layout.target, memory);
    bound.target_size = layout.target->size;
  }
  if (layout.packed) {
    bound.pack = packing.pack(memory.inputs[0], bound.source, memory.workspace);
  }
  if (layout.unpacked) {
    bound.unpack = packing.unpack(bound.target, memory.outputs[0], memory.workspace);
  }
  return bound;
}

}  // namespace trireme::runtime
