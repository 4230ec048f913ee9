// The loops of every instruction set that this machine has, against a simple reference, bit for
// bit.
#include "comm/kernels/kernels.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

#include "base/check.h"
#include "comm/kernel_reference.h"
#include "comm/kernels/loops.h"

namespace trireme::comm {
namespace {

constexpr std::array kReductions{Reduction::Sum,   Reduction::Product, Reduction::Min,
                                 Reduction::Max,   Reduction::Average, Reduction::BitAnd,
                                 Reduction::BitOr, Reduction::BitXor};
constexpr std::array kOrders{Order::Any, Order::Fixed};
constexpr std::array<std::size_t, 17> kCounts{0,  1,  2,  3,  7,  8,   15,   16,  17,
                                              31, 33, 63, 64, 65, 127, 1000, 4099};
constexpr std::size_t kMaxInputs = 9;
constexpr std::size_t kMaxTargets = 3;

// The comparison.

/// One way to call combine_many: all that must not affect the result.
struct Manner {
  const Loops* loops;
  std::size_t count;
  std::size_t targets;
  std::size_t variant;  ///< counts up; alignment, aliasing and stores follow from it
};

std::string describe(const Combine& how, std::size_t inputs, const Manner& manner) {
  return std::string(manner.loops->name) + " " + std::string(to_text(how.dtype)) + " reduction " +
         std::to_string(static_cast<int>(how.reduction)) + " order " +
         std::to_string(static_cast<int>(how.order)) + " divided by " +
         std::to_string(how.divide_by) + ", " + std::to_string(inputs) + " inputs, " +
         std::to_string(manner.targets) + " targets, " + std::to_string(manner.count) +
         " elements, variant " + std::to_string(manner.variant);
}

/// Inputs with and without cache-line alignment, and targets with any alignment.
template <class T>
struct Fixture {
  std::vector<Buffer<T>> aligned = random_buffers<T>(kMaxInputs, 0);
  std::vector<Buffer<T>> shifted = random_buffers<T>(kMaxInputs, 5);
  std::vector<std::vector<Buffer<T>>> targets = target_sets();
  std::size_t variant = 0;  ///< the last one tried

