#include "cost/csv_row.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.h"
#include "trireme/error.h"

namespace trireme {
namespace {

bool is_missing(const std::string& text) {
  constexpr std::array<std::string_view, 5> kMissing{"", "-", "n/a", "nan", "null"};
  return std::ranges::find(kMissing, lower(text)) != kMissing.end();
}

}  // namespace

CsvFields split_csv(std::string_view line) {
  CsvFields fields(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '"' && quoted && i + 1 < line.size() && line[i + 1] == '"') {
      fields.back() += '"';
      ++i;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      fields.emplace_back();
    } else if (c != '\r') {
      fields.back() += c;
    }
  }
  return fields;
}

std::string lower(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

bool has(std::string_view text, std::string_view word) {
  return lower(text).find(lower(word)) != std::string::npos;
}

CsvRow::CsvRow(const CsvFields& columns, const CsvFields& fields, int line) : line_(line) {
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const std::string value(i < fields.size() ? trim(fields[i]) : "");
    values_[columns[i]] = is_missing(value) ? "" : value;
  }
}

std::string CsvRow::text(const std::string& column) const {
  const auto found = values_.find(column);
  return found == values_.end() ? "" : found->second;
}

double CsvRow::number(const std::string& column) const {
  std::string value = text(column);
  std::erase(value, ',');
  if (value.empty()) {
    return 0;
  }
  double result = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), result);
  if (error != std::errc{} || end != value.data() + value.size() || !std::isfinite(result)) {
    throw Error(ErrorKind::Input,
                fmt::format("line {}: {}: '{}' is not a number", line_, column, text(column)));
  }
  return result;
}

int CsvRow::integer(const std::string& column, int otherwise) const {
  const double value = number(column);
  if (value != std::floor(value) || std::abs(value) > std::numeric_limits<int>::max()) {
    throw Error(ErrorKind::Input, fmt::format("line {}: {}: expected an integer, not {}", line_,
                                              column, text(column)));
  }
  return value > 0 ? static_cast<int>(value) : otherwise;
}

std::size_t CsvRow::choice(const std::string& column, std::span<const std::string_view> names,
                           std::size_t otherwise) const {
  const std::string value = lower(text(column));
  if (value.empty()) {
    return otherwise;
  }
  const auto found = std::ranges::find(names, value);
  if (found == names.end()) {
    throw Error(ErrorKind::Input, fmt::format("line {}: {}: unknown value '{}'; use one of: {}",
                                              line_, column, text(column), fmt::join(names, " ")));
  }
  return found - names.begin();
}

}  // namespace trireme
