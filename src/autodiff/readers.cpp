#include "autodiff/readers.h"

#include <algorithm>

#include "base/indexed_vector.h"

namespace trireme {

Readers::Readers(const Graph& graph)
    : graph_(graph), readers_(graph.values().size()), kept_(graph.values().size(), false) {
  for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
    for (const ValueId input : graph.nodes()[n].inputs) {
      readers_[input].push_back(n);
    }
  }
  for (const Output& output : graph.outputs()) {
    kept_[output.value] = true;
  }
  for (const Update& update : graph.updates()) {
    kept_[update.value] = true;
  }
}

std::optional<std::size_t> Readers::only(ValueId value) const {
  return !is_kept(value) && of(value).size() == 1 ? std::optional(of(value).front()) : std::nullopt;
}

bool Readers::are_among(ValueId value, const std::vector<std::size_t>& nodes) const {
  return !is_kept(value) && std::ranges::all_of(of(value), [&](std::size_t reader) {
    return std::ranges::find(nodes, reader) != nodes.end();
  });
}

std::optional<std::size_t> Readers::maker(ValueId value) const {
  const NodeId producer = graph_.value(value).producer;
  return producer.valid() ? std::optional(position_of(producer)) : std::nullopt;
}

}  // namespace trireme
