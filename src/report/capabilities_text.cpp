#include "report/capabilities_text.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/json.h"

namespace trireme::report {
namespace {

std::vector<std::string_view> names_of(std::span<const DType> types) {
  std::vector<std::string_view> names;
  for (const DType type : types) {
    names.push_back(to_text(type));
  }
  return names;
}

std::string cell(const measure::TransportCapabilities& transport, std::size_t row) {
  if (!transport.built) {
    return "-";
  }
  const std::vector<DType>& types = transport.rows[row].types;
  return types.size() == kDTypes.size() ? "all types"
         : types.empty()                ? "no"
                                        : fmt::format("{}", fmt::join(names_of(types), " "));
}

}  // namespace

bool is_complete(std::span<const measure::TransportCapabilities> transports) {
  return std::ranges::all_of(transports, [](const measure::TransportCapabilities& one) {
    return std::ranges::all_of(one.rows, [](const measure::Capability& row) {
      return row.types.size() == kDTypes.size();
    });
  });
}

std::string capabilities_text(std::span<const measure::TransportCapabilities> transports,
                              const Terminal& terminal) {
  std::string head = fmt::format("{:<18}", "operation");
  for (const measure::TransportCapabilities& one : transports) {
    head += fmt::format(" {:<12}", to_text(one.transport));
  }
  std::string text = styled(head, Style::Bold, terminal.color) + "\n";
  const auto built = std::ranges::find_if(transports, &measure::TransportCapabilities::built);
  for (std::size_t row = 0; built != transports.end() && row < built->rows.size(); ++row) {
    text += fmt::format("{:<18}", built->rows[row].operation);
    for (const measure::TransportCapabilities& one : transports) {
      text += fmt::format(" {:<12}", cell(one, row));
    }
    text += "\n";
  }
  return text +
         fmt::format(
             "\nTypes: {}. \"-\": not in this build. Each cell was run between two ranks of this "
             "host.\n",
             fmt::join(names_of(kDTypes), " "));
}

std::string capabilities_json(std::span<const measure::TransportCapabilities> transports) {
  Json json = Json::object();
  for (const measure::TransportCapabilities& one : transports) {
    Json& of = json[std::string(to_text(one.transport))] = Json::object();
    for (const measure::Capability& row : one.rows) {
      Json types = Json::array();
      for (const DType type : row.types) {
        types.push_back(to_text(type));
      }
      of[row.operation] = types;
    }
  }
  return json.dump(2) + "\n";
}

}  // namespace trireme::report
