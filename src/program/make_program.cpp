// From a graph to a program on one device.
//
// Every value gets a storage. A result reuses the storage of an input if its op works in place and nothing needs the
// input afterwards; a view always does. Storages then get offsets: the largest first, each at the lowest offset where
// it overlaps no other that is live at the same time.
//
// What is kept between steps may be updated several times in one. Intermediate versions replace the first if nothing
// reads that any more; those that are still read get their own storage.
#include <algorithm>
#include <deque>
#include <map>
#include <numeric>
#include <optional>

#include "base/check.h"
#include "program/categories.h"
#include "trireme/op.h"
#include "trireme/program.h"

namespace trireme {
namespace {

constexpr std::int64_t kAlignment = 64;
constexpr std::int32_t kBefore = -1;

struct Storage {
  std::int64_t bytes = 0;
  std::int32_t first = 0;
  std::int32_t last = 0;
  std::int64_t offset = 0;
  bool kept = false;  ///< between steps
};

class Planner {
 public:
  explicit Planner(const Graph& graph) : graph_(graph) { program_.name = graph.name(); }

  Program run() {
    add_instructions();
    categorize(program_);
    add_copies();
    find_versions();
    find_waits();
    bound_waits();
    find_last_uses();
    assign_storages();
    place();
    return std::move(program_);
  }

 private:
  static std::size_t at(BufferId id) { return static_cast<std::size_t>(id.index); }

  [[nodiscard]] Buffer& buffer(BufferId id) { return program_.buffers[at(id)]; }

  void add_instructions() {
    for (const Value& value : graph_.values()) {
      program_.buffers.push_back(
          {.name = value.name, .type = value.type, .category = {}, .origin = value.origin});
    }
    for (const Node& node : graph_.nodes()) {
      Instruction instruction{.op = node.op,
                              .attributes = node.attributes,
                              .inputs = {},
                              .outputs = {},
                              .phase = node.phase,
                              .block = node.block};
      for (const ValueId input : node.inputs) {
        instruction.inputs.push_back({input.index});
      }
      for (const ValueId output : node.outputs) {
        instruction.outputs.push_back({output.index});
      }
      program_.instructions.push_back(std::move(instruction));
    }
    for (const Output& output : graph_.outputs()) {
      program_.outputs.push_back({output.name, {output.value.index}});
    }
  }

  /// An update whose value is not already in its target's storage becomes a copy at the end. Values that are themselves
  /// targets are saved first, so that the order of the copies does not matter.
  void add_copies() {
    for (const Update& update : graph_.updates()) {
      targets_.push_back({update.target.index});
      sources_.push_back({update.value.index});
    }
    for (BufferId& source : sources_) {
      if (std::ranges::find(targets_, source) != targets_.end()) {
        const BufferId aside{static_cast<std::int32_t>(program_.buffers.size())};
        Buffer copy = buffer(source);
        copy.name += ".aside";
        copy.origin = Origin::Node;
        copy.category = Category::Activation;
        program_.buffers.push_back(std::move(copy));
        add_copy(source, aside);
        source = aside;
      }
    }
  }

  /// The successive versions that updates make of a target.
  void find_versions() {
    version_of_.assign(program_.buffers.size(), {});
    for (const BufferId target : targets_) {
      version_of_[at(target)] = target;
    }
    for (const Instruction& instruction : program_.instructions) {
      for (const Op::InPlace& place : instruction.op->in_place) {
        const BufferId target = version_of_[at(instruction.inputs.at(place.input))];
        const BufferId output = instruction.outputs.at(place.output);
        if (instruction.phase == Phase::Update && target.valid() &&
            buffer(output).type == buffer(target).type) {
          version_of_[at(output)] = target;
          buffer(output).category = buffer(target).category;
        }
      }
    }
  }
  /// Whether the buffer is a version of the target that dies before the step ends.
  [[nodiscard]] bool passes(BufferId target, BufferId version) const {
    return version_of_[at(version)] == target &&
           last_use_[at(version)] < static_cast<std::int32_t>(graph_.nodes().size());
  }

  void add_copy(BufferId from, BufferId to) {
    program_.instructions.push_back({.op = &op_named("copy"),
                                     .attributes = {},
                                     .inputs = {from},
                                     .outputs = {to},
                                     .phase = Phase::Update,
                                     .block = -1});
  }

