#include "ps/host/snapshot_files.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <xxhash.h>

#include "base/disk.h"
#include "base/indexed_vector.h"
#include "base/path_error.h"
#include "ps/protocol/bytes.h"
#include "trireme/error.h"
#include "trireme/files.h"

namespace trireme::ps {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "snapshot-";
constexpr std::uint64_t kPartMagic = 0x3154504e53535054;      // "TPSSNPT1"
constexpr std::uint64_t kManifestMagic = 0x314d414e53535054;  // "TPSSNAM1"

struct FileHeader {
  std::uint64_t magic = 0;
  std::uint64_t bytes = 0;
  std::uint64_t checksum = 0;
};

std::uint64_t checksum_of(std::string_view bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::string folder_name(const std::string& folder, std::uint64_t number) {
  return fmt::format("{}/{}{:06}", folder, kPrefix, number);
}

std::string manifest_name(const std::string& path) {
  return path + "/manifest";
}

std::string part_name(const std::string& path, const SnapshotPart& part) {
  return fmt::format("{}/shard-{}-{:016x}", path, static_cast<std::uint32_t>(part.shard),
                     part.checksum);
}

/// Number of a snapshot's folder; 0 if it is another folder.
std::uint64_t number_of(const fs::path& path) {
  const std::string name = path.filename().string();
  std::uint64_t number = 0;
  if (name.starts_with(kPrefix)) {
    (void)std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), number);
  }
  return number;
}

/// Highest first.
std::vector<std::uint64_t> numbers_in(const std::string& folder) {
  std::vector<std::uint64_t> numbers;
  std::error_code problem;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, problem)) {
    if (const std::uint64_t number = number_of(entry.path()); number != 0) {
      numbers.push_back(number);
    }
  }
  if (problem) {
    throw_read_error(folder, problem.value());
  }
  std::ranges::sort(numbers, std::greater<>());
  return numbers;
}

bool is_complete(const std::string& path) {
  return fs::exists(manifest_name(path));
}

void write_checked(const std::string& path, std::uint64_t magic, std::string_view content) {
  const FileHeader header{magic, content.size(), checksum_of(content)};
  const Disk disk;
  AtomicFile file(path, disk);
  file.write(std::as_bytes(std::span(&header, 1)));
  file.write(content);
  file.commit();
}

[[noreturn]] void fail_damaged(const std::string& path, const std::string& problem) {
  throw Error(ErrorKind::Input,
              fmt::format("snapshot file '{}' is damaged: {}: restore another one", path, problem));
}

std::string read_checked(const std::string& path, std::uint64_t magic) {
  if (!fs::exists(path)) {
    fail_damaged(path, "it is missing");
  }
  std::string content = read_file(path);
  FileHeader header;
  if (content.size() < sizeof(header)) {
    fail_damaged(path, fmt::format("it has only {} bytes", content.size()));
  }
  std::memcpy(&header, content.data(), sizeof(header));
  content.erase(0, sizeof(header));
  if (header.magic != magic) {
    fail_damaged(path, "it is not a snapshot file");
  }
  if (header.bytes != content.size()) {
    fail_damaged(path, fmt::format("{} bytes instead of {}", content.size(), header.bytes));
  }
  if (header.checksum != checksum_of(content)) {
    fail_damaged(path, "the checksum is wrong");
  }
  return content;
}

SnapshotManifest parse_manifest(const std::string& path, std::string_view content) {
  SnapshotManifest manifest;
  try {
    ByteReader reader(content);
    reader(manifest);
    reader.finish();
  } catch (const Error& error) {
    fail_damaged(path, error.what());
  }
  for (std::size_t i = 0; i < manifest.parts.size(); ++i) {
    if (position_of(manifest.parts[i].shard) != i) {
      fail_damaged(path, fmt::format("shard {} is missing", i));
    }
  }
  return manifest;
}

/// The folder with the manifest.
std::string find_complete(const std::string& path) {
  if (is_complete(path)) {
    return path;
  }
  for (const std::uint64_t number : numbers_in(path)) {
    if (std::string name = folder_name(path, number); is_complete(name)) {
      return name;
    }
  }
  throw Error(ErrorKind::Usage, fmt::format("'{}' has no complete snapshot", path));
}

}  // namespace

std::uint64_t last_snapshot_number(const std::string& folder) {
  const std::vector<std::uint64_t> numbers = numbers_in(folder);
  return numbers.empty() ? 0 : numbers.front();
}

void begin_snapshot(const std::string& folder, std::uint64_t number) {
  const Disk disk;
  disk.make_folder(folder_name(folder, number));
  disk.sync_folder(folder);
}

SnapshotPart write_snapshot_part(const std::string& folder, const SnapshotJob& job) {
  const SnapshotPart part{.shard = job.shard,
                          .applied = job.applied,
                          .bytes = job.state.size(),
                          .checksum = checksum_of(job.state)};
  write_checked(part_name(folder_name(folder, job.number), part), kPartMagic, job.state);
  return part;
}

void finish_snapshot(const std::string& folder, const SnapshotManifest& manifest) {
  std::string content;
  ByteWriter writer(content);
  writer(manifest);
  write_checked(manifest_name(folder_name(folder, manifest.number)), kManifestMagic, content);
  const Disk disk;
  std::size_t complete = 0;
  for (const std::uint64_t number : numbers_in(folder)) {
    const std::string name = folder_name(folder, number);
    const bool is_kept = number > manifest.number || (is_complete(name) && ++complete <= 2);
    if (!is_kept) {
      disk.remove(manifest_name(name));  // first: what is left of it is incomplete
      disk.remove(name);
    }
  }
}

StoredSnapshot open_snapshot(const std::string& path) {
  const std::string found = find_complete(path);
  const std::string content = read_checked(manifest_name(found), kManifestMagic);
  return {found, parse_manifest(manifest_name(found), content), checksum_of(content) | 1};
}

std::string read_snapshot_part(const StoredSnapshot& snapshot, ShardId shard) {
  const SnapshotPart& part = snapshot.manifest.parts.at(position_of(shard));
  const std::string name = part_name(snapshot.path, part);
  std::string content = read_checked(name, kPartMagic);
  if (content.size() != part.bytes || checksum_of(content) != part.checksum) {
    fail_damaged(name, "it is not the one in the manifest");
  }
  return content;
}

void verify_snapshot(const StoredSnapshot& snapshot) {
  for (const SnapshotPart& part : snapshot.manifest.parts) {
    (void)read_snapshot_part(snapshot, part.shard);
  }
}

}  // namespace trireme::ps
