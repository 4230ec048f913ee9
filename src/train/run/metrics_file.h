// metrics.jsonl: a line of JSON for each step of a run. One thread at a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace trireme::train {

/// Has each step once, in order, however often the run crashed and resumed.
class MetricsFile {
 public:
  /// Opens or creates the file and removes everything after `step`, the one that the run resumes from: later steps,
  /// which will be taken again, and a line that a crash cut short. Throws Error(System) if it cannot.
  MetricsFile(std::string path, std::int64_t step);
  ~MetricsFile();
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;

  /// Appends a line. Other processes see all of it when this returns. Throws Error(System) if it cannot be written, for
  /// example on a full disk; no part of it is left then.
  void add(std::string_view line);
  /// Returns once all lines are durable.
  void sync();

 private:
  std::string path_;
  int fd_ = -1;
  std::int64_t size_ = 0;
};

}  // namespace trireme::train
