#include "planner/op_strategies.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "base/indexed_vector.h"
#include "trireme/error.h"
#include "trireme/op.h"

namespace trireme::planner {
namespace {

double bytes_of(const Value& value) {
  return static_cast<double>(size_of(value.type).count);
}

/// Every choice of one of `count` things, or of none (-1), for each axis.
std::vector<AxisDims> choices_by_axis(std::size_t axes, int count) {
  std::vector<AxisDims> choices{AxisDims(axes, -1)};
  for (std::size_t a = 0; a < axes; ++a) {
    const std::size_t so_far = choices.size();
    for (std::size_t c = 0; c < so_far; ++c) {
      for (int i = 0; i < count; ++i) {
        choices.push_back(choices[c]);
        choices.back()[a] = i;
      }
    }
  }
  return choices;
}

/// Whether the axes that shard the same thing divide its size.
bool divides(const AxisDims& choice, int thing, std::int64_t size, const PlacementCosts& costs) {
  for (std::size_t a = 0; a < choice.size(); ++a) {
    if (choice[a] == thing) {
      if (size % costs.size(a) != 0) {
        return false;
      }
      size /= costs.size(a);
    }
  }
  return true;
}

bool fits(const AxisDims& placement, const Shape& shape, const PlacementCosts& costs) {
  return std::ranges::all_of(placement, [&](int dim) {
    return dim < 0 || divides(placement, dim, shape.dim(dim), costs);
  });
}

/// The strategies of one node.
class NodeStrategies {
 public:
  NodeStrategies(const Graph& graph, const Node& node, const IndexedVector<ValueId, bool>& trained,
                 const DeviceRates& rates, const PlacementCosts& costs)
      : graph_(graph),
        node_(node),
        rates_(rates),
        costs_(costs),
        factors_(factors_of(graph, node)),
        work_(work_of(graph, node)) {
    for (const ValueId input : node.inputs) {
      gradients_ += trained[input] ? 1 : 0;
    }
  }

  std::vector<OpStrategy> run() {
    const int count = static_cast<int>(factors_.factors.size());
    for (const AxisDims& choice : choices_by_axis(costs_.axes(), count)) {
      if (std::ranges::all_of(choice, [&](int f) { return f < 0 || may_shard(choice, f); })) {
        add_all(choice);
      }
    }
    return std::move(found_);
  }

 private:
  [[nodiscard]] const Value& output(std::size_t k) const { return graph_.value(node_.outputs[k]); }

  /// The factor that shards of a dimension follow: the outermost one that is longer than 1.
  [[nodiscard]] std::int32_t leading(const std::vector<std::int32_t>& dim) const {
    const auto longer =
        std::ranges::find_if(dim, [&](std::int32_t f) { return factors_.factors[f].size != 1; });
    return longer == dim.end() ? -1 : *longer;
  }

  /// Of the dimensions that have it.
  [[nodiscard]] bool leads_in(const Factors::Dims& dims, int factor) const {
    return std::ranges::all_of(dims, [&](const auto& dim) {
      return std::ranges::find(dim, factor) == dim.end() || leading(dim) == factor;
    });
  }

  [[nodiscard]] bool leads_everywhere(int factor) const {
    const auto leads = [&](const Factors::Dims& dims) { return leads_in(dims, factor); };
    return std::ranges::all_of(factors_.inputs, leads) &&
           std::ranges::all_of(factors_.outputs, leads);
  }

  [[nodiscard]] bool may_shard(const AxisDims& choice, int number) const {
    const Factor& factor = factors_.factors[number];
    const bool free = factor.split == Factor::Split::Free;
    return free && factor.size > 1 && leads_everywhere(number) &&
           divides(choice, number, factor.size, costs_);
  }

  /// The dimension that has the factor; otherwise `absent`.
  [[nodiscard]] int dim_of(const Factors::Dims& dims, int factor, int absent) const {
    const auto found =
        std::ranges::find_if(dims, [&](const auto& dim) { return leading(dim) == factor; });
    return found == dims.end() ? absent : static_cast<int>(found - dims.begin());
  }

  [[nodiscard]] AxisDims placed(const Factors::Dims& dims, const AxisDims& choice,
                                int absent) const {
    AxisDims placement(choice.size(), kReplicatedDim);
    for (std::size_t a = 0; a < choice.size(); ++a) {
      placement[a] = choice[a] < 0 ? kReplicatedDim : dim_of(dims, choice[a], absent);
    }
    return placement;
  }

  /// One strategy for each placement to which a single partial result is reduced.
  void add_all(const AxisDims& choice) {
    OpStrategy strategy{.factors = choice};
    for (const Factors::Dims& dims : factors_.inputs) {
      strategy.inputs.push_back(placed(dims, choice, kReplicatedDim));
    }
    std::vector<AxisDims> computed;
    for (const Factors::Dims& dims : factors_.outputs) {
      computed.push_back(placed(dims, choice, kPartialDim));
    }
    const AxisDims& first = computed.front();
    const bool partial = std::ranges::find(first, kPartialDim) != first.end();
    const int dims = partial && computed.size() == 1 ? output(0).type.shape.rank() : 0;
    for (const AxisDims& reduced : choices_by_axis(costs_.axes(), dims)) {
      add_reduced(strategy, computed, reduced);
    }
  }