  /// The first instruction that needs a buffer after it was made, counting views as the buffer itself. A send is waited
  /// for together with the receive that it names.
  void find_waits() {
    const auto end = static_cast<std::int32_t>(program_.instructions.size());
    std::vector<std::int32_t> first_use(program_.buffers.size(), end);
    std::map<std::int64_t, std::int32_t> received;  // by tag
    for (std::int32_t i = end; i-- > 0;) {
      Instruction& instruction = program_.instructions[static_cast<std::size_t>(i)];
      if (instruction.op->communicates) {
        instruction.done_before = end;
        for (const BufferId output : instruction.outputs) {
          instruction.done_before = std::min(instruction.done_before, first_use[at(output)]);
        }
      }
      if (instruction.op->name == "receive") {
        received[integer(instruction, "tag")] = instruction.done_before;
      }
      const std::int32_t use = instruction.op->is_view ? first_use[at(instruction.outputs[0])] : i;
      for (const BufferId input : instruction.inputs) {
        first_use[at(input)] = std::min(first_use[at(input)], use);
      }
    }
    for (std::int32_t i = 0; i < end; ++i) {
      Instruction& instruction = program_.instructions[static_cast<std::size_t>(i)];
      if (instruction.op->name == "send") {
        const auto it = received.find(integer(instruction, "until"));
        if (it != received.end() && it->second > i) {
          instruction.done_before = std::min(instruction.done_before, it->second);
        }
      }
    }
  }

  /// Communication whose result is needed much later is waited for once as much more has started as a model block
  /// communicates: otherwise all its inputs, and its scratch, would be kept until the end of the step.
  void bound_waits() {
    const std::vector<std::int32_t> later = exchanges_for_later();
    const std::int64_t most = most_of_a_block(later);
    std::deque<std::int32_t> under_way;
    std::int64_t bytes = 0;
    for (const std::int32_t i : later) {
      while (!under_way.empty() && bytes + bytes_of(instruction(i)) > most) {
        Instruction& first = instruction(under_way.front());
        first.done_before = std::min(first.done_before, i);
        bytes -= bytes_of(first);
        under_way.pop_front();
      }
      under_way.push_back(i);
      bytes += bytes_of(instruction(i));
    }
  }
  /// Reduce-scatters, whose result is smaller than their input, if another block computes before their result is
  /// needed; and gathers of updated values, which nothing reads. Not point-to-point messages, for which other ranks may
  /// wait in another order.
  [[nodiscard]] std::vector<std::int32_t> exchanges_for_later() {
    const auto end = static_cast<std::int32_t>(program_.instructions.size());
    std::int32_t copies = end;  // from here on results are copied to their targets
    while (copies > 0 && instruction(copies - 1).op->name == "copy") {
      --copies;
    }
    std::vector<std::int32_t> found;
    std::int32_t next = end;   // that computes
    std::int32_t other = end;  // that computes for another block than the next one does
    for (std::int32_t i = end; i-- > 0;) {
      const Instruction& one = instruction(i);
      const bool leads_on = next < end && instruction(next).block != one.block;
      const std::int32_t another = leads_on ? next : other;  // that computes for another block
      if (!one.op->communicates) {
        other = another;
        next = i;
        continue;
      }
      const bool stays = one.done_before > another;
      if (one.attributes.contains("group") &&
          (one.phase == Phase::Update ? one.done_before >= copies
                                      : stays && size(one.outputs[0]) < size(one.inputs[0]))) {
        found.push_back(i);
      }
    }
    std::ranges::reverse(found);
    return found;
  }
  /// The most that the backward of one block communicates this way; without blocks, the largest.
  [[nodiscard]] std::int64_t most_of_a_block(const std::vector<std::int32_t>& exchanges) {
    std::map<std::int32_t, std::int64_t> of_block;
    std::int64_t largest = 0;
    for (const std::int32_t i : exchanges) {
      largest = std::max(largest, bytes_of(instruction(i)));
      if (instruction(i).phase == Phase::Backward && instruction(i).block >= 0) {
        of_block[instruction(i).block] += bytes_of(instruction(i));
      }
    }
    std::int64_t most = 0;
    for (const auto& [block, bytes] : of_block) {
      most = std::max(most, bytes);
    }
    return most > 0 ? most : largest;
  }
  [[nodiscard]] Instruction& instruction(std::int32_t number) {
    return program_.instructions[static_cast<std::size_t>(number)];
  }
  [[nodiscard]] Bytes size(BufferId id) const { return size_of(program_.buffers[at(id)].type); }
  [[nodiscard]] std::int64_t bytes_of(const Instruction& exchange) const {
    return std::max(size(exchange.inputs[0]), size(exchange.outputs[0])).count;
  }

