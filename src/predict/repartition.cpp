#include "trireme/repartition.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "base/enum_names.h"
#include "graph/blocks.h"
#include "program/ring_traffic.h"
#include "program/traffic.h"
#include "trireme/error.h"
#include "trireme/graph.h"
#include "trireme/message.h"
#include "trireme/partition.h"
#include "trireme/plan.h"

namespace trireme::predict {
namespace {

constexpr std::string_view kAxis = "ranks";
constexpr auto kLayoutNames = enum_names<MatrixLayout>("replicated", "row", "column", "partial");

Axes axes_of(int ranks) {
  return ranks > 1 ? Axes{{std::string(kAxis), ranks}} : Axes{};
}

Placement placement_of(MatrixLayout layout, int ranks) {
  Placement placement = Placement::replicated(2);
  if (ranks > 1) {
    if (layout == MatrixLayout::Row || layout == MatrixLayout::Column) {
      placement.dims[layout == MatrixLayout::Row ? 0 : 1].axes = {0};
    } else if (layout == MatrixLayout::Partial) {
      placement.partial[0] = Merge::Sum;
    }
  }
  return placement;
}

Shape shape_of_part(const Shape& whole, MatrixLayout layout, int ranks, int rank) {
  const int at[] = {rank};
  return shape_at(placement_of(layout, ranks), whole, axes_of(ranks), at);
}

/// The partitioner's own conversion: a node between two values with the two placements.
std::vector<Program> partitioned(const TensorType& type, MatrixLayout from, MatrixLayout to,
                                 int ranks) {
  GraphBuilder builder("repartition");
  const ValueId x = builder.input("x", type);
  const ValueId y = builder.add1("scale", {x}, {{"factor", 1.0}});
  builder.output("y", y);
  const Graph graph = builder.finish();
  PlacementSpec placements;
  placements.axes = axes_of(ranks);
  placements.stored[x] = placement_of(from, ranks);
  placements.forced[y] = {placement_of(to, ranks)};
  Plan plan;
  plan.mesh = Mesh({{std::string(kAxis), ranks}});
  const Partition partition(graph, placements);
  std::vector<Program> programs;
  programs.reserve(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    programs.push_back(
        make_program(partition.graph_at(place_of(plan, placements, rank), table_of(plan)).graph));
  }
  return programs;
}

/// A rank's part, unchanged, or as a term of a sum: zero-padded where other ranks have data. No communication.
Program local_program(const TensorType& type, MatrixLayout from, MatrixLayout to, int ranks,
                      int rank) {
  GraphBuilder builder("repartition");
  const ValueId x = builder.input("x", {type.dtype, shape_of_part(type.shape, from, ranks, rank)});
  if (from == to || from == MatrixLayout::Replicated) {
    const double factor = from == to || rank == 0 ? 1 : 0;
    builder.output("y", builder.add1("scale", {x}, {{"factor", factor}}));
    return make_program(builder.finish());
  }
  const std::size_t d = from == MatrixLayout::Row ? 0 : 1;
  const std::int64_t size = type.shape.dims()[d];
  const IndexRange own = block_of(size, 1, ranks, rank);
  std::vector<std::int64_t> before(2, 0);
  std::vector<std::int64_t> after(2, 0);
  before[d] = own.begin;
  after[d] = size - own.begin - own.length;
  builder.output("y", builder.add1("pad", {x}, {{"before", before}, {"after", after}}));
  return make_program(builder.finish());
}

std::vector<Program> programs_of(const TensorType& type, MatrixLayout from, MatrixLayout to,
                                 int ranks) {
  if (ranks == 1 || (from != to && to != MatrixLayout::Partial)) {
    return partitioned(type, from, to, ranks);
  }
  std::vector<Program> programs;
  programs.reserve(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    programs.push_back(local_program(type, from, to, ranks, rank));
  }
  return programs;
}

std::string op_between(MatrixLayout from, MatrixLayout to) {
  if (from == to) {
    return "";
  }
  if (from == MatrixLayout::Partial) {
    return to == MatrixLayout::Replicated ? "all_reduce" : "reduce_scatter";
  }
  if (to == MatrixLayout::Partial) {
    return "pad";
  }
  if (from == MatrixLayout::Replicated) {
    return "slice";
  }
  return to == MatrixLayout::Replicated ? "all_gather" : "all_to_all";
}

std::int64_t sent_by(const Program& program, int rank) {
  double bytes = 0;
  for (const Instruction& instruction : program.instructions) {
    bytes += ring_bytes_sent(signature_of(program, instruction), rank);
  }
  return std::llround(bytes);
}

/// Round t of a pairwise exchange lasts as long as its longest message, from rank i to rank i + t.
Seconds exchange_seconds(const Repartition& r, const LinkLevel& link) {
  const std::size_t from = r.from == MatrixLayout::Row ? 0 : 1;
  const std::int64_t width = size_of(r.type.dtype).count;
  const auto length = [&](std::size_t d, int rank) {
    return block_of(r.type.shape.dims()[d], 1, r.ranks(), rank).length;
  };
  Seconds seconds{};
  for (int t = 1; t < r.ranks(); ++t) {
    std::int64_t longest = 0;
    for (int i = 0; i < r.ranks(); ++i) {
      longest = std::max(longest, length(from, i) * length(1 - from, (i + t) % r.ranks()) * width);
    }
    seconds.count += link.alpha.count + static_cast<double>(longest) * link.beta.count;
  }
  return seconds;
}

Seconds seconds_of(const Repartition& r, const CostModel& costs) {
  const bool local = r.op.empty() || r.op == "slice" || r.op == "pad";
  if (local || r.ranks() == 1) {
    return {};
  }
  if (r.op == "all_to_all") {
    return exchange_seconds(r, costs.levels.back());
  }
  const Operation operation = r.op == "all_reduce"   ? Operation::Allreduce
                              : r.op == "all_gather" ? Operation::Allgather
                                                     : Operation::ReduceScatter;
  // Blocks are whole rows or columns, except those of an all-reduce.
  const MatrixLayout sharded = r.op == "all_gather" ? r.from : r.to;
  const std::int64_t elements = r.type.shape.element_count();
  const std::int64_t lines =
      r.op == "all_reduce" ? elements : r.type.shape.dim(sharded == MatrixLayout::Row ? 0 : 1);
  const Payload payload{
      .elements = lines,
      .element_bytes = lines == 0 ? 1 : elements / lines * size_of(r.type.dtype).count};
  return time_schedule(build(operation, Algorithm::Ring, {.ranks = r.ranks()}), payload, costs)
      .seconds;
}

}  // namespace

std::string_view to_text(MatrixLayout layout) {
  return kLayoutNames[layout];
}

MatrixLayout parse_layout(std::string_view text) {
  return kLayoutNames.parse("layout", text);
}

std::int64_t Repartition::total_sent() const {
  return std::accumulate(sent.begin(), sent.end(), std::int64_t{0});
}

Repartition repartition(const TensorType& type, MatrixLayout from, MatrixLayout to, int ranks,
                        const CostModel& costs) {
  if (type.shape.rank() != 2 || !is_float(type.dtype)) {
    throw Error(ErrorKind::Usage, fmt::format("{} is not a matrix of floating-point numbers",
                                              trireme::to_text(type)));
  }
  if (ranks < 1) {
    throw Error(ErrorKind::Usage, fmt::format("{} ranks; there must be at least one", ranks));
  }
  Repartition result{.from = from,
                     .to = to,
                     .type = type,
                     .programs = programs_of(type, from, to, ranks),
                     .op = op_between(from, to),
                     .sent = {},
                     .seconds = {}};
  for (int rank = 0; rank < ranks; ++rank) {
    result.sent.push_back(sent_by(result.programs[rank], rank));
  }
  result.seconds = seconds_of(result, costs);
  return result;
}

std::vector<double> part_of(const std::vector<double>& whole, const Shape& shape,
                            MatrixLayout layout, int ranks, int rank) {
  if (layout == MatrixLayout::Partial && ranks > 1) {
    // Rank r has r + 1; the last has the rest.
    std::vector<double> term = whole;
    const double others = ranks * (ranks - 1) / 2.0;
    for (double& element : term) {
      element = rank + 1 == ranks ? element - others : rank + 1;
    }
    return term;
  }
  const auto range = [&](MatrixLayout by, std::size_t d) {
    const std::int64_t size = shape.dims()[d];
    return layout == by ? block_of(size, 1, ranks, rank) : IndexRange{.begin = 0, .length = size};
  };
  const IndexRange rows = range(MatrixLayout::Row, 0);
  const IndexRange columns = range(MatrixLayout::Column, 1);
  std::vector<double> part;
  for (std::int64_t i = rows.begin; i < rows.begin + rows.length; ++i) {
    const auto first = whole.begin() + i * shape.dim(1) + columns.begin;
    part.insert(part.end(), first, first + columns.length);
  }
  return part;
}

}  // namespace trireme::predict
