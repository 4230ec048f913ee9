// The safetensors format: named tensors in one file that is safe to read from untrusted sources.
//
//   8 bytes   length of the header, little-endian
//   header    JSON: {"__metadata__":{"key":"text"},"name":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},…}
//   data      the tensors, without holes; offsets count from here
//
// All functions may be called from any thread; a SafetensorsWriter belongs to one.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "trireme/tensor.h"

namespace trireme {

class MappedFile;

/// A tensor's entry in the header.
struct TensorSpec {
  std::string name;
  DType dtype = DType::F32;
  Shape shape;
  friend bool operator==(const TensorSpec&, const TensorSpec&) = default;
};

/// A tensor with its elements, row-major and little-endian, not owned. They need not be aligned for their type: copy
/// them rather than cast them.
struct TensorView {
  TensorSpec spec;
  std::span<const std::byte> bytes;
};

/// Named strings stored with the tensors.
using TensorMetadata = std::map<std::string, std::string>;

struct SafetensorsContent {
  std::vector<TensorView> tensors;  ///< in the order of their data
  TensorMetadata metadata;
};

/// Bytes of a tensor. Throws Error(Usage) if they do not fit in 63 bits.
[[nodiscard]] Bytes size_of(const TensorSpec& spec);

/// Parses a whole file in memory; the views point into it. Throws Error(Input) "WHAT: tensor 'a': …" on any violation
/// of the format: a header that is truncated, too long (over 100 MB) or not JSON of that form, an unknown type, a
/// duplicate name, a size that does not match the shape, ranges that overlap, leave holes or go beyond the end.
[[nodiscard]] SafetensorsContent parse_safetensors(std::span<const std::byte> file,
                                                   std::string_view what);

/// A memory-mapped file: opening it reads only the header. The views live as long as this object (or a copy of it:
/// copies share the mapping). The file must not be truncated while it is mapped.
class SafetensorsFile {
 public:
  /// Throws Error(Input) if the file is missing, otherwise as parse_safetensors does.
  explicit SafetensorsFile(const std::string& path);

  [[nodiscard]] const std::vector<TensorView>& tensors() const noexcept { return content_.tensors; }
  [[nodiscard]] const TensorMetadata& metadata() const noexcept { return content_.metadata; }
  /// The tensor, or nullptr if there is none with that name.
  [[nodiscard]] const TensorView* find(const std::string& name) const;
  /// Throws Error(Input) naming the file if there is none with that name.
  [[nodiscard]] const TensorView& at(const std::string& name) const;

 private:
  std::string path_;
  std::shared_ptr<const MappedFile> file_;
  SafetensorsContent content_;
  std::unordered_map<std::string, std::size_t> by_name_;
};

/// Writes a file piece by piece, so that not all tensors need to be in memory at once. Deterministic: the same tensors
/// in the same order give the same bytes.
class SafetensorsWriter {
 public:
  /// Receives the next bytes of the file.
  using Sink = std::function<void(std::span<const std::byte>)>;

  /// Writes the header. Throws Error(Usage) on names that are not UTF-8, duplicate or "__metadata__".
  SafetensorsWriter(Sink sink, std::vector<TensorSpec> tensors,
                    const TensorMetadata& metadata = {});

  /// The next tensor's elements. Throws Error(Usage) if the size is wrong, or if all tensors have been written.
  void add(std::span<const std::byte> bytes);
  /// Throws Error(Usage) if tensors are missing.
  void finish() const;

 private:
  Sink sink_;
  std::vector<TensorSpec> tensors_;
  std::size_t written_ = 0;
};

/// Writes a file atomically: afterwards it is either complete and synced, or unchanged. Throws Error(Usage) as
/// SafetensorsWriter does, Error(System) if writing fails.
void write_safetensors(const std::string& path, std::span<const TensorView> tensors,
                       const TensorMetadata& metadata = {});

}  // namespace trireme