  static std::vector<std::vector<Buffer<T>>> target_sets() {
    std::vector<std::vector<Buffer<T>>> sets;
    for (const std::size_t step : {0, 1, 16, 3}) {
      std::vector<Buffer<T>> set;
      for (std::size_t k = 0; k < kMaxTargets; ++k) {
        set.emplace_back(step * (k + 1) % 64);
      }
      sets.push_back(std::move(set));
    }
    return sets;
  }
};

template <class T>
void check_manner(Fixture<T>& fixture, const Combine& how, std::size_t input_count,
                  const Manner& manner, std::span<const T> expected) {
  auto& source = manner.variant % 2 == 0 ? fixture.aligned : fixture.shifted;
  auto& targets = fixture.targets.at(manner.variant / 2 % fixture.targets.size());
  const Stores stores = manner.variant / 8 % 2 == 0 ? Stores::Cached : Stores::Streaming;
  const std::size_t aliases = manner.variant % 3;  // how many targets are inputs
  std::vector<const std::byte*> in;
  for (std::size_t j = 0; j < input_count; ++j) {
    in.push_back(source[j].data());
  }
  std::vector<std::byte*> out;
  for (std::size_t k = 0; k < manner.targets; ++k) {
    out.push_back(targets[k].data());
    if (k < std::min(aliases, input_count)) {
      const std::size_t j = (manner.variant + k) % input_count;
      std::memcpy(out[k], source[j].data(), manner.count * sizeof(T));
      in[j] = out[k];
    }
  }
  combine_many_with(*manner.loops, how, in, out, static_cast<std::int64_t>(manner.count), stores);
  for (std::size_t k = 0; k < manner.targets; ++k) {
    ASSERT_EQ(std::memcmp(out[k], expected.data(), manner.count * sizeof(T)), 0)
        << describe(how, input_count, manner) << ", target " << k;
    ASSERT_TRUE(targets[k].untouched_but(manner.count)) << describe(how, input_count, manner);
    targets[k].clear(manner.count);
  }
}

template <class T>
void check_all_manners(Fixture<T>& fixture, const Combine& how, std::size_t input_count) {
  const auto inputs = spans_of(fixture.aligned, input_count);
  const std::vector<T> expected = plain_results<T>(how, inputs);
  for (const Loops* loops : available_loops()) {
    for (const std::size_t count : kCounts) {
      for (std::size_t targets = 1; targets <= kMaxTargets; ++targets) {
        // 7 and the 48 variants are coprime: all of them are used.
        fixture.variant += 7;
        const Manner manner{loops, count, targets, fixture.variant};
        ASSERT_NO_FATAL_FAILURE(check_manner<T>(fixture, how, input_count, manner, expected));
      }
    }
  }
}

template <class T>
void check_type() {
  Fixture<T> fixture;
  for (const Reduction reduction : kReductions) {
    if (*refuse_reduction(kDTypeOf<T>, reduction) != '\0') {
      continue;
    }
    for (const Order order : kOrders) {
      for (std::size_t inputs = 1; inputs <= kMaxInputs; ++inputs) {
        Combine how{.dtype = kDTypeOf<T>, .reduction = reduction, .order = order};
        ASSERT_NO_FATAL_FAILURE(check_all_manners(fixture, how, inputs));
        if (reduction == Reduction::Average) {
          how.divide_by = inputs == 5 ? 300 : static_cast<std::int64_t>(inputs) + 1;
          ASSERT_NO_FATAL_FAILURE(check_all_manners(fixture, how, inputs));
        }
      }
    }
  }
}

TEST(Kernels, CombineF32LikeReference) {
  check_type<float>();
}
TEST(Kernels, CombineF64LikeReference) {
  check_type<double>();
}
TEST(Kernels, CombineF16LikeReference) {
  check_type<Float16>();
}
TEST(Kernels, CombineBF16LikeReference) {
  check_type<BFloat16>();
}
TEST(Kernels, CombineI8LikeReference) {
  check_type<std::int8_t>();
}
TEST(Kernels, CombineU8LikeReference) {
  check_type<std::uint8_t>();
}
TEST(Kernels, CombineI32LikeReference) {
  check_type<std::int32_t>();
}
TEST(Kernels, CombineI64LikeReference) {
  check_type<std::int64_t>();
}

/// Combines two vectors with the given loops.
template <class T>
std::vector<T> combine_two(const Loops& loops, const Combine& how, const std::vector<T>& a,
                           const std::vector<T>& b) {
  std::vector<T> result(a.size());
  const std::array inputs{std::as_bytes(std::span(a)).data(), std::as_bytes(std::span(b)).data()};
  const std::array targets{std::as_writable_bytes(std::span(result)).data()};
  combine_many_with(loops, how, inputs, targets, static_cast<std::int64_t>(a.size()),
                    Stores::Cached);
  return result;
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

/// Every 16-bit pattern, with a partner that covers all sizes and roundings of the result.
template <class T>
void check_every_pattern(std::uint64_t seed, const Combine& how) {
  std::mt19937_64 random(seed);
  std::vector<T> all(1 << 16);
  std::vector<T> partners(all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i] = T{static_cast<std::uint16_t>(i)};
    partners[i] = from_bits<T>(random());
  }
  const std::array<std::span<const T>, 2> inputs{all, partners};
  const std::vector<T> expected = plain_results<T>(how, inputs);
  for (const Loops* loops : available_loops()) {
    EXPECT_TRUE(same_bits(combine_two(*loops, how, all, partners), expected))
        << loops->name << " " << to_text(how.dtype);
  }
}

TEST(Kernels, RoundEvery16BitPatternLikeTensorLibrary) {
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    for (const std::int64_t divide_by : {1, 3, 1024, 1000003}) {
      for (const Reduction reduction : {Reduction::Sum, Reduction::Product}) {
        check_every_pattern<Float16>(
            seed, {.dtype = DType::F16, .reduction = reduction, .divide_by = divide_by});
        check_every_pattern<BFloat16>(
            seed, {.dtype = DType::BF16, .reduction = reduction, .divide_by = divide_by});
      }
    }
  }
}

template <class T>
void check_commutes() {
  std::mt19937_64 random(3);
  std::vector<T> a(1 << 12);
  std::vector<T> b(a.size());
  // Every special value is combined with every other.
  std::ranges::generate(a, [&] { return special_value<T>(random()); });
  std::ranges::generate(b, [&] { return special_value<T>(random()); });
  for (const Loops* loops : available_loops()) {
    for (const Reduction reduction :
         {Reduction::Sum, Reduction::Product, Reduction::Min, Reduction::Max}) {
      const Combine how{.dtype = kDTypeOf<T>, .reduction = reduction};
      EXPECT_TRUE(same_bits(combine_two(*loops, how, a, b), combine_two(*loops, how, b, a)))
          << loops->name << " " << to_text(how.dtype) << " " << static_cast<int>(reduction);
    }
  }
}

TEST(Kernels, CommuteBitwiseIncludingNaNsAndZeros) {
  check_commutes<float>();
  check_commutes<double>();
  check_commutes<Float16>();
  check_commutes<BFloat16>();
}

TEST(Kernels, MinAndMaxPropagateNaN) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const Loops* loops : available_loops()) {
    for (const Reduction reduction : {Reduction::Min, Reduction::Max}) {
      const Combine how{.dtype = DType::F32, .reduction = reduction};
      const auto result = combine_two<float>(*loops, how, {nan, 1, -nan}, {2, nan, nan});
      EXPECT_TRUE(same_bits(result, {nan, nan, nan})) << loops->name;
    }
    const auto least =
        combine_two<float>(*loops, {.reduction = Reduction::Min}, {-0.0F, 0}, {0, -0.0F});
    EXPECT_TRUE(same_bits(least, {-0.0F, -0.0F})) << loops->name;
    const auto most =
        combine_two<float>(*loops, {.reduction = Reduction::Max}, {-0.0F, 0}, {0, -0.0F});
    EXPECT_TRUE(same_bits(most, {0, 0})) << loops->name;
  }
}

