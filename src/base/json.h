// JSON documents: a value to build and inspect, strict parsing, and objects with a known set of fields. Only json.cpp
// includes nlohmann/json, which takes seconds to compile. Callable from any thread.
#pragma once

#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <iosfwd>
#include <optional>
#include <ranges>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/indexed_vector.h"
#include "base/json_text.h"

namespace trireme {

struct JsonMember;

/// A JSON value: null, true or false, a number, a text, an array, or an object whose members keep their order.
///
///   Json json{{"step", 3}, {"loss", 0.5}};
///   json["tags"] = Json::array({"a", "b"});
///   json.dump();  // {"step":3,"loss":0.5,"tags":["a","b"]}
///
/// Accessors of another type throw Error(Input).
class Json {
 public:
  using Array = std::vector<Json>;
  using Object = std::vector<JsonMember>;

  // All out of line: inlined, they make files that build objects take twice as long to compile.
  Json();
  ~Json();
  Json(const Json& other);
  Json(Json&& other) noexcept;
  Json& operator=(const Json& other);
  Json& operator=(Json&& other) noexcept;

  // NOLINTBEGIN(google-explicit-constructor): documents are written as nested braces of values
  Json(std::nullptr_t /*null*/) : Json() {}
  Json(bool value);
  Json(std::int64_t value);
  Json(std::uint64_t value);
  Json(double value);
  Json(const char* text);
  Json(std::string_view text);
  Json(std::string text);
  template <std::signed_integral T>
  Json(T value) : Json(std::int64_t{value}) {}
  template <std::unsigned_integral T>
  requires(!std::same_as<T, bool>) Json(T value) : Json(std::uint64_t{value}) {}
  Json(float value) : Json(double{value}) {}
  /// An object if every element is a pair that begins with a text, otherwise an array.
  Json(std::initializer_list<Json> elements);
  /// An array of the range's elements.
  template <std::ranges::input_range R>
  requires(!std::convertible_to<R, std::string_view> &&
           !std::same_as<std::remove_cvref_t<R>, Json> &&
           std::constructible_from<Json, std::ranges::range_reference_t<R>>) Json(const R& range)
      : Json(array()) {
    for (auto&& element : range) {
      push_back(Json(element));
    }
  }
  // NOLINTEND(google-explicit-constructor)

  [[nodiscard]] static Json array(std::initializer_list<Json> elements = {});
  [[nodiscard]] static Json object();
  /// As parse_json().
  [[nodiscard]] static Json parse(std::string_view text);

  [[nodiscard]] bool is_null() const { return holds<std::nullptr_t>(); }
  [[nodiscard]] bool is_boolean() const { return holds<bool>(); }
  [[nodiscard]] bool is_number() const { return is_number_integer() || is_number_float(); }
  [[nodiscard]] bool is_number_integer() const {
    return holds<std::int64_t>() || is_number_unsigned();
  }
  [[nodiscard]] bool is_number_unsigned() const { return holds<std::uint64_t>(); }
  [[nodiscard]] bool is_number_float() const { return holds<double>(); }
  [[nodiscard]] bool is_string() const { return holds<std::string>(); }
  [[nodiscard]] bool is_array() const { return holds<Array>(); }
  [[nodiscard]] bool is_object() const { return holds<Object>(); }

  /// The value as a bool, a number or a text; numbers convert as by static_cast.
  template <typename T>
  [[nodiscard]] T get() const {
    if constexpr (std::same_as<T, bool>) {
      return to_bool();
    } else if constexpr (std::integral<T>) {
      return static_cast<T>(to_int64());
    } else if constexpr (std::floating_point<T>) {
      return static_cast<T>(to_double());
    } else {
      return T(to_string());
    }
  }

  /// Elements of an array, members of an object, 0 for null, else 1.
  [[nodiscard]] std::size_t size() const;
  [[nodiscard]] bool empty() const { return size() == 0; }

  // Arrays. A null becomes one when elements are added.
  [[nodiscard]] const Json& at(std::integral auto index) const {
    return element(position_of(index));
  }
  [[nodiscard]] const Json& operator[](std::integral auto index) const { return at(index); }
  [[nodiscard]] Json& operator[](std::integral auto index) { return element(position_of(index)); }
  [[nodiscard]] const Json& front() const { return at(0); }
  [[nodiscard]] const Json& back() const { return at(size() - 1); }
  void push_back(Json element);
  /// The elements of an array; nothing for other values.
  [[nodiscard]] const Json* begin() const;
  [[nodiscard]] const Json* end() const;

