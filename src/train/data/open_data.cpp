#include <algorithm>
#include <memory>

#include <fmt/format.h>

#include "train/data/batches.h"
#include "train/data/bpe.h"
#include "train/data/language.h"
#include "trireme/error.h"
#include "trireme/train_data.h"

namespace trireme {
namespace {

constexpr std::int64_t kLanguageTokens = 4'000'000;

/// Tokens, and how to display them.
struct Opened {
  std::string name;
  train::Tokens tokens;
  std::optional<LossBounds> bounds;
  std::function<std::string(std::span<const std::int32_t>)> text;
};

Opened open_language(std::uint64_t seed) {
  const auto language = std::make_shared<train::Language>();
  return {"a generated language",
          train::Tokens(language->sample(kLanguageTokens, seed), language->symbols(),
                        "the generated language"),
          LossBounds{language->entropy_rate(), language->unigram_entropy(),
                     "the language's own entropy, which no model can beat",
                     "knowing only how frequent each token is"},
          [language](std::span<const std::int32_t> tokens) { return language->text(tokens); }};
}

std::string bytes_text(std::span<const std::int32_t> tokens) {
  std::string text;
  for (const std::int32_t token : tokens) {
    text.push_back(static_cast<char>(token));
  }
  return text;
}

/// Opens what an option names; a file that cannot be read becomes a usage error for that option.
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

// Create whatever may throw first: GCC 12 destroys members twice when one in the middle of a braced list throws.

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

TrainData open_data(const ModelConfig&, const TrainSettings& settings) {
  const Opened source = settings.data.empty() ? open_language(settings.seed) : open_file(settings);
  const auto part = [&](train::Part which) {
    return opened(settings.data.empty() ? "--length" : "--data", [&] {
      return train::make_batches(
          train::TokenSource(source.tokens, source_options(settings, which)));
    });
  };
  TrainData data;
  data.name = source.name;
  data.vocabulary = source.tokens.vocabulary();
  data.training = part(train::Part::Training);
  if (settings.validation > 0) {
    data.validation = part(train::Part::Validation);
  }
  data.bounds = source.bounds;
  data.text = source.text;
  return data;
}

/// Validation examples come from a separate stream.
template <class Task>
TrainData generated(const Task& task, const TrainSettings& settings) {
  TrainData data;
  data.training = train::make_batches(task, 2 * settings.seed);
  if (settings.validation > 0) {
    data.validation = train::make_batches(task, 2 * settings.seed + 1);
  }
  data.bounds = LossBounds{task.floor(), task.uninformed(), {}, {}};
  return data;
}

TrainData open_data(const MlpConfig& model, const TrainSettings& settings) {
  train::WaveOptions options;
  options.inputs = model.inputs;
  options.outputs = model.outputs;
  TrainData data = generated(train::WaveTask(options), settings);
  data.name = "generated: noisy waves along fixed directions";
  data.bounds->floor_is = "the variance of the targets' noise, which no model can foresee";
  data.bounds->uninformed_is = "always answering the mean";
  return data;
}

TrainData open_data(const ConvNetConfig& model, const TrainSettings& settings) {
  train::PatternOptions options;
  options.size = model.size;
  options.channels = model.channels;
  options.classes = model.classes;
  TrainData data = generated(train::PatternTask(options), settings);
  data.name = "generated: patterns somewhere in noise, some labels wrong";
  data.bounds->floor_is = "the entropy of the wrong labels, which no model can foresee";
  data.bounds->uninformed_is = "guessing evenly among the classes";
  return data;
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

TrainData open_train_data(const TrainSettings& settings, const AnyModelConfig& model) {
  if (!std::holds_alternative<ModelConfig>(model) &&
      !(settings.data.empty() && settings.tokenizer.empty())) {
    throw Error(ErrorKind::Usage,
                fmt::format("{} trains on generated data only; leave out --data and --tokenizer",
                            name_of(model)));
  }
  return std::visit([&](const auto& config) { return open_data(config, settings); }, model);
}

}  // namespace trireme
