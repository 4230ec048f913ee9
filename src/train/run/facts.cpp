#include <algorithm>
#include <functional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/json.h"
#include "trireme/train.h"

namespace trireme {

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
  if (facts.gradient_traffic) {
    json["data_bytes_sent"] = facts.gradient_traffic->sent;
    json["data_bytes_uncompressed"] = facts.gradient_traffic->uncompressed;
  }
  if (r.validation) {
    json["validation_loss"] = *r.validation;
  }
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
