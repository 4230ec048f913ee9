#include "train/data/bpe.h"

#include <array>
#include <map>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "damage.h"
#include "expect_error.h"
#include "temporary_folder.h"
#include "train/data/words.h"

namespace trireme::train {
namespace {

using nlohmann::json;

/// An independent version of GPT-2's byte spelling: '!' … '~', '¡' … '¬' and '®' … 'ÿ' are themselves.
std::string spelled(unsigned char byte) {
  const std::map<unsigned, unsigned> all_codes = [] {
    std::map<unsigned, unsigned> codes;
    for (const auto& [first, last] :
         {std::pair(33U, 126U), std::pair(161U, 172U), std::pair(174U, 255U)}) {
      for (unsigned b = first; b <= last; ++b) {
        codes[b] = b;
      }
    }
    unsigned next = 256;
    for (unsigned b = 0; b < 256; ++b) {
      if (!codes.contains(b)) {
        codes[b] = next++;
      }
    }
    return codes;
  }();
  const unsigned code = all_codes.at(byte);
  return code < 0x80 ? std::string(1, static_cast<char>(code))
                     : std::string{static_cast<char>(0xc0 | (code >> 6)),
                                   static_cast<char>(0x80 | (code & 63))};
}

std::string spelled(const std::string& bytes) {
  std::string out;
  for (const char c : bytes) {
    out += spelled(static_cast<unsigned char>(c));
  }
  return out;
}

/// A tokenizer.json: the 256 bytes, then a token for each merge, then <|endoftext|>.
json document(const std::vector<std::pair<std::string, std::string>>& merges) {
  json vocabulary;
  for (int b = 0; b < 256; ++b) {
    vocabulary[spelled(static_cast<unsigned char>(b))] = b;
  }
  json list = json::array();
  int next = 256;
  for (const auto& [left, right] : merges) {
    list.push_back(spelled(left) + " " + spelled(right));
    vocabulary[spelled(left + right)] = next++;
  }
  vocabulary["<|endoftext|>"] = next;
  return {{"version", "1.0"},
          {"normalizer", nullptr},
          {"added_tokens", {{{"id", next}, {"content", "<|endoftext|>"}, {"special", true}}}},
          {"pre_tokenizer",
           {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}}},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"continuing_subword_prefix", ""},
            {"end_of_word_suffix", ""},
            {"vocab", vocabulary},
            {"merges", list}}}};
}

const std::vector<std::pair<std::string, std::string>> kMerges{
    {"l", "o"},     {"lo", "w"},      {"e", "r"}, {" ", "low"},
    {" low", "er"}, {"\xc3", "\xa9"}, {"a", "a"}, {"aa", "a"}};

BpeTokenizer example() {
  return {document(kMerges).dump(), "t.json"};
}

TEST(BpeTokenizer, MergesLowestRankFirst) {
  const BpeTokenizer tokenizer = example();
  using Tokens = std::vector<std::int32_t>;
  EXPECT_EQ(tokenizer.encode("low lower"), (Tokens{257, 260}));
  EXPECT_EQ(tokenizer.encode("er lo"), (Tokens{258, ' ', 256}));
  EXPECT_EQ(tokenizer.encode("é"), (Tokens{261}));
  // "aa" is merged before "aaa", from the left.
  EXPECT_EQ(tokenizer.encode("aaaaa"), (Tokens{262, 263}));
  EXPECT_EQ(tokenizer.encode(""), (Tokens{}));
  EXPECT_EQ(tokenizer.vocabulary(), 265);
}

TEST(BpeTokenizer, RecognizesAddedTokens) {
  const BpeTokenizer tokenizer = example();
  EXPECT_EQ(tokenizer.encode("low<|endoftext|> low"), (std::vector<std::int32_t>{257, 264, 259}));
  EXPECT_EQ(tokenizer.encode("<|endoftext|><|endoftext|>"), (std::vector<std::int32_t>{264, 264}));
  EXPECT_EQ(tokenizer.decode(std::vector<std::int32_t>{257, 264, 259}), "low<|endoftext|> low");
}

TEST(BpeTokenizer, DecodesToOriginalText) {
  const BpeTokenizer tokenizer = example();
  std::mt19937 random(1);
  for (int i = 0; i < 500; ++i) {
    std::string text;
    for (unsigned n = random() % 60; n > 0; --n) {
      text += random() % 2 == 0 ? "lower ae'"[random() % 9] : static_cast<char>(random() % 256);
    }
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
  }
}

