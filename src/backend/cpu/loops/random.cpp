// Dropout and normal numbers from the counter-based generator of graph/random.h: the mask is computed, never stored.
#include "graph/random.h"

#include <numbers>

#include "backend/cpu/loops/elements.h"
#include "backend/cpu/loops/families.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

constexpr std::int64_t kBlocks = 16;          // of the generator at a time: a register of words
constexpr std::int64_t kGroup = 4 * kBlocks;  // elements

/// The words of the elements starting at 4 first. Counters are stored word by word, so that a round is one pass over
/// each.
void group_words(const random::Stream& stream, std::uint64_t first, std::uint32_t* words) {
  std::uint32_t c0[kBlocks];
  std::uint32_t c1[kBlocks];
  std::uint32_t c2[kBlocks];
  std::uint32_t c3[kBlocks];
  for (std::int64_t b = 0; b < kBlocks; ++b) {
    const random::Words counter = random::counter_of(stream, first + static_cast<std::uint64_t>(b));
    c0[b] = counter[0];
    c1[b] = counter[1];
    c2[b] = counter[2];
    c3[b] = counter[3];
  }
  auto low_key = static_cast<std::uint32_t>(stream.seed);
  auto high_key = static_cast<std::uint32_t>(static_cast<std::uint64_t>(stream.seed) >> 32U);
  for (int round = 0; round < random::kRounds; ++round) {
#pragma omp simd
    for (std::int64_t b = 0; b < kBlocks; ++b) {
      const random::Words next =
          random::philox_round({c0[b], c1[b], c2[b], c3[b]}, low_key, high_key);
      c0[b] = next[0];
      c1[b] = next[1];
      c2[b] = next[2];
      c3[b] = next[3];
    }
    low_key += random::kLowKeyStep;
    high_key += random::kHighKeyStep;
  }
  for (std::int64_t b = 0; b < kBlocks; ++b) {
    words[4 * b] = c0[b];
    words[4 * b + 1] = c1[b];
    words[4 * b + 2] = c2[b];
    words[4 * b + 3] = c3[b];
  }
}

/// How the elements of a shard are numbered in the whole tensor: consecutively within a row.
struct Numbering {
  std::int64_t count = 0;
  std::int64_t row = 1;
  std::vector<std::int64_t> part{};
  std::vector<std::int64_t> offset{};
  std::vector<std::int64_t> whole{};

  Numbering(const Signature& s, const Shape& shape)
      : count(shape.element_count()),
        row(std::max<std::int64_t>(count, 1)),
        part(shape.dims()),
        offset(s.integers("offset")),
        whole(s.integers("whole")) {
    if (!whole.empty() && count > 0) {
      row = part.back();
    }
  }
  [[nodiscard]] std::uint64_t number(std::int64_t element) const {
    const auto i = static_cast<std::uint64_t>(element);
    return whole.empty() ? i : random::index_in_whole(i, part, offset, whole);
  }
};

/// Calls f(i, first, n, words) for runs of elements i, i+1, ... that fall into one group of words, of which they use
/// those from `first` on.
template <class F>
void for_each_run(const Numbering& numbering, const random::Stream& stream, F f) {
  parallel(numbering.count, kSerial, [&](std::int64_t begin, std::int64_t end) {
    std::uint32_t words[kGroup];
    for (std::int64_t i = begin; i < end;) {
      const std::uint64_t number = numbering.number(i);
      const auto first = static_cast<std::int64_t>(number % kGroup);
      const std::int64_t row_end = (i / numbering.row + 1) * numbering.row;
      const std::int64_t n = std::min({kGroup - first, row_end - i, end - i});
      group_words(stream, number / kGroup * kBlocks, words);
      f(i, first, n, words);
      i += n;
    }
  });
}

/// Words up to `last` are dropped.
template <class T>
struct Mask {
  using W = Wide<T>;
  std::uint32_t last;
  W factor;
  bool keeps_all;

  void apply(const T* x, T* y, std::int64_t n, const std::uint32_t* words) const {
    const Mask mask = *this;  // a local copy, because y might alias this object
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) {
      const W grown = load(x[i]) * mask.factor;
      const bool kept = (words[i] > mask.last) | mask.keeps_all;
      store(y[i], kept ? grown : W{0});
    }
  }
};

std::unique_ptr<PreparedKernel> dropout(const KernelRequest& request) {
  const Signature s = signature_of(request);
  const Numbering numbering(s, s.shape(0));
  const std::int64_t seed = s.integer("seed");
  const double rate = s.number("rate");
  const std::uint64_t threshold = random::drop_below(rate);
  return for_float(request.inputs[0].dtype, [&]<class T>(T) {
    const Mask<T> mask{static_cast<std::uint32_t>(threshold - 1),
                       static_cast<Wide<T>>(1 / (1 - rate)), threshold == 0};
    return kernel([=](const KernelMemory& memory) {
      const random::Stream stream{seed, *input<std::int64_t>(memory, 1), random::Use::Mask};
      for_each_run(
          numbering, stream,
          [&](std::int64_t at, std::int64_t first, std::int64_t n, const std::uint32_t* words) {
            mask.apply(input<T>(memory, 0) + at, output<T>(memory, 0) + at, n, words + first);
          });
    });
  });
}

/// Two adjacent elements share a point: its cosine and its sine.
std::unique_ptr<PreparedKernel> random_normal(const KernelRequest& request) {
  const Signature s = signature_of(request);
  const Numbering numbering(s, request.outputs[0].shape);
  const std::int64_t seed = s.integer("seed");
  return for_float(request.outputs[0].dtype, [&]<class T>(T) {
    return kernel([=](const KernelMemory& memory) {
      const random::Stream stream{seed, *input<std::int64_t>(memory, 0), random::Use::Normal};
      for_each_run(
          numbering, stream,
          [&](std::int64_t at, std::int64_t first, std::int64_t n, const std::uint32_t* words) {
            for (std::int64_t i = 0; i < n; ++i) {
              const std::int64_t pair = (first + i) / 2 * 2;
              const double angle = 2 * std::numbers::pi * random::uniform(words[pair + 1]);
              const double radius = std::sqrt(-2 * std::log(random::uniform(words[pair])));
              const bool sine = (first + i) % 2 == 1;
              store(output<T>(memory, 0)[at + i],
                    static_cast<Wide<T>>(radius * (sine ? std::sin(angle) : std::cos(angle))));
            }
          });
    });
  });
}

}  // namespace

std::vector<KernelRow> random_kernels() {
  return {{"dropout", dropout}, {"dropout_backward", dropout}, {"random_normal", random_normal}};
}

}  // namespace trireme::cpu::TRIREME_ISA
