#include "model/weight_names.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "base/check.h"
#include "base/text.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr std::string_view kLayer = "{layer}";
constexpr std::string_view kExpert = "{expert}";

// GPT-2. Its linear layers store their weights as [in, out] (Conv1D), as ours do.
constexpr std::array<WeightRow, 21> kGpt2Rows{{
    {"wte.weight", "vc", "transformer.wte.weight", "vc"},
    {"wpe.weight", "tc", "transformer.wpe.weight", "tc"},
    {"h.{layer}.ln_1.weight", "c", "transformer.h.{layer}.ln_1.weight", "c"},
    {"h.{layer}.ln_1.bias", "c", "transformer.h.{layer}.ln_1.bias", "c"},
    {"h.{layer}.attn.q.weight", "chd", "transformer.h.{layer}.attn.c_attn.weight", "c(phd)", 0, 3},
    {"h.{layer}.attn.k.weight", "chd", "transformer.h.{layer}.attn.c_attn.weight", "c(phd)", 1, 3},
    {"h.{layer}.attn.v.weight", "chd", "transformer.h.{layer}.attn.c_attn.weight", "c(phd)", 2, 3},
    {"h.{layer}.attn.q.bias", "hd", "transformer.h.{layer}.attn.c_attn.bias", "(phd)", 0, 3},
    {"h.{layer}.attn.k.bias", "hd", "transformer.h.{layer}.attn.c_attn.bias", "(phd)", 1, 3},
    {"h.{layer}.attn.v.bias", "hd", "transformer.h.{layer}.attn.c_attn.bias", "(phd)", 2, 3},
    {"h.{layer}.attn.c_proj.weight", "hdc", "transformer.h.{layer}.attn.c_proj.weight", "(hd)c"},
    {"h.{layer}.attn.c_proj.bias", "c", "transformer.h.{layer}.attn.c_proj.bias", "c"},
    {"h.{layer}.ln_2.weight", "c", "transformer.h.{layer}.ln_2.weight", "c"},
    {"h.{layer}.ln_2.bias", "c", "transformer.h.{layer}.ln_2.bias", "c"},
    {"h.{layer}.mlp.c_fc.weight", "cf", "transformer.h.{layer}.mlp.c_fc.weight", "cf"},
    {"h.{layer}.mlp.c_fc.bias", "f", "transformer.h.{layer}.mlp.c_fc.bias", "f"},
    {"h.{layer}.mlp.c_proj.weight", "fc", "transformer.h.{layer}.mlp.c_proj.weight", "fc"},
    {"h.{layer}.mlp.c_proj.bias", "c", "transformer.h.{layer}.mlp.c_proj.bias", "c"},
    {"ln_f.weight", "c", "transformer.ln_f.weight", "c"},
    {"ln_f.bias", "c", "transformer.ln_f.bias", "c"},
    {"lm_head.weight", "vc", "lm_head.weight", "vc"},
}};

/// The causal mask, and the value for masked scores.
constexpr std::array<std::string_view, 2> kGpt2Constants{"transformer.h.{layer}.attn.bias",
                                                         "transformer.h.{layer}.attn.masked_bias"};

// Llama and Mixtral store theirs as [out, in].
constexpr WeightRow same(std::string_view name, std::string_view letters, std::string_view layout) {
  return {name, letters, name, layout};
}

constexpr std::array<WeightRow, 12> kLlamaRows{{
    same("model.embed_tokens.weight", "vc", "vc"),
    same("model.layers.{layer}.input_layernorm.weight", "c", "c"),
    same("model.layers.{layer}.self_attn.q_proj.weight", "hdc", "(hd)c"),
    same("model.layers.{layer}.self_attn.k_proj.weight", "hdc", "(hd)c"),
    same("model.layers.{layer}.self_attn.v_proj.weight", "hdc", "(hd)c"),
    same("model.layers.{layer}.self_attn.o_proj.weight", "chd", "c(hd)"),
    same("model.layers.{layer}.post_attention_layernorm.weight", "c", "c"),
    same("model.layers.{layer}.mlp.gate_proj.weight", "fc", "fc"),
    same("model.layers.{layer}.mlp.up_proj.weight", "fc", "fc"),
    same("model.layers.{layer}.mlp.down_proj.weight", "cf", "cf"),
    same("model.norm.weight", "c", "c"),
    same("lm_head.weight", "vc", "vc"),
}};

