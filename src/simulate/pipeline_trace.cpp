#include <fmt/format.h>

#include "plan/pipeline_index.h"
#include "trireme/pipeline_report.h"

namespace trireme::simulate {
namespace {

constexpr double kUnit = 1e-3;  ///< seconds per unit of time

Trace::Span make_span(const PipelineTask& task, const PipelineTiming::Span& span, TrackId track) {
  Trace::Span out;
  out.track = track;
  out.name = to_text(task);
  out.category = to_text(task.work);
  out.start = {span.start * kUnit};
  out.duration = {(span.end - span.start) * kUnit};
  out.args.push_back({"stage", std::int64_t{task.stage}});
  out.args.push_back({"microbatch", std::int64_t{task.microbatch}});
  return out;
}

/// One counter per rank: the activations it keeps, in units of one stage.
void add_activations(const PipelineReport& report, std::size_t rank, TrackId track, Trace& trace) {
  int kept = 0;
  for (std::size_t i = 0; i < report.table.tasks[rank].size(); ++i) {
    const PipelineWork work = report.table.tasks[rank][i].work;
    const PipelineTiming::Span& span = report.timing.tasks[rank][i];
    if (work == PipelineWork::Forward) {
      trace.counters.push_back(
          {track, "activations", {span.start * kUnit}, static_cast<double>(++kept)});
    } else if (work == PipelineWork::Backward || work == PipelineWork::BackwardWeight) {
      trace.counters.push_back(
          {track, "activations", {span.end * kUnit}, static_cast<double>(--kept)});
    }
  }
}

using SpanIds = std::vector<std::vector<SpanId>>;  ///< by rank and position

/// An arrow for each message that the task waits for.
void add_messages(const PipelineIndex& index, PipelinePlace place, const SpanIds& spans,
                  Trace& trace) {
  const auto span_at = [&](PipelinePlace at) { return spans[at.rank][at.position]; };
  index.for_each_input(index.task(place), [&](PipelinePlace input) {
    if (input.rank != place.rank) {
      trace.flows.push_back({span_at(input), span_at(place)});
    }
  });
}

}  // namespace

Trace pipeline_trace(const PipelineReport& report) {
  const PipelineTable& table = report.table;
  Trace trace;
  trace.kind = TraceKind::Predicted;
  trace.title = fmt::format("{} over {} ranks, {} micro-batches", table.name, table.ranks,
                            table.microbatches);
  SpanIds spans(table.tasks.size());
  for (std::size_t rank = 0; rank < table.tasks.size(); ++rank) {
    const TrackId track = trace.add_track(fmt::format("rank {}", rank), "compute");
    for (std::size_t i = 0; i < table.tasks[rank].size(); ++i) {
      spans[rank].push_back(
          trace.add_span(make_span(table.tasks[rank][i], report.timing.tasks[rank][i], track)));
    }
    add_activations(report, rank, track, trace);
  }
  const PipelineIndex index(table);
  for (int rank = 0; rank < table.ranks; ++rank) {
    const std::size_t count = table.tasks[rank].size();
    for (std::size_t i = 0; i < count; ++i) {
      add_messages(index, {rank, static_cast<int>(i)}, spans, trace);
    }
  }
  return trace;
}

}  // namespace trireme::simulate
