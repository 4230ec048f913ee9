#include "train/data/bpe.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <queue>
#include <tuple>

#include <fmt/format.h>

#include "base/json_text.h"
#include "base/mapped_file.h"
#include "train/data/tokenizer_file.h"
#include "train/data/words.h"
#include "train/input_error.h"
#include "trireme/error.h"
#include "trireme/message.h"

namespace trireme::train {
namespace {

std::uint64_t pair_key(std::int32_t left, std::int32_t right) {
  return (static_cast<std::uint64_t>(left) << 32U) | static_cast<std::uint32_t>(right);
}

std::string utf8(unsigned code) {
  if (code < 0x80) {
    return {static_cast<char>(code)};
  }
  return {static_cast<char>(0xc0U | (code >> 6U)), static_cast<char>(0x80U | (code & 0x3fU))};
}

/// How the file spells each byte: as the character with that code if it is printable, else as the next character from
/// U+0100 on.
std::array<std::string, 256> byte_spelling() {
  std::array<std::string, 256> spelling;
  unsigned unseen = 0;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const bool seen = (byte > 0x20 && byte < 0x7f) || (byte > 0xa0 && byte != 0xad);
    spelling.at(byte) = utf8(seen ? byte : 256 + unseen++);
  }
  return spelling;
}

/// The UTF-8 character, or the invalid byte, at the start.
std::string_view first_character_of(std::string_view text) {
  return text.substr(0, std::max<std::size_t>(utf8_length(text), 1));
}

std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  for (std::size_t at = text.find(from); at != std::string_view::npos; at = text.find(from)) {
    out.append(text.substr(0, at)).append(to);
    text.remove_prefix(at + from.size());
  }
  return out.append(text);
}

/// "<0x0A>"
std::string byte_name(std::size_t byte) {
  return fmt::format("<0x{:02X}>", byte);
}

/// The bytes that a token represents. A character that does not encode a byte represents itself.
std::string unspelled(std::string_view token,
                      const std::unordered_map<std::string_view, char>& bytes) {
  std::string out;
  while (!token.empty()) {
    const std::string_view character = first_character_of(token);
    const auto at = bytes.find(character);
    out += at == bytes.end() ? std::string(character) : std::string(1, at->second);
    token.remove_prefix(character.size());
  }
  return out;
}

}  // namespace

/// Encodes the words of one text. Repeatedly merges the adjacent pair with the lowest rank, leftmost first, until no
/// pair can be merged: O(n log n) in the length of a word. Results are cached, as words repeat.
class BpeTokenizer::WordEncoder {
 public:
  explicit WordEncoder(const BpeTokenizer& tokenizer) : tokenizer_(tokenizer) {}

  void append(std::string_view word, std::vector<std::int32_t>& out) {
    if (known_.size() >= kMostKnown) {
      known_.clear();
    }
    const auto [at, fresh] = known_.try_emplace(std::string(word));
    if (fresh) {
      at->second = encode(word);
    }
    out.insert(out.end(), at->second.begin(), at->second.end());
  }

 private:
  static constexpr std::size_t kNone = SIZE_MAX;
  static constexpr std::size_t kMostKnown = 1'000'000;

  struct Symbol {
    std::int32_t token = 0;
    std::size_t before = kNone;
    std::size_t after = kNone;
    bool gone = false;
  };
  struct Candidate {
    BpeTokenizer::Merge merge;
    std::size_t left = 0;
    std::uint64_t pair = 0;
    bool operator>(const Candidate& other) const {
      return std::tie(merge.rank, left) > std::tie(other.merge.rank, other.left);
    }
  };

  std::vector<std::int32_t> encode(std::string_view word) {
    if (tokenizer_.ignore_merges_) {
      if (const auto whole = tokenizer_.whole_.find(std::string(word));
          whole != tokenizer_.whole_.end()) {
        return {whole->second};
      }
    }
    start(word);
    while (!queue_.empty()) {
      const Candidate next = queue_.top();
      queue_.pop();
      if (pair_at(next.left) == next.pair) {
        merge(next);
      }
    }
    std::vector<std::int32_t> out;
    for (const Symbol& symbol : symbols_) {
      if (!symbol.gone) {
        out.push_back(symbol.token);
      }
    }
    return out;
  }

  void start(std::string_view word) {
    symbols_.clear();
    if (tokenizer_.pattern_) {
      add_bytes(word);
    } else {
      add_characters(word);
    }
    for (std::size_t i = 0; i < symbols_.size(); ++i) {
      symbols_[i].before = i == 0 ? kNone : i - 1;
      symbols_[i].after = i + 1 == symbols_.size() ? kNone : i + 1;
    }
    for (std::size_t i = 0; i + 1 < symbols_.size(); ++i) {
      propose(i);
    }
  }

  void add_bytes(std::string_view bytes) {
    for (const char byte : bytes) {
      symbols_.push_back({.token = tokenizer_.byte_tokens_.at(static_cast<unsigned char>(byte))});
    }
  }

