#include "trireme/error.h"

#include "base/indexed_vector.h"

namespace trireme {

// Not by EnumNames: its parser throws an Error.
std::string_view to_text(ErrorKind kind) {
  static constexpr IndexedArray<ErrorKind, std::string_view, 4> kNames{
      {"usage", "input", "system", "peer"}};
  return kNames.at(kind);
}

}  // namespace trireme
