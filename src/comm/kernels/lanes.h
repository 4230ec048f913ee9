// Lanes: the layout of elements of one type in the vectors of one Machine (see loop_bodies.h), and the operations that
// combine two such vectors. Callable from any thread.
//
// `Value` is the type that elements are combined as. A raw vector of elements is widened to kParts
// vectors `Wide`, and narrowed back.
#pragma once

#include "comm/kernels/vectors.h"

namespace trireme::comm {

/// Integers are combined as unsigned ones, because signed ones must not overflow.
template <class T>
struct UnsignedOf {
  using Type = T;
};
template <>
struct UnsignedOf<std::int8_t> {
  using Type = std::uint8_t;
};
template <>
struct UnsignedOf<std::int32_t> {
  using Type = std::uint32_t;
};
template <>
struct UnsignedOf<std::int64_t> {
  using Type = std::uint64_t;
};

template <class M, class T, bool kIsFloat>
struct PlainLanes {
  using Machine = M;
  using Value = T;
  using Wide = Vector<typename UnsignedOf<T>::Type, M::kVectorBytes>;
  static constexpr bool kFloat = kIsFloat;
  static constexpr std::size_t kElementBytes = sizeof(T);
  static constexpr std::size_t kParts = 1;

  static void widen(typename M::Raw raw, Wide* parts) { parts[0] = __builtin_bit_cast(Wide, raw); }
  static typename M::Raw narrow(const Wide* parts) {
    return __builtin_bit_cast(typename M::Raw, parts[0]);
  }
};

template <class M>
struct HalfLanes {
  using Machine = M;
  using Value = float;
  using Wide = Vector<float, M::kVectorBytes>;
  static constexpr bool kFloat = true;
  static constexpr std::size_t kElementBytes = 2;
  static constexpr std::size_t kParts = 2;
};

template <class M>
struct Float16Lanes : HalfLanes<M> {
  using Wide = typename HalfLanes<M>::Wide;
  static void widen(typename M::Raw raw, Wide* parts) {
    const TwoVectors<M::kVectorBytes> wide = M::widen_f16(raw);
    parts[0] = wide.first;
    parts[1] = wide.second;
  }
  static typename M::Raw narrow(const Wide* parts) { return M::narrow_f16({parts[0], parts[1]}); }
};

template <class M>
struct BFloat16Lanes : HalfLanes<M> {
  using Wide = typename HalfLanes<M>::Wide;
  static void widen(typename M::Raw raw, Wide* parts) {
    const TwoVectors<M::kVectorBytes> wide = widen_bf16<M::kVectorBytes>(raw);
    parts[0] = wide.first;
    parts[1] = wide.second;
  }
  static typename M::Raw narrow(const Wide* parts) {
    return narrow_bf16<M::kVectorBytes>({parts[0], parts[1]});
  }
};

// Operations that combine two vectors.

struct AddUp {
  template <class Lanes>
  static typename Lanes::Wide apply(typename Lanes::Wide a, typename Lanes::Wide b) {
    return a + b;
  }
};

struct Multiply {
  template <class Lanes>
  static typename Lanes::Wide apply(typename Lanes::Wide a, typename Lanes::Wide b) {
    return a * b;
  }
};

struct And {
  template <class Lanes>
  static typename Lanes::Wide apply(typename Lanes::Wide a, typename Lanes::Wide b) {
    return a & b;
  }
};

struct Or {
  template <class Lanes>
  static typename Lanes::Wide apply(typename Lanes::Wide a, typename Lanes::Wide b) {
    return a | b;
  }
};

struct Xor {
  template <class Lanes>
  static typename Lanes::Wide apply(typename Lanes::Wide a, typename Lanes::Wide b) {
    return a ^ b;
  }
};

template <class Lanes>
using Values = Vector<typename Lanes::Value, Lanes::Machine::kVectorBytes>;

struct Least {
  template <class Lanes>
  static typename Lanes::Wide apply(typename Lanes::Wide a, typename Lanes::Wide b) {
    using Wide = typename Lanes::Wide;
    using Raw = typename Lanes::Machine::Raw;
    const auto x = __builtin_bit_cast(Values<Lanes>, a);
    const auto y = __builtin_bit_cast(Values<Lanes>, b);
    const Values<Lanes> one = x < y ? x : y;
    if constexpr (Lanes::kFloat) {
      // The two differ in bits only for zeros of opposite signs, where "or" gives -0, and with a NaN, where they are
      // the two operands and "or" leaves a NaN.
      const Values<Lanes> other = y < x ? y : x;
      return __builtin_bit_cast(Wide,
                                __builtin_bit_cast(Raw, one) | __builtin_bit_cast(Raw, other));
    } else {
      return __builtin_bit_cast(Wide, one);
    }
  }
};

struct Greatest {
  template <class Lanes>
  static typename Lanes::Wide apply(typename Lanes::Wide a, typename Lanes::Wide b) {
    using Wide = typename Lanes::Wide;
    using Raw = typename Lanes::Machine::Raw;
    const auto x = __builtin_bit_cast(Values<Lanes>, a);
    const auto y = __builtin_bit_cast(Values<Lanes>, b);
    const Values<Lanes> one = x > y ? x : y;
    if constexpr (Lanes::kFloat) {
      // "And" turns zeros of opposite signs into +0. All ones, the result of a true comparison, are a NaN.
      const Values<Lanes> other = y > x ? y : x;
      const auto nan = __builtin_bit_cast(Raw, (x != x) | (y != y));
      return __builtin_bit_cast(
          Wide, (__builtin_bit_cast(Raw, one) & __builtin_bit_cast(Raw, other)) | nan);
    } else {
      return __builtin_bit_cast(Wide, one);
    }
  }
};

}  // namespace trireme::comm
