// The invariants of every graph, checked in reading order.
#include <algorithm>
#include <set>
#include <vector>

#include <fmt/format.h>

#include "base/indexed_vector.h"
#include "trireme/error.h"
#include "trireme/graph.h"
#include "trireme/op.h"

namespace trireme {
namespace {

class Verifier {
 public:
  explicit Verifier(const Graph& graph) : graph_(graph) {}

  void run() {
    check_names();
    defined_.resize(graph_.values().size());
    for (const ValueId id : ids()) {
      defined_[id] = graph_.value(id).origin != Origin::Node;
    }
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
      check_node({static_cast<std::int32_t>(i)});
    }
    check_ends();
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorKind::Input, fmt::format("graph {}: {}", graph_.name(), what));
  }

  [[nodiscard]] std::vector<ValueId> ids() const {
    std::vector<ValueId> all(graph_.values().size());
    for (std::int32_t i = 0; ValueId & id : all) {
      id = {i++};
    }
    return all;
  }

  [[nodiscard]] std::string name(ValueId id) const { return "%" + graph_.value(id).name; }

  [[nodiscard]] bool exists(ValueId id) const {
    return id.valid() && id.index < std::ssize(graph_.values());
  }

  void check_names() const {
    std::set<std::string_view> seen;
    for (const Value& value : graph_.values()) {
      if (!seen.insert(value.name).second) {
        fail(fmt::format("two values are called %{}", value.name));
      }
    }
  }

  void check_node(NodeId id) {
    const Node& node = graph_.node(id);
    if (node.op == nullptr) {
      fail(fmt::format("node {} has no op", id.index));
    }
    const std::string who = fmt::format("node {} ({})", id.index, node.op->name);
    for (const ValueId input : node.inputs) {
      if (!exists(input)) {
        fail(fmt::format("{} reads a value that does not exist", who));
      }
      if (!defined_[input]) {
        fail(fmt::format("{} reads {} before it is computed", who, name(input)));
      }
    }
    check_results(node, id, who);
  }

  void check_results(const Node& node, NodeId id, const std::string& who) {
    const std::vector<TensorType> types = node.op->infer(signature_of(graph_, node));
    if (types.size() != node.outputs.size()) {
      fail(fmt::format("{} has {} results, its rule gives {}", who, node.outputs.size(),
                       types.size()));
    }
    for (std::size_t k = 0; k < types.size(); ++k) {
      const ValueId output = node.outputs[k];
      if (!exists(output) || graph_.value(output).origin != Origin::Node ||
          graph_.value(output).producer != id || defined_[output]) {
        fail(fmt::format("{}: its result {} is not its own", who, k));
      }
      if (graph_.value(output).type != types[k]) {
        fail(fmt::format("{}: {} is {}, its rule gives {}", who, name(output),
                         to_text(graph_.value(output).type), to_text(types[k])));
      }
      defined_[output] = true;
    }
  }

  void check_ends() const {
    for (const ValueId id : ids()) {
      if (!defined_[id]) {
        fail(fmt::format("nothing computes {}", name(id)));
      }
    }
    std::set<std::string_view> names;
    for (const Output& output : graph_.outputs()) {
      if (!exists(output.value) || !names.insert(output.name).second) {
        fail(fmt::format("output {} is listed twice, or has no value", output.name));
      }
    }
    std::set<ValueId> targets;
    for (const Update& update : graph_.updates()) {
      check_update(update);
      if (!targets.insert(update.target).second) {
        fail(fmt::format("{} is updated twice", name(update.target)));
      }
    }
  }

  void check_update(const Update& update) const {
    if (!exists(update.target) || !exists(update.value)) {
      fail("an update is of a value that does not exist");
    }
    const Value& target = graph_.value(update.target);
    if (target.origin != Origin::Parameter && target.origin != Origin::State) {
      fail(fmt::format("%{} is updated but is neither a parameter nor state", target.name));
    }
    if (target.type != graph_.value(update.value).type) {
      fail(fmt::format("%{} is {}, but is updated with {}: {}", target.name, to_text(target.type),
                       name(update.value), to_text(graph_.value(update.value).type)));
    }
  }

  const Graph& graph_;
  IndexedVector<ValueId, bool> defined_;
};

}  // namespace

std::vector<std::string> problems(const Graph& graph) {
  try {
    Verifier(graph).run();
  } catch (const Error& error) {
    return {error.what()};
  }
  return {};
}

}  // namespace trireme