constexpr std::array<WeightRow, 13> kMixtralRows{{
    same("model.embed_tokens.weight", "vc", "vc"),
    same("model.layers.{layer}.input_layernorm.weight", "c", "c"),
    same("model.layers.{layer}.self_attn.q_proj.weight", "hdc", "(hd)c"),
    same("model.layers.{layer}.self_attn.k_proj.weight", "hdc", "(hd)c"),
    same("model.layers.{layer}.self_attn.v_proj.weight", "hdc", "(hd)c"),
    same("model.layers.{layer}.self_attn.o_proj.weight", "chd", "c(hd)"),
    same("model.layers.{layer}.post_attention_layernorm.weight", "c", "c"),
    same("model.layers.{layer}.block_sparse_moe.gate.weight", "ec", "ec"),
    {"model.layers.{layer}.block_sparse_moe.experts.w1.weight", "efc",
     "model.layers.{layer}.block_sparse_moe.experts.{expert}.w1.weight", "fc"},
    {"model.layers.{layer}.block_sparse_moe.experts.w2.weight", "ecf",
     "model.layers.{layer}.block_sparse_moe.experts.{expert}.w2.weight", "cf"},
    {"model.layers.{layer}.block_sparse_moe.experts.w3.weight", "efc",
     "model.layers.{layer}.block_sparse_moe.experts.{expert}.w3.weight", "fc"},
    same("model.norm.weight", "c", "c"),
    same("lm_head.weight", "vc", "vc"),
}};

/// The frequencies of rotary positions.
constexpr std::array<std::string_view, 1> kRotaryConstants{
    "model.layers.{layer}.self_attn.rotary_emb.inv_freq"};

constexpr WeightTable kGpt2{"gpt2",           "transformer.", "transformer.wte.weight",
                            "lm_head.weight", kGpt2Rows,      kGpt2Constants};
constexpr WeightTable kLlama{"llama",          "model.",   "model.embed_tokens.weight",
                             "lm_head.weight", kLlamaRows, kRotaryConstants};
constexpr WeightTable kMixtral{"mixtral",        "model.",     "model.embed_tokens.weight",
                               "lm_head.weight", kMixtralRows, kRotaryConstants};

/// The layer if `name` is `pattern` with a number in place of {layer}; -1 if the pattern has no {layer}.
std::optional<std::int64_t> layer_in(std::string_view name, std::string_view pattern) {
  const std::size_t at = pattern.find(kLayer);
  if (at == std::string_view::npos) {
    return name == pattern ? std::optional<std::int64_t>(-1) : std::nullopt;
  }
  const std::string_view behind = pattern.substr(at + kLayer.size());
  if (name.size() <= at + behind.size() || !name.starts_with(pattern.substr(0, at)) ||
      !name.ends_with(behind)) {
    return std::nullopt;
  }
  return parse_integer(name.substr(at, name.size() - at - behind.size()));
}

/// A row, and the matched layer.
struct FoundRow {
  const WeightRow* row = nullptr;
  std::int64_t layer = -1;
};

std::optional<FoundRow> find_row(const WeightTable& table, std::string_view parameter) {
  for (const WeightRow& row : table.rows) {
    if (const std::optional<std::int64_t> layer = layer_in(parameter, row.ours)) {
      return FoundRow{&row, *layer};
    }
  }
  return std::nullopt;
}

/// "h.*.ln_1.weight" for "h.3.ln_1.weight".
std::string without_numbers(std::string_view name) {
  std::vector<std::string_view> parts = split(name, '.');
  for (std::string_view& part : parts) {
    part = parse_integer(part) ? "*" : part;
  }
  return fmt::format("{}", fmt::join(parts, "."));
}

/// The size of each letter.
std::map<char, std::int64_t> sizes_of(const WeightRow& row, const ModelParameter& parameter) {
  const Shape& shape = parameter.type.shape;
  TRIREME_CHECK(shape.rank() == std::ssize(row.letters),
                fmt::format("{} is {}, not {}", parameter.name, to_text(shape), row.letters));
  std::map<char, std::int64_t> sizes{{'p', row.parts}};
  for (std::size_t i = 0; i < row.letters.size(); ++i) {
    sizes[row.letters[i]] = shape.dims()[i];
  }
  return sizes;
}

