#include <array>
#include <string_view>

#include "trireme/model_dims.h"

namespace trireme {
namespace {

/// Names by the suffix of a parameter's name; the first matching row applies. `{even}` and `{odd}` match a number.
struct Row {
  std::string_view ending;
  std::string_view dims;
};

constexpr std::array kRows{
    // Inputs.
    Row{"tokens", "batch sequence"},
    Row{"images", "batch channels rows columns"},
    Row{"x", "batch inputs"},
    // GPT-2.
    Row{"wte.weight", "vocabulary width"},
    Row{"wpe.weight", "positions width"},
    Row{".attn.q.weight", "width heads head"},
    Row{".attn.k.weight", "width heads head"},
    Row{".attn.v.weight", "width heads head"},
    Row{".attn.q.bias", "heads head"},
    Row{".attn.k.bias", "heads head"},
    Row{".attn.v.bias", "heads head"},
    Row{".attn.c_proj.weight", "heads head width"},
    Row{".mlp.c_fc.weight", "width hidden"},
    Row{".mlp.c_fc.bias", "hidden"},
    Row{".mlp.c_proj.weight", "hidden width"},
    // Keys and values of earlier tokens, while decoding.
    Row{".k.cache", "batch positions heads head"},
    Row{".v.cache", "batch positions heads head"},
    // Llama.
    Row{"embed_tokens.weight", "vocabulary width"},
    Row{"lm_head.weight", "vocabulary width"},
    Row{".q_proj.weight", "heads head width"},
    Row{".k_proj.weight", "heads head width"},
    Row{".v_proj.weight", "heads head width"},
    Row{".o_proj.weight", "width heads head"},
    Row{".gate_proj.weight", "hidden width"},
    Row{".up_proj.weight", "hidden width"},
    Row{".down_proj.weight", "width hidden"},
    // Mixtures of experts.
    Row{".experts.c_fc.weight", "experts width hidden"},
    Row{".experts.c_proj.weight", "experts hidden width"},
    Row{".experts.w1.weight", "experts hidden width"},
    Row{".experts.w3.weight", "experts hidden width"},
    Row{".experts.w2.weight", "experts width hidden"},
    Row{".shared_expert.c_fc.weight", "width hidden"},
    Row{".shared_expert.c_proj.weight", "hidden width"},
    Row{".shared_expert.w1.weight", "hidden width"},
    Row{".shared_expert.w3.weight", "hidden width"},
    Row{".shared_expert.w2.weight", "width hidden"},
    // Perceptrons: columns of one layer, then rows of the next.
    Row{"layers.{even}.weight", "width hidden"},
    Row{"layers.{even}.bias", "hidden"},
    Row{"layers.{odd}.weight", "hidden width"},
    // Conv nets: likewise, over channels.
    Row{"stem.weight", "hidden channels rows columns"},
    Row{"stem.bias", "hidden"},
    Row{"branches.0.weight", "filters hidden rows columns"},
    Row{"branches.1.weight", "filters hidden rows columns"},
};

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// Whether the name has this suffix, with a number of the right parity.
bool fits(std::string_view name, std::string_view ending) {
  const std::size_t open = ending.find('{');
  if (open == std::string_view::npos) {
    return name.ends_with(ending);
  }
  const std::size_t close = ending.find('}');
  const bool even = ending.substr(open + 1, close - open - 1) == "even";
  const std::string_view after = ending.substr(close + 1);
  if (!name.ends_with(after)) {
    return false;
  }
  name.remove_suffix(after.size());
  if (name.empty() || !is_digit(name.back())) {
    return false;
  }
  const bool fitting = ((name.back() - '0') % 2 == 0) == even;
  while (!name.empty() && is_digit(name.back())) {
    name.remove_suffix(1);
  }
  return fitting && name.ends_with(ending.substr(0, open));
}

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const std::size_t end = text.find(' ');
    words.emplace_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return words;
}

/// The names of a row, if the value has as many dimensions; targets have the dimensions of their predictions.
std::vector<std::string> names_of(const Value& value) {
  const int rank = value.type.shape.rank();
  if (value.origin == Origin::Input && value.name == "targets") {
    return rank == 1 ? std::vector<std::string>{"batch"}
                     : std::vector<std::string>{
                           "batch", is_float(value.type.dtype) ? "outputs" : "sequence"};
  }
  for (const Row& row : kRows) {
    if (fits(value.name, row.ending)) {
      std::vector<std::string> words = words_of(row.dims);
      return std::ssize(words) == rank ? words : std::vector<std::string>{};
    }
  }
  return {};
}

}  // namespace

DimNames dim_names(const Graph& graph) {
  DimNames names;
  for (const Value& value : graph.values()) {
    const bool is_cache = value.origin == Origin::State && value.name.ends_with(".cache");
    if (value.origin == Origin::Input || value.origin == Origin::Parameter || is_cache) {
      std::vector<std::string> found = names_of(value);
      if (!found.empty()) {
        names[value.name] = std::move(found);
      }
    }
  }
  return names;
}

}  // namespace trireme
