#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "base/mapped_file.h"
#include "base/text.h"
#include "tensor/safetensors_header.h"
#include "trireme/error.h"
#include "trireme/message.h"
#include "trireme/safetensors.h"

namespace trireme {
namespace {

static_assert(std::endian::native == std::endian::little,
              "elements are kept as they are in memory");

constexpr std::size_t kLengthBytes = 8;
constexpr std::uint64_t kLongestHeader = 100'000'000;

[[noreturn]] void fail(std::string_view what, const std::string& problem) {
  throw Error(ErrorKind::Input, fmt::format("{}: {}", what, problem));
}

[[noreturn]] void fail(std::string_view what, const HeaderEntry& entry,
                       const std::string& problem) {
  fail(what, fmt::format("tensor {}: {}", in_quotes(entry.spec.name), problem));
}

std::string range_text(const HeaderEntry& entry) {
  return fmt::format("data_offsets [{},{}]", entry.begin, entry.end);
}

/// The header's text; the data follows it.
std::string_view header_of(std::span<const std::byte> file, std::string_view what) {
  if (file.size() < kLengthBytes) {
    fail(what, fmt::format(
                   "is not a safetensors file: it has {}; the length of the header alone takes {}",
                   plural(std::ssize(file), "byte"), kLengthBytes));
  }
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), kLengthBytes);
  if (length > kLongestHeader) {
    fail(what, fmt::format("says that its header has {} bytes; at most {} are allowed", length,
                           kLongestHeader));
  }
  if (length > file.size() - kLengthBytes) {
    fail(what, fmt::format("says that its header has {} bytes, but only {} follow", length,
                           file.size() - kLengthBytes));
  }
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + kLengthBytes, length);
  if (!text.starts_with('{')) {
    fail(what, "header: does not begin with {");
  }
  return text;
}

void check_size(const HeaderEntry& entry, std::uint64_t data_bytes, std::string_view what) {
  if (entry.begin > entry.end) {
    fail(what, entry, range_text(entry) + " end before they begin");
  }
  if (entry.end > data_bytes) {
    fail(what, entry,
         fmt::format("{} go beyond the {} bytes of data", range_text(entry), data_bytes));
  }
  const auto elements = static_cast<std::uint64_t>(entry.spec.shape.element_count());
  const auto width = static_cast<std::uint64_t>(size_of(entry.spec.dtype).count);
  const std::uint64_t has = entry.end - entry.begin;
  if (has % width != 0 || has / width != elements) {
    fail(what, entry,
         fmt::format("{} hold {} bytes, which does not fit {}{}: {} elements of {} bytes",
                     range_text(entry), has, to_text(entry.spec.dtype), to_text(entry.spec.shape),
                     elements, width));
  }
}

/// In the order of their data, which they must cover completely.
void check_ranges(std::vector<HeaderEntry>& entries, std::uint64_t data_bytes,
                  std::string_view what) {
  std::ranges::stable_sort(entries, {},
                           [](const HeaderEntry& e) { return std::pair(e.begin, e.end); });
  std::uint64_t end = 0;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const HeaderEntry& entry = entries[i];
    if (entry.begin < end) {
      fail(what, entry,
           fmt::format("{} overlap those of {}", range_text(entry),
                       in_quotes(entries[i - 1].spec.name)));
    }
    if (entry.begin > end) {
      fail(what, entry,
           fmt::format("bytes {} to {} before it belong to no tensor", end, entry.begin));
    }
    end = entry.end;
  }
  if (end != data_bytes) {
    fail(what,
         fmt::format("bytes {} to {} at the end of the data belong to no tensor", end, data_bytes));
  }
}

}  // namespace

Bytes size_of(const TensorSpec& spec) {
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(spec.shape.element_count(), size_of(spec.dtype).count, &bytes)) {
    throw Error(ErrorKind::Usage,
                fmt::format("tensor {}: {}{} has more bytes than 63 bits can count",
                            in_quotes(spec.name), to_text(spec.dtype), to_text(spec.shape)));
  }
  return {bytes};
}

SafetensorsContent parse_safetensors(std::span<const std::byte> file, std::string_view what) {
  const std::string_view text = header_of(file, what);
  SafetensorsHeader header = parse_safetensors_header(text, what);
  const std::span<const std::byte> data = file.subspan(kLengthBytes + text.size());
  for (const HeaderEntry& entry : header.entries) {
    check_size(entry, data.size(), what);
  }
  check_ranges(header.entries, data.size(), what);
  SafetensorsContent content{.tensors = {}, .metadata = std::move(header.metadata)};
  content.tensors.reserve(header.entries.size());
  for (HeaderEntry& entry : header.entries) {
    content.tensors.push_back({.spec = std::move(entry.spec),
                               .bytes = data.subspan(entry.begin, entry.end - entry.begin)});
  }
  return content;
}

SafetensorsFile::SafetensorsFile(const std::string& path)
    : path_(path),
      file_(std::make_shared<const MappedFile>(path)),
      content_(parse_safetensors(file_->bytes(), path)) {
  for (std::size_t i = 0; i < content_.tensors.size(); ++i) {
    by_name_.emplace(content_.tensors[i].spec.name, i);
  }
}

const TensorView* SafetensorsFile::find(const std::string& name) const {
  const auto at = by_name_.find(name);
  return at == by_name_.end() ? nullptr : &content_.tensors[at->second];
}

const TensorView& SafetensorsFile::at(const std::string& name) const {
  const TensorView* tensor = find(name);
  if (tensor == nullptr) {
    fail(path_, fmt::format("has no tensor {}", in_quotes(name)));
  }
  return *tensor;
}

}  // namespace trireme
