#include "cluster/host_text.h"

#include <fmt/format.h>

#include "cluster/compute_text.h"
#include "cluster/text_fields.h"
#include "trireme/error.h"

namespace trireme {
namespace {

Json memory_to_json(const std::vector<MemoryCost>& curve) {
  Json json = Json::array();
  for (const MemoryCost& point : curve) {
    json.push_back({{"footprint_bytes", point.footprint.count},
                    {"alone_seconds_per_byte", point.alone.count},
                    {"together_seconds_per_byte", point.together.count}});
  }
  return json;
}

std::vector<MemoryCost> read_memory(const JsonObject& host, std::string_view field) {
  std::vector<MemoryCost> curve;
  for (const Json& value : host.array(field)) {
    const JsonObject point(
        value, kClusterText, fmt::format("{}[{}]", host.path_of(field), curve.size()),
        {"footprint_bytes", "alone_seconds_per_byte", "together_seconds_per_byte"});
    curve.push_back({.footprint = {point.integer("footprint_bytes")},
                     .alone = {point.number("alone_seconds_per_byte")},
                     .together = {point.number("together_seconds_per_byte")}});
  }
  return curve;
}

Json message_to_json(const MessageCost& cost) {
  Json json{{"transport", cost.transport},
            {"alpha_seconds", cost.alpha.count},
            {"beta_seconds_per_byte", cost.beta.count}};
  for (const MessagePoint& point : cost.points) {
    json["points"].push_back({{"bytes", point.bytes.count},
                              {"one_way_seconds", point.one_way.count},
                              {"exchange_seconds", point.exchange.count}});
  }
  return json;
}

std::vector<MessagePoint> read_points(const JsonObject& message) {
  std::vector<MessagePoint> points;
  if (message.find("points") == nullptr) {
    return points;
  }
  for (const Json& value : message.array("points")) {
    const JsonObject point(value, kClusterText,
                           fmt::format("{}[{}]", message.path_of("points"), points.size()),
                           {"bytes", "one_way_seconds", "exchange_seconds"});
    points.push_back({.bytes = {point.integer("bytes")},
                      .one_way = {point.number("one_way_seconds")},
                      .exchange = {point.number("exchange_seconds")}});
  }
  return points;
}

MessageCost read_message(const Json& value, const std::string& path) {
  const JsonObject cost(value, kClusterText, path,
                        {"transport", "alpha_seconds", "beta_seconds_per_byte", "points"});
  return {.transport = cost.text("transport"),
          .alpha = {cost.number("alpha_seconds")},
          .beta = {cost.number("beta_seconds_per_byte")},
          .points = read_points(cost)};
}

std::vector<MessageCost> read_messages(const JsonObject& host) {
  std::vector<MessageCost> messages;
  for (const Json& value : host.array("messages")) {
    messages.push_back(
        read_message(value, fmt::format("{}[{}]", host.path_of("messages"), messages.size())));
  }
  return messages;
}

std::vector<CombineCost> read_combining(const JsonObject& host) {
  std::vector<CombineCost> combining;
  for (const Json& value : host.array("combining")) {
    const JsonObject cost(value, kClusterText,
                          fmt::format("{}[{}]", host.path_of("combining"), combining.size()),
                          {"dtype", "gamma_seconds_per_byte"});
    combining.push_back(
        {.dtype = cost.text("dtype"), .gamma = {cost.number("gamma_seconds_per_byte")}});
  }
  return combining;
}

std::vector<RendezvousCost> read_waits(const JsonObject& host) {
  std::vector<RendezvousCost> waits;
  for (const Json& value : host.array("waits")) {
    const JsonObject cost(value, kClusterText,
                          fmt::format("{}[{}]", host.path_of("waits"), waits.size()),
                          {"ranks", "first_seconds", "next_seconds"});
    waits.push_back({.ranks = small_integer(cost, "ranks"),
                     .first = {cost.number("first_seconds")},
                     .next = {cost.number("next_seconds")}});
  }
  return waits;
}

std::optional<PassCost> read_cached(const JsonObject& host) {
  if (host.find("cached_stage_seconds_per_byte") == nullptr) {
    return std::nullopt;
  }
  return PassCost{{host.number("cached_stage_seconds_per_byte")},
                  {host.number("cached_fetch_seconds_per_byte")}};
}

std::optional<ComputeCosts> read_optional_compute(const JsonObject& host) {
  const Json* compute = host.find("compute");
  return compute != nullptr ? std::optional(read_compute(*compute, host.path_of("compute")))
                            : std::nullopt;
}

}  // namespace

Json host_to_json(const HostCosts& host) {
  Json json;
  json["cores"] = host.cores;
  json["messages"] = Json::array();
  for (const MessageCost& cost : host.messages) {
    json["messages"].push_back(message_to_json(cost));
  }
  json["combining"] = Json::array();
  for (const CombineCost& cost : host.combining) {
    json["combining"].push_back(
        {{"dtype", cost.dtype}, {"gamma_seconds_per_byte", cost.gamma.count}});
  }
  json["waits"] = Json::array();
  for (const RendezvousCost& cost : host.waits) {
    json["waits"].push_back({{"ranks", cost.ranks},
                             {"first_seconds", cost.first.count},
                             {"next_seconds", cost.next.count}});
  }
  json["copy"] = memory_to_json(host.copy);
  json["combine"] = memory_to_json(host.combine);
  json["stage_seconds_per_byte"] = host.stage.count;
  json["fetch_seconds_per_byte"] = host.fetch.count;
  if (host.cached) {
    json["cached_stage_seconds_per_byte"] = host.cached->write.count;
    json["cached_fetch_seconds_per_byte"] = host.cached->read.count;
  }
  json["peek"] = message_to_json(host.peek);
  if (host.compute) {
    json["compute"] = compute_to_json(*host.compute);
  }
  return json;
}

HostCosts read_host(const Json& value, const std::string& path) {
  const JsonObject object(
      value, kClusterText, path,
      {"cores", "messages", "combining", "waits", "copy", "combine", "stage_seconds_per_byte",
       "fetch_seconds_per_byte", "cached_stage_seconds_per_byte", "cached_fetch_seconds_per_byte",
       "peek", "compute"});
  return {.cores = small_integer(object, "cores"),
          .messages = read_messages(object),
          .combining = read_combining(object),
          .waits = read_waits(object),
          .copy = read_memory(object, "copy"),
          .combine = read_memory(object, "combine"),
          .stage = {object.number("stage_seconds_per_byte")},
          .fetch = {object.number("fetch_seconds_per_byte")},
          .cached = read_cached(object),
          .peek = read_message(object.require("peek"), object.path_of("peek")),
          .compute = read_optional_compute(object)};
}

std::string to_text(const HostCosts& costs) {
  return host_to_json(costs).dump(2) + "\n";
}

HostCosts parse_host_costs(std::string_view text) {
  constexpr std::string_view kWhat = "host costs";
  HostCosts costs = read_host(parse_json(text, kWhat), "");
  require_valid(costs, ErrorKind::Input, kWhat);
  return costs;
}

}  // namespace trireme
