#include "train/generate/text_codec.h"

#include <algorithm>
#include <array>
#include <charconv>

#include <fmt/format.h>

#include "base/json_text.h"
#include "train/data/bpe.h"
#include "train/data/language.h"
#include "trireme/error.h"
#include "trireme/message.h"

namespace trireme::train {
namespace {

constexpr const char* kUnknown = "\uFFFD";

class TokenizerCodec : public TextCodec {
 public:
  explicit TokenizerCodec(const std::string& path) : tokenizer_(load_tokenizer(path)) {
    for (const char* name : {"<|endoftext|>", "</s>", "<|end_of_text|>", "<|eot_id|>"}) {
      if (const std::vector<std::int32_t> tokens = tokenizer_.encode(name); tokens.size() == 1) {
        ends_.push_back(tokens.front());
      }
    }
  }
  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text) const override {
    std::vector<std::int32_t> tokens = tokenizer_.beginning();
    const std::vector<std::int32_t> own = tokenizer_.encode(text);
    tokens.insert(tokens.end(), own.begin(), own.end());
    return tokens;
  }
  [[nodiscard]] std::string text_of(std::int32_t token) const override {
    try {
      return tokenizer_.bytes_of(token);
    } catch (const Error&) {
      return kUnknown;
    }
  }
  [[nodiscard]] bool ends(std::int32_t token) const override {
    return std::ranges::find(ends_, token) != ends_.end();
  }

 private:
  BpeTokenizer tokenizer_;
  std::vector<std::int32_t> ends_;
};

class ByteCodec : public TextCodec {
 public:
  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text) const override {
    std::vector<std::int32_t> tokens;
    std::ranges::transform(text, std::back_inserter(tokens),
                           [](char c) { return static_cast<unsigned char>(c); });
    return tokens;
  }
  [[nodiscard]] std::string text_of(std::int32_t token) const override {
    return token < 256 ? std::string(1, static_cast<char>(token)) : kUnknown;
  }
};

class LanguageCodec : public TextCodec {
 public:
  LanguageCodec() {
    const Language language;
    for (std::int32_t symbol = 0; symbol < language.symbols(); ++symbol) {
      symbols_ += language.text(std::span(&symbol, 1));
    }
  }
  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text) const override {
    std::vector<std::int32_t> tokens;
    for (std::size_t i = 0; i < text.size(); ++i) {
      const std::size_t symbol = symbols_.find(text[i]);
      require(symbol != std::string::npos,
              fmt::format("--prompt: the generated language has no {}; it has letters, spaces, "
                          "line breaks and some punctuation",
                          in_quotes(text.substr(
                              i, std::max<std::size_t>(1, utf8_length(text.substr(i)))))));
      tokens.push_back(static_cast<std::int32_t>(symbol));
    }
    return tokens;
  }
  [[nodiscard]] std::string text_of(std::int32_t token) const override {
    return token >= 0 && token < std::ssize(symbols_) ? std::string(1, symbols_[token]) : kUnknown;
  }

 private:
  std::string symbols_;
};

class NumberCodec : public TextCodec {
 public:
  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text) const override {
    std::vector<std::int32_t> tokens;
    for (const char *at = text.data(), *end = at + text.size(); at < end;) {
      if (*at == ' ' || *at == ',') {
        ++at;
        continue;
      }
      std::int32_t token = 0;
      const auto [stop, error] = std::from_chars(at, end, token);
      require(
          error == std::errc() && token >= 0,
          "--prompt: there is no tokenizer for this model, so the prompt must be token numbers, "
          "such as \"15 7 99\"; or give --tokenizer");
      tokens.push_back(token);
      at = stop;
    }
    return tokens;
  }
  [[nodiscard]] std::string text_of(std::int32_t token) const override {
    return fmt::format(" {}", token);
  }
};

}  // namespace

std::unique_ptr<TextCodec> make_tokenizer_codec(const std::string& path) {
  return std::make_unique<TokenizerCodec>(path);
}
std::unique_ptr<TextCodec> make_byte_codec() {
  return std::make_unique<ByteCodec>();
}
std::unique_ptr<TextCodec> make_language_codec() {
  return std::make_unique<LanguageCodec>();
}
std::unique_ptr<TextCodec> make_number_codec() {
  return std::make_unique<NumberCodec>();
}

}  // namespace trireme::train
