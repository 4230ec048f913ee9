// What open_train_data() makes of --data, --vocabulary and --model.
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "expect_error.h"
#include "temporary_folder.h"
#include "train/raw.h"
#include "trireme/train_data.h"

namespace trireme {
namespace {

/// Two-byte tokens 0 … last, enough for a few windows.
std::string token_file(std::uint16_t last) {
  std::vector<std::uint16_t> tokens(40, 0);
  tokens.back() = last;
  return raw(tokens);
}

class OpenTrainData : public ::testing::Test {
 protected:
  OpenTrainData() {
    settings_.length = 4;
    model_.name = "of-my-own";
    model_.vocabulary = 32000;
  }

  [[nodiscard]] std::int64_t vocabulary() const {
    return open_train_data(settings_, model_).vocabulary;
  }

  TemporaryFolder folder_;
  TrainSettings settings_;
  ModelConfig model_;
};

TEST_F(OpenTrainData, TokenFileUsesModelVocabulary) {
  settings_.data = {folder_.file("llama2.bin", token_file(31999))};
  EXPECT_EQ(vocabulary(), 32000);
  settings_.data = {folder_.file("other.bin", token_file(32000))};
  expect_error(ErrorKind::Usage,
               "other.bin: token 32000 at position 39 is beyond the vocabulary of 32000",
               [&] { (void)vocabulary(); });
  settings_.vocabulary = 32001;
  EXPECT_EQ(vocabulary(), 32001);
}

TEST_F(OpenTrainData, PresetUsesVocabularyOfFileFormat) {
  model_ = preset_model("gpt-mini");
  settings_.data = {folder_.file("gpt2.bin", token_file(50256))};
  EXPECT_EQ(vocabulary(), 50257);
  std::vector<std::int32_t> head{20240801, 7, 40};
  head.resize(256);
  std::vector<std::uint32_t> tokens(40, 0);
  tokens.back() = 128255;
  settings_.data = {folder_.file("llama3.bin", raw(head) + raw(tokens))};
  EXPECT_EQ(vocabulary(), 128256);
}

TEST_F(OpenTrainData, AcceptsLargerVocabularyThanDataHas) {
  settings_.data = {folder_.file("text", std::string(100, 'a'))};
  settings_.vocabulary = 320;
  const TrainData data = open_train_data(settings_, model_);
  EXPECT_EQ(data.vocabulary, 320);
  EXPECT_EQ(text_of(data, std::vector<std::int32_t>{'a', 300, 'b'}), "a\uFFFDb");
  settings_.vocabulary = 100;
  expect_error(ErrorKind::Usage, "--vocabulary is 100, but", [&] { (void)vocabulary(); });
}

/// The first and the last token, and how many there are, by way of a batch of one window over all.
std::vector<std::int32_t> all_tokens(const Batches& batches, std::int64_t count) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(count));
  std::vector<std::int32_t> targets(tokens.size());
  batches.fill({}, {.inputs = std::as_writable_bytes(std::span(tokens)),
                    .targets = std::as_writable_bytes(std::span(targets))});
  tokens.push_back(targets.back());
  return tokens;
}

TEST_F(OpenTrainData, JoinsFilesAndFolders) {
  const TemporaryFolder shards;
  (void)shards.file("2.txt", "ef");
  (void)shards.file("1.txt", "cd");
  (void)shards.file("notes.md", "not this");
  settings_.data = {folder_.file("a", "ab"), shards.path(), "-"};
  settings_.length = 6;
  settings_.validation = 0;
  const TrainData data = open_train_data(
      settings_, model_, {.standard_input = std::make_shared<const std::string>("g")});
  EXPECT_EQ(all_tokens(*data.training, 6),
            (std::vector<std::int32_t>{'a', 'b', 'c', 'd', 'e', 'f', 'g'}));
  expect_error(ErrorKind::Usage, "--data: standard input is not available here",
               [&] { (void)vocabulary(); });
}

TEST_F(OpenTrainData, SupportsSeparateValidationFiles) {
  settings_.data = {folder_.file("a", "abcdefgh")};
  settings_.validation_data = {folder_.file("b", "vwxyz")};
  const TrainData data = open_train_data(settings_, model_);
  EXPECT_EQ(all_tokens(*data.validation, 4), (std::vector<std::int32_t>{'v', 'w', 'x', 'y', 'z'}));
  settings_.validation_data = {folder_.file("c", "vwx")};
  expect_error(ErrorKind::Usage, "--validation-data: ", [&] { (void)vocabulary(); });
}

TEST_F(OpenTrainData, RejectsBinaryFiles) {
  const auto refuses = [&](const std::string& content, const std::string& words) {
    settings_.data = {folder_.file("x", content + std::string(100, 'a'))};
    expect_error(ErrorKind::Usage, words, [&] { (void)vocabulary(); });
  };
  refuses("\x1f\x8b", "x: is compressed with gzip, not plain text; decompress it first (gunzip)");
  refuses("\x28\xb5\x2f\xfd", "compressed with zstd");
  refuses("BZh9", "compressed with bzip2");
  refuses(std::string("\xfd"
                      "7zXZ\0",
                      6),
          "compressed with xz");
  refuses("PK\x03\x04", "a zip archive");
  refuses("PAR1", "a Parquet table");
  refuses("\xff\xfe", "x: is UTF-16, not plain text; convert it first (iconv");
  refuses("\xfe\xff", "is UTF-16");
  refuses(std::string("ab\0c", 4), "x: is not text: byte 2 is NUL");
  settings_.data = {folder_.file("y", "abc"), folder_.file("z.bin", token_file(7))};
  expect_error(ErrorKind::Usage, "1 of 2 files are tokens (*.bin), the others text",
               [&] { (void)vocabulary(); });
}

}  // namespace
}  // namespace trireme
