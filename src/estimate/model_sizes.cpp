#include "trireme/model_sizes.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "trireme/message.h"

namespace trireme {
namespace {

std::int64_t given_or(std::int64_t given, std::int64_t otherwise) {
  return given > 0 ? given : otherwise;
}

bool is_other_model(const ModelSizes& s) {
  return s.untied || s.family ||
         std::ranges::any_of(std::array{s.layers, s.width, s.heads, s.key_heads, s.head_width,
                                        s.hidden, s.vocabulary, s.experts, s.experts_per_token,
                                        s.expert_hidden, s.shared_experts, s.mixture_every},
                             [](std::int64_t size) { return size > 0; });
}

void resize_blocks(const ModelSizes& s, ModelConfig& c) {
  const ModelConfig before = c;
  c.layers = given_or(s.layers, c.layers);
  c.width = given_or(s.width, c.width);
  c.heads = given_or(s.heads, c.heads);
  c.key_heads =
      given_or(s.key_heads, before.key_heads == before.heads ? c.heads : before.key_heads);
  const bool other_heads = s.width > 0 || s.heads > 0;
  require(!other_heads || s.head_width > 0 || c.width % c.heads == 0,
          fmt::format("--heads: {} heads cannot share a width of {}; give --head-width", c.heads,
                      c.width));
  c.head_width = given_or(s.head_width, other_heads ? c.width / c.heads : c.head_width);
  c.hidden = given_or(s.hidden, std::max<std::int64_t>(1, before.hidden * c.width / before.width));
  c.vocabulary = given_or(s.vocabulary, c.vocabulary);
  c.context = std::max(given_or(s.context, c.context), s.least_context);
}

void resize_mixture(const ModelSizes& s, Architecture& a) {
  ModelConfig& c = a.model;
  c.experts = given_or(s.experts, c.experts);
  c.experts_per_token =
      given_or(s.experts_per_token,
               c.experts > 1 ? std::min(c.experts_per_token, c.experts) : c.experts_per_token);
  a.expert_hidden = given_or(s.expert_hidden, a.expert_hidden);
  c.shared_experts = given_or(s.shared_experts, c.shared_experts);
  c.mixture_every = given_or(s.mixture_every, c.mixture_every);
}

}  // namespace

Architecture resized(Architecture architecture, const ModelSizes& sizes) {
  ModelConfig& model = architecture.model;
  model.family = sizes.family.value_or(model.family);
  resize_blocks(sizes, model);
  model.tied = model.tied && !sizes.untied;
  resize_mixture(sizes, architecture);
  model.name += is_other_model(sizes) ? "-resized" : "";
  require_valid(architecture);
  return architecture;
}

}  // namespace trireme
