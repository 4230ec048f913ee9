#include "partition/place.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "base/indexed_vector.h"
#include "partition/known_copies.h"
#include "partition/node_placer.h"
#include "partition/node_stages.h"
#include "trireme/error.h"
#include "trireme/op.h"

namespace trireme::partition {
namespace {

class Placer {
 public:
  Placer(const Graph& graph, const PlacementSpec& placements) : known_(placed_) {
    placed_.graph = graph;
    placed_.placements = placements;
    placed_.stage_count = placements.stage_count;
    const auto count_stages = [&](const auto& stages) {
      for (const auto& [of, stage] : stages) {
        placed_.stage_count = std::max(placed_.stage_count, stage + 1);
      }
    };
    count_stages(placements.stages);
    count_stages(placements.op_stages);
    count_stages(placements.homes);
  }

  Placed run() {
    const auto count = graph().values().size();
    known_.resize(count);
    placed_.home.assign(count, -1);
    for (const auto& [id, stage] : placements().homes) {
      home(id) = stage;
    }
    stages_.emplace(placed_);
    for (const Update& update : graph().updates()) {
      target_of_[update.value] = update.target;
    }
    readers_.resize(count);
    for (std::size_t n = 0; n < graph().nodes().size(); ++n) {
      for (const ValueId input : graph().nodes()[n].inputs) {
        readers_[input].push_back({static_cast<std::int32_t>(n)});
      }
    }
    for (std::size_t v = 0; v < count; ++v) {
      const ValueId id{static_cast<std::int32_t>(v)};
      if (graph().value(id).origin != Origin::Node) {
        check_requested(id, stored(id));
        known_.add(id, stored(id), -1);
      }
    }
    for (std::size_t n = 0; n < graph().nodes().size(); ++n) {
      place_node({static_cast<std::int32_t>(n)});
    }
    place_ends();
    return std::move(placed_);
  }

 private:
  [[nodiscard]] const Graph& graph() const { return placed_.graph; }
  [[nodiscard]] const PlacementSpec& placements() const { return placed_.placements; }
  [[nodiscard]] const Axes& axes() const { return placed_.axes(); }
  [[nodiscard]] const Value& value(ValueId id) const { return graph().value(id); }
  [[nodiscard]] const Shape& shape(ValueId id) const { return value(id).type.shape; }
  [[nodiscard]] const Copy& copy(CopyId id) const { return placed_.copy(id); }
  [[nodiscard]] CopyId primary(ValueId id) const { return known_.primary(id); }
  [[nodiscard]] Placement stored(ValueId id) const {
    const auto it = placements().stored.find(id);
    return it == placements().stored.end() ? Placement::replicated(shape(id).rank())
                                           : canonical(it->second, shape(id), axes());
  }
  /// The placement in which a node of this phase sees the operand.
  [[nodiscard]] Placement seen(ValueId id, Phase phase) {
    const auto it = placements().used.find(id);
    return phase != Phase::Update && it != placements().used.end()
               ? canonical(it->second, shape(id), axes())
               : copy(primary(id)).placement;
  }

  void check_requested(ValueId id, const Placement& placement) const {
    const Value& placed_value = value(id);
    const auto refuse = [&](const std::string& reason) {
      throw Error(ErrorKind::Usage,
                  fmt::format("{}: invalid placement of {}: {}", placed_value.name,
                              to_text(placed_value.type), reason));
    };
    if (static_cast<int>(placement.dims.size()) != placed_value.type.shape.rank()) {
      refuse(fmt::format("the placement has {} dimensions", placement.dims.size()));
    }
    std::set<int> seen_axes;
    for (const Placement::Dim& dim : placement.dims) {
      for (const int axis : dim.axes) {
        if (axis < 0 || axis >= static_cast<int>(axes().size()) || !seen_axes.insert(axis).second) {
          refuse(fmt::format("axis {} does not exist or shards two dimensions", axis));
        }
      }
    }
  }

  [[nodiscard]] int& home(ValueId id) { return placed_.home[id]; }

  // Nodes.

