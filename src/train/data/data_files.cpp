#include "train/data/data_files.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include <fmt/format.h>

#include "base/mapped_file.h"
#include "base/path_error.h"
#include "train/input_error.h"

namespace trireme::train {
namespace {

namespace fs = std::filesystem;
using namespace std::string_view_literals;

/// Files that are not text, by how they begin.
struct Format {
  std::string_view start;
  std::string_view is;
  std::string_view instead;
};
constexpr std::string_view kUtf16 = "UTF-16";
constexpr std::string_view kToUtf8 = "convert it first (iconv -f UTF-16 -t UTF-8)";
constexpr std::array kFormats{
    Format{"\x1f\x8b"sv, "compressed with gzip", "decompress it first (gunzip)"},
    Format{"\x28\xb5\x2f\xfd"sv, "compressed with zstd", "decompress it first (unzstd)"},
    Format{"BZh"sv, "compressed with bzip2", "decompress it first (bunzip2)"},
    Format{"\xfd\x37zXZ\0"sv, "compressed with xz", "decompress it first (unxz)"},
    Format{"PK\x03\x04"sv, "a zip archive", "unpack it first (unzip)"},
    Format{"PAR1"sv, "a Parquet table", "export its text column first"},
    Format{"%PDF-"sv, "a PDF document", "extract its text first (pdftotext)"},
    Format{"\xff\xfe"sv, kUtf16, kToUtf8},
    Format{"\xfe\xff"sv, kUtf16, kToUtf8},
};

bool has_ending(const std::string& path, std::string_view ending) {
  return path.ends_with(ending);
}

/// Regular files by name, without hidden ones.
std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code problem;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, problem)) {
    if (entry.is_regular_file() && !entry.path().filename().string().starts_with('.')) {
      files.push_back(entry.path().string());
    }
  }
  if (problem) {
    throw_read_error(folder, problem.value());
  }
  std::ranges::sort(files);
  for (const std::string_view ending : {".bin"sv, ".txt"sv}) {
    std::vector<std::string> some;
    std::ranges::copy_if(files, std::back_inserter(some),
                         [&](const std::string& file) { return has_ending(file, ending); });
    if (!some.empty()) {
      return some;
    }
  }
  if (files.empty()) {
    throw_input_error(folder, "is a folder without files; give text files, or tokens *.bin");
  }
  return files;
}

}  // namespace

bool is_token_file(const std::string& path) {
  return has_ending(path, ".bin");
}

std::vector<std::string> list_files(const std::vector<std::string>& names) {
  std::vector<std::string> files;
  std::error_code ignored;
  for (const std::string& name : names) {
    if (name != "-" && fs::is_directory(name, ignored)) {
      const std::vector<std::string> inside = files_in(name);
      files.insert(files.end(), inside.begin(), inside.end());
    } else {
      files.push_back(name);
    }
  }
  return files;
}

std::string name_of_files(const std::vector<std::string>& files) {
  return files.size() == 1
             ? files.front()
             : fmt::format("{} files, {} to {}", files.size(), files.front(), files.back());
}

void require_text(std::string_view content, const std::string& name) {
  constexpr std::size_t kSearched = 1 << 20U;
  const auto* const format = std::ranges::find_if(
      kFormats, [&](const Format& row) { return content.starts_with(row.start); });
  if (format != kFormats.end()) {
    throw_input_error(name, fmt::format("is {}, not plain text; {}", format->is, format->instead));
  }
  if (const std::size_t nul = content.substr(0, kSearched).find('\0');
      nul != std::string_view::npos) {
    throw_input_error(
        name, fmt::format("is not text: byte {} is NUL; convert it to UTF-8, or name a file of "
                          "tokens *.bin",
                          nul));
  }
}

void require_text_file(const std::string& path) {
  require_text(MappedFile(path).text(), path);
}

Tokens encode_text(std::string_view text, const BpeTokenizer* tokenizer, const std::string& name) {
  if (text.empty()) {
    throw_input_error(name, "is empty; give a file with text");
  }
  require_text(text, name);
  if (tokenizer != nullptr) {
    return {tokenizer->encode(text), tokenizer->vocabulary(), name};
  }
  std::vector<std::int32_t> bytes;
  bytes.reserve(text.size());
  std::ranges::transform(text, std::back_inserter(bytes),
                         [](char c) { return static_cast<unsigned char>(c); });
  return {std::move(bytes), kBytesVocabulary, name};
}

}  // namespace trireme::train
