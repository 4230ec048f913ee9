#include "runtime/step_recorder.h"

#include <algorithm>
#include <type_traits>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "program/memory_use.h"
#include "program/traffic.h"
#include "trireme/op.h"
#include "trireme/program_set.h"

namespace trireme::runtime {

StepRecorder::StepRecorder(const Options& options)
    : options_(options),
      process_(fmt::format("rank {}", options.rank)),
      zero_(mark()),
      compute_(options.trace.add_track(process_, "compute")),
      waiting_(options.trace.add_track(process_, "waiting")),
      begun_(options.program.instructions.size()),
      waited_(begun_.size()),
      track_of_(begun_.size()) {}

Event* StepRecorder::mark() {
  events_.push_back(options_.device.make_event({.timed = true}));
  options_.compute.record(*events_.back());
  return events_.back().get();
}

void StepRecorder::begin_kernel(std::size_t i) {
  begun_[i] = mark();
}

void StepRecorder::end_kernel(std::size_t i) {
  const Work work = instruction(i).op->work(signature_of(options_.program, instruction(i)));
  spans_.push_back({compute_,
                    i,
                    begun_[i],
                    mark(),
                    {{"block", std::int64_t{instruction(i).block}},
                     {"products", work.products},
                     {"flops", work.products + work.others},
                     {"bytes", work.bytes}}});
}

void StepRecorder::begin_exchange(std::size_t i) {
  begun_[i] = mark();
  track_of_[i] = free_track();
}

void StepRecorder::begin_wait(std::size_t i) {
  waited_[i] = mark();
}

void StepRecorder::end_wait(std::size_t i) {
  Event* end = mark();
  spans_.push_back({waiting_, i, waited_[i], end, {{"block", std::int64_t{instruction(i).block}}}});
  spans_.push_back({tracks_[track_of_[i]], i, begun_[i], end, exchange_args(i)});
  busy_[track_of_[i]] = false;
}

/// Its bytes, and its attributes: group, reduction, …
std::vector<TraceArg> StepRecorder::exchange_args(std::size_t i) const {
  std::vector<TraceArg> args{
      {"bytes", trireme::bytes_sent(signature_of(options_.program, instruction(i)))}};
  for (const auto& [key, value] : instruction(i).attributes) {
    std::visit(
        [&, &name = key](const auto& is) {
          if constexpr (std::is_constructible_v<decltype(TraceArg::value), decltype(is)>) {
            args.push_back({name, is});
          }
        },
        value);
  }
  return args;
}

std::size_t StepRecorder::free_track() {
  const std::size_t number = std::ranges::find(busy_, false) - busy_.begin();
  if (number == busy_.size()) {
    tracks_.push_back(options_.trace.add_track(process_, fmt::format("exchanges {}", number)));
    busy_.push_back(true);
  }
  busy_[number] = true;
  return number;
}

void StepRecorder::write_spans() {
  for (Span& span : spans_) {
    const Seconds start = span.begin->since(*zero_);
    options_.trace.add_span({.track = span.track,
                             .name = std::string(instruction(span.instruction).op->name),
                             .category = std::string(to_text(instruction(span.instruction).phase)),
                             .start = start,
                             .duration = {span.end->since(*zero_).count - start.count},
                             .args = std::move(span.args)});
  }
  spans_.clear();
  write_memory();
}

/// Where it changes: an instruction's buffers are in use from its beginning.
void StepRecorder::write_memory() {
  const std::vector<CategoryBytes> moments = memory_by_instruction(options_.program);
  CategoryBytes before;
  before.fill({-1});
  for (std::size_t i = 0; i < begun_.size(); ++i) {
    if (begun_[i] == nullptr) {
      continue;
    }
    const Seconds time = begun_[i]->since(*zero_);
    for (std::size_t category = 0; category < kCategories; ++category) {
      const Bytes bytes = moments[i].at(category);
      if (bytes != before.at(category)) {
        options_.trace.counters.push_back(
            {.track = compute_,
             .name = fmt::format("{} bytes", to_text(static_cast<Category>(category))),
             .time = time,
             .value = static_cast<double>(bytes.count)});
      }
    }
    before = moments[i];
  }
}

}  // namespace trireme::runtime
