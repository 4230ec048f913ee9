#include "trireme/program.h"

#include <fmt/format.h>

#include "base/text.h"
#include "trireme/error.h"
#include "trireme/op.h"

namespace trireme {

std::string_view to_text(Category category) {
  switch (category) {
    case Category::Input:
      return "input";
    case Category::Parameter:
      return "parameter";
    case Category::Optimizer:
      return "optimizer";
    case Category::Gradient:
      return "gradient";
    case Category::Activation:
      return "activation";
    case Category::Communication:
      return "communication";
    case Category::Workspace:
      return "workspace";
  }
  return "?";
}

BufferId Program::find(std::string_view wanted) const {
  std::vector<std::string> names;
  for (std::size_t b = 0; b < buffers.size(); ++b) {
    if (buffers[b].origin != Origin::Node) {
      if (buffers[b].name == wanted) {
        return {static_cast<std::int32_t>(b)};
      }
      names.push_back(buffers[b].name);
    }
  }
  for (const NamedBuffer& output : outputs) {
    if (output.name == wanted) {
      return output.buffer;
    }
    names.push_back(output.name);
  }
  const auto near = nearest_word(wanted, names);
  throw Error(ErrorKind::Usage,
              fmt::format("program {} has no input, parameter, state or output '{}'{}", name,
                          wanted, near ? fmt::format("; did you mean '{}'?", *near) : ""));
}

std::string to_text(const Program& program) {
  std::string text = fmt::format("program {} arena={}\n", program.name, program.arena.count);
  for (const Buffer& buffer : program.buffers) {
    text += fmt::format("  buffer %{}: {} {} at {}\n", buffer.name, to_text(buffer.type),
                        to_text(buffer.category), buffer.offset);
  }
  for (const Instruction& instruction : program.instructions) {
    std::vector<std::string> outputs;
    std::vector<std::string> inputs;
    for (const BufferId output : instruction.outputs) {
      outputs.push_back("%" + program.buffer(output).name);
    }
    for (const BufferId input : instruction.inputs) {
      inputs.push_back("%" + program.buffer(input).name);
    }
    text += fmt::format("  {} = {}({}) @{}", fmt::join(outputs, ", "), instruction.op->name,
                        fmt::join(inputs, ", "), to_text(instruction.phase));
    text += instruction.done_before < 0 ? "\n"
                                        : fmt::format(" done before {}\n", instruction.done_before);
  }
  return text;
}

}  // namespace trireme
