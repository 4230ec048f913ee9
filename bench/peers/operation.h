// The operations that every library is measured with, and the lengths of their buffers.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace peers {

enum class Operation : std::uint8_t {
  Allreduce,
  ReduceScatter,
  Allgather,
  Broadcast,
  Alltoall,
  Reduce,
  Gather,
  Scatter,
};
inline constexpr std::array kOperations{
    Operation::Allreduce, Operation::ReduceScatter, Operation::Allgather, Operation::Broadcast,
    Operation::Alltoall,  Operation::Reduce,        Operation::Gather,    Operation::Scatter};

/// "all-reduce", …
[[nodiscard]] std::string_view to_text(Operation operation);
/// Takes the name with or without its hyphens.
[[nodiscard]] std::optional<Operation> parse_operation(std::string_view text);

/// One collective operation of f32 on `ranks` ranks, as seen by one of them. The root is rank 0.
struct Task {
  Operation operation = Operation::Allreduce;
  std::int64_t count = 0;  ///< elements of the whole vector
  int rank = 0;
  int ranks = 1;

  [[nodiscard]] bool is_root() const { return rank == 0; }
  /// Elements that belong to one rank, if the vector is split into blocks.
  [[nodiscard]] std::int64_t block() const { return count / ranks; }
};

/// The vector's elements for this many bytes: an integer, and a multiple of the ranks if the vector
/// is split. 8 bytes on 4 ranks are 2 elements for an all-reduce and 4 for an all-gather.
[[nodiscard]] std::int64_t elements(Operation operation, std::int64_t bytes, int ranks);

/// Elements of this rank's buffers. Broadcast uses only the output.
[[nodiscard]] std::int64_t input_elements(const Task& task);
[[nodiscard]] std::int64_t output_elements(const Task& task);

}  // namespace peers
