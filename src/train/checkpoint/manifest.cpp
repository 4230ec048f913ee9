#include "train/checkpoint/manifest.h"

#include <fmt/format.h>

#include "base/json.h"
#include "train/checkpoint/checksum.h"
#include "trireme/error.h"
#include "trireme/message.h"

namespace trireme::train {
namespace {

constexpr std::int64_t kFormat = 2;

std::string json_text(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

std::string tensors_text(const std::vector<ManifestTensor>& tensors) {
  std::string out;
  for (const ManifestTensor& tensor : tensors) {
    out += fmt::format("{}\n      {{\"name\": {}, \"xxh3\": {}}}", out.empty() ? "" : ",",
                       json_text(tensor.name), json_text(tensor.xxh3));
  }
  return out;
}

std::string files_text(const std::vector<ManifestFile>& files) {
  std::string out;
  for (const ManifestFile& file : files) {
    out += fmt::format("{}\n    {{\"name\": {}, \"bytes\": {}, \"xxh3\": {}, \"tensors\": [{}]}}",
                       out.empty() ? "" : ",", json_text(file.name), file.bytes,
                       json_text(file.xxh3), tensors_text(file.tensors));
  }
  return out;
}

bool has_negative(const CheckpointInfo& info) {
  return info.step < 0 || info.data.epoch < 0 || info.data.index < 0;
}

void check(const CheckpointInfo& info) {
  if (has_negative(info)) {
    throw Error(ErrorKind::Usage,
                fmt::format("checkpoint: step {}, epoch {}, window {}: a number is negative",
                            info.step, info.data.epoch, info.data.index));
  }
  if (!is_utf8(info.config)) {
    throw Error(ErrorKind::Usage, "checkpoint: the config is not UTF-8");
  }
}

std::uint64_t read_seed(const JsonObject& object) {
  const Json& seed = object.require("seed");
  if (!seed.is_number_unsigned()) {
    object.fail("seed", "is not an integer of 0 or more");
  }
  return seed.get<std::uint64_t>();
}

DataPosition read_position(const JsonObject& object, std::string_view what) {
  const JsonObject data(object.require("data"), what, "data", {"epoch", "index"});
  return {.epoch = data.integer("epoch"), .index = data.integer("index")};
}

std::vector<ManifestTensor> read_tensors(const JsonObject& file, std::string_view what,
                                         std::string_view where) {
  std::vector<ManifestTensor> tensors;
  for (const Json& entry : file.array("tensors")) {
    const JsonObject tensor(entry, what, fmt::format("{}.tensors[{}]", where, tensors.size()),
                            {"name", "xxh3"});
    tensors.push_back({.name = tensor.text("name"), .xxh3 = tensor.text("xxh3")});
  }
  return tensors;
}

std::vector<ManifestFile> read_files(const JsonObject& object, std::string_view what) {
  std::vector<ManifestFile> files;
  for (const Json& entry : object.array("files")) {
    const std::string where = fmt::format("files[{}]", files.size());
    const JsonObject file(entry, what, where, {"name", "bytes", "xxh3", "tensors"});
    files.push_back({.name = file.text("name"),
                     .bytes = file.integer("bytes"),
                     .xxh3 = file.text("xxh3"),
                     .tensors = read_tensors(file, what, where)});
  }
  return files;
}

/// Checked first: a newer format may have other fields.
void check_format(const Json& document, std::string_view what) {
  const auto format = document.is_object() ? document.find("format") : document.end();
  if (format == document.end() || !format->is_number_integer() || *format != kFormat) {
    throw Error(
        ErrorKind::Input,
        fmt::format("{}: format is {}; this version reads {}", what,
                    format == document.end() ? "missing" : in_quotes(format->dump()), kFormat));
  }
}

}  // namespace

std::string to_text(const Manifest& manifest) {
  const CheckpointInfo& info = manifest.info;
  check(info);
  std::string out = fmt::format(
      "{{\n  \"format\": {},\n  \"step\": {},\n  \"seed\": {},\n  \"data\": {{\"epoch\": {}, "
      "\"index\": "
      "{}}},\n  \"config\": {},\n  \"files\": [{}\n  ]",
      kFormat, info.step, info.seed, info.data.epoch, info.data.index, json_text(info.config),
      files_text(manifest.files));
  const std::string sum = checksum_text(checksum_of(std::as_bytes(std::span(out))));
  return out + fmt::format(",\n  \"xxh3\": \"{}\"\n}}\n", sum);
}

Manifest parse_manifest(std::string_view text, std::string_view what) {
  const Json document = parse_json(text, what);
  check_format(document, what);
  const JsonObject object(document, what, "",
                          {"format", "step", "seed", "data", "config", "files", "xxh3"});
  Manifest manifest{.info = {.step = object.integer("step"),
                             .seed = read_seed(object),
                             .data = read_position(object, what),
                             .config = object.text("config")},
                    .files = read_files(object, what)};
  if (has_negative(manifest.info) || to_text(manifest) != text) {
    throw Error(ErrorKind::Input, fmt::format("{}: is damaged: its checksum does not match", what));
  }
  return manifest;
}

}  // namespace trireme::train
