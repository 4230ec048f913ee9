#include "simulate/step_recorder.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <variant>

#include <fmt/format.h>

namespace trireme::simulate {
namespace {

void add_attribute(const Instruction& what, const char* name, int shift,
                   std::vector<TraceArg>& args) {
  const auto found = what.attributes.find(name);
  if (found == what.attributes.end()) {
    return;
  }
  if (const auto* number = std::get_if<std::int64_t>(&found->second)) {
    args.push_back({name, *number + shift});
  } else if (const auto* word = std::get_if<std::string>(&found->second)) {
    args.push_back({name, *word});
  }
}

}  // namespace

StepRecorder::StepRecorder(Trace& trace, int ranks, std::span<const int> shown)
    : trace_(trace), tracks_(ranks) {
  for (int rank = 0; rank < ranks; ++rank) {
    if (shown.empty() || std::ranges::find(shown, rank) != shown.end()) {
      const std::string process = fmt::format("rank {}", rank);
      tracks_[rank] = {true,
                       process,
                       trace.add_track(process, "compute"),
                       trace.add_track(process, "waiting"),
                       {}};
    }
  }
}

void StepRecorder::compute(int rank, const Instruction& what, const Work& work, Period when) {
  if (tracks_[rank].shown) {
    add(tracks_[rank].compute, what, when,
        {{"block", std::int64_t{what.block}},
         {"flops", work.products + work.others},
         {"bytes", work.bytes}});
  }
}

void StepRecorder::wait(int rank, const Instruction& what, Period when) {
  if (tracks_[rank].shown) {
    add(tracks_[rank].waiting, what, when, {{"block", std::int64_t{what.block}}});
  }
}

void StepRecorder::exchange(int rank, const Instruction& what, Period when, double bytes,
                            int shift) {
  if (!tracks_[rank].shown) {
    return;
  }
  std::vector<TraceArg> args{{"bytes", bytes}};
  const bool is_message = !what.attributes.contains("group");  // else these are dimensions
  add_attribute(what, "group", 0, args);
  add_attribute(what, "to", is_message ? shift : 0, args);
  add_attribute(what, "from", is_message ? shift : 0, args);
  add_attribute(what, "tag", 0, args);
  add(free_track(rank, when), what, when, std::move(args));
}

void StepRecorder::add(TrackId track, const Instruction& what, Period when,
                       std::vector<TraceArg> args) {
  trace_.add_span({.track = track,
                   .name = std::string(what.op->name),
                   .category = std::string(to_text(what.phase)),
                   .start = {when.start},
                   .duration = {when.end - when.start},
                   .args = std::move(args)});
}

TrackId StepRecorder::free_track(int rank, Period when) {
  Tracks& own = tracks_[rank];
  for (Lane& lane : own.lanes) {
    if (lane.free <= when.start) {
      lane.free = when.end;
      return lane.track;
    }
  }
  own.lanes.push_back(
      {trace_.add_track(own.process, fmt::format("exchanges {}", own.lanes.size())), when.end});
  return own.lanes.back().track;
}

}  // namespace trireme::simulate
