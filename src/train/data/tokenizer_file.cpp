#include "train/data/tokenizer_file.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "trireme/error.h"
#include "trireme/message.h"

namespace trireme::train {
namespace {

/// Objects sorted by name: in file order, each lookup in a vocabulary of 50,000 would be a linear search.
using Sorted = nlohmann::json;

/// More than any tokenizer has; a larger number would only waste memory.
constexpr std::int64_t kMaxTokenIds = 10'000'000;

class TokenizerReader {
 public:
  explicit TokenizerReader(std::string_view what) : what_(what) {}

  [[noreturn]] void fail(const std::string& problem) const {
    throw Error(ErrorKind::Input, fmt::format("{}: {}", what_, problem));
  }

  [[nodiscard]] Sorted parse(std::string_view text) const {
    try {
      return Sorted::parse(text);
    } catch (const Sorted::exception& error) {
      throw_json_error(what_, error);
    }
  }

  [[nodiscard]] const Sorted& require(const Sorted& object, const char* field,
                                      Sorted::value_t type) const {
    if (!object.is_object() || !object.contains(field) || object[field].type() != type) {
      fail(fmt::format("'{}' is missing or not {}", field,
                       type == Sorted::value_t::object  ? "an object"
                       : type == Sorted::value_t::array ? "a list"
                                                        : "a text"));
    }
    return object[field];
  }

  [[nodiscard]] std::int32_t token(const std::string& name, const Sorted& value) const {
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() >= kMaxTokenIds) {
      fail(fmt::format("token {} has no number of 0 to {}", in_quotes(name), kMaxTokenIds - 1));
    }
    return value.get<std::int32_t>();
  }

  /// A setting that changes how text is encoded must be absent, null, false or "".
  void refuse(const Sorted& object, const char* part, const char* field) const {
    const auto at = object.find(field);
    const bool off = at == object.end() || at->is_null() || *at == false ||
                     (at->is_string() && at->get_ref<const std::string&>().empty());
    if (!off) {
      fail(fmt::format("{} '{}' is set, which is not supported", part, field));
    }
  }

  [[nodiscard]] std::pair<std::string, std::string> merge(const Sorted& value) const {
    if (value.is_array() && value.size() == 2 && value[0].is_string() && value[1].is_string()) {
      return {value[0], value[1]};
    }
    const std::string text = value.is_string() ? value.get<std::string>() : "";
    const std::size_t space = text.find(' ');
    if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos) {
      fail(fmt::format("merge {} is not two tokens", in_quotes(value.dump())));
    }
    return {text.substr(0, space), text.substr(space + 1)};
  }

 private:
  std::string_view what_;
};

/// The patterns of tokenizers that split text before ByteLevel spells its bytes.
struct PatternRow {
  std::string_view regex;
  WordPattern pattern;
};
constexpr std::array kPatterns{
    PatternRow{R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
               R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
               WordPattern::Llama3},
    PatternRow{R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
               R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
               WordPattern::Qwen2}};

/// "" if it has none.
std::string type_of(const Sorted& part) {
  return part.is_object() && part.contains("type") && part["type"].is_string()
             ? part["type"].get<std::string>()
             : "";
}

/// The parts of a Sequence, or the part itself; none if it is null or absent.
std::vector<Sorted> parts_of(const Sorted& document, const char* field, const char* list) {
  if (!document.contains(field) || document[field].is_null()) {
    return {};
  }
  const Sorted& part = document[field];
  if (type_of(part) == "Sequence" && part.contains(list) && part[list].is_array()) {
    return part[list].get<std::vector<Sorted>>();
  }
  return {part};
}

/// ByteLevel with GPT-2's own pattern, or after a Split with a known one. Nothing if there is no ByteLevel.
std::optional<WordPattern> find_pattern(const std::vector<Sorted>& parts,
                                        const TokenizerReader& reader) {
  if (parts.empty() || type_of(parts.back()) != "ByteLevel") {
    return std::nullopt;
  }
  const Sorted& bytes = parts.back();
  reader.refuse(bytes, "pre-tokenizer:", "add_prefix_space");
  const bool own_pattern = !bytes.contains("use_regex") || bytes["use_regex"] == true;
  if (own_pattern && parts.size() == 1) {
    return WordPattern::Gpt2;
  }
  const Sorted& split = parts.front();
  if (own_pattern || parts.size() != 2 || type_of(split) != "Split") {
    reader.fail(
        "pre-tokenizer: only ByteLevel with 'use_regex', or Split and ByteLevel without "
        "it, are supported");
  }
  const std::string regex = split.value(Sorted::json_pointer("/pattern/Regex"), std::string());
  const auto* const row = std::ranges::find(kPatterns, regex, &PatternRow::regex);
  if (row == kPatterns.end() || split.value("behavior", "") != "Isolated" ||
      split.value("invert", false)) {
    reader.fail(
        fmt::format("pre-tokenizer: the pattern {} is not supported; those of GPT-2, Llama 3 "
                    "and Qwen 2 are",
                    in_quotes(regex)));
  }
  return row->pattern;
}