  /// A character without a token is spelled as its bytes.
  void add_characters(std::string_view word) {
    while (!word.empty()) {
      const std::string_view character = first_character_of(word);
      const auto at = tokenizer_.whole_.find(std::string(character));
      if (at == tokenizer_.whole_.end()) {
        add_bytes(character);
      } else {
        symbols_.push_back({.token = at->second});
      }
      word.remove_prefix(character.size());
    }
  }

  /// The pair that starts at a symbol; nullopt if there is none or it was merged.
  [[nodiscard]] std::optional<std::uint64_t> pair_at(std::size_t left) const {
    const Symbol& symbol = symbols_[left];
    if (symbol.gone || symbol.after == kNone) {
      return std::nullopt;
    }
    return pair_key(symbol.token, symbols_[symbol.after].token);
  }

  void propose(std::size_t left) {
    const std::optional<std::uint64_t> pair = pair_at(left);
    if (!pair) {
      return;
    }
    const auto at = tokenizer_.merges_.find(*pair);
    if (at != tokenizer_.merges_.end()) {
      queue_.push({.merge = at->second, .left = left, .pair = *pair});
    }
  }

  void merge(const Candidate& candidate) {
    Symbol& left = symbols_[candidate.left];
    Symbol& right = symbols_[left.after];
    left.token = candidate.merge.result;
    left.after = right.after;
    right.gone = true;
    if (left.after != kNone) {
      symbols_[left.after].before = candidate.left;
    }
    propose(candidate.left);
    if (left.before != kNone) {
      propose(left.before);
    }
  }

  const BpeTokenizer& tokenizer_;
  std::unordered_map<std::string, std::vector<std::int32_t>> known_;
  std::vector<Symbol> symbols_;
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue_;
};

/// Finds the added tokens in a text, in order. Searches for each only past its last occurrence, so that a rare token
/// does not cause repeated scans of the text.
class BpeTokenizer::AddedFinder {
 public:
  struct Found {
    std::size_t place = 0;  ///< the end of the text if not found
    std::size_t bytes = 0;
    std::optional<std::int32_t> token;
  };

  AddedFinder(const std::vector<std::pair<std::string, std::int32_t>>& added, std::string_view text)
      : text_(text) {
    for (const auto& [name, token] : added) {
      searches_.push_back({name, token, text.find(name)});
    }
  }

  /// The first occurrence at or after `from`; the longest, if several begin there.
  Found next(std::size_t from) {
    Found found{.place = text_.size(), .bytes = 0, .token = std::nullopt};
    for (Search& search : searches_) {
      if (search.place < from) {
        search.place = text_.find(search.name, from);
      }
      const std::size_t bytes = search.name.size();
      if (search.place < found.place || (search.place == found.place && bytes > found.bytes)) {
        found = {.place = search.place, .bytes = bytes, .token = search.token};
      }
    }
    return found;
  }

 private:
  struct Search {
    std::string_view name;
    std::int32_t token = 0;
    std::size_t place = 0;
  };

  std::string_view text_;
  std::vector<Search> searches_;
};

namespace {

std::int32_t token_of(const TokenizerFile& file, const std::string& name, std::string_view user,
                      std::string_view what) {
  const auto at = file.vocabulary.find(name);
  if (at == file.vocabulary.end()) {
    throw_input_error(what, fmt::format("{} needs the token {}, which the vocabulary does not have",
                                        user, in_quotes(name)));
  }
  return at->second;
}

/// Whether a space follows another character.
bool has_inner_space(std::string_view name) {
  while (name.starts_with(kSpelledSpace)) {
    name.remove_prefix(kSpelledSpace.size());
  }
  return name.find(kSpelledSpace) != std::string_view::npos;
}

}  // namespace

BpeTokenizer::BpeTokenizer(std::string_view json, std::string_view what) {
  TokenizerFile file = parse_tokenizer_file(json, what);
  pattern_ = file.pattern;
  sentence_piece_ = file.sentence_piece;
  ignore_merges_ = file.ignore_merges;
  beginning_ = file.beginning;
  keep_tokens(file, what);
  keep_merges(file, what);
  for (auto& [name, token] : file.added) {
    keep_bytes(token, name);
    if (!name.empty()) {
      added_.emplace_back(std::move(name), token);
    }
  }
}

void BpeTokenizer::keep_tokens(const TokenizerFile& file, std::string_view what) {
  const std::array<std::string, 256> spelling = byte_spelling();
  std::unordered_map<std::string_view, char> bytes;
  for (std::size_t byte = 0; byte < spelling.size(); ++byte) {
    bytes.emplace(spelling.at(byte), static_cast<char>(byte));
    byte_tokens_.at(byte) = token_of(file, pattern_ ? spelling.at(byte) : byte_name(byte),
                                     fmt::format("byte {}", byte), what);
  }
  for (const auto& [name, token] : file.vocabulary) {
    keep_bytes(token, pattern_ ? unspelled(name, bytes) : replaced(name, kSpelledSpace, " "));
    if (ignore_merges_ || (!pattern_ && first_character_of(name).size() == name.size())) {
      whole_.emplace(pattern_ ? unspelled(name, bytes) : name, token);
    }
  }
  for (std::size_t byte = 0; !pattern_ && byte < byte_tokens_.size(); ++byte) {
    keep_bytes(byte_tokens_.at(byte), std::string(1, static_cast<char>(byte)));
  }
}

