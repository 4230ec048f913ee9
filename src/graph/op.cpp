#include "trireme/op.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/check.h"
#include "base/enum_names.h"
#include "base/text.h"
#include "trireme/error.h"

namespace trireme {
namespace {

const Attribute& attribute(const Signature& s, std::string_view name) {
  const auto it = s.attributes->find(name);
  TRIREME_CHECK(it != s.attributes->end(), fmt::format("{} has no '{}'", s.op->name, name));
  return it->second;
}

/// "gamma", or "parts[2]" for one of several.
std::string input_name(const Op& op, std::size_t k) {
  const std::size_t last = op.inputs.size() - 1;
  if (k < last || !op.inputs[last].ends_with("...")) {
    return std::string(op.inputs[k]);
  }
  const std::string_view many = op.inputs[last];
  return fmt::format("{}[{}]", many.substr(0, many.size() - 3), k - last);
}

}  // namespace

std::int64_t Signature::integer(std::string_view name) const {
  return std::get<std::int64_t>(attribute(*this, name));
}
double Signature::number(std::string_view name) const {
  return std::get<double>(attribute(*this, name));
}
const std::string& Signature::text(std::string_view name) const {
  return std::get<std::string>(attribute(*this, name));
}
const std::vector<std::int64_t>& Signature::integers(std::string_view name) const {
  return std::get<std::vector<std::int64_t>>(attribute(*this, name));
}

void Signature::refuse(const std::string& reason) const {
  std::vector<std::string> operands;
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    operands.push_back(fmt::format("{}: {}", input_name(*op, k), to_text(inputs[k])));
  }
  throw Error(ErrorKind::Usage,
              fmt::format("{}({}): {}", op->name, fmt::join(operands, ", "), reason));
}

const Op& op_named(std::string_view name) {
  if (const Op* op = find_op(name); op != nullptr) {
    return *op;
  }
  std::vector<std::string> names;
  for (const Op* op : all_ops()) {
    names.emplace_back(op->name);
  }
  const auto near = nearest_word(name, names);
  throw Error(ErrorKind::Usage,
              fmt::format("unknown op '{}'{}", name,
                          near ? fmt::format("; did you mean '{}'?", *near) : ""));
}

Signature signature_of(const Graph& graph, const Node& node) {
  Signature s{.op = node.op, .inputs = {}, .attributes = &node.attributes};
  s.inputs.reserve(node.inputs.size());
  for (const ValueId input : node.inputs) {
    s.inputs.push_back(graph.value(input).type);
  }
  return s;
}

Work work_of(const Graph& graph, const Node& node) {
  return node.op->work(signature_of(graph, node));
}

Factors factors_of(const Graph& graph, const Node& node) {
  return node.op->factors(signature_of(graph, node));
}

std::string_view to_text(Factor::Split split) {
  static constexpr auto kNames = enum_names<Factor::Split>("free", "never", "maximum", "in turn");
  return kNames[split];
}

std::string_view to_text(Linear linear) {
  static constexpr auto kNames = enum_names<Linear>("no", "each", "joint", "apart");
  return kNames[linear];
}

}  // namespace trireme
