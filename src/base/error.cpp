#include "trireme/error.h"

#include <array>

#include "base/indexed_vector.h"

namespace trireme {

std::string_view to_text(ErrorKind kind) {
  static constexpr std::array<std::string_view, 4> kNames{"usage", "input", "system", "peer"};
  return kNames.at(position_of(kind));
}

}  // namespace trireme
