#include "train/data/tokenizer_file.h"

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
constexpr std::int64_t kMaxTokens = 10'000'000;

class Reader {
 public:
  explicit Reader(std::string_view what) : what_(what) {}

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
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() >= kMaxTokens) {
      fail(fmt::format("token {} has no number of 0 to {}", in_quotes(name), kMaxTokens - 1));
    }
    return value.get<std::int32_t>();
  }

  /// A setting that changes how text is encoded must be absent, null, false or "".
  void refuse(const Sorted& object, const char* part, const char* field) const {
    const auto at = object.find(field);
    const bool off = at == object.end() || at->is_null() || *at == false ||
                     (at->is_string() && at->get_ref<const std::string&>().empty());
    if (!off) {
      fail(fmt::format("{} '{}' is set; only what GPT-2's tokenizer does is supported", part,
                       field));
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

void check_pre_tokenizer(const Sorted& document, const Reader& reader) {
  const Sorted& pre = reader.require(document, "pre_tokenizer", Sorted::value_t::object);
  const Sorted& type = reader.require(pre, "type", Sorted::value_t::string);
  if (type != "ByteLevel") {
    reader.fail(fmt::format("its pre-tokenizer is {}; only GPT-2's, ByteLevel, is supported",
                            in_quotes(type.get<std::string>())));
  }
  reader.refuse(pre, "pre-tokenizer:", "add_prefix_space");
  if (pre.contains("use_regex") && pre["use_regex"] != true) {
    reader.fail("pre-tokenizer: 'use_regex' is not true; only GPT-2's pattern is supported");
  }
}

void check_model(const Sorted& model, const Reader& reader) {
  if (model.contains("type") && model["type"] != "BPE") {
    reader.fail(fmt::format("its model is {}; only BPE is supported", model["type"].dump()));
  }
  for (const char* field : {"dropout", "continuing_subword_prefix", "end_of_word_suffix",
                            "byte_fallback", "ignore_merges"}) {
    reader.refuse(model, "model:", field);
  }
}

}  // namespace

TokenizerFile parse_tokenizer_file(std::string_view json, std::string_view what) {
  const Reader reader(what);
  const Sorted document = reader.parse(json);
  const Sorted& model = reader.require(document, "model", Sorted::value_t::object);
  check_model(model, reader);
  check_pre_tokenizer(document, reader);
  reader.refuse(document, "its", "normalizer");
  TokenizerFile file;
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
