#include <algorithm>
#include <filesystem>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "train/data/batches.h"
#include "train/data/bpe.h"
#include "train/data/data_files.h"
#include "train/data/language.h"
#include "trireme/error.h"
#include "trireme/load_model.h"
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

using ToText = std::function<std::string(std::span<const std::int32_t>)>;

/// The text of tokens, with U+FFFD for those that are not below `vocabulary`.
std::string known_text(const ToText& to_text, std::int64_t vocabulary,
                       std::span<const std::int32_t> tokens) {
  const auto unknown = [&](std::int32_t token) { return token >= vocabulary; };
  std::string text;
  while (!tokens.empty()) {
    const auto end = std::ranges::find_if(tokens, unknown);
    const std::size_t known = end - tokens.begin();
    text += known > 0 ? to_text(tokens.first(known)) : "\uFFFD";
    tokens = tokens.subspan(std::max<std::size_t>(known, 1));
  }
  return text;
}

/// Opens the files of an option; a file that cannot be read becomes a usage error for that option.
template <class Open>
auto opened(std::string_view option, const Open& open) {
  try {
    return open();
  } catch (const Error& error) {
    throw Error(ErrorKind::Usage, fmt::format("{}: {}", option, error.what()));
  }
}

std::string numbers_text(std::span<const std::int32_t> tokens) {
  return fmt::format("tokens {} (give --tokenizer to see text)", fmt::join(tokens, " "));
}

/// Opens the files of one option as one sequence of tokens.
class FileOpener {
 public:
  FileOpener(const TrainSettings& settings, const ModelConfig& model, const DataInput& input,
             const train::BpeTokenizer* tokenizer)
      : settings_(settings), model_(model), input_(input), tokenizer_(tokenizer) {}

  [[nodiscard]] train::Tokens open(std::string_view option,
                                   const std::vector<std::string>& names) const {
    return opened(option, [&] {
      const std::vector<std::string> files = train::list_files(names);
      require_one_kind(files);
      std::vector<train::Tokens> parts;
      parts.reserve(files.size());
      for (const std::string& file : files) {
        parts.push_back(open_one(file, files));
      }
      return parts.size() == 1 ? parts.front() : joined(parts, train::name_of_files(files));
    });
  }

 private:
  /// Bytes and tokens have different vocabularies.
  void require_one_kind(const std::vector<std::string>& files) const {
    const auto tokens = std::ranges::count_if(files, train::is_token_file);
    if (tokenizer_ == nullptr && tokens != 0 && std::cmp_not_equal(tokens, files.size())) {
      throw Error(
          ErrorKind::Usage,
          fmt::format("{} of {} files are tokens (*.bin), the others text; give --tokenizer "
                      "for the text",
                      tokens, files.size()));
    }
  }

  [[nodiscard]] train::Tokens open_one(const std::string& file,
                                       const std::vector<std::string>& all) const {
    if (train::is_token_file(file)) {
      return train::open_token_file(file, token_file_vocabulary(all));
    }
    if (file == "-") {
      return train::encode_text(standard_input(), tokenizer_, "standard input");
    }
    train::require_text_file(file);
    return tokenizer_ == nullptr ? train::open_bytes(file) : train::open_text(file, *tokenizer_);
  }

  [[nodiscard]] const std::string& standard_input() const {
    if (!input_.standard_input) {
      throw Error(ErrorKind::Usage, "standard input is not available here; give a file");
    }
    return *input_.standard_input;
  }

  /// A token file does not contain its vocabulary.
  [[nodiscard]] std::int32_t token_file_vocabulary(const std::vector<std::string>& all) const {
    if (settings_.vocabulary > 0) {
      return static_cast<std::int32_t>(settings_.vocabulary);
    }
    if (tokenizer_ != nullptr) {
      return tokenizer_->vocabulary();
    }
    if (!is_preset()) {
      return static_cast<std::int32_t>(model_.vocabulary);
    }
    const bool wide = std::ranges::any_of(all, [](const std::string& file) {
      return train::is_token_file(file) && train::token_width(file) == 4;
    });
    return wide ? train::kLlama3Vocabulary : train::kGpt2Vocabulary;
  }

  /// A preset takes its vocabulary from the data; any other model has its own.
  [[nodiscard]] bool is_preset() const {
    return !is_model_path(settings_.model) && model_.name == settings_.model;
  }

  const TrainSettings& settings_;
  const ModelConfig& model_;
  const DataInput& input_;
  const train::BpeTokenizer* tokenizer_;
};

bool has_text(const TrainSettings& settings) {
  const std::vector<std::string> files =
      opened("--data", [&] { return train::list_files(settings.data); });
  return !std::ranges::all_of(files, train::is_token_file);
}

/// The settings' tokenizer, or the model's own. Null if there is none; token files do not need one that is not supported.
std::shared_ptr<train::BpeTokenizer> open_tokenizer(const TrainSettings& settings,
                                                    const std::string& run_folder) {
  const std::string path = find_tokenizer(settings, run_folder);
  if (path.empty()) {
    return nullptr;
  }
  const bool own = settings.tokenizer.empty();
  try {
    return std::make_shared<train::BpeTokenizer>(train::load_tokenizer(path));
  } catch (const Error& error) {
    if (own && !has_text(settings)) {
      return nullptr;
    }
    throw Error(ErrorKind::Usage,
                fmt::format("{}: {}", own ? "--model" : "--tokenizer", error.what()));
  }
}

// Create whatever may throw first: GCC 12 destroys members twice when one in the middle of a braced list throws.

/// Training data, and validation data if it has separate files.
struct OpenedFiles {
  Opened training;
  std::optional<train::Tokens> validation{};
};

