// Compressed gradients, as defined in graph/ops/pack.cpp. There may be a single long row: threads split its blocks,
// whose size does not depend on the number of threads.
#include <array>
#include <cstring>
#include <limits>

#include "backend/cpu/loops/elements.h"
#include "backend/cpu/loops/families.h"
#include "graph/ternary.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

constexpr std::int64_t kBlock = 4096;  // a multiple of 8, so that bits fill whole bytes
constexpr std::int64_t kLanes = 16;

/// Rows, which may be empty, in blocks.
struct Blocks {
  std::int64_t rows = 1;
  std::int64_t length = 0;
  std::int64_t each = 0;  ///< blocks per row

  explicit Blocks(const Shape& shape)
      : length(shape.dims().back()), each((length + kBlock - 1) / kBlock) {
    for (int d = 0; d + 1 < shape.rank(); ++d) {
      rows *= shape.dim(d);
    }
  }
  struct At {
    std::int64_t row, begin, size;
  };
  [[nodiscard]] At at(std::int64_t block) const {
    const std::int64_t begin = block % each * kBlock;
    return {block / each, begin, std::min(kBlock, length - begin)};
  }
  /// f(At, its number), on all threads.
  template <class F>
  void for_each(F f) const {
    const Blocks blocks = *this;
    parallel(rows * each, std::max<std::int64_t>(kSerial / kBlock, 1),
             [=](std::int64_t begin, std::int64_t end) {
               for (std::int64_t b = begin; b < end; ++b) {
                 f(blocks.at(b), b);
               }
             });
  }
};

// largest: finds the key of the k-th largest digit by digit (a radix select), from the counts of keys with the same
// prefix; keys are the bits without the sign, which are ordered by magnitude, NaNs last.

template <class W>
using Key = std::conditional_t<std::is_same_v<W, double>, std::uint64_t, std::uint32_t>;

template <class T>
Key<Wide<T>> key_of(T element) {
  using K = Key<Wide<T>>;
  return std::bit_cast<K>(load(element)) & (std::numeric_limits<K>::max() >> 1);
}

template <class K>
struct Threshold {
  K key = 0;
  std::int64_t equal = 0;  ///< how many with exactly this key are taken
};

template <class T>
Threshold<Key<Wide<T>>> threshold_of(const T* row, std::int64_t n, std::int64_t k) {
  using K = Key<Wide<T>>;
  constexpr int kDigit = 8;
  constexpr K kMask = (K{1} << kDigit) - 1;
  Threshold<K> found{.key = 0, .equal = k};
  K known = 0;
  for (int shift = std::numeric_limits<K>::digits - kDigit; shift >= 0; shift -= kDigit) {
    std::array<std::int64_t, kMask + 1> counts{};
    for (std::int64_t i = 0; i < n; ++i) {
      const K key = key_of(row[i]);
      counts[(key >> shift) & kMask] += (key & known) == found.key ? 1 : 0;
    }
    std::size_t digit = kMask;
    while (found.equal > counts[digit]) {
      found.equal -= counts[digit--];
    }
    found.key |= static_cast<K>(digit) << shift;
    known |= kMask << shift;
  }
  return found;
}

template <class T>
void take_largest(const T* row, std::int64_t n, std::int64_t k, T* values, std::int32_t* indices) {
  if (k == 0) {
    return;
  }
  const auto threshold = threshold_of(row, n, k);
  std::int64_t equal = threshold.equal;
  std::int64_t taken = 0;
  for (std::int64_t i = 0; taken < k; ++i) {
    const auto key = key_of(row[i]);
    if (key > threshold.key || (key == threshold.key && equal-- > 0)) {
      values[taken] = row[i];
      indices[taken++] = static_cast<std::int32_t>(i);
    }
  }
}

std::unique_ptr<PreparedKernel> largest(const KernelRequest& request) {
  const Blocks rows(request.inputs[0].shape);
  const std::int64_t k = signature_of(request).integer("k");
  return for_float(request.inputs[0].dtype, [&]<class T>(T) {
    return kernel([=](const KernelMemory& memory) {
      parallel(rows.rows, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t r = begin; r < end; ++r) {
          take_largest(input<T>(memory, 0) + r * rows.length, rows.length, k,
                       output<T>(memory, 0) + r * k, output<std::int32_t>(memory, 1) + r * k);
        }
      });
    });
  });
}