  // Objects. A null becomes one when members are added.
  [[nodiscard]] const Json& at(std::string_view name) const;
  [[nodiscard]] const Json& operator[](std::string_view name) const { return at(name); }
  /// The member, added as null if there is none.
  Json& operator[](std::string_view name);
  /// The member, or nullptr if there is none or the value is not an object.
  [[nodiscard]] const Json* find(std::string_view name) const;
  [[nodiscard]] bool contains(std::string_view name) const { return find(name) != nullptr; }
  void erase(std::string_view name);
  /// Adds a member, which the object must not have yet, and returns its value.
  Json& append_member(std::string name, Json value);
  /// Sets all members of another object.
  void update(const Json& other);
  /// The members as (name, value); nothing for other values.
  [[nodiscard]] const Object& items() const;

  // For literals, which would otherwise need a conversion and lose to an index.
  [[nodiscard]] const Json& at(const char* name) const { return at(std::string_view(name)); }
  [[nodiscard]] const Json& operator[](const char* name) const { return at(name); }
  Json& operator[](const char* name) { return (*this)[std::string_view(name)]; }

  /// On one line, or with `indent` spaces per level. Numbers read back as the same double; non-finite numbers become
  /// null.
  [[nodiscard]] std::string dump(int indent = -1) const;

  /// Numbers are equal by value, regardless of type; members in any order.
  friend bool operator==(const Json& a, const Json& b);
  /// Of two numbers; other values are unordered.
  friend std::partial_ordering operator<=>(const Json& a, const Json& b);
  friend std::ostream& operator<<(std::ostream& out, const Json& json);

 private:
  template <typename T>
  [[nodiscard]] bool holds() const {
    return std::holds_alternative<T>(value_);
  }
  [[nodiscard]] bool to_bool() const;
  [[nodiscard]] std::int64_t to_int64() const;
  [[nodiscard]] double to_double() const;
  [[nodiscard]] const std::string& to_string() const;
  [[nodiscard]] const Json& element(std::size_t index) const;
  [[nodiscard]] Json& element(std::size_t index);
  void append_to(std::string& out, int indent, int level) const;

  std::variant<std::nullptr_t, bool, std::int64_t, std::uint64_t, double, std::string, Array,
               Object>
      value_;
};

struct JsonMember {
  std::string name{};
  Json value{};
};

/// Parses a hand-written document. Throws Error(Input) "WHAT: line 3, column 7: …" on a syntax error, a duplicate
/// field, a number too large for a double, or nesting deeper than any of our documents.
[[nodiscard]] Json parse_json(std::string_view text, std::string_view what);

/// One JSON object with a known set of fields. Every error is an Error(Input) that names the field by its path, such as
/// "cluster: links[1].alpha_seconds is not a number". Refers to the value; does not own it.
class JsonObject {
 public:
  /// `path` is "" for the document itself, else "links[1]". Throws if `value` is not an object or has a field that is
  /// not in `fields` (naming the nearest match).
  JsonObject(const Json& value, std::string_view what, std::string_view path,
             std::vector<std::string> fields);

  /// The field, or nullptr if it is absent.
  [[nodiscard]] const Json* find(std::string_view field) const;
  /// The path of a field, for messages and for objects inside.
  [[nodiscard]] std::string path_of(std::string_view field) const;

  // Each throws if the field is absent or has another type.
  [[nodiscard]] const Json& require(std::string_view field) const;
  [[nodiscard]] std::string text(std::string_view field) const;
  [[nodiscard]] double number(std::string_view field) const;
  [[nodiscard]] std::int64_t integer(std::string_view field) const;  ///< 8e10 is an integer too
  [[nodiscard]] const Json& array(std::string_view field) const;

  // The same, but nothing (or "") if the field is absent.
  [[nodiscard]] std::string optional_text(std::string_view field) const;
  [[nodiscard]] std::optional<double> optional_number(std::string_view field) const;
  [[nodiscard]] std::optional<std::int64_t> optional_integer(std::string_view field) const;

  /// Throws Error(Input) "WHAT: PATH PROBLEM".
  [[noreturn]] void fail(std::string_view field, std::string_view problem) const;

 private:
  const Json& value_;
  std::string what_;
  std::string path_;
};

/// Throws Error(Input) with where and why a nlohmann parser stopped, on one line of reasonable length.
[[noreturn]] void throw_json_error(std::string_view what, const std::exception& error);

}  // namespace trireme
