#include "runtime/packing.h"

#include <algorithm>
#include <utility>

#include "trireme/op.h"

namespace trireme::runtime {
namespace {

TensorType type_of(const BlockedTensor& tensor, std::int64_t length) {
  return {tensor.dtype, {tensor.outer, length, tensor.inner}};
}

KernelRequest slice_of(const BlockedTensor& tensor, const IndexRange& block) {
  using Numbers = std::vector<std::int64_t>;
  return {.op = &op_named("slice"),
          .attributes = {{"begin", Numbers{0, block.begin, 0}},
                         {"end", Numbers{tensor.outer, block.begin + block.length, tensor.inner}}},
          .inputs = {type_of(tensor, tensor.size)},
          .outputs = {type_of(tensor, block.length)}};
}

KernelRequest concat_of(const BlockedTensor& tensor, std::vector<TensorType> parts) {
  return {.op = &op_named("concat"),
          .attributes = {{"axis", std::int64_t{1}}},
          .inputs = std::move(parts),
          .outputs = {type_of(tensor, tensor.size)}};
}

/// f(block, its offset in bytes) for the blocks that have elements.
template <class F>
void for_each_block(const BlockedTensor& tensor, F f) {
  std::int64_t offset = 0;
  for (const IndexRange& block : tensor.blocks) {
    const std::int64_t bytes = size_of(type_of(tensor, block.length)).count;
    if (bytes > 0) {
      f(block, offset);
    }
    offset += bytes;
  }
}

}  // namespace

Packing::Packing(const ExchangeLayout& layout, Device& device) {
  if (layout.packed) {
    for_each_block(*layout.packed, [&](const IndexRange& block, std::int64_t offset) {
      slices_.push_back({device.prepare(slice_of(*layout.packed, block)), offset});
    });
  }
  if (layout.unpacked) {
    std::vector<TensorType> parts;
    for_each_block(*layout.unpacked, [&](const IndexRange& block, std::int64_t offset) {
      parts.push_back(type_of(*layout.unpacked, block.length));
      offsets_.push_back(offset);
    });
    if (!parts.empty()) {
      concat_ = device.prepare(concat_of(*layout.unpacked, std::move(parts)));
    }
  }
}

Bytes Packing::workspace() const {
  Bytes most = concat_ ? concat_->workspace() : Bytes{};
  for (const Slice& slice : slices_) {
    most = std::max(most, slice.kernel->workspace());
  }
  return most;
}

KernelSequence Packing::pack(const std::byte* whole, std::byte* blocks, std::byte* workspace) {
  KernelSequence sequence;
  for (const Slice& slice : slices_) {
    sequence.add(slice.kernel->bind(
        {.inputs = {whole}, .outputs = {blocks + slice.offset}, .workspace = workspace}));
  }
  return sequence;
}

KernelSequence Packing::unpack(const std::byte* blocks, std::byte* whole, std::byte* workspace) {
  KernelSequence sequence;
  if (concat_) {
    KernelMemory memory{.inputs = {}, .outputs = {whole}, .workspace = workspace};
    for (const std::int64_t offset : offsets_) {
      memory.inputs.push_back(blocks + offset);
    }
    sequence.add(concat_->bind(memory));
  }
  return sequence;
}

}  // namespace trireme::runtime
