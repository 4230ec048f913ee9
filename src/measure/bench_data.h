// The data of a benchmark: small integers, so that results are exact in every dtype and in any
// order of combining; the length of each rank's buffers; and the expected results. Callable from
// any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "trireme/comm_call.h"
#include "trireme/schedule.h"
#include "trireme/tensor.h"

namespace trireme::measure {

/// One rank's part in one operation. The root, if any, is rank 0.
struct BenchTask {
  Operation operation = Operation::Allreduce;
  DType dtype = DType::F32;
  std::int64_t count = 0;  ///< elements of the vector
  Rank rank = 0;
  Rank ranks = 1;

  [[nodiscard]] std::int64_t block() const { return count / ranks; }
  [[nodiscard]] std::int64_t input_elements() const;
  [[nodiscard]] std::int64_t output_elements() const;
};

struct BenchBytes {
  std::span<std::byte> input;
  std::span<std::byte> output;
};

[[nodiscard]] Call make_bench_call(const BenchTask& task, const BenchBytes& buffers,
                                   const Method& method);

class BenchData {
 public:
  explicit BenchData(const BenchTask& task);

  /// Fills the input of this rank, and the output with wrong values unless the operation is in
  /// place.
  void fill(const BenchBytes& buffers) const;
  [[nodiscard]] bool is_right(std::span<const std::byte> output) const;

 private:
  [[nodiscard]] int element(Rank rank, std::int64_t index) const;
  [[nodiscard]] int sum(std::int64_t index) const;
  [[nodiscard]] int expected(std::int64_t index) const;

  BenchTask task_;
  std::vector<int> sums_;         ///< by an element's kind
  std::vector<std::byte> codes_;  ///< the numbers 0, 1, … encoded in the dtype
};

}  // namespace trireme::measure
