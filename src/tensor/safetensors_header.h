// The JSON header of a safetensors file, parsed strictly. Callable from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/safetensors.h"

namespace trireme {

/// A tensor as the header describes it: its data range is not checked yet.
struct HeaderEntry {
  TensorSpec spec;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<HeaderEntry> entries;
  TensorMetadata metadata;
};

/// Throws Error(Input) that begins with `what` and names the tensor. Time and memory are proportional to the text for
/// any contents.
[[nodiscard]] SafetensorsHeader parse_safetensors_header(std::string_view text,
                                                         std::string_view what);

}  // namespace trireme
