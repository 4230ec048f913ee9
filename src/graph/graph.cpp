#include "trireme/graph.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "base/text.h"
#include "trireme/error.h"

namespace trireme {

std::string to_text(const TensorType& type) {
  return fmt::format("{}{}", to_text(type.dtype), to_text(type.shape));
}

TensorType parse_type(std::string_view text) {
  const std::size_t bracket = text.find('[');
  if (bracket == std::string_view::npos) {
    throw Error(
        ErrorKind::Usage,
        fmt::format("invalid type '{}'; write the element type and the shape, as f32[2,3]", text));
  }
  return {parse_dtype(trim(text.substr(0, bracket))), parse_shape(text.substr(bracket))};
}

Bytes size_of(const TensorType& type) {
  return {type.shape.element_count() * size_of(type.dtype).count};
}

std::string_view to_text(Origin origin) {
  switch (origin) {
    case Origin::Input:
      return "input";
    case Origin::Parameter:
      return "parameter";
    case Origin::State:
      return "state";
    case Origin::Node:
      return "node";
  }
  return "?";
}

std::string_view to_text(Phase phase) {
  switch (phase) {
    case Phase::Forward:
      return "forward";
    case Phase::Recompute:
      return "recompute";
    case Phase::Backward:
      return "backward";
    case Phase::Update:
      return "update";
  }
  return "?";
}

namespace {

[[noreturn]] void throw_unknown(std::string_view what, std::string_view name,
                                const std::string& graph, const std::vector<std::string>& names) {
  const auto near = nearest_word(name, names);
  throw Error(ErrorKind::Usage,
              fmt::format("graph {} has no {} '{}'{}", graph, what, name,
                          near ? fmt::format("; did you mean '{}'?", *near) : ""));
}

}  // namespace

ValueId Graph::find(std::string_view value_name) const {
  const auto it = std::ranges::find(values_, value_name, &Value::name);
  if (it != values_.end()) {
    return {static_cast<std::int32_t>(it - values_.begin())};
  }
  std::vector<std::string> names;
  std::ranges::transform(values_, std::back_inserter(names), &Value::name);
  throw_unknown("value", value_name, name_, names);
}

ValueId Graph::output(std::string_view output_name) const {
  const auto it = std::ranges::find(outputs_, output_name, &Output::name);
  if (it != outputs_.end()) {
    return it->value;
  }
  std::vector<std::string> names;
  std::ranges::transform(outputs_, std::back_inserter(names), &Output::name);
  throw_unknown("output", output_name, name_, names);
}

std::vector<ValueId> Graph::with_origin(Origin origin) const {
  std::vector<ValueId> ids;
  for (std::size_t i = 0; i < values_.size(); ++i) {
    if (values_[i].origin == origin) {
      ids.push_back({static_cast<std::int32_t>(i)});
    }
  }
  return ids;
}

bool operator==(const Graph& a, const Graph& b) {
  return to_text(a) == to_text(b);
}

}  // namespace trireme
