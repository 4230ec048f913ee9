// Checks the program of one rank by simulating it: which buffers still hold their last write, and which belong to
// communication in flight.
#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "base/indexed_vector.h"
#include "program/traffic.h"
#include "trireme/error.h"
#include "trireme/op.h"
#include "trireme/program.h"

namespace trireme {
namespace {

struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  [[nodiscard]] bool meets(const Range& other) const {
    return begin < other.end && other.begin < end;
  }
};

/// By buffer.
class Ranges {
 public:
  explicit Ranges(const Program& program) {
    ranges_.reserve(program.buffers.size());
    for (const Buffer& buffer : program.buffers) {
      ranges_.push_back({buffer.offset, buffer.offset + size_of(buffer.type).count});
    }
  }
  [[nodiscard]] const Range& of(BufferId id) const { return ranges_.at(id); }

 private:
  IndexedVector<BufferId, Range> ranges_;
};

/// Tracks the buffers that still hold the bytes last written to them.
class Ownership {
 public:
  explicit Ownership(const Ranges& ranges) : ranges_(ranges) {}

  void write(BufferId id) {
    const Range range = ranges_.of(id);
    if (range.begin == range.end) {
      return;
    }
    auto it = places_.upper_bound(range.begin);
    if (it != places_.begin() && std::prev(it)->second.end > range.begin) {
      --it;
    }
    while (it != places_.end() && it->first < range.end) {
      it = places_.erase(it);
    }
    places_[range.begin] = {range.end, {id}};
  }
  /// A view of existing data.
  void see(BufferId id, BufferId of) {
    const auto it = places_.find(ranges_.of(of).begin);
    if (it != places_.end()) {
      it->second.holders.push_back(id);
    }
  }
  [[nodiscard]] bool holds(BufferId id) const {
    const Range range = ranges_.of(id);
    const auto it = places_.find(range.begin);
    return range.begin == range.end ||
           (it != places_.end() &&
            std::ranges::find(it->second.holders, id) != it->second.holders.end());
  }

 private:
  struct Place {
    std::int64_t end = 0;
    std::vector<BufferId> holders{};
  };
  const Ranges& ranges_;                  ///< the verifier's
  std::map<std::int64_t, Place> places_;  ///< by offset; disjoint
};

class Verifier {
 public:
  explicit Verifier(const Program& program)
      : program_(program), ranges_(program), ownership_(ranges_) {}

  void run() {
    check_leaves();
    for (std::size_t i = 0; i < program_.instructions.size(); ++i) {
      now_ = static_cast<std::int32_t>(i);
      std::erase_if(in_flight_, [&](std::int32_t e) { return instruction(e).done_before <= now_; });
      check_types();
      check_reads();
      check_meddling();
      write();
    }
    for (const NamedBuffer& output : program_.outputs) {
      if (!ownership_.holds(output.buffer)) {
        refuse_lost(output.buffer, fmt::format("output {}", output.name));
      }
    }
  }

 private:
  [[nodiscard]] const Instruction& instruction(std::int32_t i) const {
    return program_.instructions[i];
  }
  [[nodiscard]] const Instruction& current() const { return instruction(now_); }
  [[nodiscard]] std::string name_of(std::int32_t i) const {
    return fmt::format("instruction {} ({})", i, instruction(i).op->name);
  }
  [[noreturn]] void refuse(const std::string& reason) const {
    throw Error(ErrorKind::Input, fmt::format("program {}: {}", program_.name, reason));
  }

  void check_leaves() {
    for (std::size_t b = 0; b < program_.buffers.size(); ++b) {
      const Buffer& one = program_.buffers[b];
      const BufferId id{static_cast<std::int32_t>(b)};
      const Range& range = ranges_.of(id);
      if (range.begin < 0 || range.end > program_.arena.count) {
        refuse(fmt::format("%{} is outside of the arena", one.name));
      }
      if (one.origin != Origin::Node) {
        ownership_.write(id);
      }
    }
  }

  void check_types() const {
    std::vector<TensorType> types;
    try {
      types = current().op->infer(signature_of(program_, current()));
    } catch (const Error& error) {
      refuse(fmt::format("{}: {}", name_of(now_), error.what()));
    }
    if (types.size() != current().outputs.size()) {
      refuse(fmt::format("{} has {} results, not {}", name_of(now_), current().outputs.size(),
                         types.size()));
    }
    for (std::size_t k = 0; k < types.size(); ++k) {
      const Buffer& output = program_.buffer(current().outputs[k]);
      if (output.type != types[k]) {
        refuse(fmt::format("{}: %{} is {}; the op makes {}", name_of(now_), output.name,
                           to_text(output.type), to_text(types[k])));
      }
    }
    const auto end = static_cast<std::int32_t>(program_.instructions.size());
    if (current().op->communicates &&
        (current().done_before <= now_ || current().done_before > end)) {
      refuse(fmt::format("{} must be done before instruction {}, which is not after it",
                         name_of(now_), current().done_before));
    }
  }

  [[noreturn]] void refuse_lost(BufferId id, const std::string& who) const {
    refuse(
        fmt::format("{} reads %{}, which is not there (any more)", who, program_.buffer(id).name));
  }
  void check_reads() const {
    for (const BufferId input : current().inputs) {
      if (!ownership_.holds(input)) {
        refuse_lost(input, name_of(now_));
      }
    }
  }

  /// A communication op may write its results, and read its inputs, at any moment until it is done.
  void check_meddling() const {
    if (current().op->is_view) {
      return;  // nothing runs
    }
    for (const std::int32_t e : in_flight_) {
      for (const BufferId result : instruction(e).outputs) {
        refuse_meeting(current().inputs, "reads", result, e);
        refuse_meeting(current().outputs, "writes", result, e);
      }
      for (const BufferId input : instruction(e).inputs) {
        refuse_meeting(current().outputs, "writes", input, e);
      }
    }
  }
  void refuse_meeting(const std::vector<BufferId>& mine, std::string_view does, BufferId theirs,
                      std::int32_t e) const {
    const Range& range = ranges_.of(theirs);
    for (const BufferId id : mine) {
      if (range.meets(ranges_.of(id))) {
        refuse(
            fmt::format("{} {} %{} where %{} of {} is, which need not be done before "
                        "instruction {}",
                        name_of(now_), does, program_.buffer(id).name, program_.buffer(theirs).name,
                        name_of(e), instruction(e).done_before));
      }
    }
  }

  void write() {
    for (const BufferId output : current().outputs) {
      if (current().op->is_view) {
        ownership_.see(output, current().inputs[0]);
      } else {
        ownership_.write(output);
      }
    }
    if (current().op->communicates) {
      in_flight_.push_back(now_);
    }
  }

  const Program& program_;
  Ranges ranges_;
  Ownership ownership_;
  std::int32_t now_ = 0;
  std::vector<std::int32_t> in_flight_;  ///< communication that may not be done yet
};

}  // namespace

std::vector<std::string> problems(const Program& program) {
  try {
    Verifier(program).run();
  } catch (const Error& error) {
    return {error.what()};
  }
  return {};
}

}  // namespace trireme
