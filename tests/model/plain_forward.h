// Forward passes of the three families in plain loops, written from the layout of their files: the reference for our
// graphs, names and layouts.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace trireme {

using Row = std::vector<double>;

/// A tensor of a file.
struct PlainTensor {
  std::vector<std::int64_t> shape{};
  std::vector<float> data{};
};
using PlainTensors = std::map<std::string, PlainTensor>;

struct PlainSizes {
  std::int64_t width = 0;
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t key_heads = 0;
  std::int64_t head_width = 0;
  std::int64_t experts = 0;  ///< of a Mixtral
  std::size_t experts_per_token = 2;
  double epsilon = 0;
  double rope_base = 0;
};

/// The logits of each position of one sequence, [T][V]. The output layer is the embedding if there is no other.
[[nodiscard]] std::vector<Row> plain_gpt2(const PlainTensors& tensors, const PlainSizes& sizes,
                                          const std::vector<std::int32_t>& tokens);
[[nodiscard]] std::vector<Row> plain_llama(const PlainTensors& tensors, const PlainSizes& sizes,
                                           const std::vector<std::int32_t>& tokens);

}  // namespace trireme
