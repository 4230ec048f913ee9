// Checks that the source tree obeys the layering table of src/README.md: a folder includes and
// links only what its row allows, or what those folders allow. Reads files only; any thread.
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::layering {

/// One sentence each, "src/trace/x.cpp:3: trace includes …"; empty if there are no problems.
using Problems = std::vector<std::string>;

/// The table: for each folder the folders that it may use, transitively.
struct Table {
  std::map<std::string, std::set<std::string>> may_use;
  /// For folders whose row says "(public headers)": the only folders whose internal headers they may include.
  std::map<std::string, std::set<std::string>> opened;

  /// Whether `reader` may not include the internal headers of `folder`.
  [[nodiscard]] bool hides(const std::string& folder, const std::string& reader) const;

  /// The folder that a path below src/ belongs to ("collective/ring/x.h" to "collective"), or "" if
  /// there is none.
  [[nodiscard]] std::string folder_of(std::string_view path) const;
};

/// Parses the table in the text of src/README.md: the rows below the heading whose first cell is
/// "folder". The last cell lists folder names, "–" for none or "all"; "all (public headers), report"
/// allows internal headers of report only. Reports a missing table, names without a row, and cycles.
[[nodiscard]] Table parse_table(std::string_view readme, Problems& problems);

/// Checks the tree below `root`, which has src/README.md, src/ and include/trireme/.
[[nodiscard]] Problems check_tree(const std::filesystem::path& root);

}  // namespace trireme::layering
