#include "report.h"

#include <cmath>
#include <fstream>
#include <iterator>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/sysinfo.h>
#include <sys/utsname.h>

namespace peers {
namespace {

using Json = nlohmann::ordered_json;

std::vector<Library> of_side(const std::vector<Library>& libraries, Library::Side side) {
  std::vector<Library> result;
  std::ranges::copy_if(libraries, std::back_inserter(result),
                       [&](const Library& library) { return library.side == side; });
  return result;
}

/// "ratio", "ratio_shared", "ratio_tcp"
std::string ratio_name(const Library& ours) {
  const std::string_view variant = ours.name.substr(std::string_view("trireme").size());
  return variant.empty() ? "ratio" : fmt::format("ratio_{}", variant.substr(1));
}

/// Geometric mean of our library's ratios, over an operation or over all.
struct Mean {
  double ratio = 0;
  int cells = 0;
  int slower = 0;
};

std::optional<Mean> mean(const std::vector<Cell>& cells, const Library& ours, Figure figure,
                         std::optional<Operation> operation) {
  Mean result;
  double logarithms = 0;
  for (const Cell& cell : cells) {
    const auto compared = compare(cell, ours, figure);
    if (compared && (!operation || cell.operation == *operation)) {
      ++result.cells;
      result.slower += compared->ratio < 1 ? 1 : 0;
      logarithms += std::log(compared->ratio);
    }
  }
  if (result.cells == 0) {
    return std::nullopt;
  }
  result.ratio = std::exp(logarithms / result.cells);
  return result;
}

/// Ratios are marked if we are slower.
std::string ratio_text(const std::optional<Comparison>& compared) {
  return compared ? fmt::format("{:.2f}{}", compared->ratio, compared->ratio < 1 ? " <" : "  ")
                  : "-  ";
}

std::string_view best_peer(const Cell& cell, const GridOptions& options) {
  std::string_view best = "-";
  double time = INFINITY;
  for (const Library& peer : of_side(options.libraries, Library::Side::Peer)) {
    const auto found = cell.timings.find(peer.name);
    if (found != cell.timings.end() && found->second.isolated < time) {
      best = peer.name;
      time = found->second.isolated;
    }
  }
  return best;
}

std::string header(const Cell& cell, const GridOptions& options) {
  std::string text =
      fmt::format("\n{}, {} ranks\n{:>8}", to_text(cell.operation), cell.ranks, "size");
  for (const Library& library : options.libraries) {
    text += fmt::format(" {:>15}", library.name);
  }
  text += fmt::format("   {:<12}", "best peer");
  for (const Library& ours : of_side(options.libraries, Library::Side::Ours)) {
    text += fmt::format(" {:>13}", ratio_name(ours));
  }
  return text + "\n";
}

std::string row(const Cell& cell, const GridOptions& options) {
  std::string text = fmt::format("{:>8}", size_text(cell.bytes));
  for (const Library& library : options.libraries) {
    const auto found = cell.timings.find(library.name);
    text += fmt::format(" {:>15}", found == cell.timings.end()
                                       ? "failed"
                                       : time_text(found->second.isolated) + " / " +
                                             time_text(found->second.back_to_back));
  }
  text += fmt::format("   {:<12}", best_peer(cell, options));
  for (const Library& ours : of_side(options.libraries, Library::Side::Ours)) {
    text += fmt::format(" {:>13}", ratio_text(compare(cell, ours, &Timing::isolated)));
  }
  return text + "\n";
}

std::string means_row(const std::vector<Cell>& cells, const std::vector<Library>& ours,
                      std::optional<Operation> operation) {
  std::string text = fmt::format("{:<16}", operation ? to_text(*operation) : "all");
  for (const Library& library : ours) {
    const auto isolated = mean(cells, library, &Timing::isolated, operation);
    const auto in_a_row = mean(cells, library, &Timing::back_to_back, operation);
    text += isolated && in_a_row
                ? fmt::format(" {:>8.2f} / {:<6.2f} {:>9}", isolated->ratio, in_a_row->ratio,
                              fmt::format("{} of {}", isolated->slower, isolated->cells))
                : fmt::format(" {:>27}", "-");
  }
  return text + "\n";
}

std::string means(const std::vector<Cell>& cells, const GridOptions& options) {
  const auto ours = of_side(options.libraries, Library::Side::Ours);
  if (ours.empty()) {
    return "";
  }
  std::string text = fmt::format("\n{:<16}", "geometric means");
  for (const Library& library : ours) {
    text += fmt::format(" {:>17} {:>9}", ratio_name(library), "slower");
  }
  text += "\n";
  for (const Operation operation : options.operations) {
    text += means_row(cells, ours, operation);
  }
  return text + means_row(cells, ours, std::nullopt);
}

Json cell_json(const Cell& cell, const GridOptions& options) {
  Json object{{"operation", to_text(cell.operation)}, {"ranks", cell.ranks}, {"bytes", cell.bytes}};
  for (const auto& [library, timing] : cell.timings) {
    object["microseconds"][std::string(library)] = {{"isolated", timing.isolated},
                                                    {"back_to_back", timing.back_to_back}};
  }
  object["best_peer"] = best_peer(cell, options);
  for (const Library& ours : of_side(options.libraries, Library::Side::Ours)) {
    if (const auto compared = compare(cell, ours, &Timing::isolated)) {
      object[ratio_name(ours)] = compared->ratio;
    }
    if (const auto compared = compare(cell, ours, &Timing::back_to_back)) {
      object["back_to_back"][ratio_name(ours)] = compared->ratio;
    }
  }
  return object;
}

Json means_json(const std::vector<Cell>& cells, const GridOptions& options) {
  Json object = Json::object();
  for (const Library& ours : of_side(options.libraries, Library::Side::Ours)) {
    if (const auto found = mean(cells, ours, &Timing::isolated, std::nullopt)) {
      object[ratio_name(ours)] = {
          {"mean", found->ratio}, {"cells", found->cells}, {"slower", found->slower}};
    }
  }
  return object;
}

std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) {
      return line.substr(line.find(':') + 2);
    }
  }
  return "unknown processor";
}

}  // namespace

