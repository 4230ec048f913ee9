// cache_write: new rows into a cache of keys or values. In place, the other rows are not touched.
#include <cstring>

#include "backend/cpu/loops/elements.h"
#include "backend/cpu/loops/families.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

std::unique_ptr<PreparedKernel> cache_write(const KernelRequest& request) {
  if (request.inputs[2].dtype != DType::I32) {
    return nullptr;
  }
  const Shape& cache = request.inputs[0].shape;
  const std::int64_t tokens = request.inputs[1].shape.dim(1);
  const std::int64_t count = request.inputs[1].shape.dim(0) * tokens;
  const std::int64_t slots = cache.dim(1);
  const std::int64_t row = cache.dim(2) * cache.dim(3) * size_of(request.inputs[0].dtype).count;
  const std::int64_t bytes = size_of(request.inputs[0]).count;
  return kernel([=](const KernelMemory& memory) {
    const auto* positions = input<std::int32_t>(memory, 2);
    require_ids("cache_write", positions, count, 0, slots);
    if (memory.outputs[0] != memory.inputs[0]) {
      std::memcpy(memory.outputs[0], memory.inputs[0], bytes);
    }
    for (std::int64_t i = 0; i < count; ++i) {  // in order: of equal positions, the last counts
      std::memcpy(memory.outputs[0] + (i / tokens * slots + positions[i]) * row,
                  memory.inputs[1] + i * row, row);
    }
  });
}

}  // namespace

std::vector<KernelRow> cache_kernels() {
  return {{"cache_write", cache_write}};
}

}  // namespace trireme::cpu::TRIREME_ISA
