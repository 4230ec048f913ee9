// The speed of the loops over data: copying and combining, on one core, compared with memcpy, a plain loop and the
// memory bandwidth. Checks each result first.
//
//   build/release/bench/kernels_bench [--json] [avx512 | avx2 | baseline]
//
// GB/s count every byte read and every byte written once. The memory bandwidth is the best of reading alone and copying
// past the caches; cached data exceeds it.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "comm/kernels/kernels.h"
#include "comm/kernels/loops.h"

namespace trireme::comm {
namespace {

constexpr std::array<std::size_t, 3> kSizes{32 << 10, 1 << 20, 64 << 20};
constexpr std::size_t kLargest = 64 << 20;
constexpr std::size_t kMaxInputs = 8;

struct Row {
  std::string what;
  std::size_t bytes;   ///< of each buffer
  const char* stores;  ///< "cached" or "streaming"
  double speed;        ///< GB/s
  double plain;        ///< the plain loop's, 0 if there is none
};

/// GB/s of `work`, which moves `bytes`: the best of several rounds, because other load on the machine can only make it
/// slower.
double measure(std::size_t bytes, const std::function<void()>& work) {
  constexpr std::size_t kRoundBytes = 64 << 20;
  constexpr int kRounds = 7;
  const std::size_t repeats = std::max<std::size_t>(1, kRoundBytes / bytes);
  work();  // warms up
  double best = 0;
  for (int round = 0; round < kRounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < repeats; ++i) {
      work();
    }
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
    best = std::max(best, static_cast<double>(bytes * repeats) / time.count() / 1e9);
  }
  return best;
}

void require(bool condition, const std::string& what) {
  if (!condition) {
    throw std::runtime_error(what + " is wrong");
  }
}

struct Buffers {
  std::vector<HostBuffer> inputs;
  HostBuffer target{DType::U8, static_cast<std::int64_t>(kLargest)};
  HostBuffer expected{DType::U8, static_cast<std::int64_t>(kLargest)};

  template <class T>
  [[nodiscard]] std::vector<const T*> inputs_as() const {
    std::vector<const T*> pointers;
    for (const HostBuffer& input : inputs) {
      pointers.push_back(reinterpret_cast<const T*>(input.raw().data()));
    }
    return pointers;
  }
};

float as_float(float value) {
  return value;
}
float as_float(BFloat16 value) {
  return to_f32(value);
}
float as_float(Float16 value) {
  return to_f32(value);
}

template <class T>
T from_float(float value) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    return to_bf16(value);
  } else if constexpr (std::is_same_v<T, Float16>) {
    return to_f16(value);
  } else {
    return value;
  }
}

/// Small integers: no NaN and no infinity, whose speed may differ.
template <class T>
void fill(Buffers& buffers) {
  buffers.inputs.resize(kMaxInputs);
  for (std::size_t j = 0; j < kMaxInputs; ++j) {
    HostBuffer buffer(DType::U8, static_cast<std::int64_t>(kLargest));
    auto* values = reinterpret_cast<T*>(buffer.raw().data());
    for (std::size_t i = 0; i < kLargest / sizeof(T); ++i) {
      values[i] = from_float<T>(static_cast<float>((i * 7 + j * 3) % 19) - 9);
    }
    buffers.inputs[j] = std::move(buffer);
  }
}

/// The obvious loop, as the compiler optimizes it.
template <class T>
void plain_sum(std::span<const T* const> inputs, std::span<T> target) {
  for (std::size_t i = 0; i < target.size(); ++i) {
    float sum = as_float(inputs[0][i]);
    for (std::size_t j = 1; j < inputs.size(); ++j) {
      sum += as_float(inputs[j][i]);
    }
    target[i] = from_float<T>(sum);
  }
}

/// `inputs` buffers of `bytes` each, with both kinds of stores.
template <class T>
void measure_sum(const Loops& loops, Buffers& buffers, std::size_t inputs, std::size_t bytes,
                 std::vector<Row>& rows) {
  const std::string what = fmt::format("sum of {} {}", inputs, to_text(kDTypeOf<T>));
  const std::size_t count = bytes / sizeof(T);
  const auto raw = buffers.inputs_as<std::byte>();
  const auto typed = buffers.inputs_as<T>();
  const std::array targets{buffers.target.raw().data()};
  const std::span expected{reinterpret_cast<T*>(buffers.expected.raw().data()), count};
  const double plain = measure((inputs + 1) * bytes,
                               [&] { plain_sum<T>(std::span(typed).first(inputs), expected); });
  for (const Stores stores : {Stores::Cached, Stores::Streaming}) {
    const auto work = [&] {
      combine_many_with(loops, {.dtype = kDTypeOf<T>}, std::span(raw).first(inputs), targets,
                        static_cast<std::int64_t>(count), stores);
    };
    std::memset(targets[0], 0xff, bytes);
    work();
    require(std::memcmp(targets[0], expected.data(), bytes) == 0, what);
    rows.push_back({what, bytes, stores == Stores::Cached ? "cached" : "streaming",
                    measure((inputs + 1) * bytes, work), plain});
  }
}

