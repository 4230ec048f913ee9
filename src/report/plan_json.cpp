#include "base/json.h"
#include "report/plan_text.h"

namespace trireme::report {
namespace {

Json bill_json(const Bill& bill) {
  Json json{{"seconds", bill.time.count}};
  if (bill.energy) {
    json["joules"] = bill.energy->joules;
  }
  if (bill.dollars) {
    json["dollars"] = *bill.dollars;
  }
  return json;
}

Json layout_json(const RankedLayout& r) {
  const ParallelLayout& l = r.layout;
  const StepCost& c = r.cost;
  Json time;
  for (std::size_t i = 0; i < kTimeParts; ++i) {
    time[std::string(to_text(static_cast<TimePart>(i)))] = c.time.at(i);
  }
  Json memory;
  for (std::size_t i = 0; i < kCostedMemory; ++i) {
    memory[std::string(to_text(static_cast<CostedMemory>(i)))] = c.memory.at(i);
  }
  return {{"mesh", mesh_text(l)},
          {"data", l.data},
          {"tensor", l.tensor},
          {"pipe", l.pipe},
          {"context", l.context},
          {"expert", l.expert},
          {"schedule", to_text(l.schedule)},
          {"chunks", l.chunks},
          {"microbatch", l.microbatch},
          {"zero", l.zero},
          {"recompute", to_text(l.recompute)},
          {"sequence", l.sequence},
          {"context_mode", to_text(l.context_mode)},
          {"bucket_bytes", l.bucket.count},
          {"step_seconds", c.seconds},
          {"mfu", c.mfu()},
          {"hfu", c.hfu()},
          {"memory_bytes", c.memory_bytes()},
          {"bubble", c.bubble()},
          {"exposed_communication", c.exposed_communication()},
          {"seconds_by_part", time},
          {"memory_by_part", memory},
          {"stage_blocks", r.stage_blocks},
          {"why", r.why}};
}

}  // namespace

std::string plan_search_json(const TransformerCost& cost, const PlanSearch& search, double tokens) {
  Json json;
  json["model"] = cost.model().model.name;
  json["cluster"] = cost.cluster().name;
  json["devices"] = cost.cluster().devices();
  json["batch"] = cost.workload().batch;
  json["length"] = cost.workload().length;
  json["dtype"] = cost.workload().dtype;
  json["recipe"] = to_text(cost.workload().recipe.software);
  json["efficiency_source"] = cost.efficiency().source;
  json["plans"] = Json::array();
  for (const RankedLayout& r : search.best) {
    Json plan = layout_json(r);
    const StepTraffic sent = cost.sent(r.layout);
    plan["sent_bytes"] = {{"gradient", sent.gradient},
                          {"parameter", sent.parameter},
                          {"activation", sent.activation}};
    plan["step_bill"] = bill_json(bill_of(cost.cluster(), {r.cost.seconds}));
    if (tokens > 0) {
      plan["training_bill"] = bill_json(training_bill(cost, r.cost, tokens));
    }
    json["plans"].push_back(std::move(plan));
  }
  json["search"] = to_text(search.method);
  json["searched"] = search.searched;
  json["too_large"] = search.too_large;
  json["search_seconds"] = search.seconds;
  json["memory_limit_bytes"] = search.memory_limit;
  if (search.smallest) {
    json["smallest"] = layout_json(*search.smallest);
    json["largest_tensor"] = search.largest_tensor;
    json["advice"] = search.advice;
  }
  return json.dump(2) + "\n";
}

}  // namespace trireme::report
