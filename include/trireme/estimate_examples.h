// Worked examples: well-known calculations with their inputs, formulas and results, made by the functions of
// estimate.h. All functions may be called from any thread.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

/// A line of an example: a number that is given, or one that follows.
struct ExampleLine {
  std::string what{};
  std::string how{};  ///< the formula with its numbers; empty if it is given
  double value = 0;
  std::string text{};  ///< the value as people write it, with its unit
};

struct ExampleTable {
  std::string title{};
  std::vector<std::string> columns{};
  std::vector<std::vector<std::string>> rows{};
  bool ends_in_words = false;  ///< the last column is text, not numbers
};

struct Example {
  std::string name{};   ///< "intensity"
  std::string label{};  ///< "b1": its number in the list of requirements
  std::string title{};
  std::vector<ExampleLine> given{};
  std::vector<ExampleLine> results{};
  std::vector<ExampleTable> tables{};
  std::vector<std::string> notes{};

  /// The result of this name. Throws Error(Usage) if there is none.
  [[nodiscard]] const ExampleLine& result(std::string_view what) const;
};

/// All of them, in the order of their labels.
[[nodiscard]] std::vector<Example> all_examples();

/// By its name or label, in any case. Throws Error(Usage) that names the nearest, or lists them.
[[nodiscard]] Example example(std::string_view name);

/// A row of the table of how the FLOPs of the OPT models are shared out (percent).
struct OptRow {
  std::string name{};
  double flops_per_update = 0;
  double projections = 0;  ///< printed as "MHA"
  double feed_forward = 0;
  double attention = 0;
  double logits = 0;
};

/// The table is known with a slip: it counts the projections of attention as 2h² + 8sh instead of 8h².
enum class OptFormula { AsPrinted, Corrected };
[[nodiscard]] std::array<OptRow, 8> opt_table(OptFormula formula);

}  // namespace trireme
