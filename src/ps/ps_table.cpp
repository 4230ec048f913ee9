#include "trireme/ps_table.h"

#include <fmt/format.h>

#include "base/enum_names.h"
#include "trireme/message.h"
#include "trireme/valid.h"

namespace trireme::ps {
namespace {

constexpr std::uint32_t kMaxWidth = 1U << 24;

}  // namespace

std::string_view to_text(Consistency consistency) {
  static constexpr auto kNames = enum_names<Consistency>("bsp", "ssp", "essp", "async");
  return kNames[consistency];
}

std::string_view to_text(TableLayout layout) {
  static constexpr auto kNames = enum_names<TableLayout>("dense", "sparse");
  return kNames[layout];
}

std::vector<std::string> problems(const TableSpec& spec) {
  std::vector<std::string> found;
  const std::string name = fmt::format("table {}", in_quotes(spec.name));
  if (spec.name.empty() || spec.name.size() > 255) {
    found.push_back(name + ": the name must have 1 to 255 characters");
  }
  if (spec.keys == 0) {
    found.push_back(name + ": needs at least one key");
  }
  if (spec.width == 0 || spec.width > kMaxWidth) {
    found.push_back(
        fmt::format("{}: width {} is out of range: use 1 to {}", name, spec.width, kMaxWidth));
  }
  if (spec.staleness < 0) {
    found.push_back(fmt::format("{}: staleness {} is negative", name, spec.staleness));
  }
  if (spec.layout == TableLayout::Dense && spec.keys > (Key{1} << 40) / (spec.width + 1)) {
    found.push_back(
        fmt::format("{}: {} keys of width {} are too many for a dense table: use a sparse one",
                    name, spec.keys, spec.width));
  }
  return found;
}

std::optional<ClockCount> staleness_bound(const TableSpec& spec) {
  switch (spec.consistency) {
    case Consistency::Bsp:
      return 0;
    case Consistency::Ssp:
    case Consistency::Essp:
      return spec.staleness;
    case Consistency::Async:
      break;
  }
  return std::nullopt;
}

bool may_start(ClockCount own, ClockCount slowest, std::optional<ClockCount> bound) {
  return !bound || own - slowest <= *bound;
}

}  // namespace trireme::ps
