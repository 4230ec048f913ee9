#include "train/data/bpe.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <queue>
#include <tuple>

#include <fmt/format.h>

#include "base/json_text.h"
#include "base/mapped_file.h"
#include "train/data/tokenizer_file.h"
#include "train/data/words.h"
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

/// The bytes that a token stands for. A character that does not spell a byte stands for itself.
std::string unspelled(std::string_view token,
                      const std::unordered_map<std::string_view, char>& bytes) {
  std::string out;
  while (!token.empty()) {
    const std::string_view character =
        token.substr(0, std::max<std::size_t>(utf8_length(token), 1));
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
    const auto [at, fresh] = known_.try_emplace(word);
    if (fresh) {
      at->second = encode(word);
    }
    out.insert(out.end(), at->second.begin(), at->second.end());
  }

 private:
  static constexpr std::size_t kNone = SIZE_MAX;

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
    symbols_.assign(word.size(), {});
    for (std::size_t i = 0; i < word.size(); ++i) {
      symbols_[i] = {.token = tokenizer_.byte_tokens_.at(static_cast<unsigned char>(word[i])),
                     .before = i == 0 ? kNone : i - 1,
                     .after = i + 1 == word.size() ? kNone : i + 1};
    }
    for (std::size_t i = 0; i + 1 < word.size(); ++i) {
      propose(i);
    }
  }

  /// The pair that begins at a symbol; nothing if there is none or it was merged.
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
  std::unordered_map<std::string_view, std::vector<std::int32_t>> known_;
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

BpeTokenizer::BpeTokenizer(std::string_view json, std::string_view what) {
  const auto fail = [&](const std::string& problem) -> void {
    throw Error(ErrorKind::Input, fmt::format("{}: {}", what, problem));
  };
  TokenizerFile file = parse_tokenizer_file(json, what);
  const auto token_of = [&](const std::string& name, std::string_view user) {
    const auto at = file.vocabulary.find(name);
    if (at == file.vocabulary.end()) {
      fail(fmt::format("{} needs the token {}, which the vocabulary does not have", user,
                       in_quotes(name)));
    }
    return at->second;
  };
  const std::array<std::string, 256> spelling = byte_spelling();
  std::unordered_map<std::string_view, char> bytes;
  for (std::size_t byte = 0; byte < spelling.size(); ++byte) {
    bytes.emplace(spelling.at(byte), static_cast<char>(byte));
    byte_tokens_.at(byte) = token_of(spelling.at(byte), fmt::format("byte {}", byte));
  }
  for (const auto& [name, token] : file.vocabulary) {
    keep_bytes(token, unspelled(name, bytes));
  }
  for (const auto& [left, right] : file.merges) {
    const std::string user = fmt::format("merge {}", merges_.size());
    const Merge merge{.rank = static_cast<std::int32_t>(merges_.size()),
                      .result = token_of(left + right, user)};
    if (!merges_.emplace(pair_key(token_of(left, user), token_of(right, user)), merge).second) {
      fail(fmt::format("{} of {} and {} is given twice", user, in_quotes(left), in_quotes(right)));
    }
  }
  for (auto& [name, token] : file.added) {
    keep_bytes(token, name);
    if (!name.empty()) {
      added_.emplace_back(std::move(name), token);
    }
  }
}

void BpeTokenizer::keep_bytes(std::int32_t token, std::string bytes) {
  const auto index = static_cast<std::size_t>(token);
  bytes_of_.resize(std::max(bytes_of_.size(), index + 1));
  bytes_of_[index] = std::move(bytes);
}

std::vector<std::int32_t> BpeTokenizer::encode(std::string_view text) const {
  std::vector<std::int32_t> out;
  WordEncoder words(*this);
  AddedFinder finder(added_, text);
  for (std::size_t at = 0; at < text.size();) {
    const AddedFinder::Found found = finder.next(at);
    for (const std::string_view word : split_gpt2_words(text.substr(at, found.place - at))) {
      words.append(word, out);
    }
    if (found.token) {
      out.push_back(*found.token);
    }
    at = found.place + found.bytes;
  }
  return out;
}

std::string BpeTokenizer::decode(std::span<const std::int32_t> tokens) const {
  std::string out;
  for (const std::int32_t token : tokens) {
    if (token < 0 || token >= vocabulary() || bytes_of_[static_cast<std::size_t>(token)].empty()) {
      throw Error(ErrorKind::Usage, fmt::format("tokenizer: unknown token {}", token));
    }
    out += bytes_of_[static_cast<std::size_t>(token)];
  }
  return out;
}

BpeTokenizer load_tokenizer(const std::string& path) {
  return {MappedFile(path).text(), path};
}

Tokens open_text(const std::string& path, const BpeTokenizer& tokenizer) {
  const MappedFile file(path);
  if (file.text().empty()) {
    throw Error(ErrorKind::Input, fmt::format("{}: is empty", path));
  }
  return {tokenizer.encode(file.text()), tokenizer.vocabulary(), path};
}

}  // namespace trireme::train
