// Reading and writing weights: both use the pieces of weight_names.h.
#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "model/weight_copy.h"
#include "model/weight_names.h"
#include "trireme/error.h"
#include "trireme/hugging_face.h"
#include "trireme/message.h"

namespace trireme {
namespace {

[[noreturn]] void fail(const std::string& file, const std::string& tensor,
                       const std::string& problem) {
  throw Error(ErrorKind::Input, fmt::format("{}: tensor {} {}", file, in_quotes(tensor), problem));
}

/// Whether these files omit the family's prefix.
bool is_bare(const WeightFiles& files, const WeightTable& table) {
  const auto at = files.tensors().lower_bound(std::string(table.prefix));
  return at == files.tensors().end() || !at->first.starts_with(table.prefix);
}

std::string bare(const std::string& name, const WeightTable& table) {
  return name.starts_with(table.prefix) ? name.substr(table.prefix.size()) : name;
}

/// A hint if a mismatched vocabulary size explains a tensor's shape.
std::string vocabulary_hint(const WeightPiece& piece, const Shape& found) {
  if (piece.layout != "vc" || found.rank() != 2 || found.dim(1) != piece.shape.dim(1)) {
    return {};
  }
  return fmt::format(
      ": the model's vocabulary is {}, the file's {}; a vocabulary is neither padded nor "
      "truncated, "
      "so give vocab_size as the file has it",
      piece.shape.dim(0), found.dim(0));
}

}  // namespace

HuggingFaceWeights::HuggingFaceWeights(const WeightFiles& files, WeightedModel model)
    : files_(files), model_(std::move(model)) {
  check_hugging_face_names(model_.config, model_.parameters);
  const WeightTable& table = weight_table(model_.config);
  const bool without_prefix = is_bare(files, table);
  for (const ModelParameter& parameter : model_.parameters) {
    std::vector<WeightPiece> pieces = weight_pieces(table, parameter);
    for (WeightPiece& piece : pieces) {
      piece.tensor = without_prefix ? bare(piece.tensor, table) : piece.tensor;
      check_piece(piece);
    }
    pieces_.emplace(parameter.name, std::move(pieces));
  }
  check_head();
  check_rest();
}

HuggingFaceWeights::~HuggingFaceWeights() = default;

void HuggingFaceWeights::check_piece(const WeightPiece& piece) const {
  const WeightFiles::Tensor* tensor = files_.find(piece.tensor);
  if (tensor == nullptr) {
    fail(
        files_.path(), piece.tensor,
        fmt::format("is missing; model {} needs it, {}", model_.config.name, to_text(piece.shape)));
  }
  const TensorSpec& spec = tensor->view.spec;
  if (spec.shape != piece.shape) {
    fail(tensor->file, piece.tensor,
         fmt::format("is {}, but {} in model {}{}", to_text(spec.shape), to_text(piece.shape),
                     model_.config.name, vocabulary_hint(piece, spec.shape)));
  }
  if (!is_float(spec.dtype)) {
    fail(tensor->file, piece.tensor,
         fmt::format("holds {}; weights are f32, f64, f16 or bf16", to_text(spec.dtype)));
  }
}

/// Some files contain an output layer although the model ties it to the embedding: then the two must be equal.
void HuggingFaceWeights::check_head() const {
  const WeightTable& table = weight_table(model_.config);
  const WeightFiles::Tensor* head = files_.find(std::string(table.head));
  if (!model_.config.tied || head == nullptr) {
    return;
  }
  const std::string embedding(table.embedding);
  const WeightFiles::Tensor* tied =
      files_.find(is_bare(files_, table) ? bare(embedding, table) : embedding);
  const bool same = head->view.spec.dtype == tied->view.spec.dtype &&
                    std::ranges::equal(head->view.bytes, tied->view.bytes);
  if (!same) {
    fail(head->file, head->view.spec.name,
         fmt::format("is not the embedding, though the output layer of model {} is "
                     "(tie_word_embeddings)",
                     model_.config.name));
  }
}

void HuggingFaceWeights::check_rest() const {
  const WeightTable& table = weight_table(model_.config);
  const bool without_prefix = is_bare(files_, table);
  std::set<std::string, std::less<>> known;
  for (const auto& [parameter, pieces] : pieces_) {
    for (const WeightPiece& piece : pieces) {
      known.insert(piece.tensor);
    }
  }
  for (const std::string_view constant : table.constants) {
    for (std::int64_t layer = 0; layer < model_.config.layers; ++layer) {
      const std::string name = with_number(constant, "{layer}", layer);
      known.insert(without_prefix ? bare(name, table) : name);
    }
  }
  if (model_.config.tied) {
    known.emplace(table.head);
  }
  for (const auto& [name, tensor] : files_.tensors()) {
    if (!known.contains(name)) {
      fail(tensor.file, name,
           fmt::format("{} belongs to no parameter of model {}", to_text(tensor.view.spec.shape),
                       model_.config.name));
    }
  }
}

HostBuffer HuggingFaceWeights::read(const std::string& parameter) const {
  const auto own = std::ranges::find(model_.parameters, parameter, &ModelParameter::name);
  if (own == model_.parameters.end()) {
    throw Error(ErrorKind::Usage, fmt::format("model {} has no parameter {}", model_.config.name,
                                              in_quotes(parameter)));
  }
  HostBuffer buffer(own->type.dtype, own->type.shape.element_count());
  for (const WeightPiece& piece : pieces_.at(parameter)) {
    const TensorView& view = files_.find(piece.tensor)->view;
    copy_to_ours(piece, {view.spec.dtype, view.bytes}, {own->type.dtype, buffer.raw()});
  }
  return buffer;
}

}  // namespace trireme