// pack_signs

template <class T>
double sum_of_distances(const T* x, std::int64_t n) {
  Wide<T> lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
#pragma omp simd
    for (std::int64_t k = 0; k < kLanes; ++k) {
      lanes[k] += std::fabs(load(x[i + k]));
    }
  }
  double sum = 0;
  for (; i < n; ++i) {
    sum += std::fabs(static_cast<double>(load(x[i])));
  }
  for (const Wide<T> lane : lanes) {
    sum += static_cast<double>(lane);
  }
  return sum;
}

template <class T>
void pack_bits(const T* x, std::int64_t n, std::uint8_t* bits) {
  for (std::int64_t i = 0; i < n; i += 8) {
    const std::int64_t here = std::min<std::int64_t>(8, n - i);
    unsigned byte = 0;
    for (std::int64_t j = 0; j < here; ++j) {
      byte |= (load(x[i + j]) < 0 ? 1U : 0U) << j;
    }
    bits[i / 8] = static_cast<std::uint8_t>(byte);
  }
}

std::unique_ptr<PreparedKernel> pack_signs(const KernelRequest& request) {
  const Blocks blocks(request.inputs[0].shape);
  const std::int64_t bytes = request.outputs[0].shape.dims().back();
  return for_float(request.inputs[0].dtype, [&]<class T>(T) {
    return kernel(
        [=](const KernelMemory& memory) {
          const T* x = input<T>(memory, 0);
          auto* bits = output<std::uint8_t>(memory, 0);
          auto* sums = reinterpret_cast<double*>(memory.workspace);
          blocks.for_each([=](const Blocks::At& at, std::int64_t b) {
            const T* from = x + at.row * blocks.length + at.begin;
            sums[b] = sum_of_distances(from, at.size);
            pack_bits(from, at.size, bits + at.row * bytes + at.begin / 8);
          });
          for (std::int64_t r = 0; r < blocks.rows; ++r) {
            double sum = 0;
            for (std::int64_t b = 0; b < blocks.each; ++b) {
              sum += sums[r * blocks.each + b];
            }
            const double mean = blocks.length == 0 ? 0 : sum / static_cast<double>(blocks.length);
            output<Wide<T>>(memory, 1)[r] = static_cast<Wide<T>>(mean);
          }
        },
        Bytes{blocks.rows * blocks.each * static_cast<std::int64_t>(sizeof(double))});
  });
}

// pack_ternary: the mean magnitude, then the mean of those above the threshold, then the codes.

struct Distances {
  double sum = 0;
  double count = 0;
};

/// Of those with at least this magnitude; a NaN counts.
template <class T>
Distances far_distances(const T* x, std::int64_t n, Wide<T> least) {
  using W = Wide<T>;
  W sums[kLanes] = {};
  W counts[kLanes] = {};  // at most the size of a block
  const auto add = [&](std::int64_t lane, W element) {
    const W distance = std::fabs(element);
    const bool near = distance < least;
    sums[lane] += near ? W{0} : distance;
    counts[lane] += near ? W{0} : W{1};
  };
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
#pragma omp simd
    for (std::int64_t k = 0; k < kLanes; ++k) {
      add(k, load(x[i + k]));
    }
  }
  for (; i < n; ++i) {
    add(i % kLanes, load(x[i]));
  }
  Distances all;
  for (std::int64_t k = 0; k < kLanes; ++k) {
    all.sum += static_cast<double>(sums[k]);
    all.count += static_cast<double>(counts[k]);
  }
  return all;
}

double mean_of(const Distances* of_blocks, std::int64_t count) {
  Distances all;
  for (std::int64_t b = 0; b < count; ++b) {
    all.sum += of_blocks[b].sum;
    all.count += of_blocks[b].count;
  }
  return all.count == 0 ? 0 : all.sum / all.count;
}

template <class T>
void pack_pairs(const T* x, std::int64_t n, Wide<T> least, std::uint8_t* bits) {
  for (std::int64_t i = 0; i < n; i += 4) {
    const std::int64_t here = std::min<std::int64_t>(4, n - i);
    unsigned byte = 0;
    for (std::int64_t j = 0; j < here; ++j) {
      const Wide<T> element = load(x[i + j]);
      const unsigned code = element < 0 ? 2U : 1U;
      byte |= (std::fabs(element) < least ? 0U : code) << 2 * j;
    }
    bits[i / 4] = static_cast<std::uint8_t>(byte);
  }
}

