// facts.json: a run's facts before its first step, and its environment.
#include <chrono>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/utsname.h>

#include "base/cores.h"
#include "base/json.h"
#include "trireme/run_record.h"
#include "trireme/version.h"

namespace trireme {
namespace {

Json parts_json(const std::vector<MemoryPart>& parts) {
  Json json = Json::array();
  for (const MemoryPart& part : parts) {
    json.push_back({{"what", part.what}, {"bytes", part.bytes.count}});
  }
  return json;
}

Json environment_json(const RunEnvironment& e) {
  return {{"version", e.version}, {"system", e.system}, {"cores", e.cores}, {"started", e.started}};
}

void add_optional(Json& json, const RunFacts& f) {
  if (f.gradient_traffic) {
    json["gradient_traffic"] = {{"sent", f.gradient_traffic->sent},
                                {"uncompressed", f.gradient_traffic->uncompressed}};
  }
  if (f.bounds) {
    json["bounds"] = {{"floor", f.bounds->floor},
                      {"uninformed", f.bounds->uninformed},
                      {"floor_is", f.bounds->floor_is},
                      {"uninformed_is", f.bounds->uninformed_is}};
  }
  if (f.predicted) {
    json["predicted"] = {{"step_seconds", f.predicted->step.count},
                         {"compute", f.predicted->compute},
                         {"exposed", f.predicted->exposed},
                         {"idle", f.predicted->idle}};
  }
}

/// Reads members by name; throws Error(Input) on one that is missing or has another type.
class FactsReader {
 public:
  explicit FactsReader(const Json& json) : json_(json) {}
  void read(const char* name, std::string& to) const { to = json_.at(name).get<std::string>(); }
  void read(const char* name, double& to) const { to = json_.at(name).get<double>(); }
  void read(const char* name, std::int64_t& to) const { to = json_.at(name).get<std::int64_t>(); }
  void read(const char* name, int& to) const { to = json_.at(name).get<int>(); }

 private:
  const Json& json_;
};

void read_optional(const Json& json, RunFacts& f) {
  if (const Json* traffic = json.find("gradient_traffic")) {
    f.gradient_traffic.emplace();
    FactsReader(*traffic).read("sent", f.gradient_traffic->sent);
    FactsReader(*traffic).read("uncompressed", f.gradient_traffic->uncompressed);
  }
  if (const Json* bounds = json.find("bounds")) {
    f.bounds.emplace();
    FactsReader(*bounds).read("floor", f.bounds->floor);
    FactsReader(*bounds).read("uninformed", f.bounds->uninformed);
    FactsReader(*bounds).read("floor_is", f.bounds->floor_is);
    FactsReader(*bounds).read("uninformed_is", f.bounds->uninformed_is);
  }
  if (const Json* predicted = json.find("predicted")) {
    f.predicted.emplace();
    FactsReader(*predicted).read("step_seconds", f.predicted->step.count);
    FactsReader(*predicted).read("compute", f.predicted->compute);
    FactsReader(*predicted).read("exposed", f.predicted->exposed);
    FactsReader(*predicted).read("idle", f.predicted->idle);
  }
}

void read_lists(const Json& json, RunFacts& f) {
  for (const Json& part : json.at("memory_parts")) {
    f.memory_parts.push_back({part.at("what").get<std::string>(), {}});
    FactsReader(part).read("bytes", f.memory_parts.back().bytes.count);
  }
  for (const Json& note : json.at("notes")) {
    f.notes.push_back(note.get<std::string>());
  }
}

RunFacts facts_of(const Json& json) {
  const FactsReader reader(json);
  RunFacts f;
  reader.read("model", f.model);
  reader.read("weights", f.weights);
  reader.read("data", f.data);
  reader.read("device", f.device);
  reader.read("parameters", f.parameters);
  reader.read("vocabulary", f.vocabulary);
  reader.read("first_step", f.first_step);
  reader.read("steps", f.steps);
  reader.read("unit", f.unit);
  reader.read("units_per_step", f.units_per_step);
  reader.read("model_flops", f.model_flops);
  reader.read("hardware_flops", f.hardware_flops);
  reader.read("peak_flops_per_second", f.peak_flops);
  reader.read("measured_flops_per_second", f.measured_flops);
  reader.read("memory_bytes", f.memory.count);
  if (json.find("memory_rank") != nullptr) {  // runs recorded before had that of rank 0
    reader.read("memory_rank", f.memory_rank);
  }
  reader.read("ranks", f.ranks);
  reader.read("not_predicted", f.not_predicted);
  read_lists(json, f);
  read_optional(json, f);
  return f;
}

RunEnvironment environment_of(const Json& json) {
  const FactsReader reader(json);
  RunEnvironment e;
  reader.read("version", e.version);
  reader.read("system", e.system);
  reader.read("cores", e.cores);
  reader.read("started", e.started);
  return e;
}

}  // namespace

RunEnvironment find_environment() {
  RunEnvironment e;
  e.version = kVersion;
  e.cores = usable_cores();
  utsname system{};
  if (::uname(&system) == 0) {
    e.system = fmt::format("{} {} {}", static_cast<const char*>(system.sysname),
                           static_cast<const char*>(system.release),
                           static_cast<const char*>(system.machine));
  }
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  e.started = fmt::format("{:%Y-%m-%d %H:%M:%S} UTC", fmt::gmtime(now));
  return e;
}

std::string to_text(const RecordedFacts& recorded) {
  const RunFacts& f = recorded.facts;
  Json json;
  json["model"] = f.model;
  json["weights"] = f.weights;
  json["data"] = f.data;
  json["device"] = f.device;
  json["parameters"] = f.parameters;
  json["vocabulary"] = f.vocabulary;
  json["first_step"] = f.first_step;
  json["steps"] = f.steps;
  json["unit"] = f.unit;
  json["units_per_step"] = f.units_per_step;
  json["model_flops"] = f.model_flops;
  json["hardware_flops"] = f.hardware_flops;
  json["peak_flops_per_second"] = f.peak_flops;
  json["measured_flops_per_second"] = f.measured_flops;
  json["memory_bytes"] = f.memory.count;
  json["memory_rank"] = f.memory_rank;
  json["memory_parts"] = parts_json(f.memory_parts);
  json["ranks"] = f.ranks;
  json["not_predicted"] = f.not_predicted;
  json["notes"] = Json(f.notes);
  add_optional(json, f);
  json["environment"] = environment_json(recorded.environment);
  return json.dump(2) + "\n";
}

RecordedFacts parse_facts(const std::string& text, const std::string& what) {
  const Json json = parse_json(text, what);
  try {
    return {.facts = facts_of(json), .environment = environment_of(json.at("environment"))};
  } catch (const Error& error) {
    throw Error(ErrorKind::Input, fmt::format("{}: {}", what, error.what()));
  }
}

}  // namespace trireme
