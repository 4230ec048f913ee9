// Strict parsing of JSON text forms. For .cpp files: it includes nlohmann/json, which takes seconds to compile;
// json_text.h is enough for writing. Callable from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/json_text.h"

namespace trireme {

using Json = nlohmann::ordered_json;

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
[[noreturn]] void throw_json_error(std::string_view what, const nlohmann::json::exception& error);

}  // namespace trireme