std::unique_ptr<PreparedKernel> pack_ternary(const KernelRequest& request) {
  const Blocks blocks(request.inputs[0].shape);
  const std::int64_t bytes = request.outputs[0].shape.dims().back();
  return for_float(request.inputs[0].dtype, [&]<class T>(T) {
    using W = Wide<T>;
    return kernel(
        [=](const KernelMemory& memory) {
          const T* x = input<T>(memory, 0);
          auto* bits = output<std::uint8_t>(memory, 0);
          W* scales = output<W>(memory, 1);
          auto* distances = reinterpret_cast<Distances*>(memory.workspace);
          blocks.for_each([=](const Blocks::At& at, std::int64_t b) {
            distances[b] = far_distances(x + at.row * blocks.length + at.begin, at.size, W{0});
          });
          for (std::int64_t r = 0; r < blocks.rows; ++r) {
            const double mean = mean_of(distances + r * blocks.each, blocks.each);
            scales[r] = static_cast<W>(kTernaryThreshold * mean);
          }
          blocks.for_each([=](const Blocks::At& at, std::int64_t b) {
            const T* from = x + at.row * blocks.length + at.begin;
            distances[b] = far_distances(from, at.size, scales[at.row]);
            pack_pairs(from, at.size, scales[at.row], bits + at.row * bytes + at.begin / 4);
          });
          for (std::int64_t r = 0; r < blocks.rows; ++r) {
            scales[r] = static_cast<W>(mean_of(distances + r * blocks.each, blocks.each));
          }
        },
        Bytes{blocks.rows * blocks.each * static_cast<std::int64_t>(sizeof(Distances))});
  });
}

// pack_bytes

/// NaN if an element is not finite: x - x is 0 for finite values, and NaN for others.
template <class T>
Wide<T> greatest_distance(const T* x, std::int64_t n) {
  using W = Wide<T>;
  W lanes[kLanes] = {};
  W strange[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
#pragma omp simd
    for (std::int64_t k = 0; k < kLanes; ++k) {
      const W element = load(x[i + k]);
      const W distance = std::fabs(element);
      lanes[k] = distance > lanes[k] ? distance : lanes[k];
      strange[k] += element - element;
    }
  }
  for (; i < n; ++i) {
    const W element = load(x[i]);
    lanes[0] = std::max(lanes[0], std::fabs(element));
    strange[0] += element - element;
  }
  W all = 0;
  W sum = 0;
  for (std::int64_t k = 0; k < kLanes; ++k) {
    all = std::max(all, lanes[k]);
    sum += strange[k];
  }
  return all + sum;
}

template <class T>
void quantize(const T* x, std::int64_t n, Wide<T> scale, std::int8_t* codes) {
  if (!(scale > 0)) {
    std::fill(codes, codes + n, std::int8_t{0});
    return;
  }
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    codes[i] = static_cast<std::int8_t>(std::nearbyint(load(x[i]) / scale));
  }
}

std::unique_ptr<PreparedKernel> pack_bytes(const KernelRequest& request) {
  const Blocks blocks(request.inputs[0].shape);
  return for_float(request.inputs[0].dtype, [&]<class T>(T) {
    using W = Wide<T>;
    return kernel(
        [=](const KernelMemory& memory) {
          const T* x = input<T>(memory, 0);
          auto* codes = output<std::int8_t>(memory, 0);
          W* scales = output<W>(memory, 1);
          auto* distances = reinterpret_cast<W*>(memory.workspace);
          blocks.for_each([=](const Blocks::At& at, std::int64_t b) {
            distances[b] = greatest_distance(x + at.row * blocks.length + at.begin, at.size);
          });
          for (std::int64_t r = 0; r < blocks.rows; ++r) {
            W greatest = 0;
            for (std::int64_t b = 0; b < blocks.each; ++b) {
              const W one = distances[r * blocks.each + b];
              greatest = one <= greatest ? greatest : one;
              if (greatest != greatest) {
                break;
              }
            }
            scales[r] = static_cast<W>(static_cast<double>(greatest) / 127);
          }
          blocks.for_each([=](const Blocks::At& at, std::int64_t) {
            const std::int64_t from = at.row * blocks.length + at.begin;
            quantize(x + from, at.size, scales[at.row], codes + from);
          });
        },
        Bytes{blocks.rows * blocks.each * static_cast<std::int64_t>(sizeof(W))});
  });
}

