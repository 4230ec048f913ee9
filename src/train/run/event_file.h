// Scalars by step in TensorBoard's format: a file of records, each an Event.
//
//   record   length u64, masked CRC of the length, data, masked CRC of the data; all little-endian
//   data     protobuf, Event: wall_time = 1 (double), step = 2 (varint), and either file_version = 3 (text,
//            in the first record) or summary = 5: Values = 1 of a tag = 1 (text) and a simple_value = 2 (float)
//
// The CRC is CRC32C, masked as ((crc >> 15) | (crc << 17)) + 0xA282EAD8, because the CRC of data that contains CRCs is
// weak. An EventFile belongs to one thread.
#pragma once

#include <cstdint>
#include <fstream>
#include <span>
#include <string>
#include <string_view>

#include "trireme/units.h"

namespace trireme::train {

/// 32-bit CRC with Castagnoli's polynomial: crc32c("123456789") is 0xE3069283.
[[nodiscard]] std::uint32_t crc32c(std::string_view bytes);

struct EventScalar {
  std::string_view tag{};
  double value = 0;  ///< written as f32
};

/// Writes a file record by record; readers see each record as soon as it is added.
class EventFile {
 public:
  /// Creates the file; `now` is in seconds since 1970. Throws Error(System) that names it if it exists or cannot be
  /// written.
  EventFile(const std::string& path, Seconds now);

  void add(std::int64_t step, Seconds now, std::span<const EventScalar> scalars);

 private:
  void write(const std::string& event);

  std::string path_;
  std::ofstream file_;
};

}  // namespace trireme::train
