// Which tensor of a Hugging Face model is which parameter of ours, and how the one lies in the other: a table for
// each family, read in both directions. Any thread.
//
// Dimensions are letters. Where brackets hold several, they are one dimension there; a p counts tensors of ours
// that are one tensor there. For queries of GPT-2:
//
//   ours     h.{layer}.attn.q.weight         chd       [C,H,D]
//   theirs   h.{layer}.attn.c_attn.weight    c(phd)    [C,3HD], of which p = 0
//
// With {expert} in their name, each e of ours is a tensor there. No row turns pairs of rotary positions: both have
// them as (i, i + D/2).
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
  std::string_view prefix;     ///< of theirs, which some files leave out
  std::string_view embedding;  ///< theirs, [V,C]
  std::string_view head;       ///< theirs, which some files have though it is the embedding
  std::span<const WeightRow> rows;
  std::span<const std::string_view> constants;  ///< tensors that some files have and nobody needs
};

/// Of the family that the model is nearest to. It need not have all of the parameters: see check_hugging_face_names.
[[nodiscard]] const WeightTable& weight_table(const ModelConfig& config);

/// Elements of a parameter that are elements of one tensor of theirs: for all indices i,
/// ours[begin + sum i·ours] is theirs[begin + sum i·theirs].
struct WeightPiece {
  struct Dimension {
    std::int64_t extent = 0;
    std::int64_t ours = 0;    ///< stride
    std::int64_t theirs = 0;  ///< stride
  };
  std::string tensor{};  ///< theirs, with the family's prefix
  Shape shape{};         ///< theirs
  std::string layout{};  ///< theirs: which letters are which dimension
  std::int64_t begin_ours = 0;
  std::int64_t begin_theirs = 0;
  std::vector<Dimension> dimensions{};  ///< in our order
};

/// All pieces of a parameter that the table knows, and that has the shape that its model gives it.
[[nodiscard]] std::vector<WeightPiece> weight_pieces(const WeightTable& table,
                                                     const ModelParameter& parameter);

/// "h.{layer}.x" for layer 3 is "h.3.x".
[[nodiscard]] std::string with_number(std::string_view pattern, std::string_view place,
                                      std::int64_t number);

}  // namespace trireme
