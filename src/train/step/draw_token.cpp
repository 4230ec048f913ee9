#include "trireme/draw_token.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <vector>

#include <fmt/format.h>

#include "graph/random.h"

namespace trireme {
namespace {

/// A token and its weight, relative to the likeliest.
struct Candidate {
  std::int32_t token = 0;
  double weight = 0;
};

std::vector<Candidate> candidates_of(std::span<const float> logits, double temperature) {
  const double largest = *std::ranges::max_element(logits);
  std::vector<Candidate> all;
  all.reserve(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i) {
    all.push_back({.token = static_cast<std::int32_t>(i),
                   .weight = std::exp((static_cast<double>(logits[i]) - largest) / temperature)});
  }
  return all;
}

double total_of(const std::vector<Candidate>& all) {
  return std::accumulate(all.begin(), all.end(), 0.0,
                         [](double sum, const Candidate& one) { return sum + one.weight; });
}

/// Keeps the first candidates, likeliest first, up to the share `top_p` of all weight; at least one.
void keep_share(std::vector<Candidate>& sorted, double top_p) {
  const double wanted = top_p * total_of(sorted);
  double sum = 0;
  std::size_t kept = 0;
  while (kept < sorted.size() && (kept == 0 || sum < wanted)) {
    sum += sorted[kept++].weight;
  }
  sorted.resize(kept);
}

/// Applies top_k, then top_p to the rest.
void restrict_to(std::vector<Candidate>& all, const SamplingOptions& options) {
  if (options.top_k == 0 && options.top_p >= 1) {
    return;
  }
  std::ranges::stable_sort(all, std::greater<>(), &Candidate::weight);
  if (options.top_k > 0) {
    all.resize(std::min<std::size_t>(all.size(), options.top_k));
  }
  keep_share(all, options.top_p);
}

}  // namespace

std::vector<std::string> problems(const SamplingOptions& o) {
  std::vector<std::string> found;
  if (!(o.temperature >= 0 && std::isfinite(o.temperature))) {
    found.push_back(fmt::format("--temperature is {}; it must be 0 or more", o.temperature));
  }
  if (o.top_k < 0) {
    found.push_back(
        fmt::format("--top-k is {}; it must be 1 or more, or 0 for all tokens", o.top_k));
  }
  if (!(o.top_p > 0 && o.top_p <= 1)) {
    found.push_back(fmt::format("--top-p is {}; it must be above 0 and at most 1", o.top_p));
  }
  return found;
}

std::int32_t draw_token(std::span<const float> logits, const SamplingOptions& options,
                        std::int64_t index) {
  if (options.temperature <= 0) {
    return static_cast<std::int32_t>(std::ranges::max_element(logits) - logits.begin());
  }
  std::vector<Candidate> candidates = candidates_of(logits, options.temperature);
  restrict_to(candidates, options);
  const random::Stream stream{static_cast<std::int64_t>(options.seed), index, random::Use::Mask};
  double left = random::uniform(random::block_words(stream, 0)[0]) * total_of(candidates);
  for (const Candidate& candidate : candidates) {
    left -= candidate.weight;
    if (left <= 0) {
      return candidate.token;
    }
  }
  return candidates.back().token;
}

}  // namespace trireme
