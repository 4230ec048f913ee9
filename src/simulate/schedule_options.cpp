#include "trireme/schedule_options.h"

#include <fmt/format.h>

#include "trireme/error.h"
#include "trireme/message.h"
#include "trireme/tensor.h"

namespace trireme::simulate {
namespace {

constexpr std::int64_t kLargestSize = std::int64_t{1} << 50;

/// What to build: the requested algorithm, or the one predicted fastest.
struct Decision {
  Algorithm algorithm;
  BuildOptions build;
  std::string reason;
};

Decision decide(const ScheduleOptions& options, Operation operation, Bytes bytes,
                const CostModel& costs) {
  require_ranks_and_root(options, operation);
  const BuildOptions requested{
      .ranks = options.ranks, .root = options.root, .ranks_per_node = options.per_node};
  Decision decision{Algorithm::Mst, requested, ""};
  if (options.algorithm == "auto") {
    Selector selector(costs);
    const Selector::Query query{
        .operation = operation, .ranks = options.ranks, .root = options.root, .bytes = bytes};
    const Choice& best = selector.rank(query).front();
    decision = {best.algorithm, best.options, selector.explain(query)};
  } else {
    decision.algorithm = parsed("--algorithm", options.algorithm, parse_algorithm);
    (void)formula_text(operation, decision.algorithm);  // throws if unsupported
    decision.build.segments =
        best_segments(operation, decision.algorithm, options.ranks, bytes, costs);
    if (decision.build.ranks_per_node == 0 && !costs.is_uniform() &&
        options.ranks % costs.levels.front().span == 0) {
      decision.build.ranks_per_node = costs.levels.front().span;
    }
  }
  if (options.segments != 0 && !properties(decision.algorithm).segmented) {
    throw Error(ErrorKind::Usage,
                fmt::format("--segments: {} has no segments; use chain or double-tree",
                            to_text(decision.algorithm)));
  }
  if (options.per_node != 0 && !properties(decision.algorithm).two_level) {
    throw Error(ErrorKind::Usage, fmt::format("--per-node: {} ignores nodes; use two-level",
                                              to_text(decision.algorithm)));
  }
  if (options.segments != 0) {
    decision.build.segments = options.segments;
  }
  return decision;
}

}  // namespace

Payload schedule_payload(const ScheduleOptions& options) {
  const Bytes bytes = parsed("--size", options.size, parse_bytes);
  if (bytes.count > kLargestSize) {
    throw Error(ErrorKind::Usage,
                fmt::format("--size: {} are more than the largest size, 1024 TiB", to_text(bytes)));
  }
  const Bytes element = size_of(parsed("--dtype", options.dtype, parse_dtype));
  if (bytes.count % element.count != 0) {
    throw Error(ErrorKind::Usage,
                fmt::format("--size: {} bytes are not a multiple of the {} element size ({} bytes)",
                            bytes.count, options.dtype, element.count));
  }
  return {bytes.count / element.count, element.count};
}

Operation required_operation(const ScheduleOptions& options) {
  if (options.operation.empty()) {
    throw Error(ErrorKind::Usage,
                "name an operation (trireme schedule allreduce …) or a file (--file my.schedule)");
  }
  return parse_operation(options.operation);
}

void require_ranks_and_root(const ScheduleOptions& options, Operation operation) {
  const Algorithm any = algorithms_for(operation).front();
  (void)parsed("--ranks", "", [&](const std::string&) {
    return formula(operation, any, {.ranks = options.ranks});
  });
  (void)parsed("--root", "", [&](const std::string&) {
    return formula(operation, any, {.ranks = options.ranks, .root = options.root});
  });
}

ScheduleReport make_schedule_report(const ScheduleOptions& options, const CostModel& costs) {
  const Payload payload = schedule_payload(options);
  const Operation operation = required_operation(options);
  const Bytes bytes{operation == Operation::Barrier ? 0 : payload.elements * payload.element_bytes};
  const Decision decision = decide(options, operation, bytes, costs);
  ScheduleReport report = make_schedule_report(
      ScheduleRecipe{operation, decision.algorithm, decision.build}, payload, costs);
  report.reason = decision.reason;
  return report;
}

}  // namespace trireme::simulate