void BpeTokenizer::keep_merges(const TokenizerFile& file, std::string_view what) {
  words_begin_with_space_ = true;
  for (const auto& [left, right] : file.merges) {
    const std::string user = fmt::format("merge {}", merges_.size());
    const Merge merge{.rank = static_cast<std::int32_t>(merges_.size()),
                      .result = token_of(file, left + right, user, what)};
    const std::uint64_t pair =
        pair_key(token_of(file, left, user, what), token_of(file, right, user, what));
    if (!merges_.emplace(pair, merge).second) {
      throw_input_error(what, fmt::format("{} of {} and {} is given twice", user, in_quotes(left),
                                          in_quotes(right)));
    }
    words_begin_with_space_ = words_begin_with_space_ && !has_inner_space(left + right);
  }
}

void BpeTokenizer::keep_bytes(std::int32_t token, std::string bytes) {
  bytes_of_.resize(std::max(vocabulary(), token + 1));
  bytes_of_[token] = std::move(bytes);
}

std::string BpeTokenizer::spelled(std::string_view text, bool is_first) const {
  std::string out = replaced(text, " ", kSpelledSpace);
  const AddedSpace added = sentence_piece_.added_space;
  const bool adds = added == AddedSpace::Always || (added == AddedSpace::First && is_first);
  if (adds && (sentence_piece_.space_may_repeat || !out.starts_with(kSpelledSpace))) {
    out.insert(0, kSpelledSpace);
  }
  return out;
}

/// No merge crosses a word's first space, so words are encoded one by one.
std::size_t BpeTokenizer::first_word_of(std::string_view text) const {
  if (pattern_) {
    return first_word(text, *pattern_);
  }
  std::size_t at = 0;
  if (sentence_piece_.splits_words) {
    at = text.starts_with(kSpelledSpace) ? kSpelledSpace.size() : 0;
  } else if (!words_begin_with_space_) {
    return text.size();
  } else {
    while (text.substr(at).starts_with(kSpelledSpace)) {
      at += kSpelledSpace.size();
    }
  }
  return std::min(text.find(kSpelledSpace, at), text.size());
}

void BpeTokenizer::encode(std::string_view text, const Sink& sink) const {
  constexpr std::size_t kAtOnce = 1 << 16U;
  std::vector<std::int32_t> out;
  WordEncoder words(*this);
  AddedFinder finder(added_, text);
  for (std::size_t at = 0; at < text.size();) {
    const AddedFinder::Found found = finder.next(at);
    const std::string_view part = text.substr(at, found.place - at);
    const std::string piece = pattern_ || part.empty() ? std::string() : spelled(part, at == 0);
    std::string_view rest = pattern_ ? part : std::string_view{piece};
    while (!rest.empty()) {
      const std::string_view word = rest.substr(0, first_word_of(rest));
      words.append(word, out);
      rest.remove_prefix(word.size());
      if (out.size() >= kAtOnce) {
        // Spaces grow from one byte to three, so progress in the piece is only proportional to progress in the text.
        sink(out, pattern_ ? found.place - rest.size()
                           : found.place - part.size() * rest.size() / piece.size());
        out.clear();
      }
    }
    if (found.token) {
      out.push_back(*found.token);
    }
    at = found.place + found.bytes;
  }
  sink(out, text.size());
}

std::vector<std::int32_t> BpeTokenizer::encode(std::string_view text) const {
  std::vector<std::int32_t> all;
  encode(text, [&](std::span<const std::int32_t> tokens, std::size_t /*bytes*/) {
    all.insert(all.end(), tokens.begin(), tokens.end());
  });
  return all;
}

const std::string& BpeTokenizer::bytes_of(std::int32_t token) const {
  if (token < 0 || token >= vocabulary() || bytes_of_[token].empty()) {
    throw Error(ErrorKind::Usage, fmt::format("tokenizer: unknown token {}", token));
  }
  return bytes_of_[token];
}

std::string BpeTokenizer::decode(std::span<const std::int32_t> tokens) const {
  std::string out;
  for (const std::int32_t token : tokens) {
    out += bytes_of(token);
  }
  const bool adds_space = !pattern_ && sentence_piece_.added_space != AddedSpace::Never;
  return adds_space && out.starts_with(' ') ? out.substr(1) : out;
}

std::string tokenizer_file(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  return fs::is_directory(path, ignored) ? (fs::path(path) / "tokenizer.json").string() : path;
}

BpeTokenizer load_tokenizer(const std::string& path) {
  const std::string file = tokenizer_file(path);
  return {MappedFile(file).text(), file};
}

Tokens open_text(const std::string& path, const BpeTokenizer& tokenizer) {
  const MappedFile file(path);
  if (file.text().empty()) {
    throw Error(ErrorKind::Input, fmt::format("{}: is empty", path));
  }
  return {tokenizer.encode(file.text()), tokenizer.vocabulary(), path};
}

}  // namespace trireme::train
