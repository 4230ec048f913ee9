#include "train/data/bpe.h"

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

TEST(BpeTokenizer, MergesTheLowestRankFirst) {
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

TEST(BpeTokenizer, TakesAddedTokensFromTheText) {
  const BpeTokenizer tokenizer = example();
  EXPECT_EQ(tokenizer.encode("low<|endoftext|> low"), (std::vector<std::int32_t>{257, 264, 259}));
  EXPECT_EQ(tokenizer.encode("<|endoftext|><|endoftext|>"), (std::vector<std::int32_t>{264, 264}));
  EXPECT_EQ(tokenizer.decode(std::vector<std::int32_t>{257, 264, 259}), "low<|endoftext|> low");
}

TEST(BpeTokenizer, GivesTheTextBack) {
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

TEST(BpeTokenizer, EqualsTheSlowWay) {
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

TEST(BpeTokenizer, IsNotSlowOnALongWord) {
  const std::string word(300'000, 'a');
  EXPECT_EQ(example().encode(word).size(), 150'000U);  // always "aa", as it has the lower rank
}

TEST(BpeTokenizer, ReadsMergesAsPairsToo) {
  json pairs = document(kMerges);
  for (json& merge : pairs["model"]["merges"]) {
    const std::string text = merge;
    merge = {text.substr(0, text.find(' ')), text.substr(text.find(' ') + 1)};
  }
  EXPECT_EQ(BpeTokenizer(pairs.dump(), "t.json").encode("low lower"),
            example().encode("low lower"));
}

TEST(BpeTokenizer, RefusesWhatIsNotGpt2s) {
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
  refuses("/pre_tokenizer/type", "Sequence", "its pre-tokenizer is 'Sequence'; only GPT-2's");
  refuses("/pre_tokenizer/add_prefix_space", true, "pre-tokenizer: 'add_prefix_space' is set");
  refuses("/pre_tokenizer/use_regex", false, "pre-tokenizer: 'use_regex' is not true");
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

TEST(OpenText, EncodesAFile) {
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
