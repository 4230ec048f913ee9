#include "train/data/tokens.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/mapped_file.h"
#include "trireme/error.h"

namespace trireme::train {
namespace {

constexpr std::int32_t kMagic = 20240520;
/// llm.c's four-byte token files, as for Llama 3.
constexpr std::int32_t kWideMagic = 20240801;
constexpr std::int32_t kVersion = 1;
constexpr std::size_t kHeaderNumbers = 256;
constexpr std::size_t kHeaderBytes = kHeaderNumbers * sizeof(std::int32_t);

[[noreturn]] void fail(const std::string& path, const std::string& problem) {
  throw Error(ErrorKind::Input, fmt::format("{}: {}", path, problem));
}

template <class T>
void check_tokens(std::span<const T> tokens, std::int32_t vocabulary, const std::string& name,
                  ErrorKind kind) {
  const auto wrong = [&](T token) {
    return std::cmp_less(token, 0) || std::cmp_greater_equal(token, vocabulary);
  };
  const auto at = std::find_if(tokens.begin(), tokens.end(), wrong);
  if (at != tokens.end()) {
    throw Error(kind,
                fmt::format("{}: token number {} is {}, beyond the vocabulary of {}; it was made "
                            "with another tokenizer",
                            name, at - tokens.begin(), *at, vocabulary));
  }
}

/// The part of llm.c's file after the header, or all of nanoGPT's.
std::span<const std::byte> token_bytes(std::span<const std::byte> file, const std::string& path) {
  std::array<std::int32_t, 3> head{};
  if (file.size() >= sizeof head) {
    std::memcpy(head.data(), file.data(), sizeof head);
  }
  const auto [magic, version, count] = head;
  if (magic == kWideMagic) {
    fail(path, "holds tokens of four bytes (llm.c's for Llama 3); only those of two can be read");
  }
  if (magic != kMagic) {
    return file;
  }
  if (version != kVersion) {
    fail(path, fmt::format("is a token file of llm.c, of version {}; only {} can be read", version,
                           kVersion));
  }
  if (file.size() < kHeaderBytes) {
    fail(path,
         fmt::format("is truncated: {} bytes, but the header of a token file of llm.c has {}; "
                     "copy it again",
                     file.size(), kHeaderBytes));
  }
  const std::span<const std::byte> data = file.subspan(kHeaderBytes);
  if (count < 0 || data.size() != static_cast<std::size_t>(count) * sizeof(std::uint16_t)) {
    fail(path, fmt::format("has {} bytes of tokens, but its header says {} tokens of 2 bytes",
                           data.size(), count));
  }
  return data;
}

}  // namespace

Tokens::Tokens(Data data, std::shared_ptr<const void> owner, std::int32_t vocabulary,
               std::string name)
    : data_(data), owner_(std::move(owner)), vocabulary_(vocabulary), name_(std::move(name)) {}

Tokens::Tokens(std::vector<std::int32_t> tokens, std::int32_t vocabulary, std::string name)
    : vocabulary_(vocabulary), name_(std::move(name)) {
  const auto owner = std::make_shared<const std::vector<std::int32_t>>(std::move(tokens));
  data_ = std::span<const std::int32_t>(*owner);
  owner_ = owner;
  check_tokens(std::span<const std::int32_t>(*owner), vocabulary_, name_, ErrorKind::Usage);
}

std::int64_t Tokens::size() const {
  return std::visit([](const auto& data) { return static_cast<std::int64_t>(data.size()); }, data_);
}

void Tokens::copy(std::int64_t first, std::span<std::int32_t> out) const {
  TRIREME_CHECK(first >= 0 && first <= size() - static_cast<std::int64_t>(out.size()),
                fmt::format("{} tokens from {} on of {}", out.size(), first, size()));
  std::visit(
      [&](const auto& data) {
        std::ranges::copy(data.subspan(static_cast<std::size_t>(first), out.size()), out.begin());
      },
      data_);
}

Tokens open_bytes(const std::string& path) {
  auto file = std::make_shared<const MappedFile>(path);
  const std::string_view text = file->text();
  if (text.empty()) {
    fail(path, "is empty; there is nothing to train on");
  }
  const std::span data(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
  return {Tokens::Data(data), std::move(file), kBytesVocabulary, path};
}

Tokens open_token_file(const std::string& path, std::int32_t vocabulary) {
  auto file = std::make_shared<const MappedFile>(path);
  const std::span<const std::byte> bytes = token_bytes(file->bytes(), path);
  if (bytes.empty()) {
    fail(path, "holds no tokens; there is nothing to train on");
  }
  if (bytes.size() % sizeof(std::uint16_t) != 0) {
    fail(path, fmt::format("has {} bytes, an odd number; a token takes 2 (a text must not be "
                           "called *.bin)",
                           bytes.size()));
  }
  // The mapping is page-aligned and the header has 1024 bytes, so the tokens are aligned.
  const std::span<const std::uint16_t> data(reinterpret_cast<const std::uint16_t*>(bytes.data()),
                                            bytes.size() / sizeof(std::uint16_t));
  check_tokens(data, vocabulary, path, ErrorKind::Input);
  return {Tokens::Data(data), std::move(file), vocabulary, path};
}

}  // namespace trireme::train
