// From a graph to a program on one device.
#include <utility>

#include "program/arena.h"
#include "program/lifetimes.h"
#include "trireme/op.h"
#include "trireme/program.h"

namespace trireme {
namespace {

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

/// Buffers for values that were saved before they are overwritten: each mirrors the source of the first copy into it.
void add_set_aside(Program& program, std::size_t own_nodes) {
  for (std::size_t i = own_nodes; i < program.instructions.size(); ++i) {
    const Instruction& copy = program.instructions[i];
    if (copy.outputs[0].index == std::ssize(program.buffers)) {
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
  const Arena arena(lifetimes.storages.items(), kDefaultAlignment);
  Program program = unplaced(graph, outline);
  add_set_aside(program, graph.nodes().size());
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    program.instructions[i].done_before = lifetimes.done_before.items()[i];
  }
  for (std::size_t b = 0; b < program.buffers.size(); ++b) {
    const ValueId value{static_cast<std::int32_t>(b)};
    Buffer& buffer = program.buffers[b];
    buffer.category = lifetimes.category[value];
    buffer.storage = lifetimes.storage_of[value];
    const Storage& storage = lifetimes.storages[buffer.storage];
    buffer.offset = arena.offset_of(buffer.storage);
    buffer.first = storage.first;
    buffer.last = storage.last;
  }
  program.arena = {arena.size()};
  return program;
}

}  // namespace trireme
