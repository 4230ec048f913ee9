// The text form (.plan.json):
//
//   {"mesh": "data=2,tensor=2", "microbatches": 4, "schedule": "1f1b", "chunks": 1, "zero": 1, "sequence": false,
//    "context": "gather", "compression": "none", "recompute": "selective", "sharding": {"data": ["batch"], …}}
//
// With a custom table, "table" has its text form (.pipeline). "stage_blocks": [7, 8, 8, 7] and "bucket_bytes" are
// written only if given. Assignments, if there are any, are objects by selector:
//
//   "ops": {"relu": {"device": 1}, "@block(3)": {"stage": 1}},
//   "values": {"w1": {"device": 0, "tensor": "sharded(1)"}}
#include <fmt/format.h>

#include "base/json.h"
#include "trireme/error.h"
#include "trireme/message.h"
#include "trireme/plan.h"

namespace trireme {
namespace {

constexpr std::string_view kWhat = "plan";

int small(const JsonObject& object, std::string_view field, int otherwise) {
  const std::optional<std::int64_t> number = object.optional_integer(field);
  if (number && (*number < 0 || *number > kMaxMicrobatches)) {
    object.fail(field,
                fmt::format("is {}; it is a number from 0 to {}", *number, kMaxMicrobatches));
  }
  return number ? static_cast<int>(*number) : otherwise;
}

/// A text field with its own parser.
template <class Parse>
auto read_as(const JsonObject& object, std::string_view field, Parse parse) {
  const std::string text = object.text(field);
  try {
    return parse(text);
  } catch (const Error& error) {
    object.fail(field, fmt::format("is invalid: {}", error.what()));
  }
}

std::vector<AxisSharding> read_sharding(const JsonObject& object, const Json& value) {
  if (!value.is_object()) {
    object.fail("sharding", "is not an object {\"axis\": [\"dimension\", …]}");
  }
  std::vector<AxisSharding> sharding;
  for (const auto& [axis, dims] : value.items()) {
    AxisSharding row;
    row.axis = axis;
    if (!dims.is_array()) {
      object.fail("sharding", fmt::format("has for {} no list of dimensions", in_quotes(axis)));
    }
    for (const Json& dim : dims) {
      if (!dim.is_string()) {
        object.fail("sharding", fmt::format("has an invalid name for {}", in_quotes(axis)));
      }
      row.dims.push_back(dim.get<std::string>());
    }
    sharding.push_back(std::move(row));
  }
  return sharding;
}

PipeLocation read_location(const JsonObject& row, PipeLocation::Unit unit) {
  const std::int64_t index = row.integer(to_text(unit));
  if (index < 0 || index > kMaxPipelineStages) {
    row.fail(to_text(unit), fmt::format("is {}; it is a number from 0", index));
  }
  return {.unit = unit, .index = static_cast<int>(index)};
}

/// "stage" or "device", if there is one.
std::optional<PipeLocation> read_location(const JsonObject& row) {
  const bool stage = row.find("stage") != nullptr;
  if (stage && row.find("device") != nullptr) {
    row.fail("device", "and stage are both given; leave out one of them");
  }
  if (!stage && row.find("device") == nullptr) {
    return std::nullopt;
  }
  return read_location(row, stage ? PipeLocation::Unit::Stage : PipeLocation::Unit::Device);
}

std::vector<OpAssignment> read_ops(const JsonObject& object, const Json& value) {
  if (!value.is_object()) {
    object.fail("ops", "is not an object {\"op\": {\"device\": 1}, …}");
  }
  std::vector<OpAssignment> ops;
  for (const auto& [selector, row] : value.items()) {
    const JsonObject fields(row, kWhat, "ops." + selector, {"stage", "device"});
    const std::optional<PipeLocation> location = read_location(fields);
    if (!location) {
      fields.fail("device", "is missing; name a device or a stage");
    }
    ops.push_back({.selector = selector, .location = *location});
  }
  return ops;
}

/// Fields other than "stage" and "device" are axes.
ValueAssignment read_value(const std::string& selector, const Json& row) {
  std::vector<std::string> known{"stage", "device"};
  for (const auto& [field, text] : row.items()) {
    known.push_back(field);
  }
  const JsonObject fields(row, kWhat, "values." + selector, known);
  ValueAssignment value{.selector = selector, .location = read_location(fields), .axes = {}};
  for (const auto& [field, text] : row.items()) {
    if (field != "stage" && field != "device") {
      value.axes.push_back(read_as(fields, field, [axis = field](const std::string& placement) {
        return parse_axis_placement(axis, placement);
      }));
    }
  }
  return value;
}

std::vector<ValueAssignment> read_values(const JsonObject& object, const Json& value) {
  if (!value.is_object()) {
    object.fail("values", "is not an object {\"value\": {\"tensor\": \"sharded(0)\"}, …}");
  }
  std::vector<ValueAssignment> values;
  for (const auto& [selector, row] : value.items()) {
    values.push_back(read_value(selector, row));
  }
  return values;
}

void write_assignments(const Plan& plan, Json& document) {
  for (const OpAssignment& row : plan.ops) {
    document["ops"][row.selector][std::string(to_text(row.location.unit))] = row.location.index;
  }
  for (const ValueAssignment& row : plan.values) {
    Json& fields = document["values"][row.selector] = Json::object();
    if (row.location) {
      fields[std::string(to_text(row.location->unit))] = row.location->index;
    }
    for (const AxisPlacement& placement : row.axes) {
      fields[placement.axis] = to_text(placement);
    }
  }
}

std::vector<int> read_stage_blocks(const JsonObject& object) {
  std::vector<int> blocks;
  for (const Json& entry : object.array("stage_blocks")) {
    if (!entry.is_number_integer() || entry < 0 || entry > kMaxPipelineStages) {
      object.fail("stage_blocks", "has an entry that is not a number of blocks");
    }
    blocks.push_back(entry.get<int>());
  }
  return blocks;
}

}  // namespace

std::string to_text(const Plan& plan) {
  Json document;
  document["mesh"] = to_text(plan.mesh);
  document["microbatches"] = plan.microbatches;
  document["schedule"] = plan.schedule;
  if (plan.table) {
    document["table"] = to_text(*plan.table);
  }
  document["chunks"] = plan.chunks;
  document["zero"] = plan.zero;
  document["sequence"] = plan.sequence;
  document["context"] = to_text(plan.context);
  if (!plan.stage_blocks.empty()) {
    document["stage_blocks"] = plan.stage_blocks;
  }
  if (plan.bucket.count > 0) {
    document["bucket_bytes"] = plan.bucket.count;
  }
  document["compression"] = to_text(plan.compression);
  document["recompute"] = to_text(plan.recompute);
  Json& sharding = document["sharding"];
  for (const AxisSharding& row : plan.sharding) {
    sharding[row.axis] = row.dims;
  }
  write_assignments(plan, document);
  return document.dump(2) + "\n";
}

Plan parse_plan(std::string_view text) {
  const Json document = parse_json(text, kWhat);
  const JsonObject object(
      document, kWhat, "",
      {"mesh", "microbatches", "schedule", "table", "chunks", "zero", "sequence", "context",
       "stage_blocks", "bucket_bytes", "compression", "recompute", "sharding", "ops", "values"});
  Plan plan;
  plan.mesh = read_as(object, "mesh", parse_mesh);
  plan.microbatches = small(object, "microbatches", plan.microbatches);
  plan.chunks = small(object, "chunks", plan.chunks);
  plan.zero = small(object, "zero", plan.zero);
  if (object.find("schedule") != nullptr) {
    plan.schedule = object.text("schedule");
  }
  if (object.find("table") != nullptr) {
    try {
      plan.table = parse_pipeline(object.text("table"));
    } catch (const Error& error) {
      object.fail("table", error.what());
    }
  }
  if (const Json* sequence = object.find("sequence")) {
    if (!sequence->is_boolean()) {
      object.fail("sequence", "is neither true nor false");
    }
    plan.sequence = sequence->get<bool>();
  }
  if (object.find("context") != nullptr) {
    plan.context = read_as(object, "context", parse_context);
  }
  if (object.find("stage_blocks") != nullptr) {
    plan.stage_blocks = read_stage_blocks(object);
  }
  plan.bucket.count = object.optional_integer("bucket_bytes").value_or(0);
  if (object.find("compression") != nullptr) {
    plan.compression = read_as(object, "compression", parse_compression);
  }
  if (object.find("recompute") != nullptr) {
    plan.recompute = read_as(object, "recompute", parse_recompute);
  }
  if (const Json* sharding = object.find("sharding")) {
    plan.sharding = read_sharding(object, *sharding);
  }
  if (const Json* ops = object.find("ops")) {
    plan.ops = read_ops(object, *ops);
  }
  if (const Json* values = object.find("values")) {
    plan.values = read_values(object, *values);
  }
  require_valid(plan, ErrorKind::Input, kWhat);
  return plan;
}

}  // namespace trireme
