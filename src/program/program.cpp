#include "trireme/program.h"

#include <algorithm>
#include <set>

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

MemoryUse memory_use(const Program& program) {
  // A storage counts once, under the category of its first buffer. Changes are recorded by moment, so that one pass
  // finds the peak.
  const std::size_t moments = std::max<std::size_t>(program.instructions.size(), 1);
  std::vector<std::array<std::int64_t, kCategories>> changes(moments + 1);
  std::set<std::int32_t> counted;
  for (const Buffer& buffer : program.buffers) {
    const auto first = static_cast<std::size_t>(std::max(buffer.first, 0));
    const std::size_t after =
        std::min(static_cast<std::size_t>(std::max(buffer.last + 1, 0)), moments);
    if (counted.insert(buffer.storage).second && first < after) {
      const std::int64_t bytes = size_of(buffer.type).count;
      changes[first].at(static_cast<std::size_t>(buffer.category)) += bytes;
      changes[after].at(static_cast<std::size_t>(buffer.category)) -= bytes;
    }
  }
  MemoryUse use;
  MemoryUse now;
  for (std::size_t i = 0; i < moments; ++i) {
    now.moment = static_cast<std::int32_t>(i);
    for (std::size_t category = 0; category < kCategories; ++category) {
      now.at_peak.at(category).count += changes[i].at(category);
      now.peak.count += changes[i].at(category);
    }
    if (now.peak > use.peak) {
      use = now;
    }
  }
  return use;
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
