#include <algorithm>
#include <cmath>

#include <xxhash.h>

#include "base/enum_names.h"
#include "graph/random.h"
#include "trireme/error.h"
#include "trireme/model.h"

namespace trireme {
namespace {

/// The initial value of an element.
double value_at(const Initial& initial, const random::Stream& stream, std::uint64_t index) {
  switch (initial.kind) {
    case Initial::Kind::Zero:
      return 0;
    case Initial::Kind::One:
      return 1;
    case Initial::Kind::Normal:
      return initial.deviation * random::normal(stream, index);
  }
  return 0;
}

template <class T, class F>
void fill(HostBuffer& buffer, F value) {
  const std::span<T> elements = buffer.as<T>();
  for (std::size_t i = 0; i < elements.size(); ++i) {
    elements[i] = value(i);
  }
}

}  // namespace

HostBuffer initial_values(const ModelParameter& parameter, std::uint64_t seed) {
  const std::uint64_t own =
      XXH3_64bits_withSeed(parameter.name.data(), parameter.name.size(), seed);
  const random::Stream stream{static_cast<std::int64_t>(own), 0, random::Use::Normal};
  HostBuffer buffer(parameter.type.dtype, parameter.type.shape.element_count());
  const auto value = [&](std::size_t i) { return value_at(parameter.initial, stream, i); };
  switch (parameter.type.dtype) {
    case DType::F32:
      fill<float>(buffer, [&](std::size_t i) { return static_cast<float>(value(i)); });
      break;
    case DType::F64:
      fill<double>(buffer, value);
      break;
    case DType::BF16:
      fill<BFloat16>(buffer, [&](std::size_t i) { return to_bf16(static_cast<float>(value(i))); });
      break;
    case DType::F16:
      fill<Float16>(buffer, [&](std::size_t i) { return to_f16(static_cast<float>(value(i))); });
      break;
    default:
      throw Error(ErrorKind::Usage, "parameters are of floating point");
  }
  return buffer;
}

std::string_view to_text(Initial::Kind kind) {
  static constexpr auto kNames = enum_names<Initial::Kind>("zero", "one", "normal");
  return kNames[kind];
}

}  // namespace trireme