  static std::int64_t integer(const Instruction& instruction, const std::string& name) {
    return std::get<std::int64_t>(instruction.attributes.at(name));
  }

  void find_last_uses() {
    const auto end = static_cast<std::int32_t>(program_.instructions.size());
    last_use_.assign(program_.buffers.size(), kBefore);
    begun_last_.assign(program_.buffers.size(), kBefore);
    for (std::int32_t i = 0; i < end; ++i) {
      const Instruction& instruction = program_.instructions[static_cast<std::size_t>(i)];
      const std::int32_t until = std::max(i, instruction.done_before);
      for (const BufferId input : instruction.inputs) {
        last_use_[at(input)] = std::max(last_use_[at(input)], until);
        begun_last_[at(input)] = i;
      }
      for (const BufferId output : instruction.outputs) {
        last_use_[at(output)] = std::max(last_use_[at(output)], until);
      }
    }
    read_last_ = last_use_;
    for (const Output& output : graph_.outputs()) {
      last_use_[static_cast<std::size_t>(output.value.index)] = end;
    }
    for (std::size_t b = 0; b < program_.buffers.size(); ++b) {
      if (program_.buffers[b].origin != Origin::Node) {
        last_use_[b] = end;
      }
    }
    for (const BufferId source : sources_) {
      last_use_[at(source)] = end;
    }
  }

  void assign_storages() {
    for (std::size_t b = 0; b < program_.buffers.size(); ++b) {
      if (program_.buffers[b].origin != Origin::Node) {
        new_storage({static_cast<std::int32_t>(b)}, kBefore, true);
      }
    }
    const std::size_t count = program_.instructions.size();
    for (std::size_t i = 0; i < count; ++i) {
      const Instruction& instruction = program_.instructions[i];
      for (std::size_t k = 0; k < instruction.outputs.size(); ++k) {
        assign(instruction, k, static_cast<std::int32_t>(i));
      }
    }
    copy_what_is_elsewhere();
  }

  void new_storage(BufferId id, std::int32_t first, bool kept) {
    buffer(id).storage = static_cast<std::int32_t>(storages_.size());
    storages_.push_back({.bytes = size_of(buffer(id).type).count,
                         .first = first,
                         .last = last_use_[at(id)],
                         .offset = 0,
                         .kept = kept});
    members_.push_back({id});
  }

  void join(BufferId id, std::int32_t storage) {
    buffer(id).storage = storage;
    Storage& joined = storages_[static_cast<std::size_t>(storage)];
    joined.last = std::max(joined.last, last_use_[at(id)]);
    members_[static_cast<std::size_t>(storage)].push_back(id);
  }

  void assign(const Instruction& instruction, std::size_t k, std::int32_t now) {
    const BufferId output = instruction.outputs[k];
    if (buffer(output).storage >= 0) {
      return;  // a copy into a target
    }
    if (instruction.op->is_view) {
      join(output, buffer(instruction.inputs[0]).storage);
      return;
    }
    for (const Op::InPlace& place : instruction.op->in_place) {
      if (place.output == k && may_take_over(instruction, place, now)) {
        join(output, buffer(instruction.inputs[place.input]).storage);
        return;
      }
    }
    const std::int32_t target = target_for(output, now);
    if (target >= 0) {
      join(output, target);
      return;
    }
    new_storage(output, now, false);
  }

  /// The storage of the output's previous version, if nothing reads that any more; else -1.
  [[nodiscard]] std::int32_t target_for(BufferId output, std::int32_t now) {
    for (std::size_t u = 0; u < targets_.size(); ++u) {
      if ((sources_[u] != output && !passes(targets_[u], output)) ||
          buffer(targets_[u]).storage < 0) {
        continue;
      }
      const std::int32_t storage = buffer(targets_[u]).storage;
      const bool free =
          std::ranges::all_of(members_[static_cast<std::size_t>(storage)], [&](BufferId member) {
            const bool leaf = buffer(member).origin != Origin::Node;
            return (leaf ? read_last_ : last_use_)[at(member)] < now;
          });
      return free ? storage : -1;
    }
    return -1;
  }

