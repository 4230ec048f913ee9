#include "layering/cycles.h"

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "layering/cmake_lists.h"
#include "layering/source_files.h"

namespace trireme::layering {
namespace {

namespace fs = std::filesystem;

/// By file, "src/comm/tcp/a.h" or "include/trireme/comm.h": its path as if it were in src/, "comm/tcp/a.h", "comm/comm.h".
using Places = std::map<std::string, std::string>;

/// One include line. `from` and `to` are places.
struct Include {
  std::string file;
  std::string from;
  std::string to;
  std::string text;
  int line = 0;
};

/// For each component the components that it includes, each with the first such include line.
using IncludeGraph = std::map<std::string, std::map<std::string, const Include*>>;

/// Adds the public headers that a CMakeLists.txt lists.
void place_public_headers(const fs::path& root, const std::string& cmake_list, Places& places) {
  const std::string folder =
      fs::path(cmake_list).parent_path().lexically_relative("src").generic_string();
  for (const Word& header :
       arguments_of("PUBLIC_HEADERS", cmake_words(read_file(root / cmake_list)))) {
    places.emplace("include/trireme/" + header.text, folder + "/" + header.text);
  }
}

Places places_in(const fs::path& root) {
  Places places;
  for (const std::string& name : files_below(root, "src")) {
    if (is_cpp(name)) {
      places.emplace(name, name.substr(std::string_view("src/").size()));
    } else if (name.ends_with("/CMakeLists.txt")) {
      place_public_headers(root, name, places);
    }
  }
  return places;
}

/// The place of the included file, looked up as the compiler does: next to the including file, then in src/ and
/// include/.
std::optional<std::string> resolve(const std::string& file, const std::string& include,
                                   const Places& places) {
  const std::string sibling =
      (fs::path(file).parent_path() / include).lexically_normal().generic_string();
  for (const std::string& candidate : {sibling, "src/" + include, "include/" + include}) {
    if (const auto found = places.find(candidate); found != places.end()) {
      return found->second;
    }
  }
  return std::nullopt;
}

std::vector<Include> includes_in(const fs::path& root, const Places& places) {
  std::vector<Include> includes;
  for (const auto& [file, place] : places) {
    for (const Word& word : includes_of(read_file(root / file))) {
      if (std::optional<std::string> to = resolve(file, word.text, places)) {
        includes.push_back({file, place, *std::move(to), word.text, word.line});
      }
    }
  }
  return includes;
}

/// Every folder that contains a source, at any depth: "comm/tcp/x.h" is in "comm" and in
/// "comm/tcp".
std::set<std::string> folders_of(const Places& places) {
  std::set<std::string> folders;
  for (const auto& [file, name] : places) {
    for (std::size_t slash = name.find('/'); slash != std::string::npos;
         slash = name.find('/', slash + 1)) {
      folders.insert(name.substr(0, slash));
    }
  }
  return folders;
}

/// The component of a file within `folder`: "tcp/" for "comm/tcp/x.h" in comm, "ring" for
/// "comm/ring.cpp". Nothing if the file is not in the folder.
std::optional<std::string> component_of(std::string_view name, std::string_view folder) {
  if (!name.starts_with(folder) || name.substr(folder.size(), 1) != "/") {
    return std::nullopt;
  }
  const std::string_view inside = name.substr(folder.size() + 1);
  const std::size_t slash = inside.find('/');
  return std::string(slash == std::string_view::npos ? inside.substr(0, inside.find('.'))
                                                     : inside.substr(0, slash + 1));
}

IncludeGraph graph_of(const std::string& folder, const std::vector<Include>& includes) {
  IncludeGraph graph;
  for (const Include& include : includes) {
    const std::optional<std::string> from = component_of(include.from, folder);
    const std::optional<std::string> to = component_of(include.to, folder);
    if (from && to && from != to) {
      graph[*from].emplace(*to, &include);
      graph[*to];
    }
  }
  return graph;
}

/// A shortest path from `start` back to itself, as include lines; empty if there is none.
std::vector<const Include*> shortest_cycle(const IncludeGraph& graph, const std::string& start) {
  std::map<std::string, std::pair<std::string, const Include*>> reached_from;
  std::deque<std::string> queue{start};
  while (!queue.empty() && !reached_from.contains(start)) {
    const std::string component = queue.front();
    queue.pop_front();
    for (const auto& [next, include] : graph.at(component)) {
      if (reached_from.try_emplace(next, component, include).second) {
        queue.push_back(next);
      }
    }
  }
  std::deque<const Include*> path;
  if (reached_from.contains(start)) {
    std::string at = start;
    do {
      path.push_front(reached_from.at(at).second);
      at = reached_from.at(at).first;
    } while (at != start);
  }
  return {path.begin(), path.end()};
}

std::set<std::string> reachable_from(const IncludeGraph& graph, const std::string& start) {
  std::set<std::string> reached;
  std::vector<std::string> open{start};
  while (!open.empty()) {
    const std::string component = open.back();
    open.pop_back();
    for (const auto& edge : graph.at(component)) {
      if (reached.insert(edge.first).second) {
        open.push_back(edge.first);
      }
    }
  }
  return reached;
}

std::string describe(const std::string& folder, const std::vector<const Include*>& cycle) {
  std::vector<std::string> path{*component_of(cycle.front()->from, folder)};
  std::string lines;
  for (const Include* include : cycle) {
    path.push_back(*component_of(include->to, folder));
    lines += fmt::format("\n  {}:{} includes {}", include->file, include->line, include->text);
  }
  return fmt::format("src/{}: include cycle {}{}", folder, fmt::join(path, " -> "), lines);
}

void check_folder(const std::string& folder, const IncludeGraph& graph, Problems& problems) {
  std::set<std::string> reported;
  for (const auto& [component, edges] : graph) {
    const std::vector<const Include*> cycle = shortest_cycle(graph, component);
    if (cycle.empty() || reported.contains(component)) {
      continue;
    }
    problems.push_back(describe(folder, cycle));
    // The rest of the strongly connected component: what this one reaches and is reached from.
    for (const std::string& other : reachable_from(graph, component)) {
      if (reachable_from(graph, other).contains(component)) {
        reported.insert(other);
      }
    }
  }
}

}  // namespace

Problems check_cycles(const fs::path& root) {
  const Places places = places_in(root);
  const std::vector<Include> includes = includes_in(root, places);
  Problems problems;
  for (const std::string& folder : folders_of(places)) {
    check_folder(folder, graph_of(folder, includes), problems);
  }
  return problems;
}

}  // namespace trireme::layering
