#include "backend/cuda/batch.h"

#include <algorithm>

namespace trireme::cuda {
namespace {

using Ranges = std::vector<Footprint::Range>;

bool overlap(const Ranges& some, const Ranges& others) {
  return std::ranges::any_of(some, [&](const Footprint::Range& one) {
    return std::ranges::any_of(others, [&](const Footprint::Range& other) {
      return one.begin < other.end && other.begin < one.end;
    });
  });
}

Footprint::Range range_of(const std::byte* begin, const TensorType& type) {
  return {begin, begin + size_of(type).count};
}

}  // namespace

Footprint footprint_of(const KernelRequest& request, const KernelMemory& memory) {
  Footprint footprint;
  for (std::size_t k = 0; k < memory.inputs.size(); ++k) {
    footprint.reads.push_back(range_of(memory.inputs[k], request.inputs[k]));
  }
  for (std::size_t k = 0; k < memory.outputs.size(); ++k) {
    footprint.writes.push_back(range_of(memory.outputs[k], request.outputs[k]));
  }
  return footprint;
}

bool are_independent(const Footprint& a, const Footprint& b) {
  return !overlap(a.writes, b.writes) && !overlap(a.writes, b.reads) && !overlap(a.reads, b.writes);
}

void Batch::add(Function function, const BatchItem& item, const Footprint& footprint,
                cudaStream_t stream) {
  const bool joins =
      function == function_ && std::ranges::all_of(footprints_, [&](const Footprint* other) {
        return are_independent(footprint, *other);
      });
  if (!joins) {
    flush(stream);
  }
  function_ = function;
  items_.push_back(item);
  footprints_.push_back(&footprint);
}

void Batch::flush(cudaStream_t stream) {
  if (!items_.empty()) {
    function_(items_, stream);
    clear();
  }
}

void Batch::clear() {
  items_.clear();
  footprints_.clear();
}

}  // namespace trireme::cuda
