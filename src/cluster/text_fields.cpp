#include "cluster/text_fields.h"

#include <cstdint>
#include <limits>

#include <fmt/format.h>

namespace trireme {

int small_integer(const JsonObject& object, std::string_view field) {
  const std::int64_t value = object.integer(field);
  if (value < std::numeric_limits<int>::min() || value > std::numeric_limits<int>::max()) {
    object.fail(field, fmt::format("is {}, out of range", value));
  }
  return static_cast<int>(value);
}

}  // namespace trireme
