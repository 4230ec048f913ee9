#include "cluster/compute_text.h"

#include <fmt/format.h>

#include "cluster/text_fields.h"

namespace trireme {
namespace {

Json to_json(const KernelCost& cost) {
  return {{"kernel", cost.kernel},
          {"dtype", cost.dtype},
          {"call_seconds", cost.call.count},
          {"flop_seconds", cost.flop.count},
          {"first_seconds_per_byte", cost.first.count},
          {"others_seconds_per_byte", cost.others.count},
          {"results_seconds_per_byte", cost.results.count},
          {"samples", cost.samples},
          {"error", cost.error}};
}

KernelCost read_kernel(const Json& value, const std::string& path) {
  const JsonObject row(value, kClusterText, path,
                       {"kernel", "dtype", "call_seconds", "flop_seconds", "first_seconds_per_byte",
                        "others_seconds_per_byte", "results_seconds_per_byte", "samples", "error"});
  return {.kernel = row.text("kernel"),
          .dtype = row.text("dtype"),
          .call = {row.number("call_seconds")},
          .flop = {row.number("flop_seconds")},
          .first = {row.number("first_seconds_per_byte")},
          .others = {row.number("others_seconds_per_byte")},
          .results = {row.number("results_seconds_per_byte")},
          .samples = small_integer(row, "samples"),
          .error = row.number("error")};
}

ComputeSetting read_setting(const Json& value, const std::string& path) {
  const JsonObject object(value, kClusterText, path, {"ranks", "threads", "kernels"});
  ComputeSetting setting{.ranks = small_integer(object, "ranks"),
                         .threads = small_integer(object, "threads"),
                         .kernels = {}};
  for (const Json& row : object.array("kernels")) {
    setting.kernels.push_back(
        read_kernel(row, fmt::format("{}[{}]", object.path_of("kernels"), setting.kernels.size())));
  }
  return setting;
}

}  // namespace

Json compute_to_json(const ComputeCosts& costs) {
  Json json{{"source", costs.source}, {"settings", Json::array()}};
  for (const ComputeSetting& setting : costs.settings) {
    Json kernels = Json::array();
    for (const KernelCost& cost : setting.kernels) {
      kernels.push_back(to_json(cost));
    }
    json["settings"].push_back(
        {{"ranks", setting.ranks}, {"threads", setting.threads}, {"kernels", std::move(kernels)}});
  }
  return json;
}

ComputeCosts read_compute(const Json& value, const std::string& path) {
  const JsonObject object(value, kClusterText, path, {"source", "settings"});
  ComputeCosts costs{.source = object.text("source"), .settings = {}};
  for (const Json& setting : object.array("settings")) {
    costs.settings.push_back(read_setting(
        setting, fmt::format("{}[{}]", object.path_of("settings"), costs.settings.size())));
  }
  return costs;
}

}  // namespace trireme