/// Merges all occurrences of the best pair at a time, repeatedly: GPT-2's own loop.
std::vector<std::string> slow_merge(
    const std::string& word, const std::vector<std::pair<std::string, std::string>>& merges) {
  std::vector<std::string> parts;
  for (const char c : word) {
    parts.emplace_back(1, c);
  }
  for (const auto& [left, right] : merges) {
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
      if (parts[i] == left && parts[i + 1] == right) {
        parts[i] += right;
        parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      }
    }
  }
  return parts;
}

TEST(BpeTokenizer, MatchesNaiveEncoder) {
  std::mt19937 random(2);
  for (int round = 0; round < 30; ++round) {
    // As in training, a merge only joins existing tokens.
    std::vector<std::string> tokens{"a", "b", "c"};
    std::vector<std::pair<std::string, std::string>> merges;
    for (int i = 0; i < 12; ++i) {
      const auto pair =
          std::pair(tokens[random() % tokens.size()], tokens[random() % tokens.size()]);
      const std::string joined = pair.first + pair.second;
      if (std::ranges::find(tokens, joined) == tokens.end()) {
        merges.push_back(pair);
        tokens.push_back(joined);
      }
    }
    const BpeTokenizer tokenizer(document(merges).dump(), "t.json");
    for (int i = 0; i < 50; ++i) {
      std::string word;
      for (unsigned n = 1 + random() % 30; n > 0; --n) {
        word += "abc"[random() % 3];
      }
      std::vector<std::string> parts;
      for (const std::int32_t token : tokenizer.encode(word)) {
        parts.push_back(tokenizer.decode(std::vector{token}));
      }
      ASSERT_EQ(parts, slow_merge(word, merges)) << word;
    }
  }
}

