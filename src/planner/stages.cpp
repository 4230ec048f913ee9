// Cutting a chain of layers into pipeline stages by dynamic programming.
#include <algorithm>
#include <cmath>
#include <set>

#include "base/indexed_vector.h"
#include "planner/never.h"
#include "trireme/placement_search.h"

namespace trireme {
namespace {

std::vector<int> stage_sizes(const SplitOptions& options) {
  if (!options.sizes.empty()) {
    return options.sizes;
  }
  std::vector<int> sizes;
  for (int size = 1; size <= options.devices; size *= 2) {
    sizes.push_back(size);
  }
  return sizes;
}

/// The seconds of every stage that could be.
class StageTable {
 public:
  StageTable(const SplitOptions& options, const StageSeconds& seconds)
      : layers_(options.layers), sizes_(stage_sizes(options)) {
    for (int first = 0; first < layers_; ++first) {
      for (int last = first + 1; last <= layers_; ++last) {
        for (const int size : sizes_) {
          seconds_.push_back(seconds(first, last, size).value_or(kNever));
        }
      }
    }
  }

  [[nodiscard]] const std::vector<int>& sizes() const { return sizes_; }
  [[nodiscard]] double at(int first, int last, std::size_t size) const {
    const std::int64_t begin = first;
    const std::int64_t before =
        begin * layers_ - begin * (begin - 1) / 2;  // stages that begin earlier
    return seconds_[(before + last - first - 1) * sizes_.size() + size];
  }
  [[nodiscard]] std::set<double> distinct() const {
    std::set<double> values(seconds_.begin(), seconds_.end());
    values.erase(kNever);
    return values;
  }

 private:
  int layers_;
  std::vector<int> sizes_;
  IndexedVector<std::int64_t, double> seconds_;  ///< by stage and size
};

/// The cheapest split with no stage above a limit.
class LimitedSplit {
 public:
  LimitedSplit(const SplitOptions& options, const StageTable& table, double limit)
      : options_(options), table_(table), limit_(limit) {}

  /// Empty if there is none.
  std::vector<Stage> solve() {
    const std::size_t states = state(options_.layers, options_.devices) + 1;
    best_.assign(states, kNever);
    stage_.assign(states, {});
    best_[state(0, 0)] = 0;
    for (int last = 1; last <= options_.layers; ++last) {
      for (int used = 1; used <= options_.devices; ++used) {
        extend(last, used);
      }
    }
    std::vector<Stage> stages;
    if (best_[state(options_.layers, options_.devices)] == kNever) {
      return stages;
    }
    for (int last = options_.layers, used = options_.devices; last > 0;) {
      stages.push_back(stage_[state(last, used)]);
      used -= stages.back().devices;
      last = stages.back().first;
    }
    std::ranges::reverse(stages);
    return stages;
  }

 private:
  [[nodiscard]] std::int64_t state(int layers, int devices) const {
    return std::int64_t{layers} * (options_.devices + 1) + devices;
  }

  /// The best last stage of the first `last` layers on `used` devices.
  void extend(int last, int used) {
    double& best = best_[state(last, used)];
    for (int first = 0; first < last; ++first) {
      for (std::size_t s = 0; s < table_.sizes().size(); ++s) {
        const int size = table_.sizes()[s];
        const double seconds = table_.at(first, last, s);
        if (size > used || seconds > limit_) {
          continue;
        }
        const double total = best_[state(first, used - size)] + seconds;
        if (total < best) {
          best = total;
          stage_[state(last, used)] = {first, last, size, seconds};
        }
      }
    }
  }

