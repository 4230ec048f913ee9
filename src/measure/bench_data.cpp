#include "measure/bench_data.h"

#include <cstring>

#include "tensor/container_size.h"
#include "trireme/bench.h"

namespace trireme::measure {
namespace {

/// Elements to be summed are 0, 1 or 2; others are below 127. All of them, and the sums of
/// kMaxBenchRanks, are exact in bf16.
constexpr int kKinds = 3;
constexpr int kCopied = 127;
constexpr int kCodes = 2 * kMaxBenchRanks + 1;
constexpr int kPoison = 0xA5;

std::uint64_t mix(std::uint64_t x) {
  x *= 0x9E3779B97F4A7C15ULL;
  return x ^ (x >> 32U);
}

template <class T>
void append(std::vector<std::byte>& out, T value) {
  const auto bytes = std::as_bytes(std::span(&value, 1));
  out.insert(out.end(), bytes.begin(), bytes.end());
}

void append_code(std::vector<std::byte>& out, DType dtype, int number) {
  const auto as_float = static_cast<float>(number);
  switch (dtype) {
    case DType::F32:
      return append(out, as_float);
    case DType::F64:
      return append(out, static_cast<double>(number));
    case DType::F16:
      return append(out, to_f16(as_float));
    case DType::BF16:
      return append(out, to_bf16(as_float));
    case DType::I8:
    case DType::U8:
      return append(out, static_cast<std::uint8_t>(number));
    case DType::I32:
      return append(out, static_cast<std::int32_t>(number));
    case DType::I64:
      return append(out, static_cast<std::int64_t>(number));
  }
}

}  // namespace

std::int64_t BenchTask::input_elements() const {
  switch (operation) {
    case Operation::Barrier:
      return 0;
    case Operation::Allgather:
    case Operation::Gather:
      return block();
    case Operation::Scatter:
      return rank == 0 ? count : 0;
    default:
      return count;
  }
}

std::int64_t BenchTask::output_elements() const {
  switch (operation) {
    case Operation::Barrier:
    case Operation::Broadcast:  // its only buffer is the input
      return 0;
    case Operation::ReduceScatter:
    case Operation::Scatter:
      return block();
    case Operation::Gather:
    case Operation::Reduce:
      return rank == 0 ? count : 0;
    default:
      return count;
  }
}

Call make_bench_call(const BenchTask& task, const BenchBytes& buffers, const Method& method) {
  Call call{.operation = task.operation,
            .dtype = task.dtype,
            .input = buffers.input,
            .output = buffers.output,
            .options = {.method = method, .site = "trireme bench"}};
  if (task.operation == Operation::Broadcast) {
    call.output = buffers.input;
  }
  return call;
}

BenchData::BenchData(const BenchTask& task) : task_(task) {
  for (int kind = 0; kind < kKinds; ++kind) {
    int sum = 0;
    for (Rank r = 0; r < task.ranks; ++r) {
      sum += (kind + r) % kKinds;
    }
    sums_.push_back(sum);
  }
  for (int number = 0; number < kCodes; ++number) {
    append_code(codes_, task.dtype, number);
  }
}

int BenchData::element(Rank rank, std::int64_t index) const {
  const auto i = static_cast<std::uint64_t>(index);
  if (combines(task_.operation)) {
    return static_cast<int>((mix(i) + static_cast<std::uint64_t>(rank)) % kKinds);
  }
  return static_cast<int>(
      mix(i * static_cast<std::uint64_t>(task_.ranks) + static_cast<std::uint64_t>(rank)) %
      kCopied);
}

int BenchData::sum(std::int64_t index) const {
  return sums_[mix(static_cast<std::uint64_t>(index)) % kKinds];
}

/// At an element of this rank's output.
int BenchData::expected(std::int64_t index) const {
  const std::int64_t block = task_.block();
  switch (task_.operation) {
    case Operation::Allreduce:
    case Operation::Reduce:
      return sum(index);
    case Operation::ReduceScatter:
      return sum(task_.rank * block + index);
    case Operation::Allgather:
    case Operation::Gather:
      return element(static_cast<Rank>(index / block), index % block);
    case Operation::Alltoall:
      return element(static_cast<Rank>(index / block), task_.rank * block + index % block);
    case Operation::Scatter:
      return element(0, task_.rank * block + index);
    case Operation::Broadcast:
    case Operation::Barrier:
      return element(0, index);
  }
  return 0;
}

void BenchData::fill(const BenchBytes& buffers) const {
  const auto bytes = container_size(size_of(task_.dtype));
  const bool is_target = task_.operation == Operation::Broadcast && task_.rank != 0;
  if (is_target) {
    std::memset(buffers.input.data(), kPoison, buffers.input.size());
  } else {
    for (std::size_t i = 0; i < buffers.input.size() / bytes; ++i) {
      const std::int64_t code = element(task_.rank, static_cast<std::int64_t>(i));
      std::memcpy(buffers.input.data() + i * bytes, codes_.data() + code * bytes, bytes);
    }
  }
  if (!buffers.output.empty()) {
    std::memset(buffers.output.data(), kPoison, buffers.output.size());
  }
}

bool BenchData::is_right(std::span<const std::byte> output) const {
  const auto bytes = container_size(size_of(task_.dtype));
  for (std::size_t i = 0; i < output.size() / bytes; ++i) {
    const std::int64_t code = expected(static_cast<std::int64_t>(i));
    if (std::memcmp(output.data() + i * bytes, codes_.data() + code * bytes, bytes) != 0) {
      return false;
    }
  }
  return true;
}

}  // namespace trireme::measure
