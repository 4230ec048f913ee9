#include "program/lifetimes.h"

#include <algorithm>

#include "base/indexed_vector.h"
#include "program/categories.h"
#include "program/waits.h"
#include "trireme/op.h"

namespace trireme {
namespace {

constexpr std::int32_t kBefore = -1;
constexpr std::int32_t kNone = -1;

class LifetimeFinder {
 public:
  explicit LifetimeFinder(Outline& outline)
      : outline_(outline), own_nodes_(static_cast<std::int32_t>(outline.nodes.size())) {}

  Lifetimes run() {
    result_.category = categories_of(outline_);
    index_updates();
    set_targets_aside();
    find_versions();
    result_.done_before = find_waits(outline_);
    find_last_uses();
    assign_storages();
    copy_what_is_elsewhere();
    for (std::int32_t s = 0; s < members_.count(); ++s) {
      result_.storages[s].category = result_.category[members_[s].front()];
    }
    return std::move(result_);
  }

 private:
  [[nodiscard]] bool is_leaf(ValueId id) const { return outline_.value(id).origin != Origin::Node; }
  [[nodiscard]] std::int32_t storage_of(ValueId id) const { return result_.storage_of[id]; }

  // Updates.

  void index_updates() {
    update_of_.assign(outline_.values.size(), kNone);
    for (std::size_t u = 0; u < outline_.updates.size(); ++u) {
      sources_.push_back(outline_.updates[u].value);
      update_of_[outline_.updates[u].target] = static_cast<std::int32_t>(u);
    }
  }

  /// Values that are themselves targets are saved, so that the order of the final copies does not matter.
  void set_targets_aside() {
    for (ValueId& source : sources_) {
      if (update_of_[source] != kNone) {
        Outline::Value aside = outline_.value(source);
        aside.origin = Origin::Node;
        const ValueId copy = outline_.add_value(aside);
        result_.category.push_back(Category::Activation);
        update_of_.push_back(kNone);
        add_copy(source, copy);
        source = copy;
      }
    }
    first_update_from_.assign(outline_.values.size(), kNone);
    for (std::int32_t u = sources_.count(); u-- > 0;) {
      first_update_from_[sources_[u]] = u;
    }
  }
  void add_copy(ValueId from, ValueId to) {
    Outline::Node copy;
    copy.op = &op_named("copy");
    copy.phase = Phase::Update;
    outline_.add_node(copy, std::span(&from, 1), std::span(&to, 1));
  }
  [[nodiscard]] ValueId target(std::int32_t update) const {
    return outline_.updates[update].target;
  }
  [[nodiscard]] ValueId source(std::int32_t update) const { return sources_[update]; }

  /// The successive versions of a target that updates create.
  void find_versions() {
    version_of_.assign(outline_.values.size(), ValueId{});
    for (const Update& update : outline_.updates) {
      version_of_[update.target] = update.target;
    }
    for (const Outline::Node& node : outline_.nodes) {
      if (node.phase != Phase::Update) {
        continue;
      }
      for (const Op::InPlace& place : node.op->in_place) {
        const ValueId target = version_of_[outline_.inputs_of(node)[place.input]];
        const ValueId output = outline_.outputs_of(node)[place.output];
        if (target.valid() && outline_.value(output).type == outline_.value(target).type) {
          version_of_[output] = target;
          result_.category[output] = result_.category[target];
        }
      }
    }
  }
  /// Whether the value is a version of the target that dies before the step ends.
  [[nodiscard]] bool passes(ValueId target, ValueId version) const {
    return version_of_[version] == target && last_use_[version] < own_nodes_;
  }
  [[nodiscard]] bool is_update(ValueId target, ValueId value) const {
    const std::int32_t update = update_of_[target];
    return update != kNone && source(update) == value;
  }

  // Uses.

  void find_last_uses() {
    const auto end = static_cast<std::int32_t>(outline_.nodes.size());
    last_use_.assign(outline_.values.size(), kBefore);
    begun_last_.assign(outline_.values.size(), kBefore);
    for (std::int32_t i = 0; i < end; ++i) {
      const Outline::Node& node = outline_.nodes[i];
      const std::int32_t until = std::max(i, result_.done_before[i]);
      for (const ValueId input : outline_.inputs_of(node)) {
        last_use_[input] = std::max(last_use_[input], until);
        begun_last_[input] = i;
      }
      for (const ValueId output : outline_.outputs_of(node)) {
        last_use_[output] = std::max(last_use_[output], until);
      }
    }
    read_last_ = last_use_;
    for (const ValueId output : outline_.outputs) {
      last_use_[output] = end;
    }
    for (const ValueId id : outline_.values.ids()) {
      if (is_leaf(id)) {
        last_use_[id] = end;
      }
    }
    for (const ValueId source : sources_) {
      last_use_[source] = end;
    }
  }

  // Storages.