  [[nodiscard]] bool may_take_over(const Instruction& instruction, const Op::InPlace& place,
                                   std::int32_t now) {
    const BufferId input = instruction.inputs[place.input];
    const BufferId output = instruction.outputs[place.output];
    const std::int32_t storage = buffer(input).storage;
    if (size_of(buffer(input).type) != size_of(buffer(output).type)) {
      return false;
    }
    for (std::size_t j = 0; j < instruction.inputs.size(); ++j) {
      if (j != place.input && buffer(instruction.inputs[j]).storage == storage) {
        return false;
      }
    }
    // A communication op may work in place, if nothing else reads its input meanwhile.
    const std::int32_t until = std::max(now, instruction.done_before);
    return std::ranges::all_of(members_[static_cast<std::size_t>(storage)], [&](BufferId member) {
      const bool leaf = buffer(member).origin != Origin::Node;
      return begun_last_[at(member)] <= now &&
             (leaf ? (is_update(member, output) || passes(member, output)) &&
                         read_last_[at(member)] <= until
                   : last_use_[at(member)] <= until);
    });
  }

  [[nodiscard]] bool is_update(BufferId target, BufferId value) const {
    for (std::size_t u = 0; u < targets_.size(); ++u) {
      if (targets_[u] == target && sources_[u] == value) {
        return true;
      }
    }
    return false;
  }

  void copy_what_is_elsewhere() {
    for (std::size_t u = 0; u < targets_.size(); ++u) {
      if (buffer(targets_[u]).storage != buffer(sources_[u]).storage) {
        add_copy(sources_[u], targets_[u]);
      }
    }
    const auto end = static_cast<std::int32_t>(program_.instructions.size());
    for (Storage& storage : storages_) {
      const bool to_the_end = storage.last >= static_cast<std::int32_t>(graph_.nodes().size());
      storage.last = storage.kept || to_the_end ? end : storage.last;
    }
  }

  void place() {
    std::vector<std::size_t> order(storages_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
      return std::pair(storages_[a].kept, storages_[a].bytes) >
             std::pair(storages_[b].kept, storages_[b].bytes);
    });
    std::vector<const Storage*> placed;  // by offset
    for (const std::size_t s : order) {
      storages_[s].offset = lowest_place(storages_[s], placed);
      const auto it = std::ranges::upper_bound(placed, storages_[s].offset, {}, &Storage::offset);
      placed.insert(it, &storages_[s]);
      program_.arena.count =
          std::max(program_.arena.count, storages_[s].offset + storages_[s].bytes);
    }
    for (std::size_t b = 0; b < program_.buffers.size(); ++b) {
      Buffer& placed_buffer = program_.buffers[b];
      const Storage& storage = storages_[static_cast<std::size_t>(placed_buffer.storage)];
      placed_buffer.offset = storage.offset;
      placed_buffer.first = storage.first;
      placed_buffer.last = storage.last;
    }
  }

  static std::int64_t lowest_place(const Storage& storage,
                                   const std::vector<const Storage*>& placed) {
    std::int64_t offset = 0;
    for (const Storage* other : placed) {
      const bool meet = other->first <= storage.last && storage.first <= other->last;
      if (!meet || other->offset + other->bytes <= offset) {
        continue;
      }
      if (offset + storage.bytes <= other->offset) {
        break;
      }
      offset = (other->offset + other->bytes + kAlignment - 1) / kAlignment * kAlignment;
    }
    return offset;
  }

  const Graph& graph_;
  Program program_;
  std::vector<BufferId> targets_;  ///< of updates
  std::vector<BufferId> sources_;
  std::vector<BufferId> version_of_;      ///< by buffer: the target; invalid: none
  std::vector<std::int32_t> last_use_;    ///< by buffer; the end for what must outlive the step
  std::vector<std::int32_t> read_last_;   ///< by buffer, by instruction
  std::vector<std::int32_t> begun_last_;  ///< likewise, but communication counts where it starts
  std::vector<Storage> storages_;
  std::vector<std::vector<BufferId>> members_;  ///< by storage
};

}  // namespace

Program make_program(const Graph& graph) {
  return Planner(graph).run();
}

}  // namespace trireme
