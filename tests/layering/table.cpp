// Parses the layering table and computes its transitive closure.
#include <algorithm>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.h"
#include "layering/layering.h"

namespace trireme::layering {
namespace {

using AllowedFolders = std::map<std::string, std::set<std::string>>;

constexpr std::string_view kPublicOnly = "(public headers)";

/// "`a`, `b`" or "a, b" as names, without the backquotes.
std::vector<std::string> names_in(std::string_view cell) {
  std::vector<std::string> names;
  for (std::string_view part : split(cell, ',')) {
    std::string name(trim(part));
    std::erase(name, '`');
    if (!name.empty() && name != "–" && name != "-") {
      names.push_back(name);
    }
  }
  return names;
}

/// The cells of "| a | b | c |", or nothing if the line is not a table row.
std::vector<std::string_view> cells_of(std::string_view line) {
  line = trim(line);
  if (line.size() < 2 || line.front() != '|' || line.back() != '|') {
    return {};
  }
  return split(line.substr(1, line.size() - 2), '|');
}

/// Adds the names in the last cell of a folder's row: to `allowed`, and to `opened` if one is for public headers only.
void read_allowed(const std::string& folder, std::string_view cell, AllowedFolders& allowed,
                  AllowedFolders& opened) {
  std::set<std::string> plain;
  bool restricted = false;
  for (std::string name : names_in(cell)) {
    if (name.ends_with(kPublicOnly)) {
      restricted = true;
      name = trim(std::string_view(name).substr(0, name.size() - kPublicOnly.size()));
    } else {
      plain.insert(name);
    }
    allowed[folder].insert(name);
  }
  if (restricted) {
    opened[folder] = plain;
  }
}

/// The rows as written, before "all" and transitivity.
AllowedFolders read_rows(std::string_view readme, AllowedFolders& opened) {
  AllowedFolders rows;
  bool inside = false;
  for (std::string_view line : split(readme, '\n')) {
    const std::vector<std::string_view> cells = cells_of(line);
    inside = !cells.empty() && (inside || trim(cells.front()) == "folder");
    if (!inside || cells.size() < 2 || cells.front().find('`') == std::string_view::npos) {
      continue;
    }
    for (const std::string& folder : names_in(cells.front())) {
      rows[folder];
      read_allowed(folder, cells.back(), rows, opened);
    }
  }
  return rows;
}

void expand_all(AllowedFolders& rows) {
  for (auto& [folder, allowed] : rows) {
    if (allowed.erase("all") == 0) {
      continue;
    }
    for (const auto& row : rows) {
      if (row.first != folder) {
        allowed.insert(row.first);
      }
    }
  }
}

void report_unknown_names(const AllowedFolders& rows, Problems& problems) {
  for (const auto& [folder, allowed] : rows) {
    for (const std::string& name : allowed) {
      if (!rows.contains(name)) {
        problems.push_back(
            fmt::format("src/README.md: {} may include {}, but the table has no row for {}", folder,
                        name, name));
      }
    }
  }
}

/// Adds what is reachable from `folder` to `reached`.
void reach(const AllowedFolders& rows, const std::string& folder, std::set<std::string>& reached) {
  const auto row = rows.find(folder);
  if (row == rows.end()) {
    return;
  }
  for (const std::string& next : row->second) {
    if (reached.insert(next).second) {
      reach(rows, next, reached);
    }
  }
}

void report_cycles(const AllowedFolders& closure, Problems& problems) {
  std::vector<std::string> on_cycle;
  for (const auto& [folder, reached] : closure) {
    if (reached.contains(folder)) {
      on_cycle.push_back(folder);
    }
  }
  if (!on_cycle.empty()) {
    problems.push_back(
        fmt::format("src/README.md: the table has a cycle through {}", fmt::join(on_cycle, ", ")));
  }
}

}  // namespace

std::string Table::folder_of(std::string_view path) const {
  std::string found;
  for (const auto& [folder, allowed] : may_use) {
    const bool inside = path == folder || path.starts_with(folder + "/");
    if (inside && folder.size() > found.size()) {
      found = folder;
    }
  }
  return found;
}

bool Table::hides(const std::string& folder, const std::string& reader) const {
  const auto row = opened.find(reader);
  return row != opened.end() && folder != reader && !row->second.contains(folder);
}

Table parse_table(std::string_view readme, Problems& problems) {
  Table table;
  AllowedFolders rows = read_rows(readme, table.opened);
  if (rows.empty()) {
    problems.emplace_back(
        "src/README.md: no layering table (a row is: | `folder` | what lives there | may include "
        "|)");
  }
  expand_all(rows);
  report_unknown_names(rows, problems);
  for (const auto& [folder, allowed] : rows) {
    reach(rows, folder, table.may_use[folder]);
  }
  report_cycles(table.may_use, problems);
  return table;
}

}  // namespace trireme::layering
