#include "report/estimate_json.h"

#include <optional>

#include "base/json.h"

namespace trireme::report {
namespace {

Json or_null(const std::optional<double>& number) {
  return number ? Json(*number) : Json(nullptr);
}

template <class Unit>
Json count_or_null(const std::optional<Unit>& number) {
  return number ? Json(number->count) : Json(nullptr);
}

Json parameters_json(const ParameterCount& p) {
  return {{"embedding", p.embedding}, {"attention", p.attention}, {"feed_forward", p.feed_forward},
          {"experts", p.experts},     {"routers", p.routers},     {"norms", p.norms},
          {"head", p.head},           {"total", p.total()},       {"active", p.active()}};
}

Json flops_json(const EstimateReport& r) {
  const TokenFlops& f = r.forward;
  return {{"tokens_per_step", r.tokens},
          {"forward_per_token",
           {{"projections", f.projections},
            {"attention", f.attention},
            {"feed_forward", f.feed_forward},
            {"routers", f.routers},
            {"logits", f.logits},
            {"total", f.total()}}},
          {"training_per_token",
           {{"model", r.training.model},
            {"causal", r.training.causal},
            {"hardware", r.hardware_flops() / r.tokens},
            {"six_n", r.training.six_n}}},
          {"hardware_is", r.graph ? "counted" : "formula"}};
}

Json memory_json(const EstimateReport& r) {
  if (!r.graph) {
    Json recipes = Json::array();
    for (const MemoryRecipe& recipe : memory_recipes()) {
      recipes.push_back({{"recipe", recipe.name},
                         {"bytes_per_parameter", recipe.total()},
                         {"bytes", recipe.total() * static_cast<double>(r.parameters.total())}});
    }
    return {{"recipes", recipes}};
  }
  const MemoryUse& use = r.graph->memory;
  Json json;
  for (std::size_t i = 0; i < kCategories; ++i) {
    const auto category = static_cast<Category>(i);
    json[std::string(to_text(category)) + "_bytes"] = use.at_peak.at(i).count;
  }
  json["peak_bytes"] = use.peak.count;
  json["kept_bytes"] = r.graph->kept.count;
  return json;
}

Json ops_json(const EstimateReport& r) {
  Json ops = Json::array();
  for (const OpKind& kind : r.graph->kinds) {
    Json op{{"op", kind.name},
            {"nodes", kind.nodes},
            {"flops", kind.flops},
            {"bytes", kind.bytes},
            {"flops_per_byte", kind.intensity()}};
    op["seconds"] =
        r.roofline ? Json(r.roofline->time(kind.flops, kind.bytes).count) : Json(nullptr);
    op["bound"] =
        r.roofline ? Json(to_text(r.roofline->bound(kind.flops, kind.bytes))) : Json(nullptr);
    ops.push_back(std::move(op));
  }
  return ops;
}

Json roofline_json(const EstimateReport& r) {
  Json json{{"ridge_flops_per_byte", r.roofline ? Json(r.roofline->ridge()) : Json(nullptr)},
            {"seconds", count_or_null(r.best)},
            {"mfu", r.best ? or_null(r.mfu(*r.best)) : Json(nullptr)},
            {"hfu", r.best ? or_null(r.hfu(*r.best)) : Json(nullptr)},
            {"fused_seconds", count_or_null(r.best_fused)},
            {"fused_mfu", r.best_fused ? or_null(r.mfu(*r.best_fused)) : Json(nullptr)}};
  json["ops"] = r.graph ? ops_json(r) : Json::array();
  return json;
}

Json utilization_json(const EstimateReport& r) {
  const Seconds time = *r.request.step_time;
  Json json{{"step_seconds", time.count},
            {"mfu", or_null(r.mfu(time))},
            {"causal_mfu", or_null(r.causal_mfu(time))},
            {"hfu", or_null(r.hfu(time))},
            {"tokens_per_second", r.tokens * r.request.devices / time.count}};
  const std::optional<TypicalMfu> typical = typical_mfu(r.request.device.name);
  json["typical_mfu"] = typical ? Json::array({typical->low, typical->high}) : Json(nullptr);
  return json;
}

Json run_json(const EstimateReport& r) {
  const double flops = *r.request.run_tokens * r.training.model;
  const std::optional<double> share = r.run_mfu();
  Json json{{"tokens", *r.request.run_tokens}, {"flops", flops}, {"mfu", or_null(share)}};
  json["seconds"] = share && r.peak
                        ? Json(run_time(flops, *r.peak, *share, r.request.devices).count)
                        : Json(nullptr);
  return json;
}

}  // namespace

std::string estimate_json(const EstimateReport& r) {
  const BatchShape& batch = r.request.step.batch;
  Json json{{"model", r.request.architecture.model.name},
            {"sequences", batch.sequences},
            {"length", batch.length},
            {"device", r.request.device.name},
            {"devices", r.request.devices},
            {"dtype", r.request.peak_type},
            {"peak_flops_per_second", count_or_null(r.peak)},
            {"memory_bytes_per_second", count_or_null(r.request.device.memory_bandwidth)},
            {"device_memory_bytes", count_or_null(r.request.device.memory)},
            {"parameters", parameters_json(r.parameters)},
            {"flops", flops_json(r)},
            {"memory", memory_json(r)},
            {"roofline", roofline_json(r)}};
  if (r.request.step_time) {
    json["utilization"] = utilization_json(r);
  }
  if (r.request.run_tokens) {
    json["run"] = run_json(r);
  }
  return json.dump() + "\n";
}

}  // namespace trireme::report
