// Help pages of commands, laid out for a width. Callable from any thread.
#pragma once

#include <string>
#include <vector>

namespace trireme::report {

/// An option, an argument or a command: "-n,--ranks VALUE=8" and its description.
struct HelpRow {
  std::string name;
  std::string text;
};

struct HelpSection {
  std::string title;
  std::vector<HelpRow> rows;
};

struct HelpPage {
  std::string description;
  std::string usage;  ///< "trireme train [OPTIONS]"
  std::vector<HelpSection> sections;
  /// Paragraphs. An indented line is an example: a command, two or more spaces, and a remark.
  std::string footer;
};

/// The page in at most `width` columns, if words fit. A command that is split over lines has backslashes, so that it
/// can still be pasted into a shell.
[[nodiscard]] std::string help_text(const HelpPage& page, int width);

/// The words of the text in lines of at most `width` columns. A longer word is broken at its commas, or not at all.
[[nodiscard]] std::vector<std::string> wrapped(const std::string& text, int width);

}  // namespace trireme::report
