#include <algorithm>
#include <array>

#include "trireme/plan_choice.h"

namespace trireme {
namespace {

/// The sizes of `axes` axes whose product is `ranks`; sizes of earlier axes change last, and large ones come first.
std::vector<std::vector<int>> factorizations(int ranks, std::size_t axes) {
  if (axes == 1) {
    return {{ranks}};
  }
  std::vector<std::vector<int>> all;
  for (int size = ranks; size >= 1; --size) {
    if (ranks % size != 0) {
      continue;
    }
    for (const std::vector<int>& rest : factorizations(ranks / size, axes - 1)) {
      std::vector<int> sizes{size};
      sizes.insert(sizes.end(), rest.begin(), rest.end());
      all.push_back(std::move(sizes));
    }
  }
  return all;
}

/// Pipelines outermost, tensor parallelism innermost.
Mesh mesh_of(const std::vector<int>& sizes) {
  constexpr std::array<std::pair<const char*, std::size_t>, 5> kOrder{
      {{"pipe", 2}, {"data", 0}, {"expert", 4}, {"context", 3}, {"tensor", 1}}};
  std::vector<MeshAxis> axes;
  for (const auto& [name, at] : kOrder) {
    if (at < sizes.size() && sizes[at] > 1) {
      axes.push_back({name, sizes[at]});
    }
  }
  return Mesh(std::move(axes));
}

std::vector<int> zero_stages(const Mesh& mesh, const PlanChoiceOptions& options) {
  if (!options.search_zero) {
    return {options.fixed.zero};
  }
  return mesh.size("data") > 1 ? std::vector{0, 1, 2, 3} : std::vector{0};
}

std::vector<int> microbatch_counts(const Mesh& mesh, const PlanChoiceOptions& options) {
  const int stages = mesh.size("pipe");
  if (!options.search_microbatches) {
    return {options.fixed.microbatches};
  }
  return stages > 1 ? std::vector{2 * stages, stages, 4 * stages} : std::vector{1};
}

}  // namespace

std::vector<Plan> candidate_plans(int ranks, bool has_experts, const PlanChoiceOptions& options) {
  std::vector<Plan> plans;
  for (const std::vector<int>& sizes : factorizations(ranks, has_experts ? 5 : 4)) {
    Plan plan = options.fixed;
    plan.mesh = mesh_of(sizes);
    if (plan.zero > 0 && plan.mesh.size("data") == 1) {
      continue;  // nothing to shard along
    }
    for (const int zero : zero_stages(plan.mesh, options)) {
      for (const int microbatches : microbatch_counts(plan.mesh, options)) {
        plan.zero = zero;
        plan.microbatches = microbatches;
        plans.push_back(plan);
      }
    }
  }
  // Plain data parallelism first, then plans with few axes.
  std::ranges::stable_sort(plans, {}, [](const Plan& plan) {
    return std::pair(plan.mesh.axes().size() + (plan.zero > 1 ? 1 : 0), plan.zero);
  });
  return plans;
}

}  // namespace trireme