/// The memory layout of their tensor.
struct TheirForm {
  Shape shape;
  std::map<char, std::int64_t> strides;
};

TheirForm form_of(std::string_view layout, const std::map<char, std::int64_t>& sizes) {
  std::vector<std::int64_t> dims;
  bool inside = false;
  for (const char c : layout) {
    if (c == '(' || c == ')') {
      inside = c == '(';
      if (inside) {
        dims.push_back(1);
      }
    } else if (inside) {
      dims.back() *= sizes.at(c);
    } else {
      dims.push_back(sizes.at(c));
    }
  }
  TheirForm form{.shape = Shape(std::move(dims)), .strides = {}};
  std::int64_t stride = 1;
  for (auto c = layout.rbegin(); c != layout.rend(); ++c) {
    if (*c != '(' && *c != ')') {
      form.strides[*c] = stride;
      stride *= sizes.at(*c);
    }
  }
  return form;
}

/// The piece of one expert, or of everything if `expert` is -1.
WeightPiece piece_of(const WeightRow& row, const ModelParameter& parameter, std::int64_t expert) {
  const TheirForm form = form_of(row.layout, sizes_of(row, parameter));
  WeightPiece piece;
  piece.tensor = row.theirs;
  piece.shape = form.shape;
  piece.layout = row.layout;
  piece.begin_theirs = row.parts > 1 ? row.part * form.strides.at('p') : 0;
  const std::vector<std::int64_t> ours = parameter.type.shape.strides();
  for (std::size_t i = 0; i < row.letters.size(); ++i) {
    const char letter = row.letters[i];
    if (letter == 'e' && expert >= 0) {
      piece.begin_ours = expert * ours[i];
    } else {
      piece.dimensions.push_back(
          {parameter.type.shape.dims()[i], ours[i], form.strides.at(letter)});
    }
  }
  return piece;
}

}  // namespace

const WeightTable& weight_table(const ModelConfig& config) {
  if (config.family == Family::Gpt2) {
    return kGpt2;
  }
  return config.experts == 1 ? kLlama : kMixtral;
}

void check_hugging_face_names(const AnyModelConfig& config,
                              std::span<const ModelParameter> parameters) {
  const auto* language = std::get_if<ModelConfig>(&config);
  std::vector<std::string> unknown;
  for (const ModelParameter& parameter : parameters) {
    if (language != nullptr && find_row(weight_table(*language), parameter.name)) {
      continue;
    }
    std::string name = without_numbers(parameter.name);
    if (std::ranges::find(unknown, name) == unknown.end()) {
      unknown.push_back(std::move(name));
    }
  }
  if (!unknown.empty()) {
    throw Error(ErrorKind::Usage, fmt::format("model {}: none of the families gpt2, llama and "
                                              "mixtral of Hugging Face has its {}",
                                              name_of(config), list_words(unknown, "and")));
  }
}

std::string with_number(std::string_view pattern, std::string_view place, std::int64_t number) {
  std::string text(pattern);
  if (const std::size_t at = text.find(place); at != std::string::npos) {
    text.replace(at, place.size(), std::to_string(number));
  }
  return text;
}

std::vector<WeightPiece> weight_pieces(const WeightTable& table, const ModelParameter& parameter) {
  const std::optional<FoundRow> found = find_row(table, parameter.name);
  TRIREME_CHECK(found.has_value(), parameter.name);
  const WeightRow& row = *found->row;
  const bool apart = row.theirs.find(kExpert) != std::string_view::npos;
  const std::int64_t count = apart ? parameter.type.shape.dim(0) : 1;
  std::vector<WeightPiece> pieces;
  for (std::int64_t expert = 0; expert < count; ++expert) {
    pieces.push_back(piece_of(row, parameter, apart ? expert : -1));
    pieces.back().tensor =
        with_number(with_number(row.theirs, kLayer, found->layer), kExpert, expert);
  }
  return pieces;
}

}  // namespace trireme
