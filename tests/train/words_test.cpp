#include "train/data/words.h"

#include <random>
#include <regex>
#include <string>

#include <gtest/gtest.h>

#include "train/data/unicode.h"

namespace trireme::train {
namespace {

std::vector<std::string_view> split_gpt2(std::string_view text) {
  return split_words(text, WordPattern::Gpt2);
}

using Words = std::vector<std::string_view>;

TEST(Gpt2Words, MatchesPattern) {
  EXPECT_EQ(split_gpt2(""), Words{});
  EXPECT_EQ(split_gpt2("Hello world"), (Words{"Hello", " world"}));
  EXPECT_EQ(split_gpt2("I've  2 cats"), (Words{"I", "'ve", " ", " 2", " cats"}));
  EXPECT_EQ(split_gpt2("it's 'sad' he'll"), (Words{"it", "'s", " '", "sad", "'", " he", "'ll"}));
  EXPECT_EQ(split_gpt2("'S"), (Words{"'", "S"}));
  EXPECT_EQ(split_gpt2("'resolve"), (Words{"'re", "solve"}));
  EXPECT_EQ(split_gpt2("a1b22"), (Words{"a", "1", "b", "22"}));
  EXPECT_EQ(split_gpt2("x=(y+1);\n"), (Words{"x", "=(", "y", "+", "1", ");", "\n"}));
}

TEST(Gpt2Words, LeavesLastSpaceToWord) {
  EXPECT_EQ(split_gpt2("a   b"), (Words{"a", "  ", " b"}));
  EXPECT_EQ(split_gpt2("a\n\nb"), (Words{"a", "\n", "\n", "b"}));
  EXPECT_EQ(split_gpt2("a \tb"), (Words{"a", " ", "\t", "b"}));
  EXPECT_EQ(split_gpt2("a   "), (Words{"a", "   "}));
  EXPECT_EQ(split_gpt2(" "), (Words{" "}));
  EXPECT_EQ(split_gpt2("\n a"), (Words{"\n", " a"}));
}

TEST(Gpt2Words, ClassifiesUnicodeLettersNumbersAndSpaces) {
  EXPECT_EQ(split_gpt2("naïve Straße"), (Words{"naïve", " Straße"}));
  EXPECT_EQ(split_gpt2("Привет, мир²"), (Words{"Привет", ",", " мир", "²"}));
  EXPECT_EQ(split_gpt2("日本語。漢字"), (Words{"日本語", "。", "漢字"}));
  EXPECT_EQ(split_gpt2("५६ Ⅷ½"), (Words{"५६", " Ⅷ½"}));
  EXPECT_EQ(split_gpt2("🙂🙂 ok"), (Words{"🙂🙂", " ok"}));
  EXPECT_EQ(split_gpt2("a\u00a0\u3000b"), (Words{"a", "\u00a0", "\u3000", "b"}));
  // A combining accent is a mark (M), not a letter.
  EXPECT_EQ(split_gpt2("e\u0301a"), (Words{"e", "\u0301", "a"}));
  EXPECT_EQ(split_gpt2("a\xff\xfe b"), (Words{"a", "\xff\xfe", " b"}));
}

TEST(Gpt2Words, LosesNothing) {
  std::mt19937 random(1);
  const std::vector<std::string> pieces{" ", "\n", "'", "s",  "ll",     "A",
                                        "7", "é",  "½", "。", "\u3000", "\xff"};
  for (int i = 0; i < 2000; ++i) {
    std::string text;
    for (unsigned n = random() % 12; n > 0; --n) {
      text += pieces[random() % pieces.size()];
    }
    std::string joined;
    for (const std::string_view word : split_gpt2(text)) {
      EXPECT_FALSE(word.empty());
      joined += word;
    }
    EXPECT_EQ(joined, text);
  }
}

TEST(Llama3Words, MatchesPattern) {
  const auto split = [](std::string_view text) { return split_words(text, WordPattern::Llama3); };
  EXPECT_EQ(split("Hello world"), (Words{"Hello", " world"}));
  EXPECT_EQ(split("I'VE 12345 cats"), (Words{"I", "'VE", " ", "123", "45", " cats"}));
  EXPECT_EQ(split("x=(y+1);\n\n  z"), (Words{"x", "=(", "y", "+", "1", ");\n\n", " ", " z"}));
  EXPECT_EQ(split("a \n \n b"), (Words{"a", " \n \n", " b"}));
  EXPECT_EQ(split("\tif (Straße)"), (Words{"\tif", " (", "Straße", ")"}));
  EXPECT_EQ(split("日本語。漢字²³"), (Words{"日本語", "。漢字", "²³"}));
  EXPECT_EQ(split_words("123", WordPattern::Qwen2), (Words{"1", "2", "3"}));
}

/// The pattern on ASCII, by another implementation of regular expressions.
TEST(Llama3Words, MatchesRegularExpression) {
  const std::regex pattern(
      "'[sStTmMdD]|'[rR][eE]|'[vV][eE]|'[lL][lL]|[^\\r\\nA-Za-z0-9]?[A-Za-z]+|[0-9]{1,3}|"
      " ?[^\\sA-Za-z0-9]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+");
  std::mt19937 random(4);
  for (int i = 0; i < 2000; ++i) {
    std::string text;
    for (unsigned n = random() % 24; n > 0; --n) {
      text += "  \n\r\tabLrevsD''019.,("[random() % 22];
    }
    std::vector<std::string> expected;
    for (std::sregex_iterator at(text.begin(), text.end(), pattern); at != std::sregex_iterator();
         ++at) {
      expected.push_back(at->str());
    }
    const Words words = split_words(text, WordPattern::Llama3);
    ASSERT_EQ(std::vector<std::string>(words.begin(), words.end()), expected) << text;
  }
}

TEST(CharacterClass, MatchesUnicode14Counts) {
  int letters = 0;
  int numbers = 0;
  int spaces = 0;
  for (char32_t c = 0; c <= 0x10ffff; ++c) {
    letters += class_of(c) == CharacterClass::Letter;
    numbers += class_of(c) == CharacterClass::Number;
    spaces += class_of(c) == CharacterClass::Space;
  }
  EXPECT_EQ(letters, 131756);
  EXPECT_EQ(numbers, 1791);
  EXPECT_EQ(spaces, 25);
}

}  // namespace
}  // namespace trireme::train
