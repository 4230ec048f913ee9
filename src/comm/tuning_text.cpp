// The text form of a Tuning.
#include <cstdint>
#include <limits>
#include <string>

#include <fmt/format.h>

#include "base/json.h"
#include "trireme/comm.h"
#include "trireme/error.h"
#include "trireme/message.h"
#include "trireme/tuning.h"

namespace trireme {
namespace {

constexpr std::string_view kWhat = "tuning";
constexpr std::string_view kFormat = "trireme tuning 3";

Json to_json(const TuningRow& row) {
  Json json{{"operation", to_text(row.operation)}, {"ranks", row.ranks},
            {"transport", to_text(row.transport)}, {"buffers", to_text(row.buffers)},
            {"from_bytes", row.from.count},        {"to_bytes", row.to.count},
            {"method", to_text(row.method)},       {"measured_bytes", row.measured.count}};
  Json& candidates = json["candidates"] = Json::array();
  for (const TuningCandidate& candidate : row.candidates) {
    candidates.push_back({{"method", to_text(candidate.method)},
                          {"seconds", candidate.median.count},
                          {"spread", candidate.spread},
                          {"calls", candidate.calls}});
  }
  return json;
}

int small_integer(const JsonObject& object, std::string_view field) {
  const std::int64_t value = object.integer(field);
  if (value < 0 || value > std::numeric_limits<int>::max()) {
    object.fail(field, fmt::format("is {}, out of range", value));
  }
  return static_cast<int>(value);
}

/// Parses a word from a closed set; reports its error with the field.
template <class Parse>
auto read_word(const JsonObject& object, std::string_view field, Parse&& parse) {
  const std::string word = object.text(field);
  try {
    return parse(word);
  } catch (const Error& error) {
    object.fail(field, fmt::format("is wrong: {}", error.what()));
  }
}

TuningCandidate read_candidate(const Json& value, const std::string& path) {
  const JsonObject object(value, kWhat, path, {"method", "seconds", "spread", "calls"});
  return {.method = read_word(object, "method", parse_method),
          .median = {object.number("seconds")},
          .spread = object.number("spread"),
          .calls = small_integer(object, "calls")};
}

TuningRow read_row(const Json& value, const std::string& path) {
  const JsonObject object(value, kWhat, path,
                          {"operation", "ranks", "transport", "buffers", "from_bytes", "to_bytes",
                           "method", "measured_bytes", "candidates"});
  TuningRow row{.operation = read_word(object, "operation", parse_operation),
                .ranks = small_integer(object, "ranks"),
                .transport = read_word(object, "transport", parse_transport),
                .buffers = read_word(object, "buffers", parse_buffer_kind),
                .from = {object.integer("from_bytes")},
                .to = {object.integer("to_bytes")},
                .method = read_word(object, "method", parse_method)};
  row.measured = {object.optional_integer("measured_bytes").value_or(row.from.count)};
  if (object.find("candidates") != nullptr) {
    for (const Json& candidate : object.array("candidates")) {
      row.candidates.push_back(read_candidate(
          candidate, fmt::format("{}[{}]", object.path_of("candidates"), row.candidates.size())));
    }
  }
  return row;
}

}  // namespace

std::string to_text(const Tuning& tuning) {
  Json json{{"format", kFormat},
            {"machine", tuning.machine},
            {"date", tuning.date},
            {"dtype", to_text(tuning.dtype)}};
  Json& choices = json["choices"] = Json::array();
  for (const TuningRow& row : tuning.rows) {
    choices.push_back(to_json(row));
  }
  return json.dump(2) + "\n";
}

Tuning parse_tuning(std::string_view text) {
  const Json document = parse_json(text, kWhat);
  const JsonObject object(document, kWhat, "", {"format", "machine", "date", "dtype", "choices"});
  if (object.text("format") != kFormat) {
    object.fail("format", fmt::format("is {}; this program reads '{}'",
                                      in_quotes(object.text("format")), kFormat));
  }
  Tuning tuning{.machine = object.optional_text("machine"), .date = object.optional_text("date")};
  if (object.find("dtype") != nullptr) {
    tuning.dtype = read_word(object, "dtype", parse_dtype);
  }
  for (const Json& row : object.array("choices")) {
    tuning.rows.push_back(read_row(row, fmt::format("choices[{}]", tuning.rows.size())));
  }
  require_valid(tuning, ErrorKind::Input, kWhat);
  return tuning;
}

}  // namespace trireme
