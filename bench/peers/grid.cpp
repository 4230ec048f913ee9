#include "grid.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <tuple>

#include "base/median.h"

namespace peers {
namespace {

Timing median(const std::vector<Timing>& timings) {
  std::vector<double> isolated;
  std::vector<double> back_to_back;
  for (const Timing& timing : timings) {
    isolated.push_back(timing.isolated);
    back_to_back.push_back(timing.back_to_back);
  }
  return {trireme::median(std::move(isolated)), trireme::median(std::move(back_to_back))};
}

/// A library's team, started on demand; restarted for the next cell if it failed.
class Seat {
 public:
  Seat(const Library& library, int ranks, const Scratch& scratch)
      : library_(library), ranks_(ranks), scratch_(scratch) {}

  [[nodiscard]] std::string_view name() const { return library_.name; }

  [[nodiscard]] Timing ask(const Request& request) {
    if (!team_) {
      team_ = std::make_unique<Team>(library_, ranks_, scratch_);
    }
    return team_->ask(request);
  }
  void dismiss() { team_.reset(); }

 private:
  Library library_;
  int ranks_;
  const Scratch& scratch_;  // of fill_grid, which outlives all seats
  std::unique_ptr<Team> team_;
};

/// All rounds of one cell. A library that fails once is excluded from it.
Cell measure(std::vector<Seat>& seats, Cell cell, const GridOptions& options,
             const GridEvents& events) {
  const Request request{cell.operation, cell.bytes, options.repeats, options.milliseconds};
  std::map<std::string_view, std::vector<Timing>> rounds;
  std::vector<bool> failed(seats.size());
  for (std::size_t turn = 0; turn < seats.size() * static_cast<std::size_t>(options.rounds);
       ++turn) {
    const std::size_t which = (turn + turn / seats.size()) % seats.size();
    if (failed[which]) {
      continue;
    }
    try {
      rounds[seats[which].name()].push_back(seats[which].ask(request));
    } catch (const Interrupted&) {
      throw;
    } catch (const std::exception& error) {
      events.failed(error.what());
      failed[which] = true;
      rounds.erase(seats[which].name());
      seats[which].dismiss();
    }
  }
  for (const auto& [name, timings] : rounds) {
    cell.timings[name] = median(timings);
  }
  return cell;
}

}  // namespace

std::vector<Cell> fill_grid(const GridOptions& options, const GridEvents& events) {
  const Scratch scratch;
  std::vector<Cell> cells;
  for (const int ranks : options.ranks) {
    std::vector<Seat> seats;
    for (const Library& library : options.libraries) {
      seats.emplace_back(library, ranks, scratch);
    }
    for (const Operation operation : options.operations) {
      for (const std::int64_t bytes : options.sizes) {
        cells.push_back(measure(seats, {operation, ranks, bytes, {}}, options, events));
        events.measured(cells.back());
      }
    }
  }
  std::ranges::stable_sort(cells, {}, [](const Cell& cell) { return cell.operation; });
  return cells;
}

}  // namespace peers
