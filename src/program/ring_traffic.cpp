#include "program/ring_traffic.h"

#include "graph/blocks.h"
#include "program/traffic.h"

namespace trireme {
namespace {

double of_all_reduce(const Signature& s, std::int64_t index) {
  const std::int64_t elements = s.shape(0).element_count();
  const auto block = [&](std::int64_t steps) {
    const std::int64_t ranks = s.integer("ranks");
    return block_of(elements, 1, ranks, (index + steps) % ranks).length;
  };
  return static_cast<double>(size_of(s.inputs[0].dtype).count *
                             (2 * elements - block(1) - block(2)));
}

double of_all_gather(const Signature& s, std::int64_t index) {
  const std::int64_t ranks = s.integer("ranks");
  const std::int64_t size = s.integer("size");
  const std::int64_t next = block_of(size, s.integer("unit"), ranks, (index + 1) % ranks).length;
  std::int64_t line = size_of(s.inputs[0].dtype).count;  // of one index of the dimension
  for (std::size_t d = 0; d < s.shape(0).dims().size(); ++d) {
    line *= static_cast<std::int64_t>(d) == s.integer("dimension") ? 1 : s.shape(0).dims()[d];
  }
  return static_cast<double>(line * (size - next));
}

}  // namespace

double ring_bytes_sent(const Signature& exchange, std::int64_t index) {
  if (exchange.op->name == "all_reduce") {
    return of_all_reduce(exchange, index);
  }
  return exchange.op->name == "all_gather" ? of_all_gather(exchange, index) : bytes_sent(exchange);
}

}  // namespace trireme