// sum_signs, sum_ternary and sum_bytes

template <class W>
void add_signs(const std::uint8_t* bits, W scale, std::int64_t n, W* y) {
  std::int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const unsigned byte = bits[i / 8];
#pragma omp simd
    for (std::int64_t j = 0; j < 8; ++j) {
      y[i + j] += (byte >> j & 1U) != 0 ? -scale : scale;
    }
  }
  for (; i < n; ++i) {
    y[i] += (bits[i / 8] >> i % 8 & 1) != 0 ? -scale : scale;
  }
}

template <class W>
void add_pairs(const std::uint8_t* bits, W scale, std::int64_t n, W* y) {
  const W values[4] = {0 * scale, scale, -scale,
                       0 * scale};  // NaN for an invalid scale, also for zeros
  for (std::int64_t i = 0; i < n; ++i) {
    y[i] += values[bits[i / 4] >> 2 * (i % 4) & 3];
  }
}

template <class W>
void add_bytes(const std::int8_t* codes, W scale, std::int64_t n, W* y) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    y[i] += scale * static_cast<W>(codes[i]);
  }
}

/// y = the sum over parts; add(codes, scale, n, y) adds a range of one part, with `per` elements per code.
template <class W, class C, class F>
std::unique_ptr<PreparedKernel> sum_of(const KernelRequest& request, std::int64_t per, F add) {
  const Blocks blocks(request.outputs[0].shape);
  const std::int64_t parts = request.inputs[0].shape.dim(0);
  const std::int64_t codes_of_row = request.inputs[0].shape.dims().back();
  return kernel([=](const KernelMemory& memory) {
    const C* codes = input<C>(memory, 0);
    const W* scales = input<W>(memory, 1);
    W* y = output<W>(memory, 0);
    blocks.for_each([=](const Blocks::At& at, std::int64_t) {
      W* to = y + at.row * blocks.length + at.begin;
      std::fill(to, to + at.size, W{0});
      for (std::int64_t p = 0; p < parts; ++p) {
        const std::int64_t row = p * blocks.rows + at.row;
        add(codes + row * codes_of_row + at.begin / per, scales[row], at.size, to);
      }
    });
  });
}

std::unique_ptr<PreparedKernel> sum_signs(const KernelRequest& request) {
  const auto sum = [&]<class W>(W) { return sum_of<W, std::uint8_t>(request, 8, add_signs<W>); };
  return request.inputs[1].dtype == DType::F64 ? sum(double{}) : sum(float{});
}

std::unique_ptr<PreparedKernel> sum_ternary(const KernelRequest& request) {
  const auto sum = [&]<class W>(W) { return sum_of<W, std::uint8_t>(request, 4, add_pairs<W>); };
  return request.inputs[1].dtype == DType::F64 ? sum(double{}) : sum(float{});
}

std::unique_ptr<PreparedKernel> sum_bytes(const KernelRequest& request) {
  const auto sum = [&]<class W>(W) { return sum_of<W, std::int8_t>(request, 1, add_bytes<W>); };
  return request.inputs[1].dtype == DType::F64 ? sum(double{}) : sum(float{});
}

/// Of any type: zeros are zero bytes.
std::unique_ptr<PreparedKernel> parts(const KernelRequest& request) {
  const std::int64_t bytes = size_of(request.inputs[0]).count;
  const std::int64_t all = size_of(request.outputs[0]).count;
  return kernel([=](const KernelMemory& memory) {
    parallel(all, kSerial * 4, [&](std::int64_t begin, std::int64_t end) {
      const std::int64_t copied = std::clamp(bytes, begin, end);
      std::memcpy(memory.outputs[0] + begin, memory.inputs[0] + begin, copied - begin);
      std::memset(memory.outputs[0] + copied, 0, end - copied);
    });
  });
}

}  // namespace

std::vector<KernelRow> pack_kernels() {
  return {{"largest", largest},       {"pack_bytes", pack_bytes},
          {"pack_signs", pack_signs}, {"pack_ternary", pack_ternary},
          {"parts", parts},           {"sum_bytes", sum_bytes},
          {"sum_signs", sum_signs},   {"sum_ternary", sum_ternary}};
}

}  // namespace trireme::cpu::TRIREME_ISA