TEST(BpeTokenizer, IsFastOnLongWord) {
  const std::string word(300'000, 'a');
  EXPECT_EQ(example().encode(word).size(), 150'000U);  // always "aa", as it has the lower rank
}

TEST(BpeTokenizer, ReadsMergesAsPairs) {
  json pairs = document(kMerges);
  for (json& merge : pairs["model"]["merges"]) {
    const std::string text = merge;
    merge = {text.substr(0, text.find(' ')), text.substr(text.find(' ') + 1)};
  }
  EXPECT_EQ(BpeTokenizer(pairs.dump(), "t.json").encode("low lower"),
            example().encode("low lower"));
}

TEST(BpeTokenizer, RejectsUnsupportedTokenizers) {
  const auto refuses = [](const char* path, const json& value, const std::string& words) {
    json changed = document(kMerges);
    changed[json::json_pointer(path)] = value;
    SCOPED_TRACE(path);
    expect_error(ErrorKind::Input, "t.json: " + words,
                 [&] { BpeTokenizer(changed.dump(), "t.json"); });
  };
  refuses("/model/type", "Unigram", "its model is \"Unigram\"; only BPE");
  refuses("/model/dropout", 0.1, "model: 'dropout' is set");
  refuses("/model/vocab", 3, "'vocab' is missing or not an object");
  refuses("/model/vocab/a", -1, "token 'a' has no number");
  refuses("/model/merges/0", "lo", "merge '\"lo\"' is not two tokens");
  refuses("/model/merges/0", "l o w", "merge '\"l o w\"' is not two tokens");
  refuses("/model/merges/0", "l z", "merge 0 needs the token 'lz'");
  refuses("/model/merges/1", "l o", "merge 1 of 'l' and 'o' is given twice");
  refuses("/normalizer", {{"type", "NFC"}}, "its 'normalizer' is set");
  refuses("/pre_tokenizer/type", "Whitespace", "its pre-tokenizer 'Whitespace' is not supported");
  refuses("/pre_tokenizer/add_prefix_space", true, "pre-tokenizer: 'add_prefix_space' is set");
  refuses("/pre_tokenizer/use_regex", false,
          "pre-tokenizer: only ByteLevel with 'use_regex', or Split");
  refuses("/added_tokens/0/id", 1e9, "token '<|endoftext|>' has no number");
  refuses("/added_tokens", {1}, "'content' is missing or not a text");
  json no_byte = document(kMerges);
  no_byte["model"]["vocab"].erase(spelled(static_cast<unsigned char>(7)));
  expect_error(ErrorKind::Input, "byte 7 needs the token",
               [&] { BpeTokenizer(no_byte.dump(), "t.json"); });
  expect_error(ErrorKind::Input, "t.json: line 1", [] { BpeTokenizer("{", "t.json"); });
  expect_error(ErrorKind::Input, "'model' is missing", [] { BpeTokenizer("[]", "t.json"); });
  expect_error(ErrorKind::Usage, "unknown token 265",
               [] { (void)example().decode(std::vector<std::int32_t>{265}); });
}

constexpr const char* kLlama3Pattern =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
    "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

/// As Llama 3's: words by another pattern, and a word that is a token is that token.
json llama3_document() {
  json file = document(kMerges);
  file["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers",
       {{{"type", "Split"},
         {"pattern", {{"Regex", kLlama3Pattern}}},
         {"behavior", "Isolated"},
         {"invert", false}},
        {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}};
  file["model"]["ignore_merges"] = true;
  file["model"]["vocab"][spelled(" wool")] = 265;  // no merges lead to it
  file["post_processor"] = {
      {"type", "Sequence"},
      {"processors",
       {{{"type", "ByteLevel"}},
        {{"type", "TemplateProcessing"},
         {"single",
          {{{"SpecialToken", {{"id", "<|endoftext|>"}, {"type_id", 0}}}},
           {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
         {"special_tokens",
          {{"<|endoftext|>",
            {{"id", "<|endoftext|>"}, {"ids", {264}}, {"tokens", {"<|endoftext|>"}}}}}}}}}};
  return file;
}

TEST(BpeTokenizer, ReadsLlama3Tokenizer) {
  const BpeTokenizer tokenizer(llama3_document().dump(), "t.json");
  using Tokens = std::vector<std::int32_t>;
  EXPECT_EQ(tokenizer.encode("low wool wool."), (Tokens{257, 265, 265, '.'}));
  EXPECT_EQ(tokenizer.encode(" woolx"), (Tokens{' ', 'w', 'o', 'o', 'l', 'x'}));
  // "aaa" is a token, but would take two merges of which the first is "aa".
  EXPECT_EQ(tokenizer.encode("aaa"), (Tokens{263}));
  EXPECT_EQ(tokenizer.encode("1234"), (Tokens{'1', '2', '3', '4'}));
  EXPECT_EQ(tokenizer.beginning(), (Tokens{264}));
  EXPECT_EQ(tokenizer.vocabulary(), 266);
  json other = llama3_document();
  other["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "\\w+";
  expect_error(ErrorKind::Input, "the pattern '\\w+' is not supported",
               [&] { BpeTokenizer(other.dump(), "t.json"); });
}

/// As Llama 2's: characters with U+2581 for spaces, bytes as <0x..>, and no words.
class SentencePieces {
 public:
  explicit SentencePieces(std::vector<std::pair<std::string, std::string>> merges)
      : merges_(std::move(merges)) {
    for (const char* name : {"<unk>", "<s>", "</s>"}) {
      add(name);
    }
    for (int byte = 0; byte < 256; ++byte) {
      add(fmt::format("<0x{:02X}>", byte));
    }
    for (const char* character : {"▁", "a", "b", "c", "é"}) {
      add(character);
    }
    for (const auto& [left, right] : merges_) {
      add(left + right);
    }
  }

  [[nodiscard]] json document() const {
    json list = json::array();
    for (const auto& [left, right] : merges_) {
      list.push_back(fmt::format("{} {}", left, right));
    }
    return {{"normalizer",
             {{"type", "Sequence"},
              {"normalizers",
               {{{"type", "Prepend"}, {"prepend", "▁"}},
                {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}}}}}},
            {"pre_tokenizer", nullptr},
            {"added_tokens", {{{"id", 1}, {"content", "<s>"}}, {{"id", 2}, {"content", "</s>"}}}},
            {"model",
             {{"type", "BPE"},
              {"byte_fallback", true},
              {"fuse_unk", true},
              {"unk_token", "<unk>"},
              {"vocab", tokens_},
              {"merges", list}}}};
  }

  /// The tokens of a text without added tokens: all merges, in order of priority, over the whole text.
  [[nodiscard]] std::vector<std::int32_t> encode(const std::string& text) const {
    std::vector<std::string> parts{"▁"};
    for (std::size_t i = 0; i < text.size();) {
      const std::size_t size = text.compare(i, 2, "é") == 0 ? 2 : 1;
      const std::string character = text.substr(i, size);
      if (character == " ") {
        parts.emplace_back("▁");
      } else if (tokens_.contains(character)) {
        parts.push_back(character);
      } else {
        parts.push_back(fmt::format("<0x{:02X}>", static_cast<unsigned char>(text[i])));
      }
      i += size;
    }
    for (const auto& [left, right] : merges_) {
      for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
        if (parts[i] == left && parts[i + 1] == right) {
          parts[i] += right;
          parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(i) + 1);
        }
      }
    }
    std::vector<std::int32_t> out;
    for (const std::string& part : parts) {
      out.push_back(tokens_.at(part));
    }
    return out;
  }

 private:
  void add(const std::string& name) { tokens_.emplace(name, static_cast<int>(tokens_.size())); }

  std::vector<std::pair<std::string, std::string>> merges_;
  std::map<std::string, int> tokens_;
};

const std::vector<std::pair<std::string, std::string>> kPieceMerges{
    {"▁", "a"}, {"▁", "▁"}, {"a", "b"}, {"▁a", "b"}, {"▁▁", "▁▁"}, {"c", "é"}};

TEST(BpeTokenizer, ReadsLlama2Tokenizer) {
  const SentencePieces pieces(kPieceMerges);
  const BpeTokenizer tokenizer(pieces.document().dump(), "t.json");
  using Tokens = std::vector<std::int32_t>;
  // <unk> <s> </s>, 256 bytes, 5 characters from 259 on, then the merges from 264 on.
  EXPECT_EQ(tokenizer.encode("ab cé"), (Tokens{267, 259, 269}));
  EXPECT_EQ(tokenizer.encode("z\n"), (Tokens{259, 3 + 'z', 3 + '\n'}));
  EXPECT_EQ(tokenizer.encode("<s>a"), (Tokens{1, 264}));
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("  ab  cé\n日")), "  ab  cé\n日");
  EXPECT_EQ(tokenizer.bytes_of(264), " a");
  EXPECT_EQ(tokenizer.bytes_of(3 + '\n'), "\n");
}

/// Also with merges across spaces, for which the text cannot be split into words.
TEST(BpeTokenizer, Llama2MatchesNaiveEncoder) {
  std::mt19937 random(5);
  for (const bool across : {false, true}) {
    std::vector<std::pair<std::string, std::string>> merges = kPieceMerges;
    if (across) {
      merges.insert(merges.begin() + 2, {"b", "▁a"});
    }
    const SentencePieces pieces(merges);
    const BpeTokenizer tokenizer(pieces.document().dump(), "t.json");
    for (int i = 0; i < 1000; ++i) {
      std::string text;
      for (unsigned n = 1 + random() % 20; n > 0; --n) {
        text += std::array{"a", "b", "c", "é", " ", "  ", "z", "\xff"}.at(random() % 8);
      }
      ASSERT_EQ(tokenizer.encode(text), pieces.encode(text)) << text;
      ASSERT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
    }
  }
}

TEST(BpeTokenizer, ReadsMetaspace) {
  const SentencePieces pieces(kPieceMerges);
  json file = pieces.document();
  file["normalizer"] = nullptr;
  file["pre_tokenizer"] = {
      {"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "first"}, {"split", false}};
  const BpeTokenizer first(file.dump(), "t.json");
  using Tokens = std::vector<std::int32_t>;
  EXPECT_EQ(first.encode("a<s>a"), (Tokens{264, 1, 260}));
  EXPECT_EQ(first.encode(" a"), (Tokens{264}));  // the space is there already
  file["pre_tokenizer"]["split"] = true;
  EXPECT_EQ(BpeTokenizer(file.dump(), "t.json").encode("a  a"), (Tokens{264, 259, 264}));
  file["pre_tokenizer"]["prepend_scheme"] = "never";
  EXPECT_EQ(BpeTokenizer(file.dump(), "t.json").encode("a a"), (Tokens{260, 264}));
}

TEST(BpeTokenizer, SurvivesDamage) {
  std::mt19937 random(3);
  const std::string good = document(kMerges).dump();
  for (int i = 0; i < 500; ++i) {
    try {
      const BpeTokenizer tokenizer(damaged(good, random), "t.json");
      (void)tokenizer.encode("lower aaa é");
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Input);
    }
  }
}

TEST(OpenText, EncodesFile) {
  const TemporaryFolder folder;
  const BpeTokenizer tokenizer = load_tokenizer(folder.file("t.json", document(kMerges).dump()));
  const Tokens tokens = open_text(folder.file("a.txt", "low lower"), tokenizer);
  EXPECT_EQ(tokens.size(), 2);
  EXPECT_EQ(tokens.vocabulary(), 265);
  expect_error(ErrorKind::Input, "b.txt: is empty",
               [&] { (void)open_text(folder.file("b.txt", ""), tokenizer); });
}

}  // namespace
}  // namespace trireme::train
