#include "values.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <type_traits>
#include <vector>

#include <fmt/format.h>

#include "elements.h"

namespace trireme::fuzz {

std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  std::uint64_t x = a * 0x9E3779B97F4A7C15U + b + 0x632BE59BD9B4E019U;
  x = (x ^ (x >> 32)) * 0xD6E8FEB86659FD93U;
  return x ^ (x >> 32);
}

namespace {

// What inputs are made of.

enum class Domain {
  Bits,           ///< any bit pattern
  SmallIntegers,  ///< -4 to 4, or 0 to 8
  Powers,         ///< 1, 2, -1, 1/2
  Multiples,      ///< of the number of ranks: averages are whole
  Reals,          ///< any fraction in [-2, 2)
  PositiveReals,  ///< in [1/2, 2): products stay in range
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
      return Domain::Reals;
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

double number_in(Domain domain, std::uint64_t random, Rank ranks) {
  constexpr std::array<double, 4> kPowers{1, 2, -1, 0.5};
  const auto small = static_cast<int>((random >> 32) % 9) - 4;
  const double fraction = static_cast<double>(random >> 40) / static_cast<double>(1 << 24);
  switch (domain) {
    case Domain::Powers:
      return kPowers[random >> 62];
    case Domain::Multiples:
      return static_cast<double>(small / 2 * ranks);
    case Domain::Reals:
      return fraction * 4 - 2;
    case Domain::PositiveReals:
      return fraction * 1.5 + 0.5;
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

// Combining, by the balanced tree that Order::Fixed promises.

/// What partial results are kept in.
template <class T>
struct Wide {
  using Type = T;
};
template <>
struct Wide<Float16> {
  using Type = float;
};
template <>
struct Wide<BFloat16> {
  using Type = float;
};
template <class T>
using WideOf = typename Wide<T>::Type;

template <class T>
WideOf<T> widen(T value) {
  if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>) {
    return to_f32(value);
  } else {
    return value;
  }
}
template <class T>
T narrow(WideOf<T> value) {
  if constexpr (std::is_same_v<T, Float16>) {
    return to_f16(value);
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return to_bf16(value);
  } else {
    return value;
  }
}

template <class W>
W wrapping(Reduction reduction, W a, W b) {
  const auto x = static_cast<std::uint64_t>(a);
  const auto y = static_cast<std::uint64_t>(b);
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

template <class W>
W combine_two(Reduction reduction, W a, W b) {
  if (reduction == Reduction::Min) {
    return b < a ? b : a;
  }
  if (reduction == Reduction::Max) {
    return a < b ? b : a;
  }
  if constexpr (std::is_floating_point_v<W>) {
    return reduction == Reduction::Product ? a * b : a + b;
  } else {
    return combine_bits(reduction, a, b);
  }
}

/// Associative and commutative, and no built-in reduction: (1 + a)(1 + b) - 1 of integers, which wrap.
/// Of floats, which would not stay exact, the sum.
template <class T>
WideOf<T> combine_user(WideOf<T> a, WideOf<T> b) {
  if constexpr (std::is_integral_v<T>) {
    const auto x = static_cast<std::uint64_t>(a);
    const auto y = static_cast<std::uint64_t>(b);
    return static_cast<T>((1 + x) * (1 + y) - 1);
  } else {
    return a + b;
  }
}

template <class T>
WideOf<T> combine_tree(const Collective& call, std::span<const WideOf<T>> values) {
  if (values.size() == 1) {
    return values[0];
  }
  const std::size_t half = (values.size() + 1) / 2;
  const WideOf<T> a = combine_tree<T>(call, values.first(half));
  const WideOf<T> b = combine_tree<T>(call, values.subspan(half));
  return call.combiner == Collective::Combiner::User ? combine_user<T>(a, b)
                                                     : combine_two(call.reduction, a, b);
}

template <class T>
T combine_all(const Collective& call, std::span<const WideOf<T>> values) {
  WideOf<T> result = combine_tree<T>(call, values);
  if (call.combiner == Collective::Combiner::BuiltIn && call.reduction == Reduction::Average) {
    result = static_cast<WideOf<T>>(result / static_cast<WideOf<T>>(values.size()));
  }
  return narrow<T>(result);
}

/// The combination of elements begin, begin + 1, … of all inputs.
template <class T>
void fill_combined(const CallView& view, std::int64_t begin, std::span<T> out) {
  std::vector<std::vector<T>> inputs(static_cast<std::size_t>(view.ranks));
  for (Rank r = 0; r < view.ranks; ++r) {
    inputs[static_cast<std::size_t>(r)].resize(out.size());
    fill<T>(view, r, begin, inputs[static_cast<std::size_t>(r)]);
  }
  std::vector<WideOf<T>> values(inputs.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    for (std::size_t r = 0; r < inputs.size(); ++r) {
      values[r] = widen(inputs[r][i]);
    }
    out[i] = combine_all<T>(view.call, values);
  }
}

// Blocks.

std::int64_t count_at(const CallView& view, Rank index) {
  return view.call.counts.empty() ? view.call.count
                                  : view.call.counts.at(static_cast<std::size_t>(index));
}

/// What `from` has for `to` in an all-to-all.
std::int64_t pair_count(const CallView& view, Rank from, Rank to) {
  return count_at(view, from * view.ranks + to);
}

std::int64_t all_blocks(const CallView& view) {
  std::int64_t sum = 0;
  for (Rank r = 0; r < view.ranks; ++r) {
    sum += count_at(view, r);
  }
  return sum;
}

std::int64_t sent_before(const CallView& view, Rank from, Rank to) {
  std::int64_t sum = 0;
  for (Rank r = 0; r < to; ++r) {
    sum += pair_count(view, from, r);
  }
  return sum;
}

/// A stretch of an output that is a copy of a stretch of someone's input.
struct Copied {
  std::int64_t length = 0;
  Rank source = 0;
  std::int64_t begin = 0;
};

std::vector<Copied> copies(const CallView& view, Rank place) {
  const Collective& call = view.call;
  if (call.operation == Operation::Broadcast) {
    return {{call.count, call.root, 0}};
  }
  if (call.operation == Operation::Scatter) {
    return {{count_at(view, place), call.root, block_offset(view, place)}};
  }
  std::vector<Copied> out;
  for (Rank r = 0; r < view.ranks; ++r) {
    if (call.operation == Operation::Alltoall) {
      out.push_back({pair_count(view, r, place), r, sent_before(view, r, place)});
    } else {
      out.push_back({count_at(view, r), r, 0});
    }
  }
  return out;
}

// Comparing, a chunk at a time so that memory stays small.

constexpr std::int64_t kChunk = 4096;

template <class T>
double to_double(T value) {
  return static_cast<double>(widen(value));
}

/// How far a result of random values may be off where the order of combining is open.
template <class T>
double slack(const CallView& view, double expected) {
  const double ranks = view.ranks;
  const double fine = std::is_same_v<T, double> ? std::numeric_limits<double>::epsilon()
                                                : std::numeric_limits<float>::epsilon();
  const double rounding = std::is_same_v<T, Float16>    ? 1.0 / 1024
                          : std::is_same_v<T, BFloat16> ? 1.0 / 128
                                                        : fine;
  return rounding * std::abs(expected) + fine * 4 * ranks * std::max(2 * ranks, std::abs(expected));
}

bool is_open_order(const Collective& call) {
  return combines(call.operation) && call.values == Collective::Values::Random &&
         call.order == Order::Any;
}

template <class T>
bool is_right(const CallView& view, T got, T expected) {
  if (std::memcmp(&got, &expected, sizeof(T)) == 0) {
    return true;
  }
  if (!is_open_order(view.call)) {
    return false;
  }
  const double want = to_double(expected);
  return std::abs(to_double(got) - want) <= slack<T>(view, want);
}

template <class T>
std::string show(T value) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(value));
  return fmt::format("{} (0x{:0{}x})", to_double(value), bits, 2 * sizeof(value));
}

template <class T>
void compare_chunk(const CallView& view, std::int64_t begin, std::span<const T> got,
                   std::span<const T> expected, Differences& found) {
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (is_right(view, got[i], expected[i])) {
      continue;
    }
    if (found.count++ == 0) {
      found.first =
          fmt::format("element {} is {}, expected {}", begin + static_cast<std::int64_t>(i),
                      show(got[i]), show(expected[i]));
    }
  }
}

/// Compares `got` with what `expect(begin, span)` fills in; `at` is the index of got[0] in messages.
template <class T, class Expect>
void compare_all(const CallView& view, std::int64_t at, std::span<const T> got,
                 const Expect& expect, Differences& found) {
  std::vector<T> expected;
  const auto total = static_cast<std::int64_t>(got.size());
  for (std::int64_t begin = 0; begin < total; begin += kChunk) {
    const auto length = static_cast<std::size_t>(std::min(kChunk, total - begin));
    expected.resize(length);
    expect(begin, std::span<T>(expected));
    compare_chunk<T>(view, at + begin, got.subspan(static_cast<std::size_t>(begin), length),
                     expected, found);
  }
}

template <class T>
Differences compare_combined(const CallView& view, Rank place, std::span<const T> got) {
  Differences found;
  const bool scattered = view.call.operation == Operation::ReduceScatter;
  const std::int64_t first = scattered ? block_offset(view, place) : 0;
  compare_all<T>(
      view, 0, got,
      [&](std::int64_t begin, std::span<T> out) { fill_combined<T>(view, first + begin, out); },
      found);
  return found;
}

template <class T>
Differences compare_copied(const CallView& view, Rank place, std::span<const T> got) {
  Differences found;
  std::int64_t at = 0;
  for (const Copied& part : copies(view, place)) {
    compare_all<T>(
        view, at, got.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(part.length)),
        [&](std::int64_t begin, std::span<T> out) {
          fill<T>(view, part.source, part.begin + begin, out);
        },
        found);
    at += part.length;
  }
  return found;
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

// The interface.

bool reads_input(const Collective& call, Rank place) {
  const bool only_root =
      call.operation == Operation::Scatter || call.operation == Operation::Broadcast;
  return call.operation != Operation::Barrier && (!only_root || place == call.root);
}

bool writes_output(const Collective& call, Rank place) {
  const bool only_root = call.operation == Operation::Reduce || call.operation == Operation::Gather;
  return call.operation != Operation::Barrier && (!only_root || place == call.root);
}

std::int64_t block_offset(const CallView& view, Rank place) {
  std::int64_t sum = 0;
  for (Rank r = 0; r < place; ++r) {
    sum += count_at(view, r);
  }
  return sum;
}

std::int64_t input_elements(const CallView& view, Rank place) {
  switch (view.call.operation) {
    case Operation::Scatter:
    case Operation::ReduceScatter:
      return all_blocks(view);
    case Operation::Gather:
    case Operation::Allgather:
      return count_at(view, place);
    case Operation::Alltoall:
      return sent_before(view, place, view.ranks);
    case Operation::Barrier:
      return 0;
    default:
      return view.call.count;
  }
}

std::int64_t output_elements(const CallView& view, Rank place) {
  switch (view.call.operation) {
    case Operation::Scatter:
    case Operation::ReduceScatter:
      return count_at(view, place);
    case Operation::Gather:
    case Operation::Allgather:
      return all_blocks(view);
    case Operation::Alltoall: {
      std::int64_t sum = 0;
      for (Rank r = 0; r < view.ranks; ++r) {
        sum += pair_count(view, r, place);
      }
      return sum;
    }
    case Operation::Barrier:
      return 0;
    default:
      return view.call.count;
  }
}

void fill_input(const CallView& view, Rank place, std::int64_t begin, std::span<std::byte> out) {
  with_type(view.call.dtype,
            [&](auto zero) { fill(view, place, begin, elements<decltype(zero)>(out)); });
}

Differences compare_output(const CallView& view, Rank place, std::span<const std::byte> got) {
  return with_type(view.call.dtype, [&](auto zero) {
    using T = decltype(zero);
    return combines(view.call.operation) ? compare_combined<T>(view, place, elements<T>(got))
                                         : compare_copied<T>(view, place, elements<T>(got));
  });
}

Differences compare_input(const CallView& view, Rank place, std::int64_t begin,
                          std::span<const std::byte> got) {
  // Nothing is combined on the way, so every bit counts.
  Collective exact = view.call;
  exact.order = Order::Fixed;
  const CallView strict{exact, view.key, view.ranks};
  return with_type(exact.dtype, [&](auto zero) {
    using T = decltype(zero);
    Differences found;
    compare_all<T>(
        strict, begin, elements<T>(got),
        [&](std::int64_t at, std::span<T> out) { fill<T>(strict, place, begin + at, out); }, found);
    return found;
  });
}

const UserReduction& user_reduction(DType dtype) {
  return with_type(dtype, [](auto zero) -> const UserReduction& {
    static const UserReduction reduction = make_user_reduction<decltype(zero)>();
    return reduction;
  });
}

Collective as_broadcast(const Message& message) {
  return {
      .operation = Operation::Broadcast, .dtype = message.dtype, .root = 0, .count = message.count};
}

}  // namespace trireme::fuzz