OpenedFiles open_files(const TrainSettings& settings, const ModelConfig& model,
                       const DataInput& input) {
  const std::shared_ptr<train::BpeTokenizer> tokenizer = open_tokenizer(settings, input.run_folder);
  const FileOpener opener(settings, model, input, tokenizer.get());
  const train::Tokens tokens = opener.open("--data", settings.data);
  std::optional<train::Tokens> validation;
  if (!settings.validation_data.empty()) {
    validation = opener.open("--validation-data", settings.validation_data);
  }
  ToText text = has_text(settings) ? bytes_text : numbers_text;
  if (tokenizer) {
    text = [tokenizer](std::span<const std::int32_t> some) { return tokenizer->decode(some); };
  }
  return {{tokens.name(), tokens, std::nullopt, text}, validation};
}

train::TokenSourceOptions source_options(const TrainSettings& settings, train::Part part) {
  return {
      .length = settings.length,
      .validation_fraction = settings.validation_data.empty() ? settings.validation : 0,
      .part = part,
      .order = part == train::Part::Training ? train::Order::Shuffled : train::Order::Sequential,
      .seed = settings.seed};
}

/// The whole of the validation data, in order.
train::TokenSourceOptions separate_options(const TrainSettings& settings) {
  return {.length = settings.length, .order = train::Order::Sequential};
}

/// The number of tokens that the model must have: --vocabulary, or as many as the data has.
std::int64_t vocabulary_of(const TrainSettings& settings, const train::Tokens& tokens) {
  const std::int64_t own = tokens.vocabulary();
  if (settings.vocabulary > 0 && settings.vocabulary < own) {
    throw Error(ErrorKind::Usage,
                fmt::format("--vocabulary is {}, but {} has {} tokens; give at least that many",
                            settings.vocabulary, tokens.name(), own));
  }
  return std::max(own, settings.vocabulary);
}

TrainData open_data(const ModelConfig& model, const TrainSettings& settings,
                    const DataInput& input) {
  const OpenedFiles files = settings.data.empty() ? OpenedFiles{open_language(settings.seed)}
                                                  : open_files(settings, model, input);
  const Opened& source = files.training;
  const auto batches = [](std::string_view option, const train::Tokens& tokens,
                          const train::TokenSourceOptions& options) {
    return opened(option, [&] { return train::make_batches(train::TokenSource(tokens, options)); });
  };
  const std::string_view option = settings.data.empty() ? "--length" : "--data";
  TrainData data;
  data.name = source.name;
  data.vocabulary = vocabulary_of(settings, source.tokens);
  data.tokens = settings.data.empty()
                    ? 0
                    : source.tokens.size() + (files.validation ? files.validation->size() : 0);
  data.training = batches(option, source.tokens, source_options(settings, train::Part::Training));
  if (files.validation) {
    data.validation = batches("--validation-data", *files.validation, separate_options(settings));
  } else if (settings.validation > 0) {
    data.validation =
        batches(option, source.tokens, source_options(settings, train::Part::Validation));
  }
  data.bounds = source.bounds;
  data.text = [text = source.text, known = source.tokens.vocabulary()](
                  std::span<const std::int32_t> tokens) { return known_text(text, known, tokens); };
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

TrainData open_data(const MlpConfig& model, const TrainSettings& settings,
                    const DataInput& /*input*/) {
  train::WaveOptions options;
  options.inputs = model.inputs;
  options.outputs = model.outputs;
  TrainData data = generated(train::WaveTask(options), settings);
  data.name = "generated: noisy waves along fixed directions";
  data.bounds->floor_is = "the variance of the targets' noise, which no model can predict";
  data.bounds->uninformed_is = "always predicting the mean";
  return data;
}

TrainData open_data(const ConvNetConfig& model, const TrainSettings& settings,
                    const DataInput& /*input*/) {
  train::PatternOptions options;
  options.size = model.size;
  options.channels = model.channels;
  options.classes = model.classes;
  TrainData data = generated(train::PatternTask(options), settings);
  data.name = "generated: patterns somewhere in noise, some labels wrong";
  data.bounds->floor_is = "the entropy of the wrong labels, which no model can predict";
  data.bounds->uninformed_is = "guessing uniformly among the classes";
  return data;
}

}  // namespace

std::string text_of(const TrainData& data, std::span<const std::int32_t> tokens) {
  return known_text(data.text, data.vocabulary, tokens);
}

TrainData open_train_data(const TrainSettings& settings, const AnyModelConfig& model,
                          const DataInput& input) {
  if (!std::holds_alternative<ModelConfig>(model) &&
      !(settings.data.empty() && settings.tokenizer.empty())) {
    throw Error(ErrorKind::Usage,
                fmt::format("{} trains on generated data only; leave out --data and --tokenizer",
                            name_of(model)));
  }
  return std::visit([&](const auto& config) { return open_data(config, settings, input); }, model);
}

std::string find_tokenizer(const TrainSettings& settings, const std::string& run_folder) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const std::string kept = run_folder.empty() ? "" : run_folder + "/tokenizer.json";
  const bool is_kept = !kept.empty() && fs::exists(kept, ignored);
  if (!settings.tokenizer.empty()) {
    return is_kept ? kept : train::tokenizer_file(settings.tokenizer);
  }
  const fs::path model(settings.model);
  const fs::path own =
      (fs::is_directory(model, ignored) ? model : model.parent_path()) / "tokenizer.json";
  if (is_model_path(settings.model) && fs::exists(own, ignored)) {
    return own.string();
  }
  return is_kept ? kept : "";
}

}  // namespace trireme
