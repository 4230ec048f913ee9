// Dropout by the counter-based generator of graph/random.h: the mask is computed, never stored.
#include "graph/random.h"

#include "backend/cpu/loops/elements.h"
#include "backend/cpu/loops/families.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

template <class T>
void drop(const T* x, T* y, std::int64_t begin, std::int64_t end, const random::Stream& stream,
          std::uint64_t threshold, Wide<T> factor) {
  for (std::int64_t i = begin; i < end;) {
    const random::Words words = random::block_words(stream, static_cast<std::uint64_t>(i) / 4);
    const std::int64_t stop = std::min(end, i / 4 * 4 + 4);
    for (; i < stop; ++i) {
      const bool kept = words[static_cast<std::size_t>(i % 4)] >= threshold;
      store(y[i], kept ? load(x[i]) * factor : Wide<T>{0});
    }
  }
}

/// Of a whole tensor; a part of one, whose elements are not numbered one after the other, is left to the
/// reference.
std::unique_ptr<PreparedKernel> dropout(const KernelRequest& request) {
  const Signature s = signature_of(request);
  if (!s.integers("whole").empty() || request.inputs[1].dtype != DType::I64) {
    return nullptr;
  }
  const std::int64_t n = s.shape(0).element_count();
  const std::int64_t seed = s.integer("seed");
  const double rate = s.number("rate");
  return for_float(request.inputs[0].dtype, [&]<class T>(T) {
    return kernel([=](const KernelMemory& memory) {
      const random::Stream stream{seed, *input<std::int64_t>(memory, 1), random::Use::Mask};
      parallel(n, kSerial, [&](std::int64_t begin, std::int64_t end) {
        drop(input<T>(memory, 0), output<T>(memory, 0), begin, end, stream,
             random::drop_below(rate), static_cast<Wide<T>>(1 / (1 - rate)));
      });
    });
  });
}

}  // namespace

std::vector<KernelRow> random_kernels() {
  return {{"dropout", dropout}, {"dropout_backward", dropout}};
}

}  // namespace trireme::cpu::TRIREME_ISA
