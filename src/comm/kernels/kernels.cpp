#include "comm/kernels/kernels.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"
#include "comm/kernels/loops.h"
#include "tensor/container_size.h"

namespace trireme::comm {
namespace {

/// Below this size, bypassing the caches does not pay off.
constexpr std::size_t kMinStreamed = 4096;

/// Copies to several destinations proceed in pieces of this size.
constexpr std::size_t kCopiedPieceBytes = std::size_t{32} << 10;

/// Users' reductions work on strips of this size, which stay in the nearest cache.
constexpr std::size_t kStripBytes = 4096;
using Strip = std::array<std::byte, kStripBytes>;

bool is_bitwise(Reduction reduction) {
  return reduction == Reduction::BitAnd || reduction == Reduction::BitOr ||
         reduction == Reduction::BitXor;
}

const Loops& fastest_loops() {
  static const Loops& fastest = *available_loops().front();
  return fastest;
}

/// `bytes` of every input, starting at `offset`, combined by the user's function.
struct UserStrip {
  const Combine& how;
  std::span<const std::byte* const> inputs;
  std::size_t offset;
  std::size_t bytes;

  void apply(const std::byte* from, std::byte* into) const {
    const std::size_t element = container_size(size_of(how.dtype));
    how.user->combine(from, into, static_cast<std::int64_t>(bytes / element));
  }

  void fold_in_turn(std::span<const std::byte* const> some, std::byte* into) const {
    std::memcpy(into, some.front() + offset, bytes);
    for (const std::byte* input : some.subspan(1)) {
      apply(input + offset, into);
    }
  }

  /// The tree also combines up to three in sequence. Each level takes a strip of the stack.
  void fold_by_tree(std::span<const std::byte* const> some, std::byte* into) const {
    if (some.size() <= 3) {
      fold_in_turn(some, into);
      return;
    }
    const std::size_t half = (some.size() + 1) / 2;
    alignas(HostBuffer::kAlignment) Strip second;
    fold_by_tree(some.first(half), into);
    fold_by_tree(some.subspan(half), second.data());
    apply(second.data(), into);
  }

  /// Reads all inputs before writing any target: a target may be one of them.
  void fold(std::byte* into) const {
    if (how.order == Order::Fixed) {
      fold_by_tree(inputs, into);
    } else {
      fold_in_turn(inputs, into);
    }
  }
};

void combine_by_user(const Combine& how, std::span<const std::byte* const> inputs,
                     std::span<std::byte* const> targets, std::size_t bytes) {
  alignas(HostBuffer::kAlignment) Strip result;
  for (std::size_t offset = 0; offset < bytes; offset += kStripBytes) {
    const std::size_t length = std::min(kStripBytes, bytes - offset);
    UserStrip{how, inputs, offset, length}.fold(result.data());
    for (std::byte* target : targets) {
      std::memcpy(target + offset, result.data(), length);
    }
  }
}

/// In pieces that stay in the L1 cache until all targets have them.
void copy_to_all(const Loops& loops, const std::byte* from, std::span<std::byte* const> targets,
                 std::size_t bytes, Stores stores) {
  const std::size_t most = targets.size() == 1 ? bytes : kCopiedPieceBytes;
  for (std::size_t offset = 0; offset < bytes; offset += most) {
    for (std::byte* target : targets) {
      if (target != from) {
        copy_bytes_with(loops, target + offset, from + offset, std::min(most, bytes - offset),
                        stores);
      }
    }
  }
}

}  // namespace

const Loops* loops_for(std::string_view name) {
  const auto all = available_loops();
  const auto found =
      std::ranges::find_if(all, [&](const Loops* loops) { return loops->name == name; });
  return found == all.end() ? nullptr : *found;
}

void copy_bytes_with(const Loops& loops, std::byte* to, const std::byte* from, std::size_t bytes,
                     Stores stores) {
  if (stores == Stores::Streaming && bytes >= kMinStreamed) {
    loops.stream_copy(to, from, bytes);
  } else if (bytes > 0) {
    std::memcpy(to, from, bytes);
  }
}

void combine_many_with(const Loops& loops, const Combine& how,
                       std::span<const std::byte* const> inputs,
                       std::span<std::byte* const> targets, std::int64_t count, Stores stores) {
  TRIREME_CHECK(!inputs.empty() && !targets.empty() && count >= 0, "nothing to combine");
  TRIREME_CHECK(how.divide_by >= 1 && (how.user == nullptr || how.divide_by == 1),
                "what cannot be divided");
  const std::size_t bytes = count * container_size(size_of(how.dtype));
  if (bytes == 0) {
    return;
  }
  if (inputs.size() == 1 && how.divide_by == 1) {
    copy_to_all(loops, inputs.front(), targets, bytes, stores);
    return;
  }
  if (how.user != nullptr) {
    combine_by_user(how, inputs, targets, bytes);
    return;
  }
  const CombineLoop loop = loops.combine(how.dtype, how.reduction);
  TRIREME_CHECK(loop != nullptr, refuse_reduction(how.dtype, how.reduction));
  loop({.inputs = inputs.data(),
        .input_count = inputs.size(),
        .targets = targets.data(),
        .target_count = targets.size(),
        .count = static_cast<std::size_t>(count),
        .divide_by = how.divide_by,
        .order = how.order,
        .stores = bytes >= kMinStreamed ? stores : Stores::Cached});
}

void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes, Stores stores) {
  copy_bytes_with(fastest_loops(), to, from, bytes, stores);
}

void combine_many(const Combine& how, std::span<const std::byte* const> inputs,
                  std::span<std::byte* const> targets, std::int64_t count, Stores stores) {
  combine_many_with(fastest_loops(), how, inputs, targets, count, stores);
}

void divide(DType dtype, std::byte* data, std::int64_t count, std::int64_t ranks) {
  const std::array<const std::byte*, 1> inputs{data};
  const std::array<std::byte*, 1> targets{data};
  combine_many({.dtype = dtype, .reduction = Reduction::Average, .divide_by = ranks}, inputs,
               targets, count, Stores::Cached);
}

const char* refuse_reduction(DType dtype, Reduction reduction) {
  return is_bitwise(reduction) && is_float(dtype) ? "bitwise reductions are for integers only" : "";
}

const char* instruction_set() {
  return fastest_loops().name;
}

}  // namespace trireme::comm
