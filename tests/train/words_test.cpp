#include "train/data/words.h"

#include <random>
#include <string>

#include <gtest/gtest.h>

#include "train/data/unicode.h"

namespace trireme::train {
namespace {

using Words = std::vector<std::string_view>;

TEST(Gpt2Words, SplitsAsThePatternDoes) {
  EXPECT_EQ(split_gpt2_words(""), Words{});
  EXPECT_EQ(split_gpt2_words("Hello world"), (Words{"Hello", " world"}));
  EXPECT_EQ(split_gpt2_words("I've  2 cats"), (Words{"I", "'ve", " ", " 2", " cats"}));
  EXPECT_EQ(split_gpt2_words("it's 'sad' he'll"),
            (Words{"it", "'s", " '", "sad", "'", " he", "'ll"}));
  EXPECT_EQ(split_gpt2_words("'S"), (Words{"'", "S"}));
  EXPECT_EQ(split_gpt2_words("'resolve"), (Words{"'re", "solve"}));
  EXPECT_EQ(split_gpt2_words("a1b22"), (Words{"a", "1", "b", "22"}));
  EXPECT_EQ(split_gpt2_words("x=(y+1);\n"), (Words{"x", "=(", "y", "+", "1", ");", "\n"}));
}

TEST(Gpt2Words, LeavesTheLastSpaceToTheWord) {
  EXPECT_EQ(split_gpt2_words("a   b"), (Words{"a", "  ", " b"}));
  EXPECT_EQ(split_gpt2_words("a\n\nb"), (Words{"a", "\n", "\n", "b"}));
  EXPECT_EQ(split_gpt2_words("a \tb"), (Words{"a", " ", "\t", "b"}));
  EXPECT_EQ(split_gpt2_words("a   "), (Words{"a", "   "}));
  EXPECT_EQ(split_gpt2_words(" "), (Words{" "}));
  EXPECT_EQ(split_gpt2_words("\n a"), (Words{"\n", " a"}));
}

TEST(Gpt2Words, KnowsLettersNumbersAndSpacesOfUnicode) {
  EXPECT_EQ(split_gpt2_words("naïve Straße"), (Words{"naïve", " Straße"}));
  EXPECT_EQ(split_gpt2_words("Привет, мир²"), (Words{"Привет", ",", " мир", "²"}));
  EXPECT_EQ(split_gpt2_words("日本語。漢字"), (Words{"日本語", "。", "漢字"}));
  EXPECT_EQ(split_gpt2_words("५६ Ⅷ½"), (Words{"५६", " Ⅷ½"}));
  EXPECT_EQ(split_gpt2_words("🙂🙂 ok"), (Words{"🙂🙂", " ok"}));
  EXPECT_EQ(split_gpt2_words("a\u00a0\u3000b"), (Words{"a", "\u00a0", "\u3000", "b"}));
  // A combining accent is a mark (M), not a letter.
  EXPECT_EQ(split_gpt2_words("e\u0301a"), (Words{"e", "\u0301", "a"}));
  EXPECT_EQ(split_gpt2_words("a\xff\xfe b"), (Words{"a", "\xff\xfe", " b"}));
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
    for (const std::string_view word : split_gpt2_words(text)) {
      EXPECT_FALSE(word.empty());
      joined += word;
    }
    EXPECT_EQ(joined, text);
  }
}

TEST(CharacterClass, CountsWhatUnicode14Has) {
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
