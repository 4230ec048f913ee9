// Reads includes and link lists, and compares them with the table.
#include "layering/layering.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "layering/cmake_lists.h"
#include "layering/source_files.h"

namespace trireme::layering {
namespace {

namespace fs = std::filesystem;

struct File {
  std::string name;    // relative to the root: "src/trace/x.cpp"
  std::string folder;  // "trace"
};

/// "backend/cpu" is the library trireme_backend_cpu.
std::string library_name(std::string folder) {
  std::replace(folder.begin(), folder.end(), '/', '_');
  return folder;
}

/// Our libraries that a CMakeLists.txt names: after DEPENDS, as trireme::x or as trireme_x.
std::vector<Word> libraries_in(const std::vector<Word>& words) {
  std::vector<Word> libraries = arguments_of("DEPENDS", words);
  for (const Word& word : words) {
    for (std::string_view prefix : {"trireme::", "trireme_"}) {
      if (const std::size_t at = word.text.find(prefix); at != std::string::npos) {
        const std::string rest = word.text.substr(at + prefix.size());
        libraries.push_back(
            {rest.substr(0, rest.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_")),
             word.line});
      }
    }
  }
  return libraries;
}

class Checker {
 public:
  explicit Checker(fs::path root)
      : root_(std::move(root)),
        table_(parse_table(read_file(root_ / "src/README.md"), problems_)) {}

  Problems run() {
    check_rows();
    for (const std::string& name : files_below(root_, "src")) {
      place(name);
    }
    for (const File& file : cmake_lists_) {
      read_cmake_list(file);
    }
    check_public_headers();
    for (const File& file : sources_) {
      check_includes(file);
    }
    return problems_;
  }

 private:
  void check_rows();
  void place(const std::string& name);
  void read_cmake_list(const File& file);
  void own(const std::string& header, const File& file, int line);
  void check_public_headers();
  void check_includes(const File& file);
  [[nodiscard]] std::string folder_of_include(const File& file, const std::string& include) const;
  void check_use(const File& file, int line, const std::string& used, const std::string& what);

  fs::path root_;
  Problems problems_;  // before table_, whose parsing reports here
  Table table_;
  std::vector<File> sources_;
  std::vector<File> cmake_lists_;
  std::set<std::string> strays_;               // folders reported as missing from the table
  std::map<std::string, std::string> owners_;  // "schedule.h": "collective"
};

void Checker::check_rows() {
  for (const auto& row : table_.may_use) {
    if (!fs::is_directory(root_ / "src" / row.first)) {
      problems_.push_back(
          fmt::format("src/README.md: the table has a row for {}, but there is no src/{}",
                      row.first, row.first));
    }
  }
}

/// Finds the folder of a file in src/ and registers it for later checks.
void Checker::place(const std::string& name) {
  const std::string inside = name.substr(std::string_view("src/").size());
  const std::string folder = table_.folder_of(inside);
  const std::string parent = fs::path(inside).parent_path().generic_string();
  const bool is_cmake_list = name.ends_with("CMakeLists.txt");
  if (folder.empty()) {
    // src/ itself and a folder of folders contain a CMakeLists.txt or a README, no code.
    const bool above = parent.empty() || std::any_of(table_.may_use.begin(), table_.may_use.end(),
                                                     [&](const auto& row) {
                                                       return row.first.starts_with(parent + "/");
                                                     });
    if ((!above || is_cpp(name)) && strays_.insert(parent).second) {
      problems_.push_back(
          fmt::format("{}: src/{} has no row in the table of src/README.md", name, parent));
    }
  } else if (is_cmake_list) {
    cmake_lists_.push_back({name, folder});
  } else if (is_cpp(name)) {
    sources_.push_back({name, folder});
    if (name.ends_with(".h.in")) {
      const std::string header = fs::path(name).stem().string();
      own(header, sources_.back(), 1);  // CMake generates trireme/version.h from version.h.in
    }
  }
}

void Checker::read_cmake_list(const File& file) {
  const std::vector<Word> words = cmake_words(read_file(root_ / file.name));
  for (const Word& header : arguments_of("PUBLIC_HEADERS", words)) {
    own(header.text, file, header.line);
    if (!fs::exists(root_ / "include/trireme" / header.text)) {
      problems_.push_back(fmt::format("{}:{}: there is no include/trireme/{}", file.name,
                                      header.line, header.text));
    }
  }
  for (const Word& library : libraries_in(words)) {
    for (const auto& row : table_.may_use) {
      if (library_name(row.first) == library.text) {
        check_use(file, library.line, row.first, "links " + row.first);
      }
    }
  }
}

void Checker::own(const std::string& header, const File& file, int line) {
  const auto [owner, is_new] = owners_.emplace(header, file.folder);
  if (!is_new) {
    problems_.push_back(fmt::format("{}:{}: {} lists {}, which {} lists already", file.name, line,
                                    file.folder, header, owner->second));
  }
}

void Checker::check_public_headers() {
  for (const std::string& name : files_below(root_, "include/trireme")) {
    const std::string header = name.substr(std::string_view("include/trireme/").size());
    const auto owner = owners_.find(header);
    if (owner == owners_.end()) {
      problems_.push_back(
          fmt::format("{}: no folder of src/ lists {} under PUBLIC_HEADERS", name, header));
    } else {
      sources_.push_back({name, owner->second});
    }
  }
}

void Checker::check_includes(const File& file) {
  for (const Word& include : includes_of(read_file(root_ / file.name))) {
    const std::string used = folder_of_include(file, include.text);
    if (used.empty()) {
      continue;
    }
    if (file.name.starts_with("include/") && !include.text.starts_with("trireme/")) {
      problems_.push_back(fmt::format("{}:{}: a public header includes {}, which is not installed",
                                      file.name, include.line, include.text));
    }
    check_use(file, include.line, used, fmt::format("includes {} of {}", include.text, used));
    if (!include.text.starts_with("trireme/") && table_.hides(used, file.folder)) {
      problems_.push_back(
          fmt::format("{}:{}: {} includes {} of {}, but {} may include only its public headers",
                      file.name, include.line, file.folder, include.text, used, file.folder));
    }
  }
}

/// The folder whose header is included, or "" for an external one.
std::string Checker::folder_of_include(const File& file, const std::string& include) const {
  if (include.starts_with("trireme/")) {
    const auto owner = owners_.find(include.substr(std::string_view("trireme/").size()));
    return owner == owners_.end() ? "" : owner->second;
  }
  const std::string sibling =
      (fs::path(file.name).parent_path() / include).lexically_normal().generic_string();
  if (sibling.starts_with("src/") && fs::exists(root_ / sibling)) {
    return table_.folder_of(sibling.substr(std::string_view("src/").size()));
  }
  return table_.folder_of(include);
}

/// Reports an error if the folder of `file` may not use the folder `used`; `what` says how it does.
void Checker::check_use(const File& file, int line, const std::string& used,
                        const std::string& what) {
  const std::set<std::string>& may_use = table_.may_use.at(file.folder);
  if (used == file.folder || may_use.contains(used)) {
    return;
  }
  const std::string rule =
      may_use.empty() ? "nothing" : fmt::format("only {}", fmt::join(may_use, ", "));
  problems_.push_back(fmt::format("{}:{}: {} {}, but {} may include {}", file.name, line,
                                  file.folder, what, file.folder, rule));
}

}  // namespace

Problems check_tree(const fs::path& root) {
  return Checker(root).run();
}

}  // namespace trireme::layering
