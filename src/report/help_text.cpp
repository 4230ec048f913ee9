#include "report/help_text.h"

#include <algorithm>
#include <sstream>
#include <string_view>

#include "report/text_style.h"

namespace trireme::report {
namespace {

constexpr int kTextColumn = 30;
constexpr int kTextColumnOfShortNames = 16;
constexpr int kNarrowest = 40;
constexpr int kRemarkIndent = 6;
constexpr int kNarrowestRemark = 24;

/// The part of a word that fits on a line: all of it, or up to a comma if it is too long.
std::size_t fitting(const std::string& word, int width) {
  if (display_width(word) <= width) {
    return word.size();
  }
  const std::size_t last = word.rfind(',', width - 1);
  const std::size_t comma = last == std::string::npos ? word.find(',') : last;
  return comma == std::string::npos ? word.size() : comma + 1;
}

/// Indents every line by this many blanks.
std::string indented(const std::vector<std::string>& lines, int indent) {
  std::string out;
  for (const std::string& line : lines) {
    out += spaces(indent) + line + "\n";
  }
  return out;
}

/// The lines in a column next to `left`, or below it if `left` is too long.
std::string side_by_side(const std::string& left, const std::string& text, int column, int width) {
  const std::string lines = indented(wrapped(text, width - column), column);
  if (lines.empty()) {
    return left + "\n";
  }
  if (display_width(left) >= column) {
    return left + "\n" + lines;
  }
  return padded(left, column) + lines.substr(column);
}

int text_column(const HelpSection& section, int width) {
  int longest = 0;
  for (const HelpRow& row : section.rows) {
    longest = std::max(longest, display_width(row.name));
  }
  constexpr int kMargins = 4;
  const int column =
      longest + kMargins <= kTextColumnOfShortNames ? kTextColumnOfShortNames : kTextColumn;
  return std::min(column, width / 2);
}

/// "--option VALUE=DEFAULT" and its description. A default that is too long for a line moves to the description.
std::string row_text(const HelpRow& row, int column, int width) {
  const std::string left = "  " + row.name;
  const std::size_t equals = left.find('=');
  if (display_width(left) <= width || equals == std::string::npos) {
    return side_by_side(left, row.text, column, width);
  }
  return side_by_side(left.substr(0, equals),
                      row.text + " (default: " + left.substr(equals + 1) + ")", column, width);
}

std::string section_text(const HelpSection& section, int width) {
  const int column = text_column(section, width);
  std::string out = section.title + ":\n";
  for (const HelpRow& row : section.rows) {
    out += row_text(row, column, width);
  }
  return out;
}

/// The command in lines that a shell reads as one.
std::string command_text(const std::string& command, int width) {
  constexpr int kIndent = 2;
  constexpr int kBackslash = 2;
  const std::vector<std::string> lines = wrapped(command, width - kIndent - kBackslash - 2);
  std::string out;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    out += spaces(i == 0 ? kIndent : 2 * kIndent) + lines[i];
    out += i + 1 < lines.size() ? " \\\n" : "\n";
  }
  return out;
}

/// "  trireme tour    a two-minute tour". If that is too wide, the remark is wrapped, or goes below the command if its
/// column is too narrow.
std::string example_text(const std::string& line, int width) {
  if (display_width(line) <= width) {
    return line + "\n";
  }
  const std::size_t start = line.find_first_not_of(' ');
  if (start > kRemarkIndent) {  // a remark on the command before it
    return indented(wrapped(line, width - kRemarkIndent), kRemarkIndent);
  }
  const std::size_t gap = std::min(line.find("  ", start), line.size());
  const std::string remark = line.substr(gap);
  const int column = static_cast<int>(std::min(line.find_first_not_of(' ', gap), line.size()));
  if (!remark.empty() && width - column >= kNarrowestRemark) {
    return side_by_side(line.substr(0, gap), remark, column, width);
  }
  return command_text(line.substr(start, gap - start), width) +
         indented(wrapped(remark, width - kRemarkIndent), kRemarkIndent);
}

std::string footer_text(const std::string& footer, int width) {
  std::istringstream lines(footer);
  std::string out;
  std::string paragraph;
  const auto end_paragraph = [&] {
    out += indented(wrapped(paragraph, width), 0);
    paragraph.clear();
  };
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty() && line.front() != ' ') {
      paragraph += (paragraph.empty() ? "" : " ") + line;
      continue;
    }
    end_paragraph();
    out += line.empty() ? "\n" : example_text(line, width);
  }
  end_paragraph();
  return out;
}

}  // namespace

std::vector<std::string> wrapped(const std::string& text, int width) {
  std::istringstream words(text);
  std::vector<std::string> lines;
  for (std::string word; words >> word;) {
    if (!lines.empty() && display_width(lines.back()) + 1 + display_width(word) <= width) {
      lines.back() += " " + word;
      continue;
    }
    for (std::size_t end = fitting(word, width); end < word.size(); end = fitting(word, width)) {
      lines.push_back(word.substr(0, end));
      word.erase(0, end);
    }
    lines.push_back(word);
  }
  return lines;
}

std::string help_text(const HelpPage& page, int width) {
  width = std::max(width, kNarrowest);
  std::string out = indented(wrapped(page.description, width), 0);
  out += indented(wrapped("Usage: " + page.usage, width), 0);
  for (const HelpSection& section : page.sections) {
    out += "\n" + section_text(section, width);
  }
  return page.footer.empty() ? out : out + "\n" + footer_text(page.footer, width);
}

}  // namespace trireme::report