  void assign_storages() {
    result_.storage_of.assign(outline_.values.size(), kNone);
    for (const ValueId id : outline_.values.ids()) {
      if (is_leaf(id)) {
        new_storage(id, kBefore, true);
      }
    }
    for (std::size_t i = 0; i < outline_.nodes.size(); ++i) {
      for (std::size_t k = 0; k < outline_.nodes[i].outputs; ++k) {
        assign(outline_.nodes[i], k, static_cast<std::int32_t>(i));
      }
    }
  }

  void new_storage(ValueId id, std::int32_t first, bool kept) {
    result_.storage_of[id] = result_.storages.count();
    result_.storages.push_back(
        {.bytes = outline_.value(id).bytes, .first = first, .last = last_use_[id], .kept = kept});
    members_.push_back({id});
  }

  void join(ValueId id, std::int32_t number) {
    result_.storage_of[id] = number;
    Storage& storage = result_.storages[number];
    storage.last = std::max(storage.last, last_use_[id]);
    members_[number].push_back(id);
  }

  void assign(const Outline::Node& node, std::size_t k, std::int32_t now) {
    const ValueId output = outline_.outputs_of(node)[k];
    if (node.op->is_view) {
      join(output, storage_of(outline_.inputs_of(node)[0]));
      return;
    }
    for (const Op::InPlace& place : node.op->in_place) {
      if (place.output == k && may_take_over(node, place, now)) {
        join(output, storage_of(outline_.inputs_of(node)[place.input]));
        return;
      }
    }
    const std::int32_t target = target_for(output, now);
    if (target != kNone) {
      join(output, target);
    } else {
      new_storage(output, now, false);
    }
  }

  /// The storage of the output's previous version, if nothing reads that any more; else none.
  [[nodiscard]] std::int32_t target_for(ValueId output, std::int32_t now) const {
    const std::int32_t update = update_to(output);
    if (update == kNone) {
      return kNone;
    }
    const std::int32_t number = storage_of(target(update));
    const bool free = std::ranges::all_of(members_[number], [&](ValueId member) {
      return (is_leaf(member) ? read_last_ : last_use_)[member] < now;
    });
    return free ? number : kNone;
  }
  /// The update that the value is the result of, or a passing version in.
  [[nodiscard]] std::int32_t update_to(ValueId value) const {
    const std::int32_t direct = first_update_from_[value];
    const ValueId version = version_of_[value];
    const std::int32_t passing =
        version.valid() && passes(version, value) ? update_of_[version] : kNone;
    return direct == kNone ? passing : passing == kNone ? direct : std::min(direct, passing);
  }

  [[nodiscard]] bool may_take_over(const Outline::Node& node, const Op::InPlace& place,
                                   std::int32_t now) const {
    const std::span<const ValueId> inputs = outline_.inputs_of(node);
    const ValueId output = outline_.outputs_of(node)[place.output];
    const std::int32_t number = storage_of(inputs[place.input]);
    if (outline_.value(inputs[place.input]).bytes != outline_.value(output).bytes) {
      return false;
    }
    for (std::size_t j = 0; j < inputs.size(); ++j) {
      if (j != place.input && storage_of(inputs[j]) == number) {
        return false;
      }
    }
    // A communication op may work in place, if nothing else reads its input meanwhile.
    const std::int32_t until = std::max(now, result_.done_before[now]);
    return std::ranges::all_of(members_[number], [&](ValueId member) {
      return begun_last_[member] <= now &&
             (is_leaf(member) ? (is_update(member, output) || passes(member, output)) &&
                                    read_last_[member] <= until
                              : last_use_[member] <= until);
    });
  }

  void copy_what_is_elsewhere() {
    for (std::size_t u = 0; u < sources_.size(); ++u) {
      const ValueId target = outline_.updates[u].target;
      if (storage_of(target) != storage_of(sources_[u])) {
        add_copy(sources_[u], target);
        result_.done_before.push_back(-1);
      }
    }
    const auto end = static_cast<std::int32_t>(outline_.nodes.size());
    for (Storage& one : result_.storages) {
      one.last = one.kept || one.last >= own_nodes_ ? end : one.last;
    }
  }

  Outline& outline_;
  std::int32_t own_nodes_;  ///< without the copies
  Lifetimes result_;
  IndexedVector<std::int32_t, ValueId> sources_;            ///< by update
  IndexedVector<ValueId, std::int32_t> update_of_;          ///< the update that it is the target of
  IndexedVector<ValueId, std::int32_t> first_update_from_;  ///< the first that it is the source of
  IndexedVector<ValueId, ValueId> version_of_;              ///< the target; invalid: none
  IndexedVector<ValueId, std::int32_t> last_use_;   ///< the end for values that outlive the step
  IndexedVector<ValueId, std::int32_t> read_last_;  ///< by a node
  /// Likewise, but communication counts where it starts.
  IndexedVector<ValueId, std::int32_t> begun_last_;
  IndexedVector<std::int32_t, std::vector<ValueId>> members_;  ///< by storage
};

}  // namespace

Lifetimes find_lifetimes(Outline& outline) {
  return LifetimeFinder(outline).run();
}

}  // namespace trireme
