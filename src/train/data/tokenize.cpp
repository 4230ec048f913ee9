#include "trireme/tokenize.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <limits>
#include <system_error>

#include <fmt/format.h>

#include "base/disk.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "base/path_error.h"
#include "train/data/bpe.h"
#include "train/data/data_files.h"
#include "train/data/tokens.h"
#include "trireme/error.h"
#include "trireme/message.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

/// A token file that appears under its name when it is complete.
class TokenWriter {
 public:
  TokenWriter(std::string path, std::int32_t vocabulary)
      : path_(std::move(path)),
        temporary_(path_ + ".tmp"),
        kind_(train::token_file_kind(vocabulary)),
        file_(temporary_, std::ios::binary | std::ios::trunc) {
    check();
    write_header();
  }
  ~TokenWriter() {
    std::error_code ignored;
    fs::remove(temporary_, ignored);  // nothing is left of a file that is not complete
  }
  TokenWriter(const TokenWriter&) = delete;
  TokenWriter& operator=(const TokenWriter&) = delete;

  void add(std::span<const std::int32_t> tokens) {
    constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
    count_ += std::ssize(tokens);
    if (count_ > kMost) {
      throw Error(ErrorKind::Input, fmt::format("{}: more than {} tokens; the format cannot count "
                                                "more: write several files",
                                                path_, kMost));
    }
    if (kind_.width == 4) {
      write(std::as_bytes(tokens));
      return;
    }
    narrow_.assign(tokens.begin(), tokens.end());
    write(std::as_bytes(std::span(narrow_)));
  }

  /// Returns the number of tokens.
  std::int64_t finish() {
    file_.seekp(0);
    write_header();
    file_.close();
    check();
    Disk().rename(temporary_, path_);
    return count_;
  }
  [[nodiscard]] int width() const { return kind_.width; }

 private:
  void write_header() {
    std::array<std::int32_t, train::kTokenHeaderNumbers> head{kind_.magic, kind_.version,
                                                              static_cast<std::int32_t>(count_)};
    write(std::as_bytes(std::span(head)));
  }
  void write(std::span<const std::byte> bytes) {
    file_.write(reinterpret_cast<const char*>(bytes.data()),
                static_cast<std::streamsize>(bytes.size()));
    check();
  }
  void check() const {
    if (!file_) {
      throw Error(ErrorKind::System, "--output: " + path_error_text("write", path_, errno));
    }
  }

  std::string path_;
  std::string temporary_;
  train::TokenFileKind kind_;
  std::ofstream file_;
  std::int64_t count_ = 0;
  std::vector<std::uint16_t> narrow_;
};

train::BpeTokenizer open_tokenizer(const std::string& path) {
  require(!path.empty(), "--tokenizer: give a tokenizer.json, or a folder with one");
  return parsed("--tokenizer", path, train::load_tokenizer);
}

/// The texts, which stay mapped while they are encoded.
class Texts {
 public:
  explicit Texts(const TokenizeOptions& options) : files_(train::list_files(options.files)) {
    for (const std::string& file : files_) {
      if (file == "-") {
        require(options.input.standard_input != nullptr, "standard input is not available here");
        texts_.push_back(*options.input.standard_input);
      } else {
        mapped_.push_back(std::make_unique<MappedFile>(file));
        texts_.push_back(mapped_.back()->text());
      }
      train::require_text(texts_.back(), file);
      bytes_.count += std::ssize(texts_.back());
    }
  }
  [[nodiscard]] const std::vector<std::string_view>& all() const { return texts_; }
  [[nodiscard]] Bytes bytes() const { return bytes_; }

 private:
  std::vector<std::string> files_;
  std::vector<std::unique_ptr<MappedFile>> mapped_;
  std::vector<std::string_view> texts_;
  Bytes bytes_{};
};

}  // namespace

TokenizeSummary tokenize(const TokenizeOptions& options) {
  require(options.output.ends_with(".bin"),
          fmt::format("--output: '{}' must end in .bin, by which training recognizes tokens",
                      options.output));
  require(!options.files.empty(), "give the text files to tokenize");
  const train::BpeTokenizer tokenizer = open_tokenizer(options.tokenizer);
  const Texts texts(options);
  TokenWriter writer(options.output, tokenizer.vocabulary());
  Bytes done{};
  for (const std::string_view text : texts.all()) {
    tokenizer.encode(text, [&](std::span<const std::int32_t> tokens, std::size_t bytes) {
      writer.add(tokens);
      if (options.should_stop && options.should_stop()) {
        throw Error(ErrorKind::System, fmt::format("stopped; {} is not written", options.output));
      }
      if (options.on_progress) {
        options.on_progress({done.count + static_cast<std::int64_t>(bytes)}, texts.bytes());
      }
    });
    done.count += std::ssize(text);
  }
  TokenizeSummary summary;
  summary.output = options.output;
  summary.text = texts.bytes();
  summary.tokens = writer.finish();
  summary.vocabulary = tokenizer.vocabulary();
  summary.token_bytes = writer.width();
  return summary;
}

std::string to_json(const TokenizeSummary& summary) {
  Json json;
  json["output"] = summary.output;
  json["text_bytes"] = summary.text.count;
  json["tokens"] = summary.tokens;
  json["vocabulary"] = summary.vocabulary;
  json["token_bytes"] = summary.token_bytes;
  return json.dump();
}

}  // namespace trireme