/// Metaspace: a space becomes U+2581, and one is added in front.
SentencePiece read_metaspace(const Sorted& part, const TokenizerReader& reader) {
  if (part.value("replacement", "") != kSpelledSpace) {
    reader.fail("pre-tokenizer: Metaspace must replace a space by U+2581");
  }
  const std::string scheme =
      part.value("prepend_scheme", part.value("add_prefix_space", true) ? "always" : "never");
  return {.added_space = scheme == "never"   ? AddedSpace::Never
                         : scheme == "first" ? AddedSpace::First
                                             : AddedSpace::Always,
          .space_may_repeat = false,
          .splits_words = part.value("split", true)};
}

/// A normalizer that adds a space in front and spells spaces as U+2581.
SentencePiece read_normalizers(const std::vector<Sorted>& parts, const TokenizerReader& reader) {
  SentencePiece found{.added_space = AddedSpace::Never};
  bool replaces = false;
  for (const Sorted& part : parts) {
    if (type_of(part) == "Prepend" && part.value("prepend", "") == kSpelledSpace) {
      found.added_space = AddedSpace::Always;
    } else if (type_of(part) == "Replace" && part.value("content", "") == kSpelledSpace &&
               part.value(Sorted::json_pointer("/pattern/String"), "") == " ") {
      replaces = true;
    } else {
      reader.fail(fmt::format("its 'normalizer' {} is not supported", in_quotes(type_of(part))));
    }
  }
  if (!replaces) {
    reader.fail(
        "it has neither the pre-tokenizer ByteLevel or Metaspace nor a normalizer that "
        "replaces a space by U+2581; no other tokenizers are supported");
  }
  return found;
}

/// How the text is split and spelled.
void read_spelling(const Sorted& document, const TokenizerReader& reader, TokenizerFile& file) {
  const std::vector<Sorted> before = parts_of(document, "normalizer", "normalizers");
  const std::vector<Sorted> parts = parts_of(document, "pre_tokenizer", "pretokenizers");
  file.pattern = find_pattern(parts, reader);
  if (file.pattern) {
    reader.refuse(document, "its", "normalizer");
  } else if (parts.size() == 1 && type_of(parts.front()) == "Metaspace") {
    reader.refuse(document, "its", "normalizer");
    file.sentence_piece = read_metaspace(parts.front(), reader);
  } else if (parts.empty()) {
    file.sentence_piece = read_normalizers(before, reader);
  } else {
    reader.fail(fmt::format("its pre-tokenizer {} is not supported; ByteLevel and Metaspace are",
                            in_quotes(type_of(document["pre_tokenizer"]))));
  }
}

void read_model(const Sorted& model, const TokenizerReader& reader, TokenizerFile& file) {
  for (const char* field : {"dropout", "continuing_subword_prefix", "end_of_word_suffix"}) {
    reader.refuse(model, "model:", field);
  }
  const auto is_set = [&](const char* field) {
    return model.contains(field) && model[field] == true;
  };
  file.ignore_merges = is_set("ignore_merges");
  if (!file.pattern && !is_set("byte_fallback")) {
    reader.fail("model: 'byte_fallback' is not true; without it some text has no tokens");
  }
  if (file.pattern) {
    reader.refuse(model, "model:", "byte_fallback");
  }
}

/// The tokens before the text in the template for a single text, such as <|begin_of_text|>.
std::vector<std::int32_t> read_beginning(const Sorted& document, const TokenizerReader& reader) {
  std::vector<std::int32_t> beginning;
  for (const Sorted& part : parts_of(document, "post_processor", "processors")) {
    const Sorted single = part.is_object() ? part.value("single", Sorted::array()) : Sorted();
    for (std::size_t i = 0; i < single.size() && single[i].contains("SpecialToken"); ++i) {
      const std::string name =
          single[i].value(Sorted::json_pointer("/SpecialToken/id"), std::string());
      const Sorted tokens =
          part.value(Sorted::json_pointer("/special_tokens") / name / "ids", Sorted::array());
      for (const Sorted& token : tokens) {
        beginning.push_back(reader.token(name, token));
      }
    }
  }
  return beginning;
}

}  // namespace

TokenizerFile parse_tokenizer_file(std::string_view json, std::string_view what) {
  const TokenizerReader reader(what);
  const Sorted document = reader.parse(json);
  const Sorted& model = reader.require(document, "model", Sorted::value_t::object);
  if (model.contains("type") && model["type"] != "BPE") {
    reader.fail(fmt::format("its model is {}; only BPE is supported", model["type"].dump()));
  }
  TokenizerFile file;
  try {
    read_spelling(document, reader, file);
    read_model(model, reader, file);
    file.beginning = read_beginning(document, reader);
  } catch (const Sorted::exception& error) {  // a setting of another type
    reader.fail(error.what());
  }
  for (const auto& [name, token] :
       reader.require(model, "vocab", Sorted::value_t::object).items()) {
    file.vocabulary.emplace(name, reader.token(name, token));
  }
  for (const Sorted& merge : reader.require(model, "merges", Sorted::value_t::array)) {
    file.merges.push_back(reader.merge(merge));
  }
  if (document.contains("added_tokens")) {
    for (const Sorted& added : reader.require(document, "added_tokens", Sorted::value_t::array)) {
      const std::string name = reader.require(added, "content", Sorted::value_t::string);
      file.added.emplace_back(name, reader.token(name, added.value("id", Sorted())));
    }
  }
  return file;
}

}  // namespace trireme::train
