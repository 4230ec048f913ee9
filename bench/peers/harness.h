// Shared by the programs of all libraries: they read commands from the driver, check the library's result, and measure
// it. Each library's own program defines how to make a call.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "operation.h"

namespace peers {

/// Floats of a rank, freed with the last copy.
using Buffer = std::shared_ptr<float>;

/// One library, as one rank uses it.
class Adapter {
 public:
  Adapter() = default;
  virtual ~Adapter() = default;
  Adapter(const Adapter&) = delete;
  Adapter& operator=(const Adapter&) = delete;

  /// Memory for the user's data, page-aligned. Private memory unless the library offers another kind.
  [[nodiscard]] virtual Buffer allocate(std::int64_t count);

  /// Returns a function that makes one call of this operation on these buffers. Anything that can be set up once for
  /// many calls is done here, outside the measured time.
  [[nodiscard]] virtual std::function<void()> prepare(const Task& task, float* input,
                                                      float* output) = 0;
};

/// Serves the driver, which created the page's file, until it quits. Called on every rank, all in separate processes;
/// rank 0 reads standard input and writes standard output. The others wait without using the CPU. Returns the program's
/// exit status.
int serve(const std::string& page_file, int rank, int ranks, Adapter& adapter);

/// Pins this process to one core; if there are more ranks than cores they are assigned round-robin.
void bind_to_core(int rank);

/// Makes this process end when its parent does.
void end_with_parent();

}  // namespace peers
