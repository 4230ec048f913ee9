// Blocks packed and unpacked by kernels are those that loops over the tensor give.
#include "runtime/packing.h"

#include <cstring>
#include <numeric>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "support/isolated_device.h"
#include "trireme/cpu_device.h"

namespace trireme::runtime {
namespace {

using Data = std::vector<std::byte>;

std::int64_t bytes_of(const BlockedTensor& t) {
  return t.outer * t.size * t.inner * size_of(t.dtype).count;
}

/// The tensor's bytes, block by block.
Data packed_by_loops(const BlockedTensor& t, const Data& whole) {
  Data packed;
  const std::int64_t inner = t.inner * size_of(t.dtype).count;
  for (const IndexRange& block : t.blocks) {
    for (std::int64_t o = 0; o < t.outer; ++o) {
      const auto begin = whole.begin() + (o * t.size + block.begin) * inner;
      packed.insert(packed.end(), begin, begin + block.length * inner);
    }
  }
  return packed;
}

/// What `from` becomes by the kernels that `bind` binds.
template <class Bind>
Data run(Device& device, const Data& from, const Bind& bind) {
  const Bytes size{static_cast<std::int64_t>(from.size())};
  const auto x = device.allocate(size);
  const auto y = device.allocate(size);
  const auto stream = device.make_stream();
  KernelSequence kernels = bind(x->data(), y->data());
  stream->copy_in(x->data(), from);
  kernels.enqueue(*stream);
  Data to(from.size());
  stream->copy_out(to, y->data());
  stream->synchronize();
  return to;
}

void check(const BlockedTensor& tensor, Device& device) {
  SCOPED_TRACE(fmt::format("{} [{},{},{}] in {} blocks on {}", to_text(tensor.dtype), tensor.outer,
                           tensor.size, tensor.inner, tensor.blocks.size(), device.name()));
  Data whole(static_cast<std::size_t>(bytes_of(tensor)));
  for (std::size_t i = 0; i < whole.size(); ++i) {
    whole[i] = static_cast<std::byte>(i * 37 + i / 251);
  }
  const ExchangeLayout layout{.packed = tensor, .unpacked = tensor};
  Packing packing(layout, device);
  const auto scratch = device.allocate(packing.workspace());
  const Data packed = run(device, whole, [&](const std::byte* x, std::byte* y) {
    return packing.pack(x, y, scratch->data());
  });
  EXPECT_EQ(packed, packed_by_loops(tensor, whole));
  EXPECT_EQ(
      run(device, packed,
          [&](const std::byte* x, std::byte* y) { return packing.unpack(x, y, scratch->data()); }),
      whole);
}

TEST(Packing, MatchesLoops) {
  const auto cpu = make_cpu_device({.threads = 1, .pinned = false});
  const auto isolated = make_isolated_device();
  const std::vector<std::vector<IndexRange>> divisions{
      {{0, 6}}, {{0, 3}, {3, 3}}, {{0, 3}, {3, 2}, {5, 1}}, {{0, 5}, {5, 1}, {6, 0}, {6, 0}}};
  for (const DType dtype : kDTypes) {
    for (const auto& blocks : divisions) {
      for (const auto& [outer, inner] : {std::pair(1, 1), {1, 5}, {7, 1}, {4, 3}}) {
        const BlockedTensor tensor{
            .dtype = dtype, .outer = outer, .size = 6, .inner = inner, .blocks = blocks};
        check(tensor, *cpu);
        check(tensor, *isolated);
      }
    }
  }
}

}  // namespace
}  // namespace trireme::runtime
