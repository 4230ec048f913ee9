#include "trireme/tokenize.h"

#include <filesystem>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "expect_error.h"
#include "temporary_folder.h"
#include "train/data/bpe.h"

namespace trireme {
namespace {

/// Bytes as <0x..>, and enough tokens that some need four bytes, if `last` is beyond 65535.
std::string tokenizer_json(int last) {
  nlohmann::json vocabulary;
  for (int byte = 0; byte < 256; ++byte) {
    vocabulary[fmt::format("<0x{:02X}>", byte)] = byte;
  }
  vocabulary["▁"] = 256;
  vocabulary["z"] = last;
  const nlohmann::json file{{"pre_tokenizer",
                             {{"type", "Metaspace"},
                              {"replacement", "▁"},
                              {"prepend_scheme", "never"},
                              {"split", false}}},
                            {"model",
                             {{"type", "BPE"},
                              {"byte_fallback", true},
                              {"vocab", vocabulary},
                              {"merges", nlohmann::json::array()}}}};
  return file.dump();
}

class Tokenize : public ::testing::Test {
 protected:
  Tokenize() {
    options_.files = {folder_.file("a.txt", "a z"), folder_.file("b.txt", "zz")};
    options_.output = folder_ / "out.bin";
  }

  [[nodiscard]] std::vector<std::int32_t> written(std::int32_t vocabulary) const {
    const train::Tokens tokens = train::open_token_file(options_.output, vocabulary);
    std::vector<std::int32_t> all(static_cast<std::size_t>(tokens.size()));
    tokens.copy(0, all);
    return all;
  }

  TemporaryFolder folder_;
  TokenizeOptions options_;
};

TEST_F(Tokenize, OutputIsReadableByTraining) {
  for (const int last : {300, 70000}) {
    options_.tokenizer = folder_.file("tokenizer.json", tokenizer_json(last));
    std::int64_t seen = 0;
    options_.on_progress = [&](Bytes done, Bytes all) {
      seen = done.count;
      EXPECT_EQ(all.count, 5);
    };
    const TokenizeSummary summary = tokenize(options_);
    EXPECT_EQ(written(last + 1), (std::vector<std::int32_t>{'a', 256, last, last, last}));
    EXPECT_EQ(summary.tokens, 5);
    EXPECT_EQ(summary.vocabulary, last + 1);
    EXPECT_EQ(summary.token_bytes, last == 300 ? 2 : 4);
    EXPECT_EQ(train::token_width(options_.output), summary.token_bytes);
    EXPECT_EQ(seen, 5);
  }
}

TEST_F(Tokenize, LeavesNothingOnFailure) {
  options_.tokenizer = folder_.file("tokenizer.json", tokenizer_json(300));
  options_.files.push_back(folder_.file("c.txt", "\x1f\x8b"));
  expect_error(ErrorKind::Input, "compressed with gzip", [&] { (void)tokenize(options_); });
  EXPECT_FALSE(std::filesystem::exists(options_.output));
  EXPECT_FALSE(std::filesystem::exists(options_.output + ".tmp"));
  options_.output = folder_ / "out.txt";
  expect_error(ErrorKind::Usage, "must end in .bin", [&] { (void)tokenize(options_); });
  options_.output = folder_ / "none/out.bin";
  options_.files.pop_back();
  expect_error(ErrorKind::System, "none/out.bin': No such file or directory",
               [&] { (void)tokenize(options_); });
}

TEST_F(Tokenize, StopsOnRequestAndLeavesNothing) {
  options_.tokenizer = folder_.file("tokenizer.json", tokenizer_json(300));
  options_.should_stop = [] { return true; };
  expect_error(ErrorKind::System, "stopped; ", [&] { (void)tokenize(options_); });
  EXPECT_FALSE(std::filesystem::exists(options_.output));
  EXPECT_FALSE(std::filesystem::exists(options_.output + ".tmp"));
}

TEST_F(Tokenize, AcceptsFolderWithTokenizer) {
  (void)folder_.file("tokenizer.json", tokenizer_json(300));
  options_.tokenizer = folder_.path();
  EXPECT_EQ(tokenize(options_).vocabulary, 301);
}

}  // namespace
}  // namespace trireme
