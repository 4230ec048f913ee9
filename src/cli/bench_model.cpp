#include "cli/bench_model.h"

#include <algorithm>

#include <fmt/format.h>

#include "trireme/error.h"

namespace trireme::cli {
namespace {

std::vector<comm::TouchRate> rates(const std::vector<MemoryCost>& curve) {
  std::vector<comm::TouchRate> out;
  out.reserve(curve.size());
  for (const MemoryCost& point : curve) {
    out.push_back({point.footprint, point.alone, point.together});
  }
  return out;
}

Seconds gamma_of(const HostCosts& host, std::string_view dtype, Seconds otherwise) {
  const auto found = std::ranges::find(host.combining, dtype, &CombineCost::dtype);
  return found == host.combining.end() ? otherwise : found->gamma;
}

comm::DirectCosts direct_costs(const HostCosts& host, DType dtype) {
  comm::DirectCosts costs{.cores = host.cores,
                          .copy = rates(host.copy),
                          .combine = rates(host.combine),
                          .stage = host.stage,
                          .fetch = host.fetch,
                          .peek = {host.peek.alpha, host.peek.beta}};
  for (const RendezvousCost& wait : host.waits) {
    costs.waits.push_back({wait.ranks, wait.first, wait.next});
  }
  const Seconds plain = gamma_of(host, "f32", {});
  const Seconds ours = gamma_of(host, to_text(dtype), plain);
  costs.combine_factor = plain.count > 0 ? std::max(1.0, ours.count / plain.count) : 1;
  return costs;
}

}  // namespace

BenchModel::BenchModel(const Cluster& cluster, const BenchPlan& plan)
    : ranks_(plan.ranks),
      dtype_(plan.dtype),
      sight_(plan.buffers == BenchBuffers::Shared || plan.transport == TransportKind::InProcess
                 ? comm::Sight::Visible
                 : comm::Sight::Hidden) {
  if (!cluster.host) {
    throw Error(
        ErrorKind::Usage,
        fmt::format("cluster {} is no host that was measured; 'trireme probe --output FILE' "
                    "makes such a file",
                    cluster.name));
  }
  direct_ = direct_costs(*cluster.host, plan.dtype);
  const auto found =
      std::ranges::find(cluster.host->messages, name(plan.transport), &MessageCost::transport);
  if (found != cluster.host->messages.end()) {
    messages_ = CostModel::uniform(found->alpha, found->beta,
                                   gamma_of(*cluster.host, to_text(plan.dtype), cluster.gamma));
  }
}

comm::DirectQuery BenchModel::query(const BenchCase& what) const {
  return {what.operation, ranks_, {what.count * size_of(dtype_).count}, sight_};
}

std::optional<Seconds> BenchModel::predict(const BenchCase& what, const std::string& chosen) const {
  const Method method = parse_method(chosen);
  if (method.kind == Method::Kind::Direct) {
    return predict_direct(query(what), direct_);
  }
  if (method.kind != Method::Kind::Scheduled || !messages_) {
    return std::nullopt;
  }
  const Bytes bytes = query(what).bytes;
  const BuildOptions options{
      .ranks = ranks_,
      .segments = best_segments(what.operation, method.algorithm, ranks_, bytes, *messages_)};
  const Seconds time = formula(what.operation, method.algorithm, options)
                           .at(static_cast<double>(bytes.count), *messages_);
  // More ranks than cores take turns.
  return Seconds{time.count * std::max(1.0, static_cast<double>(ranks_) / direct_.cores)};
}

std::optional<Seconds> BenchModel::floor(const BenchCase& what) const {
  return what.count == 0 ? std::nullopt : std::optional(direct_floor(query(what), direct_));
}

}  // namespace trireme::cli
