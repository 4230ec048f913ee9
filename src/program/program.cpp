#include "trireme/program.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "base/text.h"
#include "graph/op.h"
#include "trireme/error.h"

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

namespace {

/// Who wrote each byte range last.
class Ownership {
 public:
  explicit Ownership(const Program& program) : program_(program) {}

  void write(BufferId id) {
    const Buffer& buffer = program_.buffer(id);
    const std::int64_t end = buffer.offset + size_of(buffer.type).count;
    std::erase_if(intact_, [&](const auto& entry) {
      const Buffer& other = program_.buffer({entry.first});
      return other.offset < end && buffer.offset < other.offset + size_of(other.type).count;
    });
    intact_[id.index] = true;
  }
  /// A view of what is there.
  void see(BufferId id) { intact_[id.index] = true; }
  [[nodiscard]] bool holds(BufferId id) const {
    return size_of(program_.buffer(id).type).count == 0 || intact_.contains(id.index);
  }

 private:
  const Program& program_;
  std::map<std::int32_t, bool> intact_;
};

}  // namespace

void Program::verify() const {
  Ownership ownership(*this);
  for (std::size_t b = 0; b < buffers.size(); ++b) {
    const Buffer& one = buffers[b];
    if (one.offset < 0 || one.offset + size_of(one.type).count > arena.count) {
      throw Error(ErrorKind::Input,
                  fmt::format("program {}: %{} lies outside of the arena", name, one.name));
    }
    if (one.origin != Origin::Node) {
      ownership.write({static_cast<std::int32_t>(b)});
    }
  }
  const auto require = [&](BufferId id, const std::string& who) {
    if (!ownership.holds(id)) {
      throw Error(ErrorKind::Input,
                  fmt::format("program {}: {} reads %{}, which is not there (any more)", name, who,
                              buffer(id).name));
    }
  };
  for (std::size_t i = 0; i < instructions.size(); ++i) {
    const Instruction& instruction = instructions[i];
    for (const BufferId input : instruction.inputs) {
      require(input, fmt::format("instruction {} ({})", i, instruction.op->name));
    }
    for (const BufferId output : instruction.outputs) {
      if (instruction.op->is_view) {
        ownership.see(output);
      } else {
        ownership.write(output);
      }
    }
  }
  for (const NamedBuffer& output : outputs) {
    require(output.buffer, fmt::format("output {}", output.name));
  }
}

MemoryUse memory_use(const Program& program) {
  // A storage counts once, under the category of its first buffer. What comes and goes is noted by moment, so that
  // one pass finds the fullest.
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
