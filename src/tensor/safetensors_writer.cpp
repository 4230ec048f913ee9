#include <cstring>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/disk.h"
#include "base/json_text.h"
#include "tensor/safetensors_names.h"
#include "trireme/error.h"
#include "trireme/message.h"
#include "trireme/safetensors.h"

namespace trireme {
namespace {

/// Aligns the data for every element type.
constexpr std::size_t kHeaderAlignment = 8;

[[noreturn]] void refuse_tensor(const std::string& name, const std::string& problem) {
  throw Error(ErrorKind::Usage,
              fmt::format("safetensors: tensor {}: {}", in_quotes(name), problem));
}

void check_names(const std::vector<TensorSpec>& tensors) {
  std::unordered_set<std::string_view> seen;
  for (const TensorSpec& tensor : tensors) {
    if (!is_utf8(tensor.name)) {
      refuse_tensor(tensor.name, "its name is not UTF-8");
    }
    if (tensor.name == kMetadataName) {
      refuse_tensor(tensor.name, "the format keeps this name for itself");
    }
    if (!seen.insert(tensor.name).second) {
      refuse_tensor(tensor.name, "is given twice");
    }
  }
}

void append_metadata(std::string& out, const TensorMetadata& metadata) {
  append_json_string(out, kMetadataName);
  out += ":{";
  const char* joint = "";
  for (const auto& [key, text] : metadata) {
    out += std::exchange(joint, ",");
    append_json_string(out, key);
    out += ':';
    append_json_string(out, text);
  }
  out += '}';
}

std::string header_text(const std::vector<TensorSpec>& tensors, const TensorMetadata& metadata) {
  std::string out = "{";
  if (!metadata.empty()) {
    append_metadata(out, metadata);
  }
  std::int64_t begin = 0;
  for (const TensorSpec& tensor : tensors) {
    std::int64_t end = 0;
    if (__builtin_add_overflow(begin, size_of(tensor).count, &end)) {
      refuse_tensor(tensor.name, "ends where 63 bits cannot count to");
    }
    out += out.size() > 1 ? "," : "";
    append_json_string(out, tensor.name);
    out += fmt::format(R"(:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                       safetensors_name(tensor.dtype), fmt::join(tensor.shape.dims(), ","), begin,
                       end);
    begin = end;
  }
  out += '}';
  out.resize((out.size() + kHeaderAlignment - 1) / kHeaderAlignment * kHeaderAlignment, ' ');
  return out;
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(Sink sink, std::vector<TensorSpec> tensors,
                                     const TensorMetadata& metadata)
    : sink_(std::move(sink)), tensors_(std::move(tensors)) {
  check_names(tensors_);
  const std::string header = header_text(tensors_, metadata);
  const std::uint64_t length = header.size();
  std::string start(sizeof length, '\0');
  std::memcpy(start.data(), &length, sizeof length);
  start += header;
  sink_(std::as_bytes(std::span(start)));
}

void SafetensorsWriter::add(std::span<const std::byte> bytes) {
  if (written_ == tensors_.size()) {
    throw Error(ErrorKind::Usage,
                fmt::format("safetensors: all {} tensors have been written", tensors_.size()));
  }
  const TensorSpec& tensor = tensors_[written_];
  if (std::cmp_not_equal(bytes.size(), size_of(tensor).count)) {
    refuse_tensor(tensor.name,
                  fmt::format("got {} bytes for {}{}, which has {}", bytes.size(),
                              to_text(tensor.dtype), to_text(tensor.shape), size_of(tensor).count));
  }
  sink_(bytes);
  ++written_;
}

void SafetensorsWriter::finish() const {
  if (written_ != tensors_.size()) {
    refuse_tensor(tensors_[written_].name,
                  fmt::format("has not been written; {} of {} have", written_, tensors_.size()));
  }
}

void write_safetensors(const std::string& path, std::span<const TensorView> tensors,
                       const TensorMetadata& metadata) {
  std::vector<TensorSpec> specs;
  specs.reserve(tensors.size());
  for (const TensorView& tensor : tensors) {
    specs.push_back(tensor.spec);
  }
  const Disk disk;
  AtomicFile file(path, disk);
  SafetensorsWriter writer([&](std::span<const std::byte> bytes) { file.write(bytes); },
                           std::move(specs), metadata);
  for (const TensorView& tensor : tensors) {
    writer.add(tensor.bytes);
  }
  writer.finish();
  file.commit();
}

}  // namespace trireme