  /// Where a result is partial it is reduced: the first one to these dimensions, others to replicas.
  void add_reduced(OpStrategy strategy, const std::vector<AxisDims>& computed,
                   const AxisDims& reduced) {
    strategy.outputs = computed;
    for (std::size_t k = 0; k < computed.size(); ++k) {
      for (std::size_t a = 0; a < reduced.size(); ++a) {
        const bool is_partial = computed[k][a] == kPartialDim;
        if (k == 0 && !is_partial && reduced[a] != kReplicatedDim) {
          return;  // nothing to reduce along this axis
        }
        if (is_partial) {
          strategy.outputs[k][a] = k == 0 ? reduced[a] : kReplicatedDim;
        }
      }
    }
    if (fits(strategy.outputs.front(), output(0).type.shape, costs_)) {
      add_costs(strategy, computed);
      found_.push_back(std::move(strategy));
    }
  }

  /// The backward pass multiplies once more for each operand that has a gradient; the gradient of a result that was
  /// reduced to shards is gathered.
  void add_costs(OpStrategy& strategy, const std::vector<AxisDims>& computed) const {
    double shards = 1;
    for (std::size_t a = 0; a < strategy.factors.size(); ++a) {
      shards *= strategy.factors[a] >= 0 ? costs_.size(a) : 1;
    }
    double moved = 0;
    for (std::size_t k = 0; k < node_.inputs.size(); ++k) {
      moved += bytes_of(graph_.value(node_.inputs[k])) / costs_.shards(strategy.inputs[k]);
    }
    for (std::size_t k = 0; k < computed.size(); ++k) {
      const double bytes = bytes_of(output(k));
      moved += bytes / costs_.shards(computed[k]);
      strategy.bytes += node_.op->is_view ? 0 : bytes / costs_.shards(strategy.outputs[k]);
      strategy.seconds += costs_.change(computed[k], strategy.outputs[k], bytes);
      strategy.seconds +=
          gradients_ > 0 ? costs_.change(strategy.outputs[k], whole(computed[k]), bytes) : 0;
    }
    const double once = rates_.seconds(work_.products / shards, output(0).type.dtype,
                                       node_.op->is_view ? 0 : moved);
    strategy.seconds += (1 + gradients_) * once;
  }

  /// The gradient of a term of a sum is that of the sum.
  static AxisDims whole(AxisDims placement) {
    std::ranges::replace(placement, kPartialDim, kReplicatedDim);
    return placement;
  }

  const Graph& graph_;
  const Node& node_;
  const DeviceRates& rates_;
  const PlacementCosts& costs_;
  Factors factors_;
  Work work_;
  int gradients_ = 0;
  std::vector<OpStrategy> found_;
};

}  // namespace

double DeviceRates::seconds(double products, DType dtype, double bytes) const {
  const std::string type(to_text(dtype));
  const std::optional<FlopRate> peak = products > 0 ? device.peak(type) : std::optional<FlopRate>();
  if (!device.memory_bandwidth || (products > 0 && !peak)) {
    throw Error(
        ErrorKind::Usage,
        fmt::format("the {} of {} is not known; give it in a cluster file (--cluster FILE)",
                    device.memory_bandwidth ? type + " peak" : "memory bandwidth", device.name));
  }
  const double moving = bytes / (device.memory_bandwidth->count * efficiency.memory);
  return products > 0 ? std::max(moving, products / (peak->count * efficiency.matmul)) : moving;
}

std::vector<OpStrategy> strategies_of(const Value& value, const DeviceRates& rates,
                                      const PlacementCosts& costs) {
  constexpr double kKept = 4;     // a parameter, its gradient and two moments
  constexpr double kUpdated = 7;  // these read, all but the gradient written
  const bool is_parameter = value.origin == Origin::Parameter;
  std::vector<OpStrategy> found;
  for (AxisDims& dims : choices_by_axis(costs.axes(), value.type.shape.rank())) {
    if (!fits(dims, value.type.shape, costs)) {
      continue;
    }
    OpStrategy strategy{.factors = dims};
    const double bytes = bytes_of(value) / costs.shards(dims);
    strategy.bytes = (is_parameter ? kKept : 1) * bytes;
    strategy.seconds = rates.seconds(0, value.type.dtype, (is_parameter ? kUpdated : 1) * bytes);
    strategy.outputs = {std::move(dims)};
    found.push_back(std::move(strategy));
  }
  return found;
}

std::vector<OpStrategy> strategies_of(const Graph& graph, const Node& node,
                                      const IndexedVector<ValueId, bool>& trained,
                                      const DeviceRates& rates, const PlacementCosts& costs) {
  return NodeStrategies(graph, node, trained, rates, costs).run();
}

}  // namespace trireme::planner
