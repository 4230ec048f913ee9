#include "autodiff/rebuild.h"

#include <utility>

#include "base/check.h"

namespace trireme {
namespace {

ValueId add_leaf(GraphBuilder& builder, const Value& value) {
  switch (value.origin) {
    case Origin::Input:
      return builder.input(value.name, value.type);
    case Origin::Parameter:
      return builder.parameter(value.name, value.type);
    case Origin::State:
      return builder.state(value.name, value.type);
    case Origin::Node:
      break;
  }
  return {};
}

}  // namespace

Rebuild::Rebuild(const Graph& from) : from_(from), builder_(from.name()) {
  now_.reserve(from.values().size());
  for (const Value& value : from.values()) {
    now_.push_back(add_leaf(builder_, value));
  }
}

ValueId Rebuild::now(ValueId old) const {
  const ValueId found = now_.at(old);
  TRIREME_CHECK(found.valid(), from_.value(old).name);
  return found;
}

std::vector<ValueId> Rebuild::now(const std::vector<ValueId>& old) const {
  std::vector<ValueId> found;
  found.reserve(old.size());
  for (const ValueId id : old) {
    found.push_back(now(id));
  }
  return found;
}

void Rebuild::replace(ValueId old, ValueId by) {
  now_.at(old) = by;
}

void Rebuild::copy(const Node& node, std::vector<ValueId> inputs) {
  const std::vector<ValueId> results = add(node, std::move(inputs), node.phase);
  for (std::size_t k = 0; k < results.size(); ++k) {
    builder_.rename(results[k], from_.value(node.outputs[k]).name);
    replace(node.outputs[k], results[k]);
  }
}

std::vector<ValueId> Rebuild::add(const Node& node, std::vector<ValueId> inputs, Phase phase) {
  builder_.set_phase(phase);
  builder_.set_block(node.block);
  return builder_.copy(node, std::move(inputs));
}

Graph Rebuild::finish() {
  for (const Update& update : from_.updates()) {
    builder_.update(now(update.target), now(update.value));
  }
  for (const Output& output : from_.outputs()) {
    builder_.output(output.name, now(output.value));
  }
  return builder_.finish();
}

}  // namespace trireme
