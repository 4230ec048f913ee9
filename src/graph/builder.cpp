#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/text.h"
#include "trireme/error.h"
#include "trireme/graph.h"
#include "trireme/op.h"

namespace trireme {
namespace {

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.' || c == '/' || c == '-';
}

/// The op's attributes: the given ones and the defaults. Throws on unknown ones.
Attributes complete(const Op& op, Attributes given) {
  Attributes all;
  for (const AttributeRow& row : op.attributes) {
    const auto it = given.find(row.name);
    if (it == given.end()) {
      if (!row.has_default) {
        throw Error(ErrorKind::Usage, fmt::format("{} needs '{}'", op.name, row.name));
      }
      all.emplace(row.name, row.example);
      continue;
    }
    Attribute value = std::move(it->second);
    given.erase(it);
    if (std::holds_alternative<double>(row.example) &&
        std::holds_alternative<std::int64_t>(value)) {
      value = static_cast<double>(std::get<std::int64_t>(value));
    }
    if (value.index() != row.example.index()) {
      throw Error(ErrorKind::Usage,
                  fmt::format("{}: '{}' is of the wrong kind", op.name, row.name));
    }
    all.emplace(row.name, std::move(value));
  }
  if (!given.empty()) {
    std::vector<std::string> known;
    for (const AttributeRow& row : op.attributes) {
      known.emplace_back(row.name);
    }
    throw Error(ErrorKind::Usage,
                fmt::format("{} has no '{}'; it has {}", op.name, given.begin()->first,
                            known.empty() ? "no attributes" : list_words(known, "and")));
  }
  return all;
}

void require_count(const Op& op, std::size_t given) {
  const bool variadic = !op.inputs.empty() && op.inputs.back().ends_with("...");
  const bool right = variadic ? given >= op.inputs.size() : given == op.inputs.size();
  if (!right) {
    throw Error(ErrorKind::Usage, fmt::format("{} takes {}{} inputs ({}), not {}", op.name,
                                              variadic ? "at least " : "", op.inputs.size(),
                                              fmt::join(op.inputs, ", "), given));
  }
}

}  // namespace

GraphBuilder::GraphBuilder(std::string name) {
  graph_.name_ = std::move(name);
}

GraphBuilder::GraphBuilder(Graph graph) : graph_(std::move(graph)) {
  for (const Value& value : graph_.values()) {
    names_.emplace(value.name, 0);
  }
}

ValueId GraphBuilder::input(std::string_view name, TensorType type) {
  return add_value(name, std::move(type), Origin::Input, {});
}
ValueId GraphBuilder::parameter(std::string_view name, TensorType type) {
  return add_value(name, std::move(type), Origin::Parameter, {});
}
ValueId GraphBuilder::state(std::string_view name, TensorType type) {
  return add_value(name, std::move(type), Origin::State, {});
}

ValueId GraphBuilder::add_value(std::string_view name, TensorType type, Origin origin,
                                NodeId producer) {
  const ValueId id{static_cast<std::int32_t>(graph_.values_.size())};
  if (origin != Origin::Node && names_.contains(name)) {
    throw Error(ErrorKind::Usage,
                fmt::format("graph {} already has a value '{}'", graph_.name_, name));
  }
  graph_.values_.push_back({free_name(name), std::move(type), origin, producer});
  return id;
}

/// The name, or the name with the first free number appended.
std::string GraphBuilder::free_name(std::string_view preferred) {
  if (preferred.empty() || !std::ranges::all_of(preferred, is_name_character)) {
    throw Error(
        ErrorKind::Usage,
        fmt::format("invalid name '{}' for a value: use letters, digits and _ . / -", preferred));
  }
  const auto [it, is_new] = names_.emplace(preferred, 0);
  if (is_new) {
    return std::string(preferred);
  }
  for (;;) {
    std::string name = fmt::format("{}.{}", preferred, ++it->second);
    if (!names_.contains(name)) {
      names_.emplace(name, 0);
      return name;
    }
  }
}

std::vector<ValueId> GraphBuilder::add(std::string_view op_name, std::vector<ValueId> inputs,
                                       Attributes attributes) {
  const Op& op = op_named(op_name);
  require_count(op, inputs.size());
  const NodeId id{static_cast<std::int32_t>(graph_.nodes_.size())};
  Node node{.op = &op,
            .inputs = std::move(inputs),
            .outputs = {},
            .attributes = complete(op, std::move(attributes)),
            .phase = phase_,
            .block = block_};
  std::vector<TensorType> types = op.infer(signature_of(graph_, node));
  TRIREME_CHECK(types.size() == op.outputs.size(), std::string(op.name));
  for (std::size_t k = 0; k < types.size(); ++k) {
    const std::string name =
        k == 0 ? std::string(op.name) : fmt::format("{}.{}", op.name, op.outputs[k]);
    node.outputs.push_back(add_value(name, std::move(types[k]), Origin::Node, id));
  }
  std::vector<ValueId> outputs = node.outputs;
  graph_.nodes_.push_back(std::move(node));
  return outputs;
}

ValueId GraphBuilder::add1(std::string_view op, std::vector<ValueId> inputs,
                           Attributes attributes) {
  const std::vector<ValueId> outputs = add(op, std::move(inputs), std::move(attributes));
  TRIREME_CHECK(outputs.size() == 1, std::string(op));
  return outputs.front();
}

std::vector<ValueId> GraphBuilder::copy(const Node& node, std::vector<ValueId> inputs) {
  return add(node.op->name, std::move(inputs), node.attributes);
}

void GraphBuilder::rename(ValueId value, std::string_view name) {
  Value& renamed = graph_.values_.at(value.index);
  if (renamed.name == name) {
    return;
  }
  names_.erase(renamed.name);
  renamed.name = free_name(name);
}

void GraphBuilder::output(std::string_view name, ValueId value) {
  graph_.outputs_.push_back({std::string(name), value});
}

void GraphBuilder::update(ValueId target, ValueId value) {
  graph_.updates_.push_back({target, value});
}

Graph GraphBuilder::finish() {
  names_.clear();
  return std::exchange(graph_, {});
}

}  // namespace trireme
