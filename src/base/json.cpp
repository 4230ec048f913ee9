#include "base/json.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "trireme/error.h"
#include "trireme/message.h"

namespace trireme {
namespace {

constexpr int kDeepest = 16;

/// Builds a value. Rejects what nlohmann/json accepts: duplicate fields, and excessive nesting.
class Builder final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit Builder(std::string_view what) : what_(what) {}
  [[nodiscard]] Json take() { return std::move(result_); }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(std::int64_t value) override { return add(value); }
  bool number_unsigned(std::uint64_t value) override { return add(value); }
  bool number_float(double value, const std::string& /*text*/) override { return add(value); }
  bool string(std::string& value) override { return add(std::move(value)); }
  bool binary(nlohmann::json::binary_t& /*value*/) override { return false; }
  bool start_object(std::size_t /*members*/) override { return open(Json::object()); }
  bool start_array(std::size_t /*elements*/) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(std::string& name) override {
    Level& level = open_.back();
    if (!level.seen.insert(name).second) {
      throw Error(ErrorKind::Input,
                  fmt::format("{}: field {} is given twice", what_, in_quotes(name)));
    }
    level.name = std::move(name);
    return true;
  }

  bool parse_error(std::size_t /*position*/, const std::string& /*token*/,
                   const nlohmann::json::exception& error) override {
    throw_json_error(what_, error);
  }

 private:
  struct Level {
    Json value{};
    std::string name{};  ///< of the member that comes next
    std::set<std::string> seen{};
  };

  bool open(Json empty) {
    if (open_.size() >= kDeepest) {
      throw Error(ErrorKind::Input,
                  fmt::format("{}: nested deeper than {} levels", what_, kDeepest));
    }
    open_.push_back({.value = std::move(empty)});
    return true;
  }

  bool close() {
    Json done = std::move(open_.back().value);
    open_.pop_back();
    return add(std::move(done));
  }

  bool add(Json value) {
    if (open_.empty()) {
      result_ = std::move(value);
    } else if (open_.back().value.is_array()) {
      open_.back().value.push_back(std::move(value));
    } else {
      open_.back().value.append_member(std::move(open_.back().name), std::move(value));
    }
    return true;
  }

  std::string_view what_;
  std::vector<Level> open_{};
  Json result_{};
};

[[noreturn]] void unknown_field(std::string_view what, const std::string& path,
                                const std::string& name, const std::vector<std::string>& fields) {
  const std::optional<std::string> meant = nearest_word(name, fields);
  const std::string help = meant ? fmt::format("did you mean '{}'?", *meant)
                                 : fmt::format("known are {}", list_words(fields, "and"));
  throw Error(ErrorKind::Input,
              fmt::format("{}: unknown field {}; {}", what, in_quotes(path), help));
}

std::optional<std::int64_t> to_integer(const Json& value) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<std::uint64_t>();
    if (number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      return std::nullopt;
    }
    return static_cast<std::int64_t>(number);
  }
  if (value.is_number_integer()) {
    return value.get<std::int64_t>();
  }
  if (value.is_number_float()) {
    const auto number = value.get<double>();
    if (std::abs(number) < 9.2e18 && number == std::floor(number)) {
      return static_cast<std::int64_t>(number);
    }
  }
  return std::nullopt;
}

}  // namespace

void throw_json_error(std::string_view what, const std::exception& error) {
  std::string_view why = error.what();
  // "[json.exception.parse_error.101] parse error at line 3, column 7: syntax error …"
  for (const std::string_view prefix : {"parse error at ", "] "}) {
    if (const std::size_t at = why.find(prefix); at != std::string_view::npos) {
      why.remove_prefix(at + prefix.size());
      break;
    }
  }
  constexpr std::size_t kLongest = 300;
  const bool truncated = why.size() > kLongest;
  throw Error(ErrorKind::Input,
              fmt::format("{}: {}{}", what, why.substr(0, kLongest), truncated ? "…" : ""));
}

Json parse_json(std::string_view text, std::string_view what) {
  Builder builder(what);
  (void)nlohmann::json::sax_parse(text, &builder);
  return builder.take();
}

JsonObject::JsonObject(const Json& value, std::string_view what, std::string_view path,
                       std::vector<std::string> fields)
    : value_(value), what_(what), path_(path) {
  if (!value.is_object()) {
    fail("", "is not an object { … }");
  }
  for (const auto& [name, ignored] : value.items()) {
    if (std::find(fields.begin(), fields.end(), name) == fields.end()) {
      unknown_field(what_, path_of(name), name, fields);
    }
  }
}

const Json* JsonObject::find(std::string_view field) const {
  return value_.find(field);
}

std::string JsonObject::path_of(std::string_view field) const {
  if (field.empty() || path_.empty()) {
    return field.empty() ? path_ : std::string(field);
  }
  return fmt::format("{}.{}", path_, field);
}

void JsonObject::fail(std::string_view field, std::string_view problem) const {
  const std::string path = path_of(field);
  throw Error(ErrorKind::Input,
              fmt::format("{}: {} {}", what_, path.empty() ? "the document" : path, problem));
}

const Json& JsonObject::require(std::string_view field) const {
  const Json* value = find(field);
  if (value == nullptr) {
    fail(field, "is missing");
  }
  return *value;
}

std::string JsonObject::text(std::string_view field) const {
  const Json& value = require(field);
  if (!value.is_string()) {
    fail(field, "is not a text \"…\"");
  }
  return value.get<std::string>();
}

double JsonObject::number(std::string_view field) const {
  const Json& value = require(field);
  if (!value.is_number()) {
    fail(field, "is not a number");
  }
  return value.get<double>();
}

std::int64_t JsonObject::integer(std::string_view field) const {
  const std::optional<std::int64_t> value = to_integer(require(field));
  if (!value) {
    fail(field, "is not an integer of at most 63 bits");
  }
  return *value;
}

const Json& JsonObject::array(std::string_view field) const {
  const Json& value = require(field);
  if (!value.is_array()) {
    fail(field, "is not a list [ … ]");
  }
  return value;
}

std::string JsonObject::optional_text(std::string_view field) const {
  return find(field) == nullptr ? std::string() : text(field);
}

std::optional<double> JsonObject::optional_number(std::string_view field) const {
  return find(field) == nullptr ? std::nullopt : std::optional(number(field));
}

std::optional<std::int64_t> JsonObject::optional_integer(std::string_view field) const {
  return find(field) == nullptr ? std::nullopt : std::optional(integer(field));
}

}  // namespace trireme
