#include "comm/transport/memory.h"

#include "base/check.h"

namespace trireme::comm {

void HostMemory::fetch(Rank /*peer*/, std::uint64_t /*address*/,
                       std::span<std::byte> /*into*/) const {
  TRIREME_CHECK(false, "fetch() without can_fetch()");
}

void HostMemory::put(Rank /*peer*/, std::uint64_t /*address*/,
                     std::span<const std::byte> /*from*/) const {
  TRIREME_CHECK(false, "put() without can_fetch()");
}

}  // namespace trireme::comm
