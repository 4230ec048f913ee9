// When each value of a step needs memory, and which values share it. Callable from any thread.
//
// Every value gets a storage. A result reuses the storage of an input if its op works in place and nothing needs the
// input afterwards; a view always does.
//
// Persistent values may be updated several times in a step. Intermediate versions replace the first if nothing reads
// that any more; those that are still read get their own storage.
#pragma once

#include <cstdint>
#include <vector>

#include "base/indexed_vector.h"
#include "graph/outline.h"
#include "trireme/program.h"

namespace trireme {

/// Memory that holds one value after another. The first and the last node that use it; `first` is -1 if it is kept
/// between steps.
struct Storage {
  std::int64_t bytes = 0;
  std::int32_t first = 0;
  std::int32_t last = 0;
  bool kept = false;
  Category category = Category::Activation;  ///< of its first value
};

struct Lifetimes {
  IndexedVector<std::int32_t, Storage> storages{};
  IndexedVector<ValueId, std::int32_t> storage_of{};  ///< -1: no node produces it
  IndexedVector<ValueId, Category> category{};
  IndexedVector<std::int32_t, std::int32_t> done_before{};  ///< by node; see Instruction
};

/// Appends to the outline the copies that updates need: of results that are not in their targets' storages at the end,
/// and of targets that are themselves results of updates, which are set aside first.
[[nodiscard]] Lifetimes find_lifetimes(Outline& outline);

}  // namespace trireme
