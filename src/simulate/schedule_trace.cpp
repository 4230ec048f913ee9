#include <algorithm>

#include <fmt/format.h>

#include "base/indexed_vector.h"
#include "trireme/schedule_report.h"

namespace trireme::simulate {
namespace {

/// Fills a trace step by step. A port that has several messages in a step handles them one after
/// another.
class Tracer {
 public:
  explicit Tracer(const ScheduleReport& report) : report_(report) {
    trace_.kind = TraceKind::Predicted;
    trace_.title = fmt::format("{} by {} over {} ranks", to_text(report.schedule.operation),
                               report.schedule.algorithm, report.schedule.ranks);
    for (Rank rank = 0; rank < report.schedule.ranks; ++rank) {
      sends_.push_back({trace_.add_track(fmt::format("rank {}", rank), "send"), {}});
      receives_.push_back({trace_.add_track(fmt::format("rank {}", rank), "receive"), {}});
    }
  }

  Trace run() {
    double start = 0;
    for (std::size_t t = 0; t < report_.schedule.steps.size(); ++t) {
      for (IndexedVector<Rank, Port>* ports : {&sends_, &receives_}) {
        std::ranges::for_each(*ports, [&](Port& port) { port.free = start; });
      }
      for_each_message(report_.schedule.steps[t], [&](const Message& m) { add(m, t); });
      start += report_.timing.steps[t].count;
    }
    return std::move(trace_);
  }

 private:
  struct Port {
    TrackId track;
    double free = 0;  ///< when its next message of this step may start
  };

  void add(const Message& m, std::size_t step) {
    const Schedule& schedule = report_.schedule;
    const std::int64_t bytes = message_bytes(schedule, report_.payload, m);
    const LinkLevel& link = report_.costs.between(m.from, m.to);
    const double moving = link.alpha.count + static_cast<double>(bytes) * link.beta.count;
    const bool combine = m.action == Action::Combine;
    const double combining = combine ? static_cast<double>(bytes) * report_.costs.gamma.count : 0;
    Port& from = sends_[m.from];
    Port& to = receives_[m.to];
    const std::string blocks = blocks_text(schedule, m.blocks);
    const SpanId sent =
        add_span(from, fmt::format("{} to {}", blocks, m.to), "send", moving, bytes, step);
    const SpanId received =
        add_span(to, fmt::format("{} from {}", blocks, m.from), combine ? "combine" : "receive",
                 moving + combining, bytes, step);
    trace_.flows.push_back({sent, received});
  }

  SpanId add_span(Port& port, std::string name, std::string category, double duration,
                  std::int64_t bytes, std::size_t step) {
    const double start = port.free;
    port.free += duration;
    return trace_.add_span(
        {.track = port.track,
         .name = std::move(name),
         .category = std::move(category),
         .start = {start},
         .duration = {duration},
         .args = {{"bytes", bytes}, {"step", static_cast<std::int64_t>(step + 1)}}});
  }

  const ScheduleReport& report_;  // outlives the tracer, which lives for one call
  Trace trace_;
  IndexedVector<Rank, Port> sends_;
  IndexedVector<Rank, Port> receives_;
};

}  // namespace

Trace predicted_trace(const ScheduleReport& report) {
  return Tracer(report).run();
}

}  // namespace trireme::simulate
