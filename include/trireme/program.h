// Program: the instructions that one rank executes in a step, as data: in order, every buffer at its offset in one
// arena, so the peak is known before execution. Callable from any thread.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/graph.h"
#include "trireme/units.h"
#include "trireme/valid.h"

namespace trireme {

/// The purpose of memory. Communication is memory that a single rank would not need: results of communication ops
/// (received shards, gathered parameters, scratch), and buffers assembled only for sending (buckets). A sum over ranks
/// has the category of its terms: a gradient is a gradient as soon as the backward computes it, before and after it is
/// reduced, and a reduced activation is an activation.
enum class Category : std::uint8_t {
  Input,
  Parameter,
  Optimizer,
  Gradient,
  Activation,
  Communication,
  Workspace
};
inline constexpr int kCategories = 7;
[[nodiscard]] std::string_view to_text(Category category);

struct BufferId {
  std::int32_t index = -1;
  [[nodiscard]] bool valid() const noexcept { return index >= 0; }
  friend auto operator<=>(const BufferId&, const BufferId&) = default;
};

/// A tensor in the arena. Buffers with disjoint lifetimes share memory, as do those that are updated in place.
struct Buffer {
  std::string name{};
  TensorType type{};
  Category category = Category::Activation;
  Origin origin = Origin::Node;
  std::int64_t offset = 0;
  /// Buffers with the same number are the same memory at different times.
  std::int32_t storage = -1;
  /// The first and last instructions that use it; `first` is -1 if it is kept between steps.
  std::int32_t first = -1;
  std::int32_t last = -1;
};

struct Instruction {
  const Op* op = nullptr;
  Attributes attributes{};
  std::vector<BufferId> inputs{};
  std::vector<BufferId> outputs{};
  Phase phase = Phase::Forward;
  std::int32_t block = -1;
  /// For a communication op: it starts here and must complete before the instruction with this number, the first that
  /// needs its result. No other instruction may touch its buffers until then.
  std::int32_t done_before = -1;
};

struct NamedBuffer {
  std::string name{};
  BufferId buffer{};
};

struct Program {
  std::string name{};
  std::vector<Buffer> buffers{};
  std::vector<Instruction> instructions{};
  std::vector<NamedBuffer> outputs{};
  Bytes arena{};  ///< of all buffers; excludes the device's workspace

  [[nodiscard]] const Buffer& buffer(BufferId id) const { return buffers.at(id.index); }
  /// An input, parameter or state by its name, else an output. Throws Error(Usage) naming the nearest match.
  [[nodiscard]] BufferId find(std::string_view name) const;
};

/// The first error, in words: results whose types do not follow from their ops' rules, an instruction that reads an
/// unwritten or overwritten buffer, or one that uses a buffer of a communication op in flight. Empty if the program is
/// valid. For agreement between ranks, see problems() in program_set.h.
[[nodiscard]] std::vector<std::string> problems(const Program& program);

/// The program that computes the graph on one device: nodes in graph order, memory planned by lifetimes. Updates write
/// their results to their targets, in place if the op allows it.
[[nodiscard]] Program make_program(const Graph& graph);

/// The contents of the arena at its peak, by category.
struct MemoryUse {
  std::array<Bytes, kCategories> at_peak{};
  Bytes peak{};             ///< the sum of live buffers at that moment
  std::int32_t moment = 0;  ///< the instruction
};
[[nodiscard]] MemoryUse memory_use(const Program& program);

[[nodiscard]] std::string to_text(const Program& program);

}  // namespace trireme
