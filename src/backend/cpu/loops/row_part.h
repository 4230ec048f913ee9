// Which rows, or classes, a shard of a table has. Callable from any thread.
#pragma once

#include <cstdint>
#include <string_view>

#include "backend/cpu/loops/elements.h"

namespace trireme::cpu::TRIREME_ISA {

struct RowPart {
  std::int64_t first, count, all;

  /// `of_all` is the attribute with the total number; if it is 0, the shard is the whole table.
  RowPart(const KernelRequest& request, std::int64_t own, std::string_view of_all)
      : first(signature_of(request).integer("first")),
        count(own),
        all(signature_of(request).integer(of_all)) {
    all = all > 0 ? all : count;
  }
  /// The row with this index is at `number - first`, if it is present.
  [[nodiscard]] bool has(std::int64_t number) const {
    return number >= first && number < first + count;
  }
};

}  // namespace trireme::cpu::TRIREME_ISA
