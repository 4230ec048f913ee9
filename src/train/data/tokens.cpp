#include "train/data/tokens.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/mapped_file.h"
#include "train/input_error.h"
#include "trireme/error.h"

namespace trireme::train {
namespace {

constexpr std::array kKinds{TokenFileKind{20240520, 1, 2}, TokenFileKind{20240801, 7, 4}};
constexpr int kPlainWidth = 2;
constexpr std::size_t kHeaderBytes = kTokenHeaderNumbers * sizeof(std::int32_t);

template <class T>
void check_tokens(std::span<const T> tokens, std::int32_t vocabulary, const std::string& name,
                  ErrorKind kind) {
  const auto wrong = [&](T token) {
    return std::cmp_less(token, 0) || std::cmp_greater_equal(token, vocabulary);
  };
  const auto at = std::find_if(tokens.begin(), tokens.end(), wrong);
  if (at != tokens.end()) {
    throw Error(kind, fmt::format("{}: token {} at position {} is beyond the vocabulary of {}; "
                                  "give the model or tokenizer that it was made with, or a larger "
                                  "--vocabulary",
                                  name, *at, at - tokens.begin(), vocabulary));
  }
}

/// The tokens of a file, after its header if it has one.
struct TokenBytes {
  std::span<const std::byte> bytes{};
  int width = kPlainWidth;
};

TokenBytes token_bytes(std::span<const std::byte> file, const std::string& path) {
  std::array<std::int32_t, 3> head{};
  std::memcpy(head.data(), file.data(), std::min(file.size(), sizeof head));
  const auto [magic, version, count] = head;
  const auto* const kind = std::ranges::find(kKinds, magic, &TokenFileKind::magic);
  if (kind == kKinds.end() || file.size() < sizeof head) {
    return {.bytes = file};
  }
  if (version != kind->version) {
    throw_input_error(
        path, fmt::format("is a token file of llm.c, of version {}; only {} can be read", version,
                          kind->version));
  }
  if (file.size() < kHeaderBytes) {
    throw_input_error(
        path, fmt::format("is truncated: {} bytes, but the header of a token file of llm.c has {}; "
                          "copy it again",
                          file.size(), kHeaderBytes));
  }
  const std::span<const std::byte> data = file.subspan(kHeaderBytes);
  if (count < 0 || std::cmp_not_equal(data.size(), std::int64_t{count} * kind->width)) {
    throw_input_error(
        path, fmt::format("has {} bytes of tokens, but its header says {} tokens of {} bytes",
                          data.size(), count, kind->width));
  }
  return {.bytes = data, .width = kind->width};
}

/// The mapping is page-aligned and the header has 1024 bytes, so the tokens are aligned.
template <class T>
std::span<const T> elements_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
}

}  // namespace

Tokens::Tokens(Data data, std::shared_ptr<const MappedFile> file, std::int32_t vocabulary,
               std::string name)
    : vocabulary_(vocabulary), name_(std::move(name)) {
  add(data, nullptr, std::move(file));
}

Tokens::Tokens(std::vector<std::int32_t> tokens, std::int32_t vocabulary, std::string name)
    : vocabulary_(vocabulary), name_(std::move(name)) {
  const auto owner = std::make_shared<const std::vector<std::int32_t>>(std::move(tokens));
  const std::span<const std::int32_t> all(*owner);
  check_tokens(all, vocabulary_, name_, ErrorKind::Usage);
  add(all, owner, nullptr);
}

void Tokens::add(Data data, std::shared_ptr<const std::vector<std::int32_t>> owner,
                 std::shared_ptr<const MappedFile> file) {
  const auto count =
      std::visit([](const auto& all) { return static_cast<std::int64_t>(all.size()); }, data);
  pieces_.push_back(
      {.end = size() + count, .data = data, .owner = std::move(owner), .file = std::move(file)});
}

/// From a file through MappedFile::copy(), which reports a file that was truncated meanwhile.
void Tokens::Piece::copy(std::int64_t first, std::span<std::int32_t> out) const {
  std::visit(
      [&](const auto& all) {
        const auto begin = static_cast<std::int64_t>(all.size()) - (end - first);
        const auto part = all.subspan(begin, out.size());
        if (file == nullptr) {
          std::ranges::copy(part, out.begin());
          return;
        }
        std::vector<std::remove_cvref_t<decltype(part[0])>> copied(part.size());
        file->copy(std::as_bytes(part), std::as_writable_bytes(std::span(copied)).data());
        std::ranges::copy(copied, out.begin());
      },
      data);
}

Tokens joined(const std::vector<Tokens>& parts, std::string name) {
  Tokens all({}, 0, std::move(name));
  for (const Tokens& part : parts) {
    all.vocabulary_ = std::max(all.vocabulary_, part.vocabulary());
    for (const Tokens::Piece& piece : part.pieces_) {
      all.add(piece.data, piece.owner, piece.file);
    }
  }
  return all;
}

void Tokens::copy(std::int64_t first, std::span<std::int32_t> out) const {
  TRIREME_CHECK(first >= 0 && first <= size() - static_cast<std::int64_t>(out.size()),
                fmt::format("{} tokens from {} on of {}", out.size(), first, size()));
  auto piece = std::ranges::upper_bound(pieces_, first, {}, &Piece::end);
  for (; !out.empty(); ++piece) {
    const std::size_t count = std::min<std::size_t>(piece->end - first, out.size());
    piece->copy(first, out.first(count));
    out = out.subspan(count);
    first += static_cast<std::int64_t>(count);
  }
}

Tokens open_bytes(const std::string& path) {
  auto file = std::make_shared<const MappedFile>(path);
  const std::string_view text = file->text();
  if (text.empty()) {
    throw_input_error(path, "is empty; give a file with text");
  }
  const std::span data(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
  return {Tokens::Data(data), std::move(file), kBytesVocabulary, path};
}

TokenFileKind token_file_kind(std::int32_t vocabulary) {
  return vocabulary <= 1 << 16U ? kKinds.front() : kKinds.back();
}

int token_width(const std::string& path) {
  const MappedFile file(path);
  return token_bytes(file.bytes(), path).width;
}

Tokens open_token_file(const std::string& path, std::int32_t vocabulary) {
  auto file = std::make_shared<const MappedFile>(path);
  const TokenBytes found = token_bytes(file->bytes(), path);
  if (found.bytes.empty()) {
    throw_input_error(path, "holds no tokens; write it again, for example with trireme tokenize");
  }
  if (found.bytes.size() % static_cast<std::size_t>(found.width) != 0) {
    throw_input_error(
        path, fmt::format("has {} bytes, an odd number; a token takes 2 (a text must not be "
                          "called *.bin)",
                          found.bytes.size()));
  }
  const auto checked = [&](const auto& data) {
    check_tokens(data, vocabulary, path, ErrorKind::Input);
    return Tokens::Data(data);
  };
  Tokens::Data data = found.width == 4 ? checked(elements_of<std::uint32_t>(found.bytes))
                                       : checked(elements_of<std::uint16_t>(found.bytes));
  return {data, std::move(file), vocabulary, path};
}

}  // namespace trireme::train
