// Maps tensors of a Hugging Face model to our parameters, with their layouts: a table for each family, used in both
// directions. Callable from any thread.
//
// Dimensions are letters. Letters in parentheses are one dimension there; a p indexes our tensors that are one tensor
// there. For queries of GPT-2:
//
//   ours     h.{layer}.attn.q.weight         chd       [C,H,D]
//   theirs   h.{layer}.attn.c_attn.weight    c(phd)    [C,3HD], of which p = 0
//
// With {expert} in their name, each e of ours is a tensor there. No row permutes rotary pairs: both use (i, i + D/2).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/hugging_face.h"
#include "trireme/model.h"

namespace trireme {

struct WeightRow {
  std::string_view ours;
  std::string_view letters;
  std::string_view theirs;
  std::string_view layout;
  std::int64_t part = 0;   ///< p
  std::int64_t parts = 1;  ///< how many there are
};

struct WeightTable {
  std::string_view family;     ///< model_type
  std::string_view prefix;     ///< of theirs, which some files omit
  std::string_view embedding;  ///< theirs, [V,C]
  std::string_view head;  ///< theirs, which some files have although it is tied to the embedding
  std::span<const WeightRow> rows;
  std::span<const std::string_view> constants;  ///< tensors in some files that are not needed
};

/// The table of the family closest to the model. It need not cover all parameters: see check_hugging_face_names.
[[nodiscard]] const WeightTable& weight_table(const ModelConfig& config);

/// Elements of a parameter that correspond to elements of one of their tensors: for all indices i, ours[begin + sum
/// i·ours] is theirs[begin + sum i·theirs].
struct WeightPiece {
  struct Dimension {
    std::int64_t extent = 0;
    std::int64_t ours = 0;    ///< stride
    std::int64_t theirs = 0;  ///< stride
  };
  std::string tensor{};  ///< theirs, with the family's prefix
  Shape shape{};         ///< theirs
  std::string layout{};  ///< theirs: which letters form which dimension
  std::int64_t begin_ours = 0;
  std::int64_t begin_theirs = 0;
  std::vector<Dimension> dimensions{};  ///< in our order
};

/// All pieces of a parameter that is in the table and has the shape that its model gives it.
[[nodiscard]] std::vector<WeightPiece> weight_pieces(const WeightTable& table,
                                                     const ModelParameter& parameter);

/// "h.{layer}.x" for layer 3 is "h.3.x".
[[nodiscard]] std::string with_number(std::string_view pattern, std::string_view place,
                                      std::int64_t number);

}  // namespace trireme
