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

#include "layering/source_files.h"

namespace trireme::layering {
namespace {

namespace fs = std::filesystem;

/// One include line, between two files of src/. Paths are relative to src/.
struct Include {
  std::string from;
  std::string to;
  std::string text;
  int line = 0;
};

/// For each component the components that it includes, each with the first such include line.
using Graph = std::map<std::string, std::map<std::string, const Include*>>;

std::string without_src(std::string_view name) {
  return std::string(name.substr(std::string_view("src/").size()));
}

std::set<std::string> sources_in(const fs::path& root) {
  std::set<std::string> sources;
  for (const std::string& name : files_below(root, "src")) {
    if (is_cpp(name)) {
      sources.insert(without_src(name));
    }
  }
  return sources;
}

/// The included file, looked up as the compiler does: next to the including file, then in src/.
std::optional<std::string> resolve(const std::string& from, const std::string& include,
                                   const std::set<std::string>& sources) {
  const std::string beside =
      (fs::path(from).parent_path() / include).lexically_normal().generic_string();
  for (const std::string& candidate : {beside, include}) {
    if (sources.contains(candidate)) {
      return candidate;
    }
  }
  return std::nullopt;
}

std::vector<Include> includes_in(const fs::path& root, const std::set<std::string>& sources) {
  std::vector<Include> includes;
  for (const std::string& from : sources) {
    for (const Word& word : includes_of(read_file(root / "src" / from))) {
      if (std::optional<std::string> to = resolve(from, word.text, sources)) {
        includes.push_back({from, *std::move(to), word.text, word.line});
      }
    }
  }
  return includes;
}

/// Every folder that contains a source, at any depth: "comm/tcp/x.h" is in "comm" and in
/// "comm/tcp".
std::set<std::string> folders_of(const std::set<std::string>& sources) {
  std::set<std::string> folders;
  for (const std::string& name : sources) {
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

Graph graph_of(const std::string& folder, const std::vector<Include>& includes) {
  Graph graph;
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
std::vector<const Include*> shortest_cycle(const Graph& graph, const std::string& start) {
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

std::set<std::string> reachable_from(const Graph& graph, const std::string& start) {
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
    lines += fmt::format("\n  src/{}:{} includes {}", include->from, include->line, include->text);
  }
  return fmt::format("src/{}: include cycle {}{}", folder, fmt::join(path, " -> "), lines);
}

void check_folder(const std::string& folder, const Graph& graph, Problems& problems) {
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
  const std::set<std::string> sources = sources_in(root);
  const std::vector<Include> includes = includes_in(root, sources);
  Problems problems;
  for (const std::string& folder : folders_of(sources)) {
    check_folder(folder, graph_of(folder, includes), problems);
  }
  return problems;
}

}  // namespace trireme::layering
