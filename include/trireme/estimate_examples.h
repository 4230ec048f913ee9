// Worked examples: well-known calculations with their inputs, formulas and results, computed by the functions of
// estimate.h. All functions may be called from any thread.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

/// A line of an example: a given number, or a derived one.
struct ExampleLine {
  std::string what{};
  std::string how{};  ///< the formula with its numbers; empty if the value is given
  double value = 0;
  std::string text{};   ///< the value in readable form, with its unit
  std::string input{};  ///< of a given number: its name in ExampleInputs; "" if it is fixed
};

struct ExampleTable {
  std::string title{};
  std::vector<std::string> columns{};
  std::vector<std::vector<std::string>> rows{};
  bool ends_in_words = false;  ///< the last column is text, not numbers
};

struct Example {
  std::string name{};  ///< "intensity"
  std::string title{};
  std::vector<ExampleLine> given{};
  std::vector<ExampleLine> results{};
  std::vector<ExampleTable> tables{};
  std::vector<std::string> notes{};

  /// The result with this name. Throws Error(Usage) if there is none.
  [[nodiscard]] const ExampleLine& result(std::string_view what) const;
};

/// All examples, in display order.
[[nodiscard]] std::vector<Example> all_examples();

/// Overrides of given numbers, by input name.
using ExampleInputs = std::map<std::string, double, std::less<>>;

/// Parses inputs of the form "devices=1024". Throws Error(Usage) on any other form or a duplicate name.
[[nodiscard]] ExampleInputs parse_inputs(const std::vector<std::string>& texts);

/// By name, case-insensitive. Throws Error(Usage) naming the nearest match or listing all, and if `set` has an input that
/// the example does not have, or a value out of its range.
[[nodiscard]] Example example(std::string_view name, const ExampleInputs& set = {});

/// A row of the published table that breaks down the FLOPs of the OPT models (percent).
struct OptRow {
  std::string name{};
  double flops_per_update = 0;
  double projections = 0;  ///< printed as "MHA"
  double feed_forward = 0;
  double attention = 0;
  double logits = 0;
};

/// The published table has an error: it counts the projections of attention as 2h² + 8sh instead of 8h².
enum class OptFormula { AsPrinted, Corrected };
[[nodiscard]] std::string_view to_text(OptFormula formula);
[[nodiscard]] std::array<OptRow, 8> opt_table(OptFormula formula);

}  // namespace trireme
