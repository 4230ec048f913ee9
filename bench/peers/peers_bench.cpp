// The same collectives through several libraries, in interleaved runs. bench/peers/run builds everything and starts
// this; README.md explains the figures.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "grid.h"
#include "page.h"
#include "plot.h"
#include "report.h"

namespace peers {
namespace {

/// The user's options.
struct Options {
  std::vector<std::string> operations;
  std::vector<std::string> sizes{"8", "1K", "64K", "1M", "16M", "64M"};
  std::vector<std::string> libraries;
  GridOptions grid{.ranks = {2, 4, 8}};
  bool quick = false;
  bool json = false;
  std::string svg;
  std::string output;
};

/// "64K", "64KiB", "1M", "8".
std::int64_t parse_size(const std::string& text) {
  std::size_t used = 0;
  const auto number = std::stoll(text, &used);
  const std::string unit = text.substr(used);
  const bool kilo = unit == "K" || unit == "KiB";
  const bool mega = unit == "M" || unit == "MiB";
  if (number < 1 || !(unit.empty() || unit == "B" || kilo || mega)) {
    throw CLI::ValidationError("--sizes", text + " is not a size");
  }
  return number << (mega ? 20 : kilo ? 10 : 0);
}

Operation parse_known_operation(const std::string& text) {
  const auto operation = parse_operation(text);
  if (!operation) {
    throw CLI::ValidationError("--ops", text + " is not one of the operations");
  }
  return *operation;
}

Library parse_library(const std::string& text) {
  const auto& all = all_libraries();
  const auto found = std::ranges::find(all, text, &Library::name);
  if (found == all.end()) {
    throw CLI::ValidationError("--libraries", text + " is not one of the libraries");
  }
  return *found;
}

/// Without those that were not available at build time.
std::vector<Library> available(const std::vector<Library>& libraries) {
  std::vector<Library> result;
  for (const Library& library : libraries) {
    if (std::filesystem::exists(program_of(library))) {
      result.push_back(library);
    } else if (!library.program.ends_with("_before")) {
      fmt::print(stderr, "peers_bench: without {}: it was not built\n", library.name);
    }
  }
  return result;
}

GridOptions interpret(const Options& given) {
  GridOptions grid = given.grid;
  grid.operations.assign(kOperations.begin(), kOperations.end());
  if (!given.operations.empty()) {
    grid.operations.clear();
    std::ranges::transform(given.operations, std::back_inserter(grid.operations),
                           parse_known_operation);
  }
  std::vector<Library> libraries = all_libraries();
  if (!given.libraries.empty()) {
    libraries.clear();
    std::ranges::transform(given.libraries, std::back_inserter(libraries), parse_library);
  }
  grid.libraries = available(libraries);
  std::ranges::transform(given.sizes, std::back_inserter(grid.sizes), parse_size);
  if (given.quick) {
    grid.rounds = 1;
    grid.milliseconds = 10;
  }
  return grid;
}

void add_options(CLI::App& app, Options& options) {
  app.add_option("--ops", options.operations, "operations, with commas between")->delimiter(',');
  app.add_option("--ranks", options.grid.ranks, "numbers of ranks")
      ->delimiter(',')
      ->check(CLI::Range(2, kMaxRanks))
      ->capture_default_str();
  app.add_option("--sizes", options.sizes, "sizes of the whole vector")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--libraries", options.libraries,
                 "libraries: openmpi, mpich, gloo, openmpi-tcp, trireme, trireme-shared, "
                 "trireme-tcp; before, "
                 "before-shared, before-tcp: an earlier peer_trireme, put next to this program as "
                 "peer_trireme_before")
      ->delimiter(',');
  app.add_option("--rounds", options.grid.rounds, "how often each cell goes round the libraries")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--repeats", options.grid.repeats, "calls in a round, at most")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_flag("--quick", options.quick, "one short round");
  app.add_flag("--json", options.json, "a JSON object a line instead of the table");
  app.add_option("--svg", options.svg, "draw the isolated times into this file");
  app.add_option("--output", options.output, "write to this file, not to standard output");
}

void write(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  if (!file.flush()) {
    throw std::runtime_error("cannot write " + path);
  }
}

/// Lines on standard error as the grid fills.
GridEvents progress(const GridOptions& grid) {
  const std::size_t all = grid.operations.size() * grid.ranks.size() * grid.sizes.size();
  return {.measured =
              [all, done = std::size_t{0}](const Cell& cell) mutable {
                std::string line =
                    fmt::format("[{}/{}] {}, {} ranks, {}:", ++done, all, to_text(cell.operation),
                                cell.ranks, size_text(cell.bytes));
                for (const auto& [library, timing] : cell.timings) {
                  line += fmt::format(" {} {}", library, time_text(timing.isolated));
                }
                fmt::print(stderr, "{}\n", line);
              },
          .failed = [](const std::string& why) { fmt::print(stderr, "peers_bench: {}\n", why); }};
}

void run(const Options& options) {
  const GridOptions grid = interpret(options);
  const std::vector<Cell> cells = fill_grid(grid, progress(grid));
  const std::string text = options.json ? json_lines(cells, grid) : table(cells, grid);
  if (options.output.empty()) {
    fmt::print("{}", text);
  } else {
    write(options.output, text);
  }
  if (!options.svg.empty()) {
    write(options.svg, plot(cells, grid));
  }
}

}  // namespace
}  // namespace peers

int main(int argc, char** argv) {
  CLI::App app("Collectives of Trireme and of other libraries, measured in turn");
  peers::Options options;
  peers::add_options(app, options);
  peers::adopt_orphans();
  int status = 0;
  try {
    app.parse(argc, argv);
    peers::catch_signals();
    peers::run(options);
  } catch (const CLI::ParseError& error) {
    status = app.exit(error) == 0 ? 0 : 2;
  } catch (const peers::Interrupted&) {
    status = 130;
  } catch (const std::exception& error) {
    fmt::print(stderr, "peers_bench: {}\n", error.what());
    status = 1;
  }
  peers::bury_orphans();
  return status;
}