  void place_node(NodeId id) {
    const Node& node = graph().node(id);
    const int stage = stages_->find(id);
    stages_->set(id, stage);
    const NodePlacer placer(graph(), node, axes());
    const std::map<int, Merge> passed = passed_on(node);
    Assignment assignment = choose(node, placer, passed, stage);
    const bool apart = node.op->linear == Linear::Apart && !passed.empty();
    if (apart) {  // along the parts, the last factor of its row
      assignment.back() = {.axes = {passed.begin()->first}, .unit = 1};
    }

    PlacedStep step;
    step.node = id;
    step.factors = assignment;
    step.phase = node.phase;
    step.block = node.block;
    step.stage = stage;
    for (std::size_t k = 0; k < node.inputs.size(); ++k) {
      const ValueId input = node.inputs[k];
      Placement wanted = placer.input_placement(assignment, k);
      for (const auto& [axis, merge] : passed) {
        if (copy(primary(input)).placement.partial.contains(axis)) {
          wanted.partial[axis] = merge;
        }
      }
      step.inputs.push_back(known_.get(input, wanted, step));
      if (value(input).origin != Origin::Node && value(input).origin != Origin::Input &&
          home(input) < 0) {
        home(input) = stage;
      }
    }
    const auto number = static_cast<std::int32_t>(placed_.steps.size());
    for (std::size_t k = 0; k < node.outputs.size(); ++k) {
      Placement placement = placer.output_placement(assignment, k);
      if (!apart) {
        placement.partial.insert(passed.begin(), passed.end());
      }
      step.outputs.push_back(known_.add(node.outputs[k], placement, number));
    }
    placed_.steps.push_back(step);
    for (const ValueId output : node.outputs) {
      const auto forced = placements().forced.find(output);
      if (forced != placements().forced.end()) {
        for (const Placement& placement : forced->second) {
          force(output, placement, step);
        }
      }
      if (placements().pinned.contains(output)) {
        force(output, pinned(output, copy(primary(output)).placement), step);
      }
    }
  }

  /// The placement with the axes along which the value is pinned.
  [[nodiscard]] Placement pinned(ValueId id, Placement placement) const {
    for (const auto& [axis, dimension] : placements().pinned.at(id)) {
      if (dimension >= 0 && placement.dimension_of(axis) == dimension) {
        continue;
      }
      placement.partial.erase(axis);
      for (Placement::Dim& dim : placement.dims) {
        std::erase(dim.axes, axis);
      }
      if (dimension >= 0) {
        placement.dims[dimension].axes.push_back(axis);
      }
    }
    return placement;
  }

  void force(ValueId id, const Placement& requested, const PlacedStep& like) {
    Placement wanted = canonical(requested, shape(id), axes());
    check_requested(id, wanted);
    const Placement at = copy(primary(id)).placement;
    // What is not partial cannot become partial.
    std::erase_if(wanted.partial,
                  [&](const auto& entry) { return !at.partial.contains(entry.first); });
    known_.change(primary(id), wanted, like, KnownCopies::Rank::Primary);
  }

  /// The axes on which the node may take partial inputs and give partial results.
  std::map<int, Merge> passed_on(const Node& node) {
    std::map<int, Merge> passed;
    if (node.op->linear == Linear::Apart) {
      return taken_apart(node);
    }
    if (node.op->linear == Linear::No || node.phase == Phase::Update) {
      return passed;
    }
    for (int axis = 0; axis < static_cast<int>(axes().size()); ++axis) {
      std::size_t parts = 0;
      double bytes_in = 0;
      bool sharded_elsewhere = false;
      for (const ValueId input : node.inputs) {
        const Placement placement = seen(input, node.phase);
        const auto it = placement.partial.find(axis);
        const bool sum = it != placement.partial.end() && it->second == Merge::Sum;
        parts += sum ? 1 : 0;
        bytes_in += sum ? bytes(input) : 0;
        sharded_elsewhere = sharded_elsewhere || placement.dimension_of(axis) >= 0;
      }
      double bytes_out = 0;
      for (const ValueId output : node.outputs) {
        bytes_out += bytes(output);
      }
      const bool joint = node.op->linear == Linear::Joint && parts == node.inputs.size();
      const bool each = node.op->linear == Linear::Each && parts == 1 && !sharded_elsewhere &&
                        node.inputs.size() == 1;
      if (parts > 0 && (joint || each) && bytes_out <= bytes_in) {
        passed[axis] = Merge::Sum;
      }
    }
    return passed;
  }
  /// The axis whose devices have the terms that the node returns, if there is one.
  std::map<int, Merge> taken_apart(const Node& node) {
    const Signature s = signature_of(graph(), node);
    const int axis = find_axis(axes(), s.text("axis"));
    const Placement placement = seen(node.inputs[0], node.phase);
    const auto it = placement.partial.find(axis);
    const bool fits = it != placement.partial.end() && it->second == Merge::Sum &&
                      axes()[axis].size == s.integer("count");
    return fits ? std::map<int, Merge>{{axis, Merge::Sum}} : std::map<int, Merge>{};
  }
  [[nodiscard]] double bytes(ValueId id) const {
    return static_cast<double>(size_of(value(id).type).count);
  }

