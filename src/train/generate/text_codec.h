// The text of a model's tokens: by a tokenizer, as bytes, as symbols of the generated language, or as numbers. Callable
// from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::train {

class TextCodec {
 public:
  TextCodec() = default;
  virtual ~TextCodec() = default;
  TextCodec(const TextCodec&) = delete;
  TextCodec& operator=(const TextCodec&) = delete;

  /// The tokens of a prompt, with those that belong before a text. Throws Error(Usage) if it has a character without a
  /// token.
  [[nodiscard]] virtual std::vector<std::int32_t> encode(std::string_view text) const = 0;
  /// The text of one token within a text; U+FFFD if it is not known.
  [[nodiscard]] virtual std::string text_of(std::int32_t token) const = 0;
  /// Whether a text ends with this token.
  [[nodiscard]] virtual bool ends(std::int32_t /*token*/) const { return false; }
};

/// From a tokenizer.json. Throws as load_tokenizer().
[[nodiscard]] std::unique_ptr<TextCodec> make_tokenizer_codec(const std::string& path);
/// One token per byte.
[[nodiscard]] std::unique_ptr<TextCodec> make_byte_codec();
/// The symbols of the generated language.
[[nodiscard]] std::unique_ptr<TextCodec> make_language_codec();
/// Numbers separated by spaces.
[[nodiscard]] std::unique_ptr<TextCodec> make_number_codec();

}  // namespace trireme::train
