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
          LossMarks{language->entropy_rate(), language->unigram_entropy(),
                    "this language's own entropy per symbol, which no model can beat",
                    "knowing only the symbols' frequencies gives"},
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

TrainData open_data(const ModelConfig&, const TrainSettings& settings) {
  Opened opened = settings.data.empty() ? open_language(settings.seed) : open_file(settings);
  TrainData data;
  data.name = opened.name;
  data.vocabulary = opened.tokens.vocabulary();
  data.training = train::make_batches(
      train::TokenSource(opened.tokens, source_options(settings, train::Part::Training)));
  if (settings.validation > 0) {
    data.validation = train::make_batches(
        train::TokenSource(opened.tokens, source_options(settings, train::Part::Validation)));
  }
  data.marks = opened.marks;
  data.text = opened.text;
  return data;
}

/// Examples for validation come from a stream of their own.
template <class Task>
TrainData generated(const Task& task, const TrainSettings& settings) {
  TrainData data;
  data.training = train::make_batches(task, 2 * settings.seed);
  if (settings.validation > 0) {
    data.validation = train::make_batches(task, 2 * settings.seed + 1);
  }
  data.marks = LossMarks{task.floor(), task.uninformed(), {}, {}};
  return data;
}

TrainData open_data(const MlpConfig& model, const TrainSettings& settings) {
  train::WaveOptions options;
  options.inputs = model.inputs;
  options.outputs = model.outputs;
  TrainData data = generated(train::WaveTask(options), settings);
  data.name = "generated: noisy waves along fixed directions";
  data.marks->floor_is = "the variance of the targets' noise, which no model can foresee";
  data.marks->uninformed_is = "always answering the mean gives";
  return data;
}

TrainData open_data(const ConvNetConfig& model, const TrainSettings& settings) {
  train::PatternOptions options;
  options.size = model.size;
  options.channels = model.channels;
  options.classes = model.classes;
  TrainData data = generated(train::PatternTask(options), settings);
  data.name = "generated: patterns somewhere in noise, some labels wrong";
  data.marks->floor_is = "the entropy of the wrong labels, which no model can foresee";
  data.marks->uninformed_is = "guessing gives";
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
                fmt::format("{} trains on what is generated for it, not on files", name_of(model)));
  }
  return std::visit([&](const auto& config) { return open_data(config, settings); }, model);
}

}  // namespace trireme::cli
