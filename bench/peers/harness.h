// What the programs of all libraries have in common: they read commands from the driver, check the
// library's result, and measure it. A library's own program says how to make a call.
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

  /// Memory for the user's data, aligned to a page. Ordinary memory unless the library offers
  /// another kind.
  [[nodiscard]] virtual Buffer allocate(std::int64_t count);

  /// What makes one call of this operation on these buffers. Whatever can be made once for many
  /// calls is made here, outside the measured time.
  [[nodiscard]] virtual std::function<void()> prepare(const Task& task, float* input,
                                                      float* output) = 0;
};

/// Serves the driver, which made the page's file, until it says no more. Called on every rank, all in separate processes; rank 0
/// reads standard input and writes standard output. The rest wait without using the processor.
/// Returns the program's exit status.
int serve(const std::string& page_file, int rank, int ranks, Adapter& adapter);

/// Puts this process on one core; where there are more ranks than cores they go round.
void bind_to_core(int rank);

/// Makes this process end when its parent does.
void end_with_parent();

}  // namespace peers
