// The loops, written once on vectors and compiled for each instruction set. Callable from any thread.
//
// Data is processed in blocks of kVectors vectors. A block of the first input is loaded into registers, the same block
// of each further input is combined with it, and the result is stored to all targets: every input is read once and
// nothing else goes through memory. All reads of a block come before its writes, which is why a target may be one of
// the inputs. A partial block at either end goes through a scratch block.
//
// A Machine is what an instruction set provides: the size of its vectors, stores past the caches, f16.
//   static constexpr std::size_t kVectorBytes;
//   using Raw = Vector<std::uint32_t, kVectorBytes>;
//   static void stream(std::byte* to, Raw value);          // `to` is aligned to kVectorBytes
//   static void fence();                                   // after the last stream()
//   static TwoVectors<kVectorBytes> widen_f16(Raw raw);
//   static Raw narrow_f16(const TwoVectors<kVectorBytes>& wide);
// Each Machine is local to its source file, and functions are templates on it or always inlined: see CombineWork for
// why none may be shared. For the same reason nothing from std is used here.
#pragma once

#include "comm/kernels/lanes.h"
#include "comm/kernels/loops.h"
#include "comm/kernels/vectors.h"

namespace trireme::comm {

inline constexpr std::size_t kVectors = 4;
inline constexpr std::size_t kCacheLine = 64;

/// From `address` to the next cache line.
template <class Machine>
std::size_t bytes_to_line(const std::byte* address) {
  return (kCacheLine - reinterpret_cast<std::uintptr_t>(address) % kCacheLine) % kCacheLine;
}

template <class Machine>
[[gnu::always_inline]] inline typename Machine::Raw load(const std::byte* from) {
  typename Machine::Raw raw;
  __builtin_memcpy(&raw, from, sizeof(raw));
  return raw;
}

template <class Machine>
[[gnu::always_inline]] inline void store(std::byte* to, typename Machine::Raw raw) {
  __builtin_memcpy(to, &raw, sizeof(raw));
}

template <class Machine>
[[gnu::always_inline]] inline bool can_stream(const std::byte* to) {
  return reinterpret_cast<std::uintptr_t>(to) % Machine::kVectorBytes == 0;
}

template <class Lanes>
struct Block {
  static constexpr std::size_t kParts = kVectors * Lanes::kParts;
  static constexpr std::size_t kBytes = kVectors * Lanes::Machine::kVectorBytes;
  static constexpr std::size_t kElements = kBytes / Lanes::kElementBytes;
  typename Lanes::Wide parts[kParts];
};

// Blocks are passed by value: one whose address is taken would live in memory, not in registers.

template <class Lanes>
[[gnu::always_inline]] inline Block<Lanes> load_block(const std::byte* from) {
  using Machine = typename Lanes::Machine;
  Block<Lanes> block;
#pragma GCC unroll 4
  for (std::size_t i = 0; i < kVectors; ++i) {
    Lanes::widen(load<Machine>(from + i * Machine::kVectorBytes), block.parts + i * Lanes::kParts);
  }
  return block;
}

template <class Lanes, class Op>
[[gnu::always_inline]] inline Block<Lanes> apply_block(Block<Lanes> a, Block<Lanes> b) {
#pragma GCC unroll 8
  for (std::size_t i = 0; i < Block<Lanes>::kParts; ++i) {
    a.parts[i] = Op::template apply<Lanes>(a.parts[i], b.parts[i]);
  }
  return a;
}

/// Where a block of each input is: `offset` bytes into it.
struct WholeBlocks {
  const std::byte* const* inputs;
  std::size_t offset;

  [[nodiscard, gnu::always_inline]] const std::byte* of(std::size_t input) const {
    return inputs[input] + offset;
  }
};

/// The same for a partial block, padded to the length of a block in `scratch`. The padding is combined too, but not
/// stored.
struct PartBlocks {
  const std::byte* const* inputs;
  std::size_t offset;
  std::size_t bytes;
  std::byte* scratch;

