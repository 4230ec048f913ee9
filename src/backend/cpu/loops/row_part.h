// Which of the rows, or classes, that numbers go by a part of a table has. Any thread.
#pragma once

#include <cstdint>
#include <string_view>

#include "backend/cpu/loops/elements.h"

namespace trireme::cpu::TRIREME_ISA {

struct RowPart {
  std::int64_t first, count, all;

  /// `of_all` is the attribute that says how many there are; 0 there: as many as the part has.
  RowPart(const KernelRequest& request, std::int64_t own, std::string_view of_all)
      : first(signature_of(request).integer("first")),
        count(own),
        all(signature_of(request).integer(of_all)) {
    all = all > 0 ? all : count;
  }
  /// What has this number is at `number - first`, if it is there.
  [[nodiscard]] bool has(std::int64_t number) const {
    return number >= first && number < first + count;
  }
};

}  // namespace trireme::cpu::TRIREME_ISA
