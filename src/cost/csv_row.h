// Rows of CSV files with a header line. Values; any thread.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "trireme/error.h"

namespace trireme {

using CsvFields = std::vector<std::string>;

/// The fields of a line; a field in quotes may contain commas, and two quotes stand for one.
[[nodiscard]] CsvFields split_csv(std::string_view line);

/// Whether the text contains the word, in any case.
[[nodiscard]] bool has(std::string_view text, std::string_view word);
[[nodiscard]] std::string lower(std::string_view text);

/// A row, by column. Names of columns are in lower case. Spaces around a field do not count, and "n/a", "nan", "null" and "-"
/// mean that it is missing. What is malformed throws Error(Input) that names the line and the column.
class CsvRow {
 public:
  CsvRow(const CsvFields& columns, const CsvFields& fields, int line);

  [[nodiscard]] int line() const { return line_; }
  /// "" if it is missing.
  [[nodiscard]] std::string text(const std::string& column) const;
  /// 0 if it is missing. "1,536" is 1536.
  [[nodiscard]] double number(const std::string& column) const;
  /// `otherwise` if it is missing or 0.
  [[nodiscard]] int integer(const std::string& column, int otherwise) const;
  /// What `parse` makes of it in lower case; `otherwise` if it is missing.
  template <class T, class Parse>
  [[nodiscard]] T parsed(const std::string& column, const Parse& parse, T otherwise) const {
    const std::string value = lower(text(column));
    try {
      return value.empty() ? otherwise : parse(value);
    } catch (const Error& error) {
      throw Error(ErrorKind::Input, fmt::format("line {}: {}: {}", line_, column, error.what()));
    }
  }
  /// Which of the names it is, in any case; `otherwise` if it is missing.
  [[nodiscard]] std::size_t choice(const std::string& column,
                                   std::span<const std::string_view> names,
                                   std::size_t otherwise) const;

 private:
  int line_;
  std::map<std::string, std::string> values_;
};

}  // namespace trireme
