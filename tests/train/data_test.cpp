#include <cstring>
#include <numeric>
#include <set>

#include <gtest/gtest.h>

#include "expect_error.h"
#include "temporary_folder.h"
#include "train/data/token_source.h"
#include "train/raw.h"

namespace trireme::train {
namespace {

/// Tokens 0, 1, 2, …
Tokens counting(int count) {
  std::vector<std::int32_t> tokens(count);
  std::iota(tokens.begin(), tokens.end(), 0);
  return {tokens, std::max(count, 1), "counting"};
}

template <class T = std::uint16_t>
std::string llm_c_file(std::vector<std::int32_t> head, const std::vector<T>& tokens) {
  head.resize(256);
  return raw(head) + raw(tokens);
}

std::vector<std::int32_t> all_tokens(const Tokens& tokens) {
  std::vector<std::int32_t> out(tokens.size());
  tokens.copy(0, out);
  return out;
}

TEST(TokenSource, ReturnsTokensAndTargets) {
  const TokenSource source(counting(10), {.length = 3, .order = Order::Sequential});
  EXPECT_EQ(source.windows(), 3);
  const Batch batch = source.batch({}, 2);
  EXPECT_EQ(batch.tokens, (std::vector<std::int32_t>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(batch.targets, (std::vector<std::int32_t>{1, 2, 3, 4, 5, 6}));
}

TEST(TokenSource, VisitsEveryWindowOncePerEpochInNewOrder) {
  const TokenSource source(counting(101), {.length = 4, .seed = 7});
  std::vector<std::vector<std::int32_t>> epochs;
  for (const std::int64_t epoch : {0, 1}) {
    const Batch batch = source.batch({.epoch = epoch}, source.windows());
    epochs.push_back(batch.tokens);
    EXPECT_EQ(std::set<std::int32_t>(batch.tokens.begin(), batch.tokens.end()).size(), 100U);
  }
  EXPECT_NE(epochs[0], epochs[1]);
  EXPECT_NE(TokenSource(counting(101), {.length = 4, .seed = 8}).batch({}, 25).tokens, epochs[0]);
}

TEST(TokenSource, ResumesExactlyAndShardsAcrossRanks) {
  const TokenSource source(counting(52), {.length = 3, .seed = 1});
  const std::int64_t sequences = 6;
  DataPosition at;
  for (int step = 0; step < 20; ++step) {
    const Batch whole = source.batch(at, sequences);
    for (std::int64_t rank = 0; rank < 3; ++rank) {
      const Batch part = source.batch(source.advance(at, rank * 2), 2);
      EXPECT_TRUE(
          std::equal(part.tokens.begin(), part.tokens.end(), whole.tokens.begin() + rank * 6));
      EXPECT_TRUE(
          std::equal(part.targets.begin(), part.targets.end(), whole.targets.begin() + rank * 6));
    }
    at = source.advance(at, sequences);
  }
  EXPECT_EQ(at, (DataPosition{.epoch = 120 / 17, .index = 120 % 17}));
}

TEST(TokenSource, SeparatesTrainingAndValidation) {
  for (int tokens = 10; tokens < 60; ++tokens) {
    for (const double fraction : {0.01, 0.1, 0.5, 0.99}) {
      TokenSourceOptions options{.length = 4, .validation_fraction = fraction};
      const TokenSource training(counting(tokens), options);
      options.part = Part::Validation;
      const TokenSource validation(counting(tokens), options);
      std::set<std::int32_t> seen;
      for (const TokenSource* source : {&training, &validation}) {
        const Batch batch = source->batch({}, source->windows());
        std::set<std::int32_t> own(batch.tokens.begin(), batch.tokens.end());
        own.insert(batch.targets.begin(), batch.targets.end());
        for (const std::int32_t token : own) {
          EXPECT_TRUE(seen.insert(token).second) << tokens << " " << fraction << " " << token;
        }
      }
      EXPECT_EQ(training.windows() + validation.windows(), (tokens - 2) / 4);
    }
  }
  const TokenSource tenth(counting(4002), {.length = 4, .validation_fraction = 0.1});
  EXPECT_EQ(tenth.windows(), 900);
}

TEST(TokenSource, ReportsErrors) {
  expect_error(ErrorKind::Input, "counting: has 4 tokens; windows of 4 tokens need at least 5",
               [] { TokenSource(counting(4), {.length = 4}); });
  EXPECT_EQ(TokenSource(counting(5), {.length = 4}).windows(), 1);
  expect_error(ErrorKind::Input, "has 9 tokens; windows of 4 tokens in two parts need at least 10",
               [] { TokenSource(counting(9), {.length = 4, .validation_fraction = 0.1}); });
  expect_error(ErrorKind::Input, "has 0 tokens", [] { TokenSource(counting(0), {.length = 4}); });
  expect_error(ErrorKind::Usage, "a window of 0 tokens",
               [] { TokenSource(counting(9), {.length = 0}); });
  expect_error(ErrorKind::Usage, "fraction is 1, not in [0, 1)",
               [] { TokenSource(counting(9), {.length = 4, .validation_fraction = 1}); });
  expect_error(ErrorKind::Usage, "no validation part without a validation fraction",
               [] { TokenSource(counting(9), {.length = 4, .part = Part::Validation}); });
  const TokenSource source(counting(9), {.length = 4});
  expect_error(ErrorKind::Usage, "window 2 of epoch 0 is out of range; an epoch has 2",
               [&] { (void)source.batch({.epoch = 0, .index = 2}, 1); });
  expect_error(ErrorKind::Usage, "token 5 at position 1 is beyond the vocabulary of 5", [] {
    Tokens({0, 5}, 5, "x");
  });
}

TEST(OpenBytes, ReadsBytesOfAnyFile) {
  const TemporaryFolder folder;
  const Tokens tokens = open_bytes(folder.file("a", std::string("a\xff\0z", 4)));
  EXPECT_EQ(all_tokens(tokens), (std::vector<std::int32_t>{'a', 255, 0, 'z'}));
  EXPECT_EQ(tokens.vocabulary(), 256);
  expect_error(ErrorKind::Input, "b: is empty", [&] { (void)open_bytes(folder.file("b", "")); });
}

TEST(OpenTokenFile, ReadsNanoGptFormat) {
  const TemporaryFolder folder;
  const Tokens tokens =
      open_token_file(folder.file("a.bin", raw<std::uint16_t>({0, 1, 50256})), 50257);
  EXPECT_EQ(all_tokens(tokens), (std::vector<std::int32_t>{0, 1, 50256}));
  EXPECT_EQ(tokens.vocabulary(), 50257);
}

TEST(OpenTokenFile, ReadsLlmCFormat) {
  const TemporaryFolder folder;
  const Tokens tokens =
      open_token_file(folder.file("a.bin", llm_c_file({20240520, 1, 2}, {7, 8})), 9);
  EXPECT_EQ(all_tokens(tokens), (std::vector<std::int32_t>{7, 8}));
  EXPECT_EQ(token_width(folder / "a.bin"), 2);
}

TEST(OpenTokenFile, ReadsLlmCFormatForLlama3) {
  const TemporaryFolder folder;
  const std::string path =
      folder.file("a.bin", llm_c_file<std::uint32_t>({20240801, 7, 3}, {128000, 65536, 128255}));
  const Tokens tokens = open_token_file(path, 128256);
  EXPECT_EQ(all_tokens(tokens), (std::vector<std::int32_t>{128000, 65536, 128255}));
  EXPECT_EQ(token_width(path), 4);
  expect_error(ErrorKind::Input,
               "a.bin: token 128255 at position 2 is beyond the vocabulary of 128255",
               [&] { (void)open_token_file(path, 128255); });
  const std::string huge =
      folder.file("b.bin", llm_c_file<std::uint32_t>({20240801, 7, 1}, {0xffffffffU}));
  expect_error(ErrorKind::Input, "b.bin: token 4294967295 at position 0 is beyond",
               [&] { (void)open_token_file(huge, 128256); });
}

TEST(OpenTokenFile, ReportsErrors) {
  const TemporaryFolder folder;
  const auto refuses = [&](const std::string& content, const char* words) {
    expect_error(ErrorKind::Input, words,
                 [&] { (void)open_token_file(folder.file("a.bin", content), 50257); });
  };
  refuses("", "a.bin: holds no tokens");
  refuses("abc", "a.bin: has 3 bytes, an odd number; a token takes 2");
  refuses(raw<std::uint16_t>({1, 2, 50257}),
          "a.bin: token 50257 at position 2 is beyond the vocabulary of 50257");
  refuses(llm_c_file({20240520, 1, 3}, {7, 8}),
          "a.bin: has 4 bytes of tokens, but its header says 3 tokens of 2 bytes");
  refuses(llm_c_file({20240520, 1, -1}, {7, 8}), "its header says -1 tokens");
  refuses(llm_c_file({20240520, 2, 2}, {7, 8}), "of version 2; only 1 can be read");
  refuses(llm_c_file({20240520, 1, 0}, std::vector<std::uint16_t>()), "a.bin: holds no tokens");
  refuses(llm_c_file({20240801, 7, 2}, {7, 8}),
          "a.bin: has 4 bytes of tokens, but its header says 2 tokens of 4 bytes");
  refuses(llm_c_file({20240801, 1, 2}, {7, 8}), "of version 1; only 7 can be read");
  refuses(llm_c_file({20240520, 1, 2}, std::vector<std::uint16_t>()).substr(0, 100),
          "is truncated: 100 bytes");
  expect_error(ErrorKind::Input, "No such file",
               [&] { (void)open_token_file(folder / "none", 9); });
}

}  // namespace
}  // namespace trireme::train