std::optional<Comparison> compare(const Cell& cell, const Library& ours, Figure figure) {
  const auto mine = cell.timings.find(ours.name);
  if (mine == cell.timings.end()) {
    return std::nullopt;
  }
  std::optional<Comparison> best;
  for (const Library& peer : of_side(all_libraries(), Library::Side::Peer)) {
    const auto found = cell.timings.find(peer.name);
    if (found == cell.timings.end() ||
        (ours.wire == Library::Wire::Tcp && peer.wire != Library::Wire::Tcp)) {
      continue;
    }
    const double ratio = found->second.*figure / mine->second.*figure;
    if (!best || ratio < best->ratio) {
      best = Comparison{peer.name, ratio};
    }
  }
  return best;
}

std::string size_text(std::int64_t bytes) {
  if (bytes >= 1 << 20 && bytes % (1 << 20) == 0) {
    return fmt::format("{} MiB", bytes >> 20);
  }
  if (bytes >= 1 << 10 && bytes % (1 << 10) == 0) {
    return fmt::format("{} KiB", bytes >> 10);
  }
  return fmt::format("{} B", bytes);
}

std::string time_text(double microseconds) {
  return microseconds < 10    ? fmt::format("{:.2f}", microseconds)
         : microseconds < 100 ? fmt::format("{:.1f}", microseconds)
                              : fmt::format("{:.0f}", microseconds);
}

std::string machine() {
  struct sysinfo memory {};
  sysinfo(&memory);
  utsname system{};
  uname(&system);
  return fmt::format("{}, {} cores, {:.0f} GiB, Linux {}", processor(), cores(),
                     static_cast<double>(memory.totalram) * memory.mem_unit / (1 << 30),
                     system.release);
}

std::string table(const std::vector<Cell>& cells, const GridOptions& options) {
  std::string text = fmt::format(
      "Machine: {}.\n"
      "Microseconds: isolated calls / calls back to back. ratio: the best peer's isolated time by "
      "ours; < where we are\n"
      "slower; ratio_tcp: against the peers that use TCP.\n",
      machine());
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (i == 0 || cells[i - 1].operation != cells[i].operation ||
        cells[i - 1].ranks != cells[i].ranks) {
      text += header(cells[i], options);
    }
    text += row(cells[i], options);
  }
  return text + means(cells, options);
}

std::string json_lines(const std::vector<Cell>& cells, const GridOptions& options) {
  std::string text = Json{{"machine", machine()}}.dump() + "\n";
  for (const Cell& cell : cells) {
    text += cell_json(cell, options).dump() + "\n";
  }
  return text + Json{{"geometric_means", means_json(cells, options)}}.dump() + "\n";
}

}  // namespace peers
