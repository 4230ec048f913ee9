// The loops of one instruction set, and which sets this machine supports. Implementation of
// kernels.h; the tests and the benchmark select each set by name. Callable from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "comm/kernels/combine.h"

namespace trireme::comm {

/// combine_many's arguments without types that have inline functions: code compiled for a newer
/// instruction set must not emit a copy of a function that the rest of the program also uses, or
/// the linker may keep that copy for all.
struct CombineWork {
  const std::byte* const* inputs;
  std::size_t input_count;
  std::byte* const* targets;
  std::size_t target_count;
  std::size_t count;  ///< elements
  std::int64_t divide_by;
  Order order;
  Stores stores;
};

using CombineLoop = void (*)(const CombineWork& work);

struct Loops {
  const char* name;
  /// The loop for this type and reduction, nullptr if not supported.
  CombineLoop (*combine)(DType dtype, Reduction reduction);
  /// Copies past the caches. Fenced before it returns.
  void (*stream_copy)(std::byte* to, const std::byte* from, std::size_t bytes);
};

extern const Loops kBaselineLoops;
extern const Loops kAvx2Loops;    ///< only on x86
extern const Loops kAvx512Loops;  ///< only on x86

/// Those this machine can run, the fastest first, kBaselineLoops last.
[[nodiscard]] std::span<const Loops* const> available_loops();

/// nullptr: not supported on this machine.
[[nodiscard]] const Loops* loops_for(std::string_view name);

/// copy_bytes and combine_many using these loops.
void copy_bytes_with(const Loops& loops, std::byte* to, const std::byte* from, std::size_t bytes,
                     Stores stores);
void combine_many_with(const Loops& loops, const Combine& how,
                       std::span<const std::byte* const> inputs,
                       std::span<std::byte* const> targets, std::int64_t count, Stores stores);

}  // namespace trireme::comm