  [[nodiscard, gnu::always_inline]] const std::byte* of(std::size_t input) const {
    __builtin_memcpy(scratch, inputs[input] + offset, bytes);
    return scratch;
  }
};

/// The inputs [first, first + count) in sequence.
template <class Lanes, class Op, class Source>
[[gnu::always_inline]] inline Block<Lanes> fold_in_turn(const Source& source, std::size_t first,
                                                        std::size_t count) {
  Block<Lanes> result = load_block<Lanes>(source.of(first));
  for (std::size_t i = 1; i < count; ++i) {
    result = apply_block<Lanes, Op>(result, load_block<Lanes>(source.of(first + i)));
  }
  return result;
}

/// The inputs [first, first + count) by the balanced tree, which is sequential for up to three.
template <class Lanes, class Op, class Source>
Block<Lanes> fold_by_tree(const Source& source, std::size_t first, std::size_t count) {
  if (count <= 3) {
    return fold_in_turn<Lanes, Op>(source, first, count);
  }
  const std::size_t half = (count + 1) / 2;
  return apply_block<Lanes, Op>(fold_by_tree<Lanes, Op>(source, first, half),
                                fold_by_tree<Lanes, Op>(source, first + half, count - half));
}

/// Integers are divided as floats where these are precise enough for the truncated quotient to be correct: it is at
/// least 1 / divide_by away from the next integer, unless it is one.
template <class Lanes>
struct QuotientOf {
  using Type = float;
};
template <class Machine>
struct QuotientOf<PlainLanes<Machine, std::int32_t, false>> {
  using Type = double;
};
template <class Machine>
struct QuotientOf<PlainLanes<Machine, std::int64_t, false>> {
  using Type = std::int64_t;
};

template <class Lanes>
Block<Lanes> divide_integers(Block<Lanes> block, std::int64_t divide_by) {
  using Value = typename Lanes::Value;
  using Quotient = typename QuotientOf<Lanes>::Type;
  Value values[Block<Lanes>::kElements];
  __builtin_memcpy(values, block.parts, sizeof(values));
  const auto divisor = static_cast<Quotient>(divide_by);
  for (Value& value : values) {
    value = static_cast<Value>(static_cast<Quotient>(value) / divisor);
  }
  __builtin_memcpy(block.parts, values, sizeof(values));
  return block;
}

template <class Lanes>
[[gnu::always_inline]] inline Block<Lanes> divide_block(Block<Lanes> block,
                                                        std::int64_t divide_by) {
  if constexpr (Lanes::kFloat) {
    using Value = typename Lanes::Value;
    const auto divisor = static_cast<Value>(divide_by);
    const bool power_of_two = (divide_by & (divide_by - 1)) == 0;
    if (power_of_two) {  // its inverse is exact: the same bits, several times faster
      for (auto& part : block.parts) {
        part = part * (Value{1} / divisor);
      }
      return block;
    }
    for (auto& part : block.parts) {
      part = part / divisor;
    }
    return block;
  } else {
    return divide_integers(block, divide_by);
  }
}

/// Which operand's payload a NaN keeps depends on the machine and the compiler, so none is kept.
template <class Lanes>
[[gnu::always_inline]] inline Block<Lanes> clear_nan_payloads(Block<Lanes> block) {
  if constexpr (Lanes::kFloat) {
    using Wide = typename Lanes::Wide;
    const Wide nan = every<Wide>(static_cast<typename Lanes::Value>(__builtin_nanf("")));
#pragma GCC unroll 8
    for (std::size_t i = 0; i < Block<Lanes>::kParts; ++i) {
      const Wide part = block.parts[i];
      block.parts[i] = part == part ? part : nan;
    }
  }
  return block;
}

template <class Lanes, class Op, class Source>
[[gnu::always_inline]] inline Block<Lanes> combine_block(const CombineWork& work,
                                                         const Source& source) {
  Block<Lanes> result;
  if (work.input_count == 2) {  // common enough to avoid the loop
    result = fold_in_turn<Lanes, Op>(source, 0, 2);
  } else if (work.order == Order::Fixed) {
    result = fold_by_tree<Lanes, Op>(source, 0, work.input_count);
  } else {
    result = fold_in_turn<Lanes, Op>(source, 0, work.input_count);
  }
  if (work.divide_by != 1) {
    result = divide_block(result, work.divide_by);
  }
  return clear_nan_payloads(result);
}

template <class Lanes>
[[gnu::always_inline]] inline void store_block(std::byte* to, Block<Lanes> block, bool streaming) {
  using Machine = typename Lanes::Machine;
  if (streaming && can_stream<Machine>(to)) {
#pragma GCC unroll 4
    for (std::size_t i = 0; i < kVectors; ++i) {
      Machine::stream(to + i * Machine::kVectorBytes,
                      Lanes::narrow(block.parts + i * Lanes::kParts));
    }
    return;
  }
#pragma GCC unroll 4
  for (std::size_t i = 0; i < kVectors; ++i) {
    store<Machine>(to + i * Machine::kVectorBytes, Lanes::narrow(block.parts + i * Lanes::kParts));
  }
}

/// `bytes` of every input and target from `offset` on; less than a block.
template <class Lanes, class Op>
void combine_part(const CombineWork& work, std::size_t offset, std::size_t bytes) {
  if (bytes == 0) {
    return;
  }
  alignas(kCacheLine) std::byte scratch[Block<Lanes>::kBytes] = {};
  const Block<Lanes> result =
      combine_block<Lanes, Op>(work, PartBlocks{work.inputs, offset, bytes, scratch});
  store_block(scratch, result, false);
  for (std::size_t k = 0; k < work.target_count; ++k) {
    __builtin_memcpy(work.targets[k] + offset, scratch, bytes);
  }
}

/// Long inputs stream from memory, several at a time: the hardware prefetcher does not look far enough ahead, and
/// restarts at every page.
inline constexpr std::size_t kFetchedAhead = 2048;

template <class Machine>
[[gnu::always_inline]] inline void fetch_ahead(const CombineWork& work, std::size_t offset,
                                               std::size_t bytes) {
  for (std::size_t i = 0; i < work.input_count; ++i) {
    for (std::size_t line = 0; line < bytes; line += kCacheLine) {
      __builtin_prefetch(work.inputs[i] + offset + line, 0, 2);
    }
  }
}

template <class Lanes, class Op>
void combine_loop(const CombineWork& work) {
  constexpr std::size_t kBlockBytes = Block<Lanes>::kBytes;
  static_assert(kBlockBytes % kCacheLine == 0, "the start of a target is less than a block");
  const std::size_t bytes = work.count * Lanes::kElementBytes;
  const bool streaming = work.stores == Stores::Streaming;
  // Blocks start at a cache line of the first target; the others are usually aligned alike.
  const std::size_t to_line = bytes_to_line<typename Lanes::Machine>(work.targets[0]);
  std::size_t offset = bytes < 2 * kBlockBytes || to_line % Lanes::kElementBytes != 0 ? 0 : to_line;
  combine_part<Lanes, Op>(work, 0, offset);
  const CombineWork fixed = work;  // as far as the compiler knows, a store might change `work`
  for (; bytes - offset >= kBlockBytes; offset += kBlockBytes) {
    if (streaming && bytes - offset >= kFetchedAhead + kBlockBytes) {
      fetch_ahead<typename Lanes::Machine>(fixed, offset + kFetchedAhead, kBlockBytes);
    }
    const Block<Lanes> result = combine_block<Lanes, Op>(fixed, WholeBlocks{fixed.inputs, offset});
    for (std::size_t k = 0; k < fixed.target_count; ++k) {
      store_block(fixed.targets[k] + offset, result, streaming);
    }
  }
  combine_part<Lanes, Op>(work, offset, bytes - offset);
  if (streaming) {
    Lanes::Machine::fence();
  }
}

template <class Machine>
void stream_copy(std::byte* to, const std::byte* from, std::size_t bytes) {
  constexpr std::size_t kBlockBytes = kVectors * Machine::kVectorBytes;
  const std::size_t to_line = bytes_to_line<Machine>(to);
  std::size_t done = to_line < bytes ? to_line : bytes;
  __builtin_memcpy(to, from, done);
  for (; bytes - done >= kBlockBytes; done += kBlockBytes) {
#pragma GCC unroll 4
    for (std::size_t i = 0; i < kBlockBytes; i += Machine::kVectorBytes) {
      Machine::stream(to + done + i, load<Machine>(from + done + i));
    }
  }
  Machine::fence();
  __builtin_memcpy(to + done, from + done, bytes - done);
}

template <class Lanes>
CombineLoop combine_loop_for(Reduction reduction) {
  switch (reduction) {
    case Reduction::Sum:
    case Reduction::Average:
      return combine_loop<Lanes, AddUp>;
    case Reduction::Product:
      return combine_loop<Lanes, Multiply>;
    case Reduction::Min:
      return combine_loop<Lanes, Least>;
    case Reduction::Max:
      return combine_loop<Lanes, Greatest>;
    default:
      break;
  }
  if constexpr (!Lanes::kFloat) {
    switch (reduction) {
      case Reduction::BitAnd:
        return combine_loop<Lanes, And>;
      case Reduction::BitOr:
        return combine_loop<Lanes, Or>;
      case Reduction::BitXor:
        return combine_loop<Lanes, Xor>;
      default:
        break;
    }
  }
  return nullptr;
}

template <class Machine>
CombineLoop combine_loop_for(DType dtype, Reduction reduction) {
  switch (dtype) {
    case DType::F32:
      return combine_loop_for<PlainLanes<Machine, float, true>>(reduction);
    case DType::F64:
      return combine_loop_for<PlainLanes<Machine, double, true>>(reduction);
    case DType::F16:
      return combine_loop_for<Float16Lanes<Machine>>(reduction);
    case DType::BF16:
      return combine_loop_for<BFloat16Lanes<Machine>>(reduction);
    case DType::I8:
      return combine_loop_for<PlainLanes<Machine, std::int8_t, false>>(reduction);
    case DType::U8:
      return combine_loop_for<PlainLanes<Machine, std::uint8_t, false>>(reduction);
    case DType::I32:
      return combine_loop_for<PlainLanes<Machine, std::int32_t, false>>(reduction);
    case DType::I64:
      return combine_loop_for<PlainLanes<Machine, std::int64_t, false>>(reduction);
  }
  return nullptr;
}

/// Everything for one instruction set. The name must have static lifetime.
template <class Machine>
constexpr Loops loops_of(const char* name) {
  return {.name = name, .combine = combine_loop_for<Machine>, .stream_copy = stream_copy<Machine>};
}

}  // namespace trireme::comm
