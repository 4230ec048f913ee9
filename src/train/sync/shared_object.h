// An object that worker 0 creates and all workers of a process use, where workers are threads.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "trireme/comm.h"

namespace trireme::train {

/// Worker 0 calls `make`, which returns a shared_ptr; all get that pointer. The group's ranks must be threads of this
/// process. Collective.
template <class Make>
[[nodiscard]] auto share_object(Group& threads, const Make& make) -> decltype(make()) {
  using Pointer = decltype(make());
  Pointer object;
  if (threads.rank() == 0) {
    object = make();
  }
  auto address = static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(&object));
  threads.run(broadcast<std::int64_t>(std::span(&address, 1), 0));
  if (threads.rank() != 0) {
    object = *reinterpret_cast<const Pointer*>(static_cast<std::intptr_t>(address));
  }
  threads.barrier();  // worker 0's pointer is on its stack
  return object;
}

}  // namespace trireme::train
