#include "simulate/shared_cores.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "base/enum_names.h"

namespace trireme::simulate {
namespace {

constexpr auto kPlacements = enum_names<CorePlacement>("alternating", "neighbors");
constexpr double kNever = std::numeric_limits<double>::infinity();
/// Less work than this, relative to the time, is left over by rounding.
constexpr double kRounding = 1e-15;

}  // namespace

std::string_view to_text(CorePlacement placement) {
  return kPlacements[placement];
}

CoreSchedule::CoreSchedule(const SharedCores& cores, int ranks) : cores_(cores), ranks_(ranks) {
  cores_.threads = std::clamp(cores.threads, 1, cores.cores);
  places_.resize(static_cast<std::size_t>(cores_.cores / cores_.threads));
}

double CoreSchedule::used() const {
  const auto computing = std::ranges::count_if(places_, is_computing);
  return static_cast<double>(computing) * cores_.threads + transfers_;
}

/// 1 if exactly all cores are in use; more if more are wanted, less if some are idle.
double CoreSchedule::slowness() const {
  const double all = cores_.cores;
  const double one = cores_.threads;
  if (used() >= all) {
    return used() / all;
  }
  const double alone = 1 / cores_.speedup_alone;
  return used() <= one ? alone : alone + (1 - alone) * (used() - one) / (all - one);
}

double CoreSchedule::crowding(double cores) const {
  return std::max(1.0, (used() + cores) / cores_.cores);
}

bool CoreSchedule::is_computing(const Place& place) {
  return place.runner && !place.runner->done;
}

std::size_t CoreSchedule::waiting(const Place& place) {
  return place.queue.size();
}

CoreSchedule::Place* CoreSchedule::place_of(int rank) {
  const auto found = std::ranges::find_if(
      places_, [&](const Place& place) { return place.runner && place.runner->rank == rank; });
  return found == places_.end() ? nullptr : &*found;
}

bool CoreSchedule::holds_core(int rank) {
  return place_of(rank) != nullptr;
}

CoreSchedule::Place* CoreSchedule::idle_place() {
  const auto found =
      std::ranges::find_if(places_, [](const Place& place) { return !place.runner; });
  return found == places_.end() ? nullptr : &*found;
}

void CoreSchedule::start(Place& place, const Runner& runner) {
  place.runner = runner;
  place.turn_ends = now_ + cores_.turn;
  last_place_[runner.rank] = static_cast<std::size_t>(&place - places_.data());
}

void CoreSchedule::run(int rank, double seconds) {
  const Runner runner{.rank = rank, .left = seconds};
  if (Place* own = place_of(rank)) {
    own->runner = runner;
    return;
  }
  Place& place = place_for(rank);
  last_place_[rank] = static_cast<std::size_t>(&place - places_.data());
  if (place.runner) {
    place.queue.push_back(runner);
  } else {
    start(place, runner);
  }
}

/// The rank's last core, if that is idle, or else an idle one, or else the one with the shortest queue, preferably the
/// last.
CoreSchedule::Place& CoreSchedule::place_for(int rank) {
  const auto known = last_place_.find(rank);
  if (known == last_place_.end()) {
    return places_[first_place(rank)];
  }
  Place& last = places_[known->second];
  Place* idle = idle_place();
  if (!last.runner || idle != nullptr) {
    return last.runner ? *idle : last;
  }
  Place& shortest = *std::ranges::min_element(places_, {}, waiting);
  return waiting(shortest) < waiting(last) ? shortest : last;
}

/// Where the rank was before the simulation.
std::size_t CoreSchedule::first_place(int rank) const {
  const std::size_t places = places_.size();
  const auto at = static_cast<std::size_t>(rank);
  const auto ranks = static_cast<std::size_t>(std::max(ranks_, rank + 1));
  return cores_.placement == CorePlacement::Alternating ? at % places : at * places / ranks;
}

void CoreSchedule::release(int rank) {
  Place* place = place_of(rank);
  if (place == nullptr) {
    return;
  }
  place->runner.reset();
  if (!place->queue.empty()) {
    start(*place, taken_first(*place));
  }
}

CoreSchedule::Runner CoreSchedule::taken_first(Place& place) {
  const Runner first = place.queue.front();
  place.queue.pop_front();
  return first;
}

/// The next one's turn; on an idle core, if there is one.
void CoreSchedule::end_turn(Place& place) {
  const Runner next = taken_first(place);
  if (Place* idle = idle_place()) {
    start(*idle, next);
    place.turn_ends = now_ + cores_.turn;
    return;
  }
  place.queue.push_back(*place.runner);
  start(place, next);
}

void CoreSchedule::use(double start, double end, double cores) {
  if (end > start) {
    changes_[start] += cores;
    changes_[end] -= cores;
  }
}

double CoreSchedule::next() const {
  double time = kNever;
  if (!changes_.empty()) {
    time = std::max(now_, changes_.begin()->first);
  }
  for (const Place& place : places_) {
    if (is_computing(place)) {
      time = std::min(time, now_ + place.runner->left * slowness());
      time = place.queue.empty() ? time : std::min(time, std::max(now_, place.turn_ends));
    }
  }
  return time;
}

void CoreSchedule::advance_to(double time) {
  const double passed = (time - now_) / slowness();
  for (Place& place : places_) {
    if (is_computing(place)) {
      place.runner->left = std::max(0.0, place.runner->left - passed);
    }
  }
  now_ = std::max(now_, time);
}

std::optional<int> CoreSchedule::step() {
  const double time = next();
  TRIREME_CHECK(time < kNever, "a core schedule without work");
  advance_to(time);
  if (!changes_.empty() && changes_.begin()->first <= now_) {
    transfers_ = std::max(0.0, transfers_ + changes_.begin()->second);
    changes_.erase(changes_.begin());
    return std::nullopt;
  }
  const auto done = std::ranges::find_if(places_, [&](const Place& place) {
    return is_computing(place) && place.runner->left <= kRounding * (1 + now_);
  });
  if (done != places_.end()) {
    done->runner->done = true;
    return done->runner->rank;
  }
  const auto ended = std::ranges::find_if(places_, [&](const Place& place) {
    return is_computing(place) && !place.queue.empty() && place.turn_ends <= now_;
  });
  if (ended != places_.end()) {
    end_turn(*ended);
  }
  return std::nullopt;
}

}  // namespace trireme::simulate