  /// Decides how to compute the node. Persistent inputs take precedence; of the others, the one that moves the fewest
  /// bytes.
  Assignment choose(const Node& node, const NodePlacer& placer, const std::map<int, Merge>& passed,
                    int stage) {
    Assignment fixed = placer.none();
    std::vector<std::size_t> others;
    // Updates follow their target; a parameter that is rounded from its master copy follows the copy.
    const bool updates =
        std::ranges::any_of(node.outputs,
                            [&](ValueId output) { return target_of_.contains(output); }) &&
        std::ranges::any_of(node.inputs, [&](ValueId input) {
          return value(input).origin == Origin::State || value(input).origin == Origin::Parameter;
        });
    for (std::size_t k = 0; k < node.inputs.size(); ++k) {
      const Origin origin = value(node.inputs[k]).origin;
      if (origin == Origin::State) {
        placer.vote(fixed, k, without(seen(node.inputs[k], node.phase), passed));
      }
    }
    for (std::size_t k = 0; k < node.inputs.size(); ++k) {
      const Origin origin = value(node.inputs[k]).origin;
      if (origin == Origin::Parameter) {
        placer.vote(fixed, k, without(seen(node.inputs[k], node.phase), passed));
      } else if (origin != Origin::State && !updates) {
        others.push_back(k);
      }
    }
    keep_voters(node, passed, others);
    std::ranges::stable_sort(others, [&](std::size_t a, std::size_t b) {
      return bytes(node.inputs[a]) > bytes(node.inputs[b]);
    });
    for (const int axis : to_merge(node, passed)) {
      for (std::size_t k = 0; k < node.outputs.size(); ++k) {
        look_ahead(node.outputs[k], node.phase, axis,
                   [&](const Placement& liked) { placer.vote_for_output(fixed, k, liked, axis); });
      }
    }
    Assignment best = fixed;
    std::optional<double> least;
    for (std::size_t leader = 0; leader < others.size(); ++leader) {
      Assignment tried = fixed;
      for (std::size_t i = 0; i < others.size(); ++i) {
        const std::size_t k = others[(leader + i) % others.size()];
        placer.vote(tried, k, without(seen(node.inputs[k], node.phase), passed));
      }
      placer.take_in_turn(tried, placements().in_turn);
      const double cost = others.size() == 1 ? 0 : cost_of(node, placer, tried, passed, stage);
      if (!least || cost < *least) {
        least = cost;
        best = std::move(tried);
      }
    }
    for (std::size_t k = 0; k < node.outputs.size(); ++k) {
      if (const std::optional<Placement> liked = liked_by_next(node.outputs[k], node.phase)) {
        placer.vote_for_new(best, k, without(*liked, passed));
      }
    }
    vote_for_pinned(node, placer, passed, best);
    return best;
  }
  /// Where nothing shards the node along an axis, it computes the shard of the result that is pinned there.
  void vote_for_pinned(const Node& node, const NodePlacer& placer,
                       const std::map<int, Merge>& passed, Assignment& best) const {
    for (std::size_t k = 0; k < node.outputs.size(); ++k) {
      const auto it = placements().pinned.find(node.outputs[k]);
      if (it == placements().pinned.end()) {
        continue;
      }
      const Placement wanted = pinned(node.outputs[k], placer.output_placement(best, k));
      for (const auto& [axis, dimension] : it->second) {
        if (!passed.contains(axis)) {
          placer.vote_for_output(best, k, wanted, axis);
        }
      }
    }
  }
  /// Drops the operands that no axis shards, because they do not vote. One is left if there are only such. A node may
  /// have hundreds of operands: what clips gradients has one for each parameter.
  void keep_voters(const Node& node, const std::map<int, Merge>& passed,
                   std::vector<std::size_t>& operands) {
    std::vector<std::size_t> voters;
    std::ranges::copy_if(operands, std::back_inserter(voters), [&](std::size_t k) {
      return std::ranges::any_of(without(seen(node.inputs[k], node.phase), passed).dims,
                                 [](const Placement::Dim& dim) { return !dim.axes.empty(); });
    });
    if (voters.empty()) {
      operands.resize(std::min<std::size_t>(operands.size(), 1));
    } else {
      operands = std::move(voters);
    }
  }

  /// Axes on which an operand is partial and nothing is sharded: how to reduce it is open.
  std::vector<int> to_merge(const Node& node, const std::map<int, Merge>& passed) {
    std::vector<int> axes_found;
    for (int axis = 0; axis < static_cast<int>(axes().size()); ++axis) {
      bool partial = false;
      bool sharded = false;
      for (const ValueId input : node.inputs) {
        const Placement placement = seen(input, node.phase);
        partial = partial || placement.partial.contains(axis);
        sharded = sharded || placement.dimension_of(axis) >= 0;
      }
      if (partial && !sharded && axis != placements().micro && !passed.contains(axis)) {
        axes_found.push_back(axis);
      }
    }
    return axes_found;
  }

