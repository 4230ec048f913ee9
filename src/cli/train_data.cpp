#include "cli/train_data.h"

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

/// What an option names; a file that cannot be read is here an option that cannot be.
template <class Open>
auto opened(std::string_view option, const Open& open) {
  try {
    return open();
  } catch (const Error& error) {
    throw Error(ErrorKind::Usage, fmt::format("{}: {}", option, error.what()));
  }
}

std::shared_ptr<train::BpeTokenizer> open_tokenizer(const std::string& path) {
  return opened("--tokenizer (a tokenizer.json of GPT-2's kind)",
                [&] { return std::make_shared<train::BpeTokenizer>(train::load_tokenizer(path)); });
}

train::Tokens open_tokens(const TrainSettings& s, const train::BpeTokenizer* tokenizer) {
  return opened("--data", [&] {
    if (s.data.ends_with(".bin")) {
      return tokenizer == nullptr ? train::open_token_file(s.data)
                                  : train::open_token_file(s.data, tokenizer->vocabulary());
    }
    return tokenizer == nullptr ? train::open_bytes(s.data) : train::open_text(s.data, *tokenizer);
  });
}

std::string numbers_text(std::span<const std::int32_t> tokens) {
  return fmt::format("tokens {} (give --tokenizer to see text)", fmt::join(tokens, " "));
}

// What may throw comes first: GCC 12 destroys members twice when one in the middle of a braced list throws.

Opened open_file(const TrainSettings& settings) {
  std::shared_ptr<train::BpeTokenizer> tokenizer;
  if (!settings.tokenizer.empty()) {
    tokenizer = open_tokenizer(settings.tokenizer);
  }
  const train::Tokens tokens = open_tokens(settings, tokenizer.get());
  if (tokenizer) {
    const auto decode = [tokenizer](std::span<const std::int32_t> some) {
      return tokenizer->decode(some);
    };
    return {settings.data, tokens, std::nullopt, decode};
  }
  return {settings.data, tokens, std::nullopt,
          settings.data.ends_with(".bin") ? numbers_text : bytes_text};
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

TrainData open_train_data(const TrainSettings& settings) {
  const Opened source = settings.data.empty() ? open_language(settings.seed) : open_file(settings);
  const auto part = [&](train::Part which) {
    return opened(settings.data.empty() ? "--length" : "--data", [&] {
      return train::TokenSource(source.tokens, source_options(settings, which));
    });
  };
  const train::TokenSource training = part(train::Part::Training);
  std::optional<train::TokenSource> validation;
  if (settings.validation > 0) {
    validation = part(train::Part::Validation);
  }
  return {.name = source.name,
          .vocabulary = source.tokens.vocabulary(),
          .training = training,
          .validation = validation,
          .marks = source.marks,
          .text = source.text};
}

}  // namespace trireme::cli