TEST(Kernels, CopyOneInputBitForBit) {
  const std::vector<std::uint32_t> nans{0x7f800001, 0xffc12345, 0x7fffffff};
  std::vector<std::uint32_t> result(nans.size());
  const std::array inputs{std::as_bytes(std::span(nans)).data()};
  const std::array targets{std::as_writable_bytes(std::span(result)).data()};
  combine_many({.dtype = DType::F32}, inputs, targets, 3, Stores::Cached);
  EXPECT_EQ(result, nans);
}

/// Neither commutative nor associative, so that the order is visible.
std::uint32_t mix(std::uint32_t into, std::uint32_t from) {
  return into * 3 + from;
}

TEST(Kernels, CallUserFunctionInRequestedOrder) {
  const UserReduction user{"mix", [](const void* from, void* into, std::int64_t count) {
                             const auto* a = static_cast<const std::uint32_t*>(from);
                             auto* b = static_cast<std::uint32_t*>(into);
                             for (std::int64_t i = 0; i < count; ++i) {
                               b[i] = mix(b[i], a[i]);
                             }
                           }};
  for (const Order order : kOrders) {
    for (std::size_t inputs = 1; inputs <= kMaxInputs; ++inputs) {
      Fixture<std::int32_t> fixture;
      std::vector<std::int32_t> expected(kLongest);
      for (std::size_t i = 0; i < kLongest; ++i) {
        std::vector<std::uint32_t> column;
        for (std::size_t j = 0; j < inputs; ++j) {
          column.push_back(static_cast<std::uint32_t>(fixture.aligned[j].elements()[i]));
        }
        expected[i] = static_cast<std::int32_t>(plain_fold<std::uint32_t>(order, column, mix));
      }
      const Combine how{.dtype = DType::I32, .user = &user, .order = order};
      for (std::size_t variant = 0; variant < 48; ++variant) {
        const Manner manner{&kBaselineLoops, kCounts.at(variant % kCounts.size()), 1 + variant % 3,
                            variant};
        ASSERT_NO_FATAL_FAILURE(check_manner<std::int32_t>(fixture, how, inputs, manner, expected));
      }
    }
  }
}

