#include <algorithm>
#include <cmath>
#include <ostream>

#include <fmt/format.h>

#include "base/json.h"
#include "trireme/error.h"
#include "trireme/message.h"

namespace trireme {
namespace {

[[noreturn]] void wrong_type(std::string_view wanted, const Json& found) {
  constexpr std::size_t kLongest = 40;
  throw Error(ErrorKind::Input, fmt::format("expected {} in JSON, found {}", wanted,
                                            in_quotes(found.dump().substr(0, kLongest))));
}

[[noreturn]] void no_element(std::size_t index, const Json& found) {
  wrong_type(fmt::format("an array with an element {}", index), found);
}

void append_line(std::string& out, int indent, int level) {
  if (indent >= 0) {
    out += '\n';
    out.append(static_cast<std::size_t>(indent) * static_cast<std::size_t>(level), ' ');
  }
}

bool is_member(const Json& element) {
  return element.is_array() && element.size() == 2 && element.front().is_string();
}

}  // namespace

Json::Json() = default;
Json::~Json() = default;
Json::Json(const Json& other) = default;
Json::Json(Json&& other) noexcept = default;
Json& Json::operator=(const Json& other) = default;
Json& Json::operator=(Json&& other) noexcept = default;

Json::Json(bool value) : value_(value) {}
Json::Json(std::int64_t value) : value_(value) {}
Json::Json(std::uint64_t value) : value_(value) {}
Json::Json(double value) : value_(value) {}
Json::Json(const char* text) : value_(std::string(text)) {}
Json::Json(std::string_view text) : value_(std::string(text)) {}
Json::Json(std::string text) : value_(std::move(text)) {}

Json::Json(std::initializer_list<Json> elements) {
  if (!std::ranges::all_of(elements, is_member)) {
    value_ = Array(elements);
    return;
  }
  value_ = Object();
  for (const Json& element : elements) {
    (*this)[element.front().to_string()] = element.back();
  }
}

Json Json::array(std::initializer_list<Json> elements) {
  Json json;
  json.value_ = Array(elements);
  return json;
}

Json Json::object() {
  Json json;
  json.value_ = Object();
  return json;
}

Json Json::parse(std::string_view text) {
  return parse_json(text, "JSON");
}

bool Json::to_bool() const {
  if (const bool* value = std::get_if<bool>(&value_)) {
    return *value;
  }
  wrong_type("true or false", *this);
}

std::int64_t Json::to_int64() const {
  if (const auto* value = std::get_if<std::int64_t>(&value_)) {
    return *value;
  }
  if (const auto* value = std::get_if<std::uint64_t>(&value_)) {
    return static_cast<std::int64_t>(*value);
  }
  return static_cast<std::int64_t>(to_double());
}

double Json::to_double() const {
  if (const auto* value = std::get_if<double>(&value_)) {
    return *value;
  }
  if (const auto* value = std::get_if<std::int64_t>(&value_)) {
    return static_cast<double>(*value);
  }
  if (const auto* value = std::get_if<std::uint64_t>(&value_)) {
    return static_cast<double>(*value);
  }
  wrong_type("a number", *this);
}

const std::string& Json::to_string() const {
  if (const auto* value = std::get_if<std::string>(&value_)) {
    return *value;
  }
  wrong_type("a text", *this);
}

std::size_t Json::size() const {
  if (const auto* array = std::get_if<Array>(&value_)) {
    return array->size();
  }
  if (const auto* object = std::get_if<Object>(&value_)) {
    return object->size();
  }
  return is_null() ? 0 : 1;
}

const Json& Json::element(std::size_t index) const {
  const auto* array = std::get_if<Array>(&value_);
  if (array == nullptr || index >= array->size()) {
    no_element(index, *this);
  }
  return (*array)[index];
}

Json& Json::element(std::size_t index) {
  auto* array = std::get_if<Array>(&value_);
  if (array == nullptr || index >= array->size()) {
    no_element(index, *this);
  }
  return (*array)[index];
}

void Json::push_back(Json element) {
  if (is_null()) {
    value_ = Array();
  }
  auto* array = std::get_if<Array>(&value_);
  if (array == nullptr) {
    wrong_type("an array", *this);
  }
  array->push_back(std::move(element));
}

const Json* Json::begin() const {
  const auto* array = std::get_if<Array>(&value_);
  return array == nullptr ? nullptr : array->data();
}

const Json* Json::end() const {
  return is_array() ? begin() + size() : nullptr;
}

const Json& Json::at(std::string_view name) const {
  const Json* value = find(name);
  if (value == nullptr) {
    wrong_type(fmt::format("an object with {}", in_quotes(name)), *this);
  }
  return *value;
}

Json& Json::operator[](std::string_view name) {
  if (auto* object = std::get_if<Object>(&value_)) {
    const auto at = std::ranges::find(*object, name, &JsonMember::name);
    if (at != object->end()) {
      return at->value;
    }
  }
  return append_member(std::string(name), nullptr);
}

Json& Json::append_member(std::string name, Json value) {
  if (is_null()) {
    value_ = Object();
  }
  auto* object = std::get_if<Object>(&value_);
  if (object == nullptr) {
    wrong_type("an object", *this);
  }
  object->push_back({.name = std::move(name), .value = std::move(value)});
  return object->back().value;
}

const Json* Json::find(std::string_view name) const {
  const Object& members = items();
  const auto at = std::ranges::find(members, name, &JsonMember::name);
  return at == members.end() ? nullptr : &at->value;
}

void Json::erase(std::string_view name) {
  if (auto* object = std::get_if<Object>(&value_)) {
    std::erase_if(*object, [&](const JsonMember& member) { return member.name == name; });
  }
}

void Json::update(const Json& other) {
  for (const auto& [name, value] : other.items()) {
    (*this)[name] = value;
  }
}

const Json::Object& Json::items() const {
  static const Object none;
  const auto* object = std::get_if<Object>(&value_);
  return object == nullptr ? none : *object;
}

void Json::append_to(std::string& out, int indent, int level) const {
  const auto list = [&](const auto& elements, char open, char close, const auto& append) {
    out += open;
    for (bool first = true; const auto& element : elements) {
      out += first ? "" : ",";
      first = false;
      append_line(out, indent, level + 1);
      append(element);
    }
    if (!elements.empty()) {
      append_line(out, indent, level);
    }
    out += close;
  };
  if (const auto* array = std::get_if<Array>(&value_)) {
    list(*array, '[', ']', [&](const Json& json) { json.append_to(out, indent, level + 1); });
  } else if (const auto* object = std::get_if<Object>(&value_)) {
    list(*object, '{', '}', [&](const JsonMember& member) {
      append_json_string(out, member.name);
      out += indent >= 0 ? ": " : ":";
      member.value.append_to(out, indent, level + 1);
    });
  } else if (is_string()) {
    append_json_string(out, to_string());
  } else if (is_number_float() && std::isfinite(to_double())) {
    append_json_number(out, to_double());
  } else if (const auto* number = std::get_if<std::uint64_t>(&value_)) {
    out += fmt::to_string(*number);
  } else if (is_number_integer()) {
    out += fmt::to_string(to_int64());
  } else {
    out += is_boolean() ? (to_bool() ? "true" : "false") : "null";
  }
}

std::string Json::dump(int indent) const {
  std::string out;
  append_to(out, indent, 0);
  return out;
}

bool operator==(const Json& a, const Json& b) {
  if (a.is_number() && b.is_number()) {
    return (a <=> b) == std::partial_ordering::equivalent;
  }
  if (a.is_object() && b.is_object()) {
    return a.size() == b.size() && std::ranges::all_of(a.items(), [&](const JsonMember& member) {
             const Json* other = b.find(member.name);
             return other != nullptr && *other == member.value;
           });
  }
  if (a.is_array() && b.is_array()) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }
  if (a.is_string() && b.is_string()) {
    return a.to_string() == b.to_string();
  }
  return (a.is_null() && b.is_null()) ||
         (a.is_boolean() && b.is_boolean() && a.to_bool() == b.to_bool());
}

std::partial_ordering operator<=>(const Json& a, const Json& b) {
  if (!a.is_number() || !b.is_number()) {
    return std::partial_ordering::unordered;
  }
  if (a.is_number_float() || b.is_number_float()) {
    return a.to_double() <=> b.to_double();
  }
  const bool a_large = a.is_number_unsigned() && a.to_int64() < 0;  // above the signed range
  const bool b_large = b.is_number_unsigned() && b.to_int64() < 0;
  return a_large != b_large ? a_large <=> b_large : a.to_int64() <=> b.to_int64();
}

std::ostream& operator<<(std::ostream& out, const Json& json) {
  return out << json.dump();
}

}  // namespace trireme
