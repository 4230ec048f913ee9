// The examples and remarks at the end of each command's help, in one table. Callable from any thread.
#pragma once

#include <span>
#include <string_view>

namespace trireme::report {

struct HelpExamples {
  std::string_view command;  ///< "trireme plan show"
  std::string_view text;     ///< see HelpPage::footer
};

[[nodiscard]] std::span<const HelpExamples> help_examples();

/// The examples of a command; "" if it has none.
[[nodiscard]] std::string_view help_examples_of(std::string_view command);

}  // namespace trireme::report
