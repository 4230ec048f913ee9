#include "trireme/communication.h"

#include <algorithm>
#include <string_view>

#include "base/indexed_vector.h"
#include "graph/outline.h"
#include "program/traffic.h"

namespace trireme {
namespace {

class Communications {
 public:
  explicit Communications(const Program& program)
      : program_(program), maker_(program.buffers.size(), nullptr) {
    for (const Instruction& instruction : program.instructions) {
      for (const BufferId output : instruction.outputs) {
        const Instruction*& maker = maker_[output];
        maker = maker == nullptr ? &instruction : maker;  // later ones copy updated values
      }
    }
  }

  [[nodiscard]] Carried carried_by(const Instruction& instruction) const {
    const Buffer& source = program_.buffer(packed_from(instruction.inputs.front()));
    // An update gathers the parameters that it has just computed.
    const bool updated = instruction.phase == Phase::Update && instruction.op->name == "all_gather";
    const bool passed_on = source.category == Category::Communication;
    return {updated     ? Category::Parameter
            : passed_on ? Category::Activation
                        : source.category,
            source.name};
  }

  [[nodiscard]] static std::int64_t tag_of(const Instruction& instruction) {
    return std::get<std::int64_t>(instruction.attributes.at("tag"));
  }

  [[nodiscard]] CommunicationUse use_of(const Instruction& instruction) const {
    const Signature signature = signature_of(program_, instruction);
    CommunicationUse use{.op = std::string(instruction.op->name),
                         .phase = instruction.phase,
                         .bytes = bytes_sent(signature),
                         .calls = 1};
    if (instruction.attributes.contains("group")) {
      use.group = signature.text("group");
    } else {
      use.peer = static_cast<int>(signature.integer(use.op == "send" ? "to" : "from"));
    }
    if (instruction.inputs.empty()) {
      const Buffer& received = program_.buffer(instruction.outputs.front());
      use.bytes = static_cast<double>(size_of(received.type).count);
    } else {
      use.carries = carried_by(instruction);
    }
    const auto index = &instruction - program_.instructions.data();
    use.overlapped = instruction.done_before > index + 1 ? 1 : 0;
    return use;
  }

  [[nodiscard]] RankMessages messages() const {
    RankMessages messages;
    for (const Instruction& instruction : program_.instructions) {
      if (instruction.op->name == "send") {
        messages.sent[tag_of(instruction)] = carried_by(instruction);
      }
      const std::string_view op = instruction.op->name;
      const bool adds_up = op == "all_reduce" || op == "reduce_scatter" ||
                           is_sum(*instruction.op, instruction.attributes);
      if (!adds_up || program_.buffer(instruction.outputs.front()).category != Category::Gradient) {
        continue;
      }
      for (const BufferId input : instruction.inputs) {
        const Instruction* maker = maker_[input];
        if (maker != nullptr && maker->op->name == "receive") {
          messages.received_gradients.insert(tag_of(*maker));
        }
      }
    }
    return messages;
  }

 private:
  /// The buffer that an operand was packed from: buckets are assembled from their contents.
  [[nodiscard]] BufferId packed_from(BufferId buffer) const {
    while (program_.buffer(buffer).category == Category::Communication) {
      const Instruction* maker = maker_[buffer];
      if (maker == nullptr || maker->inputs.empty()) {
        break;
      }
      buffer = maker->inputs.front();
    }
    return buffer;
  }

  const Program& program_;
  IndexedVector<BufferId, const Instruction*> maker_;  ///< none: exists before the step
};

bool is_same_kind(const CommunicationUse& a, const CommunicationUse& b) {
  return a.op == b.op && a.group == b.group && a.peer == b.peer && a.phase == b.phase &&
         a.carries.category == b.carries.category && a.bytes == b.bytes;
}

/// The contents of a message, from the knowledge of both ends.
Carried carried_by_message(const CommunicationUse& use, std::int64_t tag, const RankMessages& own,
                           const RankMessages* peer) {
  const bool sends = use.op == "send";
  Carried carried = use.carries;
  if (!sends && peer != nullptr && peer->sent.contains(tag)) {
    carried = peer->sent.at(tag);
  }
  const RankMessages* receiver = sends ? peer : &own;
  if (receiver != nullptr && receiver->received_gradients.contains(tag)) {
    carried.category = Category::Gradient;
  }
  return carried;
}

}  // namespace

RankMessages messages_of(const Program& program) {
  return Communications(program).messages();
}

std::vector<CommunicationUse> communication_of(const Program& program,
                                               const std::map<int, RankMessages>& peers) {
  const Communications communications(program);
  const RankMessages own = communications.messages();
  std::vector<CommunicationUse> all;
  for (const Instruction& instruction : program.instructions) {
    if (!instruction.op->communicates) {
      continue;
    }
    CommunicationUse use = communications.use_of(instruction);
    if (use.peer >= 0) {
      const auto peer = peers.find(use.peer);
      use.carries = carried_by_message(use, Communications::tag_of(instruction), own,
                                       peer == peers.end() ? nullptr : &peer->second);
    }
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