  const SplitOptions& options_;
  const StageTable& table_;
  double limit_;
  std::vector<double> best_;
  std::vector<Stage> stage_;
};

double step_seconds(const std::vector<Stage>& stages, int microbatches) {
  double sum = 0;
  double slowest = 0;
  for (const Stage& stage : stages) {
    sum += stage.seconds;
    slowest = std::max(slowest, stage.seconds);
  }
  return sum + (microbatches - 1) * slowest;
}

}  // namespace

std::optional<StageSplit> split_into_stages(const SplitOptions& options,
                                            const StageSeconds& seconds) {
  const StageTable table(options, seconds);
  std::optional<StageSplit> best;
  for (const double limit : table.distinct()) {
    if (best && (options.microbatches - 1) * limit >= best->seconds) {
      break;  // limits only grow from here
    }
    const std::vector<Stage> stages = LimitedSplit(options, table, limit).solve();
    const double total = step_seconds(stages, options.microbatches);
    if (!stages.empty() && (!best || total < best->seconds)) {
      best = StageSplit{stages, total};
    }
  }
  return best;
}

namespace {

/// Prefix sums of the profile, and PipeDream's two costs.
class Profile {
 public:
  Profile(const std::vector<LayerProfile>& layers, double bytes_per_second)
      : layers_(layers), rate_(bytes_per_second), compute_(1), parameters_(1) {
    for (const LayerProfile& layer : layers) {
      compute_.push_back(compute_.back() + layer.compute);
      parameters_.push_back(parameters_.back() + layer.parameter_bytes);
    }
  }

  /// Layers [first, last) replicated: replicas take turns, and reduce their gradients while they compute.
  [[nodiscard]] double stage(int first, int last, int replicas) const {
    const double compute = compute_[last] - compute_[first];
    const double reduce =
        2.0 * (replicas - 1) / replicas * (parameters_[last] - parameters_[first]) / rate_;
    return std::max(compute, reduce) / replicas;
  }

  /// The activations of a layer and their gradients.
  [[nodiscard]] double link(int after) const {
    return 2 * layers_[after - 1].activation_bytes / rate_;
  }

 private:
  const std::vector<LayerProfile>& layers_;
  double rate_;
  IndexedVector<int, double> compute_;  ///< by layer: of those before it
  IndexedVector<int, double> parameters_;
};

}  // namespace

namespace {

/// The least time of the slowest stage, over the first layers on some of the devices.
class PipedreamTable {
 public:
  PipedreamTable(const Profile& profile, int layers, int devices)
      : profile_(profile), devices_(devices) {
    const std::size_t states = state(layers, devices) + 1;
    best_.assign(states, kNever);
    stage_.assign(states, {});
    for (int used = 0; used <= devices; ++used) {
      best_[state(0, used)] = 0;
    }
    for (int last = 1; last <= layers; ++last) {
      for (int used = 1; used <= devices; ++used) {
        extend(last, used);
      }
    }
  }

  [[nodiscard]] double best(int layers, int devices) const { return best_[state(layers, devices)]; }

  [[nodiscard]] std::vector<Stage> stages(int layers, int devices) const {
    std::vector<Stage> found;
    for (int last = layers, used = devices; last > 0;) {
      found.push_back(stage_[state(last, used)]);
      used -= found.back().devices;
      last = found.back().first;
    }
    std::ranges::reverse(found);
    return found;
  }

 private:
  [[nodiscard]] std::int64_t state(int layers, int devices) const {
    return std::int64_t{layers} * (devices_ + 1) + devices;
  }

  /// The best last stage of the first `last` layers on `used` devices, and how often it is replicated.
  void extend(int last, int used) {
    for (int first = 0; first < last; ++first) {
      for (int replicas = 1; replicas <= used; ++replicas) {
        const double own = profile_.stage(first, last, replicas);
        const double link = first > 0 ? profile_.link(first) : 0;
        const double slowest = std::max({best_[state(first, used - replicas)], own, link});
        if (slowest < best_[state(last, used)] && (first == 0 || used > replicas)) {
          best_[state(last, used)] = slowest;
          stage_[state(last, used)] = {first, last, replicas, own};
        }
      }
    }
  }

  const Profile& profile_;
  int devices_;
  std::vector<double> best_;
  std::vector<Stage> stage_;
};

}  // namespace

ReplicatedStages partition_pipedream(const std::vector<LayerProfile>& layers, int devices,
                                     double bytes_per_second) {
  const Profile profile(layers, bytes_per_second);
  const auto count = static_cast<int>(layers.size());
  const PipedreamTable table(profile, count, devices);
  ReplicatedStages result{.stages = table.stages(count, devices),
                          .seconds = table.best(count, devices)};
  int total = 0;
  for (const Stage& stage : result.stages) {
    total += stage.devices;
  }
  const int first = result.stages.empty() ? 1 : result.stages.front().devices;
  result.in_flight = (total + first - 1) / first;
  return result;
}

}  // namespace trireme
