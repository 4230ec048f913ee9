#include "inputs.h"

#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>

#include "elements.h"

namespace trireme::fuzz {

std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  std::uint64_t x = a * 0x9E3779B97F4A7C15U + b + 0x632BE59BD9B4E019U;
  x = (x ^ (x >> 32)) * 0xD6E8FEB86659FD93U;
  return x ^ (x >> 32);
}

namespace {

enum class Domain {
  Bits,           ///< any bit pattern
  SmallIntegers,  ///< -4 to 4, or 0 to 8
  Powers,         ///< 1, 2, -1, 1/2
  Multiples,      ///< of the number of ranks: averages are integers
  Reals,          ///< any fraction in [-2, 2)
  PositiveReals,  ///< in [1/2, 2): products stay in range
  Extremes,       ///< Reals, zeros of both signs, infinities and occasionally a NaN
};

Domain float_domain(const Collective& call) {
  const bool random = call.values == Collective::Values::Random;
  if (call.combiner == Collective::Combiner::User) {
    return Domain::SmallIntegers;
  }
  switch (call.reduction) {
    case Reduction::Product:
      return random ? Domain::PositiveReals : Domain::Powers;
    case Reduction::Average:
      return random ? Domain::Reals : Domain::Multiples;
    case Reduction::Sum:
      return random ? Domain::Reals : Domain::SmallIntegers;
    default:
      return Domain::Extremes;
  }
}

Domain domain_of(const Collective& call) {
  if (!combines(call.operation)) {
    return Domain::Bits;
  }
  if (is_float(call.dtype)) {
    return float_domain(call);
  }
  const bool averages =
      call.combiner == Collective::Combiner::BuiltIn && call.reduction == Reduction::Average;
  return averages ? Domain::SmallIntegers : Domain::Bits;
}

double extreme(std::uint64_t random, double real) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  switch (random % 32) {
    case 0:
      return -0.0;
    case 1:
      return 0.0;
    case 2:
      return kInfinity;
    case 3:
      return -kInfinity;
    case 4:
      return random % 256 == 4 ? std::numeric_limits<double>::quiet_NaN() : real;
    default:
      return real;
  }
}

double number_in(Domain domain, std::uint64_t random, Rank ranks) {
  constexpr std::array<double, 4> kPowers{1, 2, -1, 0.5};
  const auto small = static_cast<int>((random >> 32) % 9) - 4;
  const int smaller = small / 2;
  const double fraction = static_cast<double>(random >> 40) / static_cast<double>(1 << 24);
  switch (domain) {
    case Domain::Powers:
      return kPowers[random >> 62];
    case Domain::Multiples:
      return static_cast<double>(smaller * ranks);
    case Domain::Reals:
      return fraction * 4 - 2;
    case Domain::PositiveReals:
      return fraction * 1.5 + 0.5;
    case Domain::Extremes:
      return extreme(random, fraction * 4 - 2);
    default:
      return small;
  }
}

template <class T>
T from_number(double number) {
  if constexpr (std::is_same_v<T, Float16>) {
    return to_f16(static_cast<float>(number));
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return to_bf16(static_cast<float>(number));
  } else if constexpr (std::is_same_v<T, std::uint8_t>) {
    return static_cast<T>(number + 4);
  } else {
    return static_cast<T>(number);
  }
}

template <class T>
T make_value(Domain domain, std::uint64_t random, Rank ranks) {
  if (domain == Domain::Bits) {
    std::array<std::byte, sizeof(T)> bytes{};
    std::memcpy(bytes.data(), &random, sizeof(T));
    return std::bit_cast<T>(bytes);
  }
  return from_number<T>(number_in(domain, random, ranks));
}

template <class T>
void fill(const CallView& view, Rank place, std::int64_t begin, std::span<T> out) {
  const Domain domain = domain_of(view.call);
  const std::uint64_t key = mix(view.key, static_cast<std::uint64_t>(place));
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto index = static_cast<std::uint64_t>(begin) + i;
    out[i] = make_value<T>(domain, mix(key, index), view.ranks);
  }
}

}  // namespace

void fill_input(const CallView& view, Rank place, std::int64_t begin, std::span<std::byte> out) {
  with_type(view.call.dtype,
            [&](auto zero) { fill(view, place, begin, elements<decltype(zero)>(out)); });
}

}  // namespace trireme::fuzz
