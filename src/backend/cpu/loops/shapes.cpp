// permute, slice, pad, concat: elements are moved, not changed.
#include "backend/cpu/loops/families.h"
#include "backend/cpu/loops/moves.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

using Numbers = std::vector<std::int64_t>;

std::int64_t element_bytes(const TensorType& type) {
  return size_of(type.dtype).count;
}

/// The offset of a box that begins there.
std::int64_t place_of(const Numbers& begin, const Numbers& strides) {
  std::int64_t place = 0;
  for (std::size_t d = 0; d < begin.size(); ++d) {
    place += begin[d] * strides[d];
  }
  return place;
}

std::vector<MoveLoop> loops_of(const Numbers& sizes, const Numbers& from, const Numbers& to) {
  std::vector<MoveLoop> loops;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    loops.push_back({sizes[d], from[d], to[d]});
  }
  return loops;
}

std::unique_ptr<PreparedKernel> kernel_of(const std::optional<Move>& move) {
  if (!move) {
    return nullptr;
  }
  return kernel([made = *move](const KernelMemory& memory) {
    made.run(memory.inputs[0], memory.outputs[0]);
  });
}

std::unique_ptr<PreparedKernel> permute(const KernelRequest& request) {
  const Numbers strides = request.inputs[0].shape.strides();
  Numbers from;
  for (const std::int64_t d : signature_of(request).integers("order")) {
    from.push_back(strides[d]);
  }
  const Shape& y = request.outputs[0].shape;
  return kernel_of(
      Move::make(loops_of(y.dims(), from, y.strides()), element_bytes(request.inputs[0])));
}

std::unique_ptr<PreparedKernel> slice(const KernelRequest& request) {
  const Numbers strides = request.inputs[0].shape.strides();
  const Shape& y = request.outputs[0].shape;
  return kernel_of(Move::make(loops_of(y.dims(), strides, y.strides()),
                              element_bytes(request.inputs[0]),
                              place_of(signature_of(request).integers("begin"), strides)));
}

void fill_zero(std::byte* to, std::int64_t bytes) {
  parallel(bytes, kSerial * 4,
           [=](std::int64_t begin, std::int64_t end) { std::memset(to + begin, 0, end - begin); });
}

std::unique_ptr<PreparedKernel> pad(const KernelRequest& request) {
  const Shape& x = request.inputs[0].shape;
  const Numbers strides = request.outputs[0].shape.strides();
  const auto move =
      Move::make(loops_of(x.dims(), x.strides(), strides), element_bytes(request.inputs[0]), 0,
                 place_of(signature_of(request).integers("before"), strides));
  if (!move) {
    return nullptr;
  }
  return kernel(
      [made = *move, all = size_of(request.outputs[0]).count](const KernelMemory& memory) {
        fill_zero(memory.outputs[0], all);
        made.run(memory.inputs[0], memory.outputs[0]);
      });
}

std::unique_ptr<PreparedKernel> concat(const KernelRequest& request) {
  const Shape& y = request.outputs[0].shape;
  const std::int64_t given = signature_of(request).integer("axis");
  const std::size_t axis = given < 0 ? given + y.rank() : given;
  const Numbers strides = y.strides();
  std::vector<Move> moves;
  std::int64_t place = 0;
  for (const TensorType& part : request.inputs) {
    const auto move = Move::make(loops_of(part.shape.dims(), part.shape.strides(), strides),
                                 element_bytes(part), 0, place);
    if (!move) {
      return nullptr;
    }
    moves.push_back(*move);
    place += part.shape.dims()[axis] * strides[axis];
  }
  return kernel([moves = std::move(moves)](const KernelMemory& memory) {
    for (std::size_t k = 0; k < moves.size(); ++k) {
      moves[k].run(memory.inputs[k], memory.outputs[0]);
    }
  });
}

}  // namespace

std::vector<KernelRow> shape_kernels() {
  return {{"concat", concat}, {"pad", pad}, {"permute", permute}, {"slice", slice}};
}

}  // namespace trireme::cpu::TRIREME_ISA
