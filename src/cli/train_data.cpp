#include "cli/train_data.h"

#include <algorithm>
#include <memory>

#include <fmt/format.h>

#include "train/bpe.h"
#include "train/language.h"
#include "trireme/error.h"

namespace trireme::cli {
namespace {

constexpr std::int64_t kLanguageTokens = 4'000'000;

/// Tokens and how to show them.
struct Opened {
  std::string name;
  train::Tokens tokens;
  std::optional<LossMarks> marks;
  std::function<std::string(std::span<const std::int32_t>)> text;
};

Opened open_language(std::uint64_t seed) {
  const auto language = std::make_shared<train::Language>();
  return {"a generated language",
          train::Tokens(language->sample(kLanguageTokens, seed), language->symbols(),
                        "the generated language"),
          LossMarks{language->entropy_rate(), language->unigram_entropy()},
          [language](std::span<const std::int32_t> tokens) { return language->text(tokens); }};
}

std::string bytes_text(std::span<const std::int32_t> tokens) {
  std::string text;
  for (const std::int32_t token : tokens) {
    text.push_back(static_cast<char>(token));
  }
  return text;
}

Opened open_file(const TrainSettings& settings) {
  if (!settings.tokenizer.empty()) {
    const auto tokenizer =
        std::make_shared<train::BpeTokenizer>(train::load_tokenizer(settings.tokenizer));
    const auto decode = [tokenizer](std::span<const std::int32_t> tokens) {
      return tokenizer->decode(tokens);
    };
    return {settings.data,
            settings.data.ends_with(".bin")
                ? train::open_token_file(settings.data, tokenizer->vocabulary())
                : train::open_text(settings.data, *tokenizer),
            std::nullopt, decode};
  }
  if (settings.data.ends_with(".bin")) {
    return {settings.data, train::open_token_file(settings.data), std::nullopt,
            [](std::span<const std::int32_t> tokens) {
              return fmt::format("tokens {} (give --tokenizer to see text)",
                                 fmt::join(tokens, " "));
            }};
  }
  return {settings.data, train::open_bytes(settings.data), std::nullopt, bytes_text};
}

train::TokenSourceOptions source_options(const TrainSettings& settings, train::Part part) {
  return {
      .length = settings.length,
      .validation_fraction = settings.validation,
      .part = part,
      .order = part == train::Part::Training ? train::Order::Shuffled : train::Order::Sequential,
      .seed = settings.seed};
}

}  // namespace

std::string text_of(const TrainData& data, std::span<const std::int32_t> tokens) {
  const auto unknown = [&](std::int32_t token) { return token >= data.vocabulary; };
  std::string text;
  while (!tokens.empty()) {
    const auto end = std::ranges::find_if(tokens, unknown);
    const auto known = static_cast<std::size_t>(end - tokens.begin());
    text += known > 0 ? data.text(tokens.first(known)) : "\uFFFD";
    tokens = tokens.subspan(std::max<std::size_t>(known, 1));
  }
  return text;
}

TrainData open_train_data(const TrainSettings& settings) {
  Opened opened = settings.data.empty() ? open_language(settings.seed) : open_file(settings);
  TrainData data{.name = opened.name,
                 .vocabulary = opened.tokens.vocabulary(),
                 .training = {opened.tokens, source_options(settings, train::Part::Training)},
                 .validation = {},
                 .marks = opened.marks,
                 .text = opened.text};
  if (settings.validation > 0) {
    data.validation.emplace(opened.tokens, source_options(settings, train::Part::Validation));
  }
  return data;
}

}  // namespace trireme::cli
