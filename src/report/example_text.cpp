#include "report/example_text.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/json.h"
#include "report/help_text.h"

namespace trireme::report {
namespace {

int widest(const std::vector<ExampleLine>& lines, std::string ExampleLine::*field) {
  int width = 0;
  for (const ExampleLine& line : lines) {
    width = std::max(width, display_width(line.*field));
  }
  return width;
}

std::string lines_text(const std::vector<ExampleLine>& lines, std::string_view indent) {
  const int what = widest(lines, &ExampleLine::what);
  const int how = widest(lines, &ExampleLine::how);
  std::string out;
  for (const ExampleLine& line : lines) {
    out += fmt::format("{}{}  {}{}{}\n", indent, padded(line.what, what), padded(line.how, how),
                       how > 0 ? "  " : "", line.text);
  }
  return out;
}

/// The given numbers: with the names of their inputs in front if they can be set.
std::string given_text(const Example& example, bool color) {
  const int input = widest(example.given, &ExampleLine::input);
  if (input == 0) {
    return styled("given", Style::Dim, color) + "\n" + lines_text(example.given, "  ");
  }
  std::string out = styled("given, and changed with --set NAME=VALUE", Style::Dim, color) + "\n";
  const int what = widest(example.given, &ExampleLine::what);
  for (const ExampleLine& line : example.given) {
    out += fmt::format("  {}  {}  {}\n", padded(line.input, input), padded(line.what, what),
                       line.text);
  }
  return out;
}

std::string table_text(const ExampleTable& table, bool color) {
  std::vector<int> widths;
  for (const std::string& column : table.columns) {
    widths.push_back(display_width(column));
  }
  for (const std::vector<std::string>& row : table.rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], display_width(row[i]));
    }
  }
  const auto row_text = [&](const std::vector<std::string>& row) {
    std::string out = "  " + padded(row[0], widths[0]);
    for (std::size_t i = 1; i < row.size(); ++i) {
      const bool words = table.ends_in_words && i + 1 == row.size();
      out += "   " + (words ? row[i] : right_aligned(row[i], widths[i]));
    }
    return out;
  };
  std::string out = table.title.empty() ? "" : "  " + table.title + "\n";
  out += styled(row_text(table.columns), Style::Dim, color) + "\n";
  for (const std::vector<std::string>& row : table.rows) {
    out += row_text(row) + "\n";
  }
  return out;
}

Json lines_json(const std::vector<ExampleLine>& lines) {
  Json json = Json::array();
  for (const ExampleLine& line : lines) {
    Json one{{"what", line.what}};
    if (!line.how.empty()) {
      one["formula"] = line.how;
    }
    if (!line.input.empty()) {
      one["input"] = line.input;
    }
    one["value"] = line.value;
    one["text"] = line.text;
    json.push_back(std::move(one));
  }
  return json;
}

}  // namespace

std::string example_text(const Example& example, const Terminal& terminal) {
  std::string out = styled(example.title, Style::Bold, terminal.color) + "\n";
  if (!example.given.empty()) {
    out += "\n" + given_text(example, terminal.color);
  }
  if (!example.results.empty()) {
    out += "\n" + styled("follows", Style::Dim, terminal.color) + "\n" +
           lines_text(example.results, "  ");
  }
  for (const ExampleTable& table : example.tables) {
    out += "\n" + table_text(table, terminal.color);
  }
  out += example.notes.empty() ? "" : "\n";
  for (const std::string& note : example.notes) {
    out += fmt::format("{}\n", fmt::join(wrapped(note, std::min(terminal.width, 100)), "\n"));
  }
  return out;
}

std::string example_json(const Example& example) {
  Json tables = Json::array();
  for (const ExampleTable& table : example.tables) {
    tables.push_back({{"title", table.title}, {"columns", table.columns}, {"rows", table.rows}});
  }
  const Json json{{"name", example.name},
                  {"title", example.title},
                  {"given", lines_json(example.given)},
                  {"results", lines_json(example.results)},
                  {"tables", tables},
                  {"notes", example.notes}};
  return json.dump() + "\n";
}

std::string example_list_text(const Terminal& terminal) {
  std::string out;
  for (const Example& example : all_examples()) {
    out += fmt::format("  {} {}\n", styled(padded(example.name, 17), Style::Bold, terminal.color),
                       example.title);
  }
  return out + "Show one with trireme estimate --example NAME.\n";
}

std::string example_list_json() {
  Json json = Json::array();
  for (const Example& example : all_examples()) {
    json.push_back({{"name", example.name}, {"title", example.title}});
  }
  return json.dump() + "\n";
}

}  // namespace trireme::report
