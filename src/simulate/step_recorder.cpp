#include "simulate/step_recorder.h"

#include <cstdint>
#include <utility>
#include <variant>

#include <fmt/format.h>

namespace trireme::simulate {
namespace {

void add_attribute(const Instruction& what, const char* name, std::vector<TraceArg>& args) {
  const auto found = what.attributes.find(name);
  if (found == what.attributes.end()) {
    return;
  }
  if (const auto* number = std::get_if<std::int64_t>(&found->second)) {
    args.push_back({name, *number});
  } else if (const auto* word = std::get_if<std::string>(&found->second)) {
    args.push_back({name, *word});
  }
}

}  // namespace

StepRecorder::StepRecorder(Trace& trace, std::size_t ranks) : trace_(trace) {
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const std::string process = fmt::format("rank {}", rank);
    tracks_.push_back(
        {process, trace.add_track(process, "compute"), trace.add_track(process, "waiting"), {}});
  }
}

void StepRecorder::compute(int rank, const Instruction& what, const Work& work, double start,
                           double end) {
  add(tracks_[rank].compute, what, start, end,
      {{"block", std::int64_t{what.block}},
       {"flops", work.products + work.others},
       {"bytes", work.bytes}});
}

void StepRecorder::wait(int rank, const Instruction& what, double start, double end) {
  add(tracks_[rank].waiting, what, start, end, {{"block", std::int64_t{what.block}}});
}

void StepRecorder::exchange(int rank, const Instruction& what, const Exchange& times,
                            double bytes) {
  std::vector<TraceArg> args{{"bytes", bytes}};
  for (const char* name : {"group", "to", "from", "tag"}) {
    add_attribute(what, name, args);
  }
  add(free_track(rank, times), what, times.start, times.end, std::move(args));
}

void StepRecorder::add(TrackId track, const Instruction& what, double start, double end,
                       std::vector<TraceArg> args) {
  trace_.add_span({.track = track,
                   .name = std::string(what.op->name),
                   .category = std::string(to_text(what.phase)),
                   .start = {start},
                   .duration = {end - start},
                   .args = std::move(args)});
}

TrackId StepRecorder::free_track(int rank, const Exchange& times) {
  Tracks& own = tracks_[rank];
  for (Lane& lane : own.lanes) {
    if (lane.free <= times.start) {
      lane.free = times.end;
      return lane.track;
    }
  }
  own.lanes.push_back(
      {trace_.add_track(own.process, fmt::format("exchanges {}", own.lanes.size())), times.end});
  return own.lanes.back().track;
}

}  // namespace trireme::simulate
