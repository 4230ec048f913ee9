// The files that --data names: which they are, and whether they can be read as text. Callable from any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "train/data/bpe.h"
#include "train/data/tokens.h"

namespace trireme::train {

/// *.bin
[[nodiscard]] bool is_token_file(const std::string& path);

/// Expands folders; keeps files and "-". A folder becomes its *.bin files, else its *.txt files, else all its files,
/// sorted by name, without hidden files and subfolders. Throws Error(Input) if it has no files.
[[nodiscard]] std::vector<std::string> list_files(const std::vector<std::string>& names);

/// "a.bin", or "3 files, a.bin to c.bin".
[[nodiscard]] std::string name_of_files(const std::vector<std::string>& files);

/// Throws Error(Input) that names the file type and the fix if it is compressed (gzip, zstd, bzip2, xz, zip), a Parquet
/// or PDF file, or has a NUL byte in its first megabyte; also if it is missing.
void require_text_file(const std::string& path);
/// The same for the contents of a file.
void require_text(std::string_view content, const std::string& name);

/// Tokens of a text; one per byte without a tokenizer. Throws Error(Input) if it is empty or as require_text().
[[nodiscard]] Tokens encode_text(std::string_view text, const BpeTokenizer* tokenizer,
                                 const std::string& name);

}  // namespace trireme::train
