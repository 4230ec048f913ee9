// Tiny models of the three families in their file formats. All sizes of a tensor differ where the family allows it, so
// that a transposed tensor does not fit.
#pragma once

#include <string>
#include <vector>

#include "model/plain_forward.h"

namespace trireme {

struct TinyModel {
  std::string config{};  ///< config.json
  PlainSizes sizes{};
  PlainTensors tensors{};
};

[[nodiscard]] TinyModel tiny_gpt2();
[[nodiscard]] TinyModel tiny_llama();
[[nodiscard]] TinyModel tiny_mixtral();

/// Writes a safetensors file of f32.
void write_tensors(const std::string& path, const PlainTensors& tensors);

}  // namespace trireme