template <class T>
void measure_type(const Loops& loops, std::vector<Row>& rows) {
  Buffers buffers;
  fill<T>(buffers);
  for (const std::size_t inputs : {2, 4, 8}) {
    for (const std::size_t bytes : kSizes) {
      measure_sum<T>(loops, buffers, inputs, bytes, rows);
    }
  }
}

void measure_copies(const Loops& loops, std::vector<Row>& rows) {
  Buffers buffers;
  fill<float>(buffers);
  std::byte* to = buffers.target.raw().data();
  const std::byte* from = buffers.inputs[0].raw().data();
  for (const std::size_t bytes : kSizes) {
    rows.push_back(
        {"memcpy", bytes, "cached", measure(2 * bytes, [&] { std::memcpy(to, from, bytes); }), 0});
    for (const Stores stores : {Stores::Cached, Stores::Streaming}) {
      const auto work = [&] { copy_bytes_with(loops, to, from, bytes, stores); };
      std::memset(to, 0xff, bytes);
      work();
      require(std::memcmp(to, from, bytes) == 0, "copy");
      rows.push_back({"copy", bytes, stores == Stores::Cached ? "cached" : "streaming",
                      measure(2 * bytes, work), 0});
    }
  }
}

/// Reading alone: the bitwise or of two buffers into a target that stays in the L1 cache, chunk by chunk.
double read_speed(const Loops& loops) {
  constexpr std::size_t kChunk = 4096;
  constexpr std::size_t kInputs = 2;
  Buffers buffers;
  fill<float>(buffers);
  const std::array targets{buffers.target.raw().data()};
  return measure(kInputs * kLargest, [&] {
    for (std::size_t offset = 0; offset < kLargest; offset += kChunk) {
      std::array<const std::byte*, kInputs> inputs{};
      for (std::size_t j = 0; j < kInputs; ++j) {
        inputs.at(j) = buffers.inputs[j].raw().data() + offset;
      }
      combine_many_with(loops, {.dtype = DType::I64, .reduction = Reduction::BitOr}, inputs,
                        targets, kChunk / sizeof(std::int64_t), Stores::Cached);
    }
  });
}

std::vector<Row> run(const Loops& loops) {
  std::vector<Row> rows;
  rows.push_back({"reading alone", kLargest, "cached", read_speed(loops), 0});
  measure_copies(loops, rows);
  measure_type<float>(loops, rows);
  measure_type<BFloat16>(loops, rows);
  measure_type<Float16>(loops, rows);
  return rows;
}

double memory_bandwidth(const std::vector<Row>& rows) {
  double best = 0;
  for (const Row& row : rows) {
    if (row.bytes == kLargest && (row.what == "reading alone" || row.what == "copy")) {
      best = std::max(best, row.speed);
    }
  }
  return best;
}

void print(const Row& row, double bandwidth, bool json) {
  const double share = row.speed / bandwidth;
  if (json) {
    fmt::print(
        "{{\"what\": \"{}\", \"bytes\": {}, \"stores\": \"{}\", \"gb_per_s\": {:.2f}, "
        "\"share_of_memory\": {:.3f}, \"plain_gb_per_s\": {:.2f}}}\n",
        row.what, row.bytes, row.stores, row.speed, share, row.plain);
  } else {
    fmt::print("{:<16} {:>6} KiB {:>10} {:>10.1f} {:>9.0f} % {:>12}\n", row.what, row.bytes >> 10,
               row.stores, row.speed, 100 * share,
               row.plain > 0 ? fmt::format("{:.1f}", row.plain) : "");
  }
}

int bench(std::span<char* const> arguments) {
  bool json = false;
  const char* set = instruction_set();
  for (const char* argument : arguments) {
    if (std::string_view(argument) == "--json") {
      json = true;
    } else {
      set = argument;
    }
  }
  const Loops* loops = loops_for(set);
  if (loops == nullptr) {
    fmt::print(stderr, "kernels_bench: this machine has no '{}'\n", set);
    return 2;
  }
  const std::vector<Row> rows = run(*loops);
  const double bandwidth = memory_bandwidth(rows);
  if (!json) {
    fmt::print("{}; memory {:.1f} GB/s\n{:<16} {:>10} {:>10} {:>10} {:>11} {:>12}\n", loops->name,
               bandwidth, "what", "buffers", "stores", "GB/s", "of memory", "plain GB/s");
  }
  for (const Row& row : rows) {
    print(row, bandwidth, json);
  }
  return 0;
}

}  // namespace
}  // namespace trireme::comm

int main(int argc, char** argv) {
  return trireme::comm::bench(std::span(argv, argc).subspan(1));
}
