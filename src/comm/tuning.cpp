#include "trireme/tuning.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include <fmt/format.h>

#include "base/enum_names.h"
#include "trireme/collective.h"

namespace trireme {
namespace {

constexpr auto kBufferKinds = enum_names<BufferKind>("private", "shared");

bool does(Operation operation, const Method& method) {
  if (method.kind == Method::Kind::Direct) {
    return true;
  }
  const std::vector<Algorithm> all = algorithms_for(operation);
  return method.kind == Method::Kind::Scheduled &&
         std::ranges::find(all, method.algorithm) != all.end();
}

std::vector<std::string> row_problems(const TuningRow& row) {
  const bool memory =
      row.transport == TransportKind::InProcess || row.transport == TransportKind::SharedMemory;
  if (row.ranks < 1) {
    return {fmt::format("{} ranks; there must be at least one", row.ranks)};
  }
  if (row.transport == TransportKind::Automatic) {
    return {"transport is automatic; name the one that was measured"};
  }
  if (row.from.count < 0 || row.to < row.from) {
    return {fmt::format("invalid range: {} to {} bytes", row.from.count, row.to.count)};
  }
  if (!does(row.operation, row.method)) {
    return {fmt::format("{} does not do {}", to_text(row.method), to_text(row.operation))};
  }
  if (row.method.kind == Method::Kind::Direct && !memory) {
    return {fmt::format("direct needs ranks that share memory, not {}", to_text(row.transport))};
  }
  if (row.method.kind == Method::Kind::Scheduled &&
      !properties(row.method.algorithm).bit_identical) {
    return {fmt::format("{} does not give all ranks the same bits; it runs only when requested",
                        to_text(row.method))};
  }
  return {};
}

auto kind_of(const TuningRow& row) {
  return std::tuple(row.operation, row.ranks, row.transport, row.buffers);
}

Bytes geometric_mean(Bytes a, Bytes b) {
  return {static_cast<std::int64_t>(
      std::sqrt(static_cast<double>(a.count) * static_cast<double>(b.count)))};
}

}  // namespace

std::string_view to_text(BufferKind kind) {
  return kBufferKinds[kind];
}

BufferKind parse_buffer_kind(std::string_view text) {
  return kBufferKinds.parse("buffer kind", text);
}

Method Tuning::find(const Query& query) const {
  Method found;
  for (const TuningRow& row : rows) {
    const bool fits = row.operation == query.operation && row.ranks == query.ranks &&
                      row.transport == query.transport && row.from <= query.bytes &&
                      query.bytes <= row.to;
    if (fits &&
        (found.kind == Method::Kind::Automatic || row.method.kind == Method::Kind::Direct)) {
      found = row.method;
    }
  }
  return found;
}

std::vector<std::string> problems(const Tuning& tuning) {
  std::vector<std::string> found;
  for (std::size_t i = 0; i < tuning.rows.size(); ++i) {
    for (const std::string& problem : row_problems(tuning.rows[i])) {
      found.push_back(fmt::format("choices[{}]: {}", i, problem));
    }
  }
  return found;
}

void extend_ranges(Tuning& tuning) {
  std::ranges::stable_sort(tuning.rows, {}, [](const TuningRow& row) {
    return std::tuple(row.operation, row.ranks, row.transport, row.buffers, row.measured);
  });
  for (std::size_t i = 0; i < tuning.rows.size(); ++i) {
    TuningRow& row = tuning.rows[i];
    row.from = row.measured;
    row.to = row.measured;
    if (i > 0 && kind_of(tuning.rows[i - 1]) == kind_of(row)) {
      TuningRow& below = tuning.rows[i - 1];
      below.to = std::max(below.measured, geometric_mean(below.measured, row.measured));
      row.from = {std::min(row.measured.count, below.to.count + 1)};
    }
  }
}

}  // namespace trireme
