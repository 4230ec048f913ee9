// From a graph to a program on one device. Storages (lifetimes.h) get offsets: the largest first, each at the lowest
// offset where it overlaps no other that is live at the same time.
#include <algorithm>
#include <numeric>
#include <utility>

#include "program/lifetimes.h"
#include "trireme/op.h"
#include "trireme/program.h"

namespace trireme {
namespace {

constexpr std::int64_t kAlignment = 64;

/// Places storages in an arena.
class Arena {
 public:
  explicit Arena(const std::vector<Storage>& storages)
      : storages_(storages), offset_(storages.size(), 0) {
    std::vector<std::size_t> order(storages.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
      return std::pair(storages[a].kept, storages[a].bytes) >
             std::pair(storages[b].kept, storages[b].bytes);
    });
    for (const std::size_t s : order) {
      place(s);
    }
  }

  [[nodiscard]] std::int64_t offset_of(std::int32_t storage) const {
    return offset_[static_cast<std::size_t>(storage)];
  }
  [[nodiscard]] std::int64_t size() const { return size_; }

 private:
  void place(std::size_t s) {
    offset_[s] = lowest_place(storages_[s]);
    const auto it = std::ranges::upper_bound(placed_, offset_[s], {},
                                             [&](std::size_t other) { return offset_[other]; });
    placed_.insert(it, s);
    size_ = std::max(size_, offset_[s] + storages_[s].bytes);
  }

  [[nodiscard]] std::int64_t lowest_place(const Storage& storage) const {
    std::int64_t offset = 0;
    for (const std::size_t s : placed_) {
      const Storage& other = storages_[s];
      const bool meet = other.first <= storage.last && storage.first <= other.last;
      if (!meet || offset_[s] + other.bytes <= offset) {
        continue;
      }
      if (offset + storage.bytes <= offset_[s]) {
        break;
      }
      offset = (offset_[s] + other.bytes + kAlignment - 1) / kAlignment * kAlignment;
    }
    return offset;
  }

  const std::vector<Storage>& storages_;
  std::vector<std::int64_t> offset_;  ///< by storage
  std::vector<std::size_t> placed_;   ///< by offset
  std::int64_t size_ = 0;
};

std::vector<BufferId> buffers_of(std::span<const ValueId> values) {
  std::vector<BufferId> buffers;
  buffers.reserve(values.size());
  for (const ValueId value : values) {
    buffers.push_back({value.index});
  }
  return buffers;
}

/// The program without its buffers' places. Nodes after the graph's are copies that its updates need.
Program unplaced(const Graph& graph, const Outline& outline) {
  Program program;
  program.name = graph.name();
  for (const Value& value : graph.values()) {
    program.buffers.push_back(
        {.name = value.name, .type = value.type, .category = {}, .origin = value.origin});
  }
  for (std::size_t n = 0; n < outline.nodes.size(); ++n) {
    const Outline::Node& node = outline.nodes[n];
    program.instructions.push_back(
        {.op = node.op,
         .attributes = n < graph.nodes().size() ? graph.nodes()[n].attributes : Attributes{},
         .inputs = buffers_of(outline.inputs_of(node)),
         .outputs = buffers_of(outline.outputs_of(node)),
         .phase = node.phase,
         .block = node.block});
  }
  for (const Output& output : graph.outputs()) {
    program.outputs.push_back({output.name, {output.value.index}});
  }
  return program;
}

/// Buffers for the values that were set aside: each is what the first copy into it reads.
void add_set_aside(Program& program, std::size_t own_nodes) {
  for (std::size_t i = own_nodes; i < program.instructions.size(); ++i) {
    const Instruction& copy = program.instructions[i];
    if (static_cast<std::size_t>(copy.outputs[0].index) == program.buffers.size()) {
      Buffer aside = program.buffer(copy.inputs[0]);
      aside.name += ".aside";
      aside.origin = Origin::Node;
      program.buffers.push_back(std::move(aside));
    }
  }
}

}  // namespace

Program make_program(const Graph& graph) {
  Outline outline = outline_of(graph);
  const Lifetimes lifetimes = find_lifetimes(outline);
  const Arena arena(lifetimes.storages);
  Program program = unplaced(graph, outline);
  add_set_aside(program, graph.nodes().size());
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    program.instructions[i].done_before = lifetimes.done_before[i];
  }
  for (std::size_t b = 0; b < program.buffers.size(); ++b) {
    Buffer& buffer = program.buffers[b];
    buffer.category = lifetimes.category[b];
    buffer.storage = lifetimes.storage_of[b];
    const Storage& storage = lifetimes.storages[static_cast<std::size_t>(buffer.storage)];
    buffer.offset = arena.offset_of(buffer.storage);
    buffer.first = storage.first;
    buffer.last = storage.last;
  }
  program.arena = {arena.size()};
  return program;
}

}  // namespace trireme
