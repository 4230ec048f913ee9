// The text form of a cluster: a JSON document whose field names carry their units.
#include <fmt/format.h>

#include "base/json.h"
#include "cluster/efficiency.h"
#include "cluster/host_text.h"
#include "cluster/names.h"
#include "cluster/text_fields.h"
#include "trireme/cluster.h"
#include "trireme/error.h"

namespace trireme {
namespace {

void put(Json& json, const char* field, const std::string& text) {
  if (!text.empty()) {
    json[field] = text;
  }
}

Json to_json(const Peak& peak) {
  Json json = Json::object();
  if (peak.dense) {
    json["dense"] = peak.dense->count;
  }
  if (peak.sparse) {
    json["sparse"] = peak.sparse->count;
  }
  return json;
}

Json to_json(const DeviceSpec& device) {
  Json json;
  json["name"] = device.name;
  if (device.memory) {
    json["memory_bytes"] = device.memory->count;
  }
  if (device.memory_bandwidth) {
    json["memory_bytes_per_second"] = device.memory_bandwidth->count;
  }
  if (!device.peaks.empty()) {
    Json& peaks = json["peak_flops_per_second"] = Json::object();
    for (const Peak& peak : device.peaks) {
      peaks[peak.dtype] = to_json(peak);
    }
  }
  put(json, "source", device.source);
  return json;
}

Json to_json(const Link& link) {
  Json json;
  json["level"] = link.level;
  json["reach"] = link.reach;
  json["alpha_seconds"] = link.alpha.count;
  json["beta_seconds_per_byte"] = link.beta.count;
  put(json, "source", link.source);
  return json;
}

Json to_json(const Cluster& cluster) {
  Json json;
  json["name"] = cluster.name;
  json["nodes"] = cluster.nodes;
  json["devices_per_node"] = cluster.devices_per_node;
  json["device"] = to_json(cluster.device);
  json["links"] = Json::array();
  for (const Link& link : cluster.links) {
    json["links"].push_back(to_json(link));
  }
  json["gamma_seconds_per_byte"] = cluster.gamma.count;
  if (cluster.host) {
    json["host"] = host_to_json(*cluster.host);
  }
  if (cluster.efficiency) {
    json["efficiency"] = efficiency_to_json(*cluster.efficiency);
  }
  json["notes"] = cluster.notes;
  return json;
}

std::string dump(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

template <class Rate>
std::optional<Rate> optional_rate(const JsonObject& object, std::string_view field) {
  const std::optional<double> value = object.optional_number(field);
  return value ? std::optional(Rate{*value}) : std::nullopt;
}

std::vector<Peak> read_peaks(const Json& value, const std::string& path) {
  const JsonObject types(value, kClusterText, path, peak_types());
  std::vector<Peak> peaks;
  for (const auto& [type, rates] : value.items()) {
    const JsonObject object(rates, kClusterText, types.path_of(type), {"dense", "sparse"});
    peaks.push_back({.dtype = type,
                     .dense = optional_rate<FlopRate>(object, "dense"),
                     .sparse = optional_rate<FlopRate>(object, "sparse")});
  }
  return peaks;
}

DeviceSpec read_device(const Json& value, const std::string& path) {
  const JsonObject object(
      value, kClusterText, path,
      {"name", "memory_bytes", "memory_bytes_per_second", "peak_flops_per_second", "source"});
  DeviceSpec device{.name = object.text("name"), .source = object.optional_text("source")};
  if (const std::optional<std::int64_t> bytes = object.optional_integer("memory_bytes")) {
    device.memory = Bytes{*bytes};
  }
  device.memory_bandwidth = optional_rate<ByteRate>(object, "memory_bytes_per_second");
  if (const Json* peaks = object.find("peak_flops_per_second")) {
    device.peaks = read_peaks(*peaks, object.path_of("peak_flops_per_second"));
  }
  return device;
}

Link read_link(const Json& value, const std::string& path) {
  const JsonObject object(value, kClusterText, path,
                          {"level", "reach", "alpha_seconds", "beta_seconds_per_byte", "source"});
  return {.level = object.text("level"),
          .reach = small_integer(object, "reach"),
          .alpha = {object.number("alpha_seconds")},
          .beta = {object.number("beta_seconds_per_byte")},
          .source = object.optional_text("source")};
}

std::vector<std::string> read_notes(const JsonObject& object) {
  std::vector<std::string> notes;
  if (object.find("notes") == nullptr) {
    return notes;
  }
  for (const Json& note : object.array("notes")) {
    if (!note.is_string()) {
      object.fail("notes", "has an entry that is not a text \"…\"");
    }
    notes.push_back(note.get<std::string>());
  }
  return notes;
}

Cluster read_cluster(const Json& document) {
  const JsonObject object(document, kClusterText, "",
                          {"name", "nodes", "devices_per_node", "device", "links",
                           "gamma_seconds_per_byte", "host", "efficiency", "notes"});
  Cluster cluster{.name = object.text("name"),
                  .nodes = small_integer(object, "nodes"),
                  .devices_per_node = small_integer(object, "devices_per_node"),
                  .device = read_device(object.require("device"), "device"),
                  .links = {},
                  .gamma = {object.number("gamma_seconds_per_byte")},
                  .host = std::nullopt,
                  .efficiency = std::nullopt,
                  .notes = read_notes(object)};
  for (const Json& link : object.array("links")) {
    cluster.links.push_back(read_link(link, fmt::format("links[{}]", cluster.links.size())));
  }
  if (const Json* host = object.find("host")) {
    cluster.host = read_host(*host, "host");
  }
  if (const Json* efficiency = object.find("efficiency")) {
    cluster.efficiency = read_efficiency(*efficiency, kClusterText, "efficiency");
  }
  return cluster;
}

}  // namespace

std::string to_text(const Cluster& cluster) {
  return dump(to_json(cluster));
}

std::string to_text(const DeviceSpec& device) {
  return dump(to_json(device));
}

Cluster parse_cluster(std::string_view text) {
  Cluster cluster = read_cluster(parse_json(text, kClusterText));
  require_valid(cluster, ErrorKind::Input, kClusterText);
  return cluster;
}

}  // namespace trireme
