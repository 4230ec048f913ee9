#include "reference.h"

#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "../wide.h"
#include "elements.h"
#include "inputs.h"

namespace trireme::fuzz {
namespace {

/// For arithmetic without overflow: bits above those of the type are dropped in the end.
template <class Integer>
std::uint64_t unsigned_of(Integer value) {
  return static_cast<std::make_unsigned_t<Integer>>(value);
}

template <class W>
W wrapping(Reduction reduction, W a, W b) {
  const auto x = unsigned_of(a);
  const auto y = unsigned_of(b);
  return static_cast<W>(reduction == Reduction::Product ? x * y : x + y);
}

template <class W>
W combine_bits(Reduction reduction, W a, W b) {
  switch (reduction) {
    case Reduction::BitAnd:
      return static_cast<W>(a & b);
    case Reduction::BitOr:
      return static_cast<W>(a | b);
    case Reduction::BitXor:
      return static_cast<W>(a ^ b);
    default:
      return wrapping(reduction, a, b);
  }
}

/// For floats the minimum of IEEE 754-2019: a NaN wins, and -0 is less than +0.
template <class W>
W minimum(W a, W b) {
  if constexpr (std::is_floating_point_v<W>) {
    if (std::isnan(a) || std::isnan(b)) {
      return std::numeric_limits<W>::quiet_NaN();
    }
    if (a == b) {
      return std::signbit(a) ? a : b;
    }
  }
  return b < a ? b : a;
}
template <class W>
W maximum(W a, W b) {
  if constexpr (std::is_floating_point_v<W>) {
    return std::isnan(a) || std::isnan(b) ? std::numeric_limits<W>::quiet_NaN() : -minimum(-a, -b);
  } else {
    return a < b ? b : a;
  }
}

template <class W>
W combine_two(Reduction reduction, W a, W b) {
  if (reduction == Reduction::Min) {
    return minimum(a, b);
  }
  if (reduction == Reduction::Max) {
    return maximum(a, b);
  }
  if constexpr (std::is_floating_point_v<W>) {
    return reduction == Reduction::Product ? a * b : a + b;
  } else {
    return combine_bits(reduction, a, b);
  }
}

/// Associative and commutative, but not a built-in reduction: (1 + a)(1 + b) - 1 of integers, which wrap. For floats,
/// which would not stay exact, the sum.
template <class T>
Wide<T> combine_user(Wide<T> a, Wide<T> b) {
  if constexpr (std::is_integral_v<T>) {
    const auto x = unsigned_of(a);
    const auto y = unsigned_of(b);
    return static_cast<T>((1 + x) * (1 + y) - 1);
  } else {
    return a + b;
  }
}

template <class T>
Wide<T> combine_tree(const Collective& call, std::span<const Wide<T>> values) {
  if (values.size() == 1) {
    return values[0];
  }
  const std::size_t half = (values.size() + 1) / 2;
  const Wide<T> a = combine_tree<T>(call, values.first(half));
  const Wide<T> b = combine_tree<T>(call, values.subspan(half));
  return call.combiner == Collective::Combiner::User ? combine_user<T>(a, b)
                                                     : combine_two(call.reduction, a, b);
}

template <class T>
T combine_all(const Collective& call, std::span<const Wide<T>> values) {
  Wide<T> result = combine_tree<T>(call, values);
  if (call.combiner == Collective::Combiner::BuiltIn && call.reduction == Reduction::Average) {
    result = static_cast<Wide<T>>(result / static_cast<Wide<T>>(values.size()));
  }
  return narrow<T>(result);
}

template <class T>
void fill_combined_as(const CallView& view, std::int64_t begin, std::span<T> out) {
  std::vector<std::vector<T>> inputs(view.ranks);
  for (std::size_t r = 0; r < inputs.size(); ++r) {
    inputs[r].resize(out.size());
    fill_input(view, static_cast<Rank>(r), begin, std::as_writable_bytes(std::span(inputs[r])));
  }
  std::vector<Wide<T>> values(inputs.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    for (std::size_t r = 0; r < inputs.size(); ++r) {
      values[r] = widen(inputs[r][i]);
    }
    out[i] = combine_all<T>(view.call, values);
  }
}

template <class T>
UserReduction make_user_reduction() {
  return {"fuzz", [](const void* from, void* into, std::int64_t count) {
            const auto* a = static_cast<const T*>(from);
            auto* b = static_cast<T*>(into);
            for (std::int64_t i = 0; i < count; ++i) {
              b[i] = narrow<T>(combine_user<T>(widen(a[i]), widen(b[i])));
            }
          }};
}

}  // namespace

void fill_combined(const CallView& view, std::int64_t begin, std::span<std::byte> out) {
  with_type(view.call.dtype,
            [&](auto zero) { fill_combined_as(view, begin, elements<decltype(zero)>(out)); });
}

const UserReduction& user_reduction(DType dtype) {
  return with_type(dtype, [](auto zero) -> const UserReduction& {
    static const UserReduction reduction = make_user_reduction<decltype(zero)>();
    return reduction;
  });
}

}  // namespace trireme::fuzz
