#include "estimate/example_inputs.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr double kMaxCount = 1e9;

bool fits(double value, InputKind kind) {
  if (!std::isfinite(value) || value < 0) {
    return false;
  }
  switch (kind) {
    case InputKind::Positive:
      return value > 0;
    case InputKind::NotNegative:
      return true;
    case InputKind::Share:
      return value <= 1;
    case InputKind::Count:
    case InputKind::CountOrZero:
      return value <= kMaxCount && value == std::floor(value) &&
             (value >= 1 || kind == InputKind::CountOrZero);
  }
  return false;
}

std::string_view expected(InputKind kind) {
  switch (kind) {
    case InputKind::Positive:
      return "a number above 0";
    case InputKind::NotNegative:
      return "0 or more";
    case InputKind::Share:
      return "a number from 0 to 1";
    case InputKind::Count:
      return "an integer from 1 to 1e9";
    case InputKind::CountOrZero:
      return "an integer from 0 to 1e9";
  }
  return "a number";
}

/// "devices=1024" adds an input.
void add_input(const std::string& text, ExampleInputs& inputs) {
  const std::size_t equals = text.find('=');
  const std::string value = equals == std::string::npos ? "" : text.substr(equals + 1);
  char* end = nullptr;
  const double number = std::strtod(value.c_str(), &end);
  if (equals == 0 || value.empty() || end != value.c_str() + value.size()) {
    throw Error(
        ErrorKind::Usage,
        fmt::format("--set: invalid input '{}': expected NAME=NUMBER, such as devices=64", text));
  }
  if (!inputs.emplace(text.substr(0, equals), number).second) {
    throw Error(ErrorKind::Usage, fmt::format("--set: '{}' is set twice", text.substr(0, equals)));
  }
}

}  // namespace

ExampleInputs parse_inputs(const std::vector<std::string>& texts) {
  ExampleInputs inputs;
  for (const std::string& text : texts) {
    add_input(text, inputs);
  }
  return inputs;
}

ExampleInputReader::ExampleInputReader(std::string_view example, const ExampleInputs& set)
    : example_(example), set_(set) {}

double ExampleInputReader::number(const InputRow& row) {
  const auto given = set_.find(row.name);
  const double value = given == set_.end() ? row.fallback : given->second;
  if (!fits(value, row.kind)) {
    throw Error(ErrorKind::Usage, fmt::format("{}: invalid value {:g}: expected {}", row.name,
                                              value, expected(row.kind)));
  }
  lines_.push_back({.what = row.what,
                    .how = {},
                    .value = value,
                    .text = fmt::format("{:g}", value),
                    .input = std::string(row.name)});
  return value;
}

std::vector<ExampleLine> ExampleInputReader::finish() {
  std::vector<std::string> names;
  for (const ExampleLine& line : lines_) {
    names.push_back(line.input);
  }
  for (const auto& [name, value] : set_) {
    if (std::ranges::find(names, name) == names.end()) {
      throw Error(ErrorKind::Usage, fmt::format("example {} has no input '{}'; it has {}", example_,
                                                name, list_words(names, "and")));
    }
  }
  return std::move(lines_);
}

ExampleLine derived(std::string what, std::string how, double value, std::string text) {
  return {.what = std::move(what), .how = std::move(how), .value = value, .text = std::move(text)};
}

std::string percent_text(double share) {
  return fmt::format("{:.3g} %", 100 * share);
}

}  // namespace trireme