  /// The placement that the value's next reader in this phase would prefer, given its other operands.
  template <class F>
  void look_ahead(ValueId id, Phase phase, int axis, F tell) {
    if (shape(id).rank() == 0) {
      return;  // nothing to shard
    }
    if (const std::optional<Placement> requested = forced(id);
        requested && requested->dimension_of(axis) >= 0) {
      tell(*requested);
      return;
    }
    for (const NodeId reader : readers_[id]) {
      const Node& node = graph().node(reader);
      if (node.phase != phase) {
        continue;
      }
      const Placement liked = liked_by(node, id);
      if (liked.dimension_of(axis) >= 0) {
        tell(liked);
        return;
      }
    }
  }
  /// Its final placement, if prescribed.
  [[nodiscard]] std::optional<Placement> forced(ValueId id) const {
    const auto it = placements().forced.find(id);
    return it == placements().forced.end() || it->second.empty()
               ? std::nullopt
               : std::optional(canonical(it->second.back(), shape(id), axes()));
  }
  std::optional<Placement> liked_by_next(ValueId id, Phase phase) {
    std::optional<Placement> liked = forced(id);
    if (shape(id).rank() == 0) {
      return liked;  // nothing to shard
    }
    for (const NodeId reader : readers_[id]) {
      if (!liked && graph().node(reader).phase == phase) {
        liked = liked_by(graph().node(reader), id);
      }
    }
    return liked;
  }
  Placement liked_by(const Node& node, ValueId id) {
    const NodePlacer placer(graph(), node, axes());
    Assignment liked = placer.none();
    std::size_t operand = 0;
    for (std::size_t k = 0; k < node.inputs.size(); ++k) {
      if (node.inputs[k] == id) {
        operand = k;
      } else if (known_.any(node.inputs[k])) {
        placer.vote(liked, k, seen(node.inputs[k], node.phase));
      }
    }
    return placer.input_placement(liked, operand);
  }

  static Placement without(Placement placement, const std::map<int, Merge>& passed) {
    for (Placement::Dim& dim : placement.dims) {
      std::erase_if(dim.axes, [&](int axis) { return passed.contains(axis); });
    }
    return placement;
  }

  double cost_of(const Node& node, const NodePlacer& placer, const Assignment& assignment,
                 const std::map<int, Merge>& passed, int stage) {
    double cost = 0;
    for (std::size_t k = 0; k < node.inputs.size(); ++k) {
      Placement wanted = placer.input_placement(assignment, k);
      for (const auto& [axis, merge] : passed) {
        if (copy(primary(node.inputs[k])).placement.partial.contains(axis)) {
          wanted.partial[axis] = merge;
        }
      }
      cost += known_.cost_to_get(node.inputs[k], wanted, node.phase, stage);
    }
    for (std::size_t k = 0; k < node.outputs.size(); ++k) {
      const Placement placement = placer.output_placement(assignment, k);
      Placement merged = placement;
      merged.partial.clear();
      cost += bytes_per_element(node.outputs[k]) *
              elements_moved(placement, merged, shape(node.outputs[k]), axes());
    }
    return cost;
  }
  [[nodiscard]] double bytes_per_element(ValueId id) const {
    return static_cast<double>(size_of(value(id).type.dtype).count);
  }

  // Ends.

  /// Updates get their targets' placements; scalar outputs are replicated, others keep theirs, but reduced.
  void place_ends() {
    PlacedStep like;
    like.phase = Phase::Update;
    for (const Update& update : graph().updates()) {
      like.stage = std::max(home(update.target), 0);
      placed_.updates.push_back(known_.get(update.value, stored(update.target), like));
    }
    for (const Output& output : graph().outputs()) {
      const ValueId id = output.value;
      like.stage = std::max(stages_->of(id), 0);
      Placement wanted =
          shape(id).rank() == 0 ? Placement::replicated(0) : copy(primary(id)).placement;
      wanted.partial.clear();
      const Value& output_value = value(id);
      const bool computed = shape(id).rank() > 0 && output_value.origin == Origin::Node;
      like.phase = computed ? graph().node(output_value.producer).phase : Phase::Update;
      placed_.outputs.push_back(known_.get(id, wanted, like));
    }
  }

  Placed placed_;
  KnownCopies known_;
  std::optional<NodeStages> stages_;
  std::map<ValueId, ValueId> target_of_;
  IndexedVector<ValueId, std::vector<NodeId>> readers_;  ///< by value
};

}  // namespace

Placed place(const Graph& graph, const PlacementSpec& placements) {
  return Placer(graph, placements).run();
}

}  // namespace trireme::partition
