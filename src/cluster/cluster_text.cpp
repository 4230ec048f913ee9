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
  if (device.power) {
    json["power_watts"] = device.power->watts;
  }
  if (device.price) {
    json["dollars_per_hour"] = device.price->dollars_per_hour;
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

Json to_json(const std::vector<Link>& links) {
  Json json = Json::array();
  for (const Link& link : links) {
    json.push_back(to_json(link));
  }
  return json;
}

Json to_json(const NodeKind& kind) {
  Json json;
  json["nodes"] = kind.nodes;
  json["device"] = to_json(kind.device);
  json["links"] = to_json(kind.links);
  if (kind.efficiency) {
    json["efficiency"] = efficiency_to_json(*kind.efficiency);
  }
  return json;
}

Json to_json(const Cluster& cluster) {
  Json json;
  json["name"] = cluster.name;
  json["nodes"] = cluster.nodes;
  json["devices_per_node"] = cluster.devices_per_node;
  if (cluster.is_mixed()) {
    json["kinds"] = Json::array();
    for (const NodeKind& kind : cluster.kinds) {
      json["kinds"].push_back(to_json(kind));
    }
  } else {
    json["device"] = to_json(cluster.device);
    json["links"] = to_json(cluster.links);
  }
  json["gamma_seconds_per_byte"] = cluster.gamma.count;
  if (cluster.host) {
    json["host"] = host_to_json(*cluster.host);
  }
  if (cluster.efficiency && !cluster.is_mixed()) {
    json["efficiency"] = efficiency_to_json(*cluster.efficiency);
  }
  json["notes"] = cluster.notes;
  return json;
}

std::string dump(const Json& json) {
  return json.dump(2) + "\n";
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
  const JsonObject object(value, kClusterText, path,
                          {"name", "memory_bytes", "memory_bytes_per_second",
                           "peak_flops_per_second", "power_watts", "dollars_per_hour", "source"});
  DeviceSpec device{.name = object.text("name"), .source = object.optional_text("source")};
  if (const std::optional<std::int64_t> bytes = object.optional_integer("memory_bytes")) {
    device.memory = Bytes{*bytes};
  }
  device.memory_bandwidth = optional_rate<ByteRate>(object, "memory_bytes_per_second");
  if (const std::optional<double> watts = object.optional_number("power_watts")) {
    device.power = Power{*watts};
  }
  if (const std::optional<double> dollars = object.optional_number("dollars_per_hour")) {
    device.price = Price{*dollars};
  }
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

std::vector<Link> read_links(const JsonObject& object) {
  std::vector<Link> links;
  for (const Json& link : object.array("links")) {
    links.push_back(read_link(link, fmt::format("{}[{}]", object.path_of("links"), links.size())));
  }
  return links;
}

std::optional<Efficiency> read_optional_efficiency(const JsonObject& object) {
  const Json* efficiency = object.find("efficiency");
  return efficiency == nullptr ? std::nullopt
                               : std::optional(read_efficiency(*efficiency, kClusterText,
                                                               object.path_of("efficiency")));
}

NodeKind read_kind(const Json& value, const std::string& path) {
  const JsonObject object(value, kClusterText, path, {"nodes", "device", "links", "efficiency"});
  return {.nodes = small_integer(object, "nodes"),
          .device = read_device(object.require("device"), object.path_of("device")),
          .links = read_links(object),
          .efficiency = read_optional_efficiency(object)};
}

/// Either one kind of nodes, or several.
void read_nodes(const JsonObject& object, Cluster& cluster) {
  if (object.find("kinds") == nullptr) {
    cluster.device = read_device(object.require("device"), "device");
    cluster.links = read_links(object);
    cluster.efficiency = read_optional_efficiency(object);
    return;
  }
  for (const char* field : {"device", "links", "efficiency"}) {
    if (object.find(field) != nullptr) {
      object.fail(field, "is given by each of the kinds; leave it out here");
    }
  }
  for (const Json& kind : object.array("kinds")) {
    cluster.kinds.push_back(read_kind(kind, fmt::format("kinds[{}]", cluster.kinds.size())));
  }
  if (cluster.kinds.empty()) {
    object.fail("kinds", "is empty");
  }
  cluster = with_weakest(std::move(cluster));
}

Cluster read_cluster(const Json& document) {
  const JsonObject object(document, kClusterText, "",
                          {"name", "nodes", "devices_per_node", "device", "links", "kinds",
                           "gamma_seconds_per_byte", "host", "efficiency", "notes"});
  Cluster cluster{.name = object.text("name"),
                  .nodes = small_integer(object, "nodes"),
                  .devices_per_node = small_integer(object, "devices_per_node"),
                  .device = {},
                  .links = {},
                  .gamma = {object.number("gamma_seconds_per_byte")},
                  .host = std::nullopt,
                  .efficiency = std::nullopt,
                  .notes = read_notes(object)};
  read_nodes(object, cluster);
  if (const Json* host = object.find("host")) {
    cluster.host = read_host(*host, "host");
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
