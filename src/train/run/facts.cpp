#include <algorithm>
#include <functional>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/json.h"
#include "trireme/train.h"

namespace trireme {
namespace {

void add_gradient_traffic(Json& json, const RunFacts& facts) {
  if (facts.gradient_traffic) {
    json["data_bytes_sent"] = facts.gradient_traffic->sent;
    json["data_bytes_uncompressed"] = facts.gradient_traffic->uncompressed;
  }
}

/// {"parameter_bytes": 1024, …}
Json memory_json(const std::vector<MemoryPart>& parts) {
  Json json;
  for (const MemoryPart& part : parts) {
    json[part.what + "_bytes"] = part.bytes.count;
  }
  return json;
}

Json experts_json(const std::vector<ExpertLoad>& experts) {
  Json json = Json::array();
  for (const ExpertLoad& one : experts) {
    json.push_back({{"block", one.block},
                    {"load", one.load},
                    {"imbalance", one.imbalance()},
                    {"dropped", one.dropped()}});
  }
  return json;
}

/// null if the text is empty.
Json text_or_null(const std::string& text) {
  return text.empty() ? Json() : Json(text);
}

/// null if there is no number.
Json number_or_null(const std::optional<double>& number) {
  return number ? Json(*number) : Json();
}

/// The measured and the predicted step time; null if absent.
void add_prediction(Json& json, const RunFacts& facts, const RunSummary& summary) {
  const Seconds measured = summary.step_time;
  const bool ran = measured.count > 0;
  json["step_seconds"] = ran ? Json(measured.count) : Json();
  json["mfu"] = ran ? Json(mfu(facts, measured)) : Json();
  if (!facts.predicted) {
    json["predicted_step_seconds"] = Json();
    json["predicted_mfu"] = Json();
    json["prediction_error"] = Json();
    return;
  }
  const Seconds predicted = facts.predicted->step;
  json["predicted_step_seconds"] = predicted.count;
  json["predicted_mfu"] = mfu(facts, predicted);
  json["prediction_error"] = ran ? Json(predicted.count / measured.count - 1) : Json();
}

/// null if no step was traced.
Json waterfall_json(const std::optional<Waterfall>& w) {
  return !w ? Json()
            : Json{{"step", w->step},
                   {"ranks", w->ranks},
                   {"messages", w->messages},
                   {"collectives", w->collectives},
                   {"gaps", w->gaps},
                   {"memory_bound", w->memory_bound},
                   {"matrix_products", w->products},
                   {"attention", w->attention},
                   {"recomputation", w->recomputation()},
                   {"mfu", w->mfu}};
}

}  // namespace

double ExpertLoad::imbalance() const {
  const double sum = std::accumulate(load.begin(), load.end(), 0.0);
  return sum > 0 ? std::ranges::max(load) * static_cast<double>(load.size()) / sum : 1;
}

double ExpertLoad::dropped() const {
  const double sum = std::accumulate(load.begin(), load.end(), 0.0);
  return sum > 0 ? drops / sum : 0;
}

double mfu(const RunFacts& facts, Seconds step_time) {
  return facts.model_flops / step_time.count / facts.peak_flops;
}

double hfu(const RunFacts& facts, Seconds step_time) {
  return facts.hardware_flops / step_time.count / facts.peak_flops;
}

std::string to_json(const RunFacts& facts, const StepReport& r) {
  Json json;
  json["step"] = r.step;
  json["loss"] = r.loss;
  json["gradient_norm"] = r.gradient_norm;
  json["learning_rate"] = r.rate;
  json["seconds"] = r.step_time.count;
  json[facts.unit + "_per_second"] = static_cast<double>(facts.units_per_step) / r.step_time.count;
  json["mfu"] = mfu(facts, r.step_time);
  json["hfu"] = hfu(facts, r.step_time);
  json["peak_memory_bytes"] = facts.memory.count;
  if (r.loss_scale) {
    json["loss_scale"] = *r.loss_scale;
  }
  add_gradient_traffic(json, facts);
  if (r.sync) {
    json["staleness"] = r.sync->staleness;
    json["spread"] = r.sync->spread;
    if (r.sync->clocks) {
      json["slowest_clock"] = r.sync->clocks->slowest;
      json["fastest_clock"] = r.sync->clocks->fastest;
    }
  }
  if (r.validation) {
    json["validation_loss"] = *r.validation;
  }
  if (!r.experts.empty()) {
    json["experts"] = experts_json(r.experts);
  }
  return json.dump();
}

std::string to_json(const RunFacts& facts, const RunSummary& summary) {
  Json json;
  json["summary"] = true;
  json["model"] = facts.model;
  json["parameters"] = facts.parameters;
  json["dtype"] = facts.dtype;
  json["optimizer"] = facts.optimizer;
  json["learning_rate_schedule"] = facts.rate;
  json["ranks"] = text_or_null(facts.ranks);
  json["step"] = summary.step;
  json["final_loss"] = number_or_null(summary.loss);
  json["validation_loss"] = number_or_null(summary.validation);
  json["floor"] = facts.bounds ? Json(facts.bounds->floor) : Json();
  json["uninformed_loss"] = facts.bounds ? Json(facts.bounds->uninformed) : Json();
  add_prediction(json, facts, summary);
  json["waterfall"] = waterfall_json(summary.waterfall);
  json[facts.unit + "_per_second"] = summary.units_per_second;
  json["peak_flops_per_second"] = facts.peak_flops;
  json["measured_flops_per_second"] = facts.measured_flops;
  json["peak_memory_bytes"] = facts.memory.count;
  json["memory"] = memory_json(facts.memory_parts);
  add_gradient_traffic(json, facts);
  json["seconds"] = summary.time.count;
  json["weights"] = text_or_null(facts.weights);
  json["export_folder"] = text_or_null(summary.exported);
  json["interrupted"] = summary.interrupted;
  json["stopped_early"] = summary.stopped_early;
  json["best_step"] = summary.best ? Json(summary.best->step) : Json();
  json["best_validation_loss"] = summary.best ? Json(summary.best->loss) : Json();
  json["overflows"] = summary.overflows;
  json["compilations"] = summary.compilations;
  json["run_folder"] = summary.run_folder;
  return json.dump();
}

std::string to_text(std::vector<MemoryPart> parts) {
  std::ranges::stable_sort(parts, std::greater<>(), &MemoryPart::bytes);
  std::vector<std::string> texts;
  for (const MemoryPart& part : parts) {
    if (part.bytes.count > 0) {
      texts.push_back(fmt::format("{} {}", to_text(part.bytes), part.what));
    }
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

}  // namespace trireme
