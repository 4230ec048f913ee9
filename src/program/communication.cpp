#include "trireme/communication.h"

#include <algorithm>

#include "program/traffic.h"

namespace trireme {
namespace {

/// The buffer that an instruction's operand was packed from: buckets are assembled from what they carry.
BufferId packed_from(const Program& program, std::size_t before, BufferId buffer) {
  while (program.buffer(buffer).category == Category::Communication) {
    const auto& list = program.instructions;
    const auto end = list.begin() + static_cast<std::ptrdiff_t>(before);
    const auto from = std::find_if(
        std::make_reverse_iterator(end), list.rend(),
        [&](const auto& i) { return std::ranges::find(i.outputs, buffer) != i.outputs.end(); });
    if (from == list.rend() || from->inputs.empty()) {
      break;
    }
    before = static_cast<std::size_t>(list.rend() - from - 1);
    buffer = from->inputs.front();
  }
  return buffer;
}

CommunicationUse use_of(const Program& program, std::size_t index) {
  const Instruction& instruction = program.instructions[index];
  const Signature signature = signature_of(program, instruction);
  CommunicationUse use{.op = std::string(instruction.op->name),
                       .phase = instruction.phase,
                       .bytes = bytes_sent(signature),
                       .calls = 1};
  if (instruction.attributes.contains("group")) {
    use.group = signature.text("group");
  }
  if (!instruction.inputs.empty()) {
    const Buffer& source = program.buffer(packed_from(program, index, instruction.inputs.front()));
    // What an update gathers are the parameters that it has just computed.
    const bool updated = use.phase == Phase::Update && use.op == "all_gather";
    use.carries = updated ? Category::Parameter : source.category;
    use.example = source.name;
  } else if (!instruction.outputs.empty()) {
    use.example = program.buffer(instruction.outputs.front()).name;
  }
  use.overlapped = instruction.done_before > static_cast<std::int32_t>(index) + 1 ? 1 : 0;
  return use;
}

bool is_same_kind(const CommunicationUse& a, const CommunicationUse& b) {
  return a.op == b.op && a.group == b.group && a.phase == b.phase && a.carries == b.carries &&
         a.bytes == b.bytes;
}

}  // namespace

std::vector<CommunicationUse> communication_of(const Program& program) {
  std::vector<CommunicationUse> all;
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    if (!program.instructions[i].op->communicates) {
      continue;
    }
    CommunicationUse use = use_of(program, i);
    const auto same =
        std::ranges::find_if(all, [&](const auto& other) { return is_same_kind(other, use); });
    if (same == all.end()) {
      all.push_back(std::move(use));
    } else {
      same->calls += 1;
      same->overlapped += use.overlapped;
    }
  }
  return all;
}

}  // namespace trireme
