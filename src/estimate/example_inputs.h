// The inputs of a worked example: numbers with names and defaults that the caller may replace. One thread at a time.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trireme/estimate_examples.h"

namespace trireme {

/// Which values an input accepts.
enum class InputKind {
  Positive,     ///< more than 0
  NotNegative,  ///< 0 or more
  Share,        ///< 0 to 1
  Count,        ///< an integer from 1 to a billion
  CountOrZero,  ///< an integer from 0 to a billion
};

struct InputRow {
  std::string_view name{};  ///< one word
  std::string what{};
  double fallback = 0;
  InputKind kind = InputKind::Positive;
};

/// Reads the inputs of one example. Call number() for each, show() to set its readable form, then finish().
class ExampleInputReader {
 public:
  ExampleInputReader(std::string_view example, const ExampleInputs& set);

  /// The value: the caller's, or the default. Throws Error(Usage) if it is not of its kind.
  double number(const InputRow& row);
  /// The same with the text to show for the value.
  template <class Text>
  double number(const InputRow& row, const Text& text) {
    const double value = number(row);
    lines_.back().text = text(value);
    return value;
  }

  /// The given lines. Throws Error(Usage) listing the inputs if the caller set one that the example does not have.
  [[nodiscard]] std::vector<ExampleLine> finish();

 private:
  std::string example_;
  const ExampleInputs& set_;  // the caller's; outlives the reader, which lives for one call
  std::vector<ExampleLine> lines_;
};

/// A line of a derived number.
[[nodiscard]] ExampleLine derived(std::string what, std::string how, double value,
                                  std::string text);
/// "4.7 %": three significant digits.
[[nodiscard]] std::string percent_text(double share);

}  // namespace trireme