TEST(Kernels, CopyAnyLengthAtAnyAlignment) {
  Fixture<std::uint8_t> fixture;
  Buffer<std::uint8_t>& from = fixture.shifted[1];
  for (const Loops* loops : available_loops()) {
    for (const Stores stores : {Stores::Cached, Stores::Streaming}) {
      for (const std::size_t shift : {0, 1, 8, 33, 63}) {
        Buffer<std::uint8_t> to(shift);
        for (const std::size_t bytes : {0, 1, 63, 64, 1000, 4095, 4096, 4097, 4099}) {
          copy_bytes_with(*loops, to.data(), from.data(), bytes, stores);
          ASSERT_EQ(std::memcmp(to.data(), from.data(), bytes), 0) << loops->name << " " << bytes;
          ASSERT_TRUE(to.untouched_but(bytes)) << loops->name << " " << bytes;
        }
      }
    }
  }
  copy_bytes(nullptr, nullptr, 0, Stores::Streaming);
}

TEST(Kernels, DivideTowardZero) {
  std::vector<std::int8_t> bytes{-128, -7, -1, 0, 1, 7, 127};
  divide(DType::I8, std::as_writable_bytes(std::span(bytes)).data(), 7, 2);
  EXPECT_EQ(bytes, (std::vector<std::int8_t>{-64, -3, 0, 0, 0, 3, 63}));
  std::vector<std::int64_t> longs{std::numeric_limits<std::int64_t>::min(), -7, 7};
  divide(DType::I64, std::as_writable_bytes(std::span(longs)).data(), 3, 3);
  EXPECT_EQ(longs, (std::vector<std::int64_t>{-3074457345618258602, -2, 2}));
  std::vector<float> floats{1, -5, 0.5F};
  divide(DType::F32, std::as_writable_bytes(std::span(floats)).data(), 3, 4);
  EXPECT_EQ(floats, (std::vector<float>{0.25F, -1.25F, 0.125F}));
}

TEST(Kernels, DivideI32Exactly) {
  constexpr std::int32_t kMin = std::numeric_limits<std::int32_t>::min();
  constexpr std::int32_t kMax = std::numeric_limits<std::int32_t>::max();
  for (const std::int32_t by : {1, 2, 3, 7, 1000, 65537, kMax - 1, kMax}) {
    std::vector<std::int32_t> values;
    // The quotient is closest to the next integer just below a multiple.
    for (std::int64_t multiple = -4; multiple <= 4; ++multiple) {
      for (std::int64_t near = -1; near <= 1; ++near) {
        const std::int64_t largest = kMax / by - std::abs(multiple);
        values.push_back(
            static_cast<std::int32_t>(std::clamp<std::int64_t>(largest * by + near, kMin, kMax)));
        values.push_back(
            static_cast<std::int32_t>(std::clamp<std::int64_t>(-largest * by + near, kMin, kMax)));
      }
    }
    values.push_back(kMin);
    std::vector<std::int32_t> expected(values.size());
    std::ranges::transform(values, expected.begin(), [&](std::int32_t value) {
      return static_cast<std::int32_t>(std::int64_t{value} / by);
    });
    divide(DType::I32, std::as_writable_bytes(std::span(values)).data(),
           static_cast<std::int64_t>(values.size()), by);
    EXPECT_EQ(values, expected) << by;
  }
}

TEST(Kernels, RejectBitwiseReductionsOfFloats) {
  for (const DType dtype : kDTypes) {
    for (const Reduction reduction : kReductions) {
      const bool refused = *refuse_reduction(dtype, reduction) != '\0';
      EXPECT_EQ(refused, is_float(dtype) && reduction >= Reduction::BitAnd);
      for (const Loops* loops : available_loops()) {
        EXPECT_EQ(loops->combine(dtype, reduction) == nullptr, refused) << loops->name;
      }
    }
  }
  const std::vector<float> one(1);
  EXPECT_THROW((void)combine_two(kBaselineLoops, {.reduction = Reduction::BitOr}, one, one), Bug);
}

TEST(Kernels, AreListedFastestFirst) {
  EXPECT_EQ(loops_for(instruction_set()), available_loops().front());
  EXPECT_EQ(loops_for("baseline"), &kBaselineLoops);
  EXPECT_EQ(available_loops().back(), &kBaselineLoops);
  EXPECT_EQ(loops_for("abacus"), nullptr);
}

}  // namespace
}  // namespace trireme::comm
