// Tiny models of the three families as their files have them. No two sizes of a tensor are alike where the family
// lets them differ, so that what is turned the wrong way round does not fit.
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
