// A file of decisions that took time to find: which algorithm of a library runs a product fastest. A line for each, by a
// key that names the GPU, the library's version and the product. Thread-safe; several processes may share the file.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/mutex.h"

namespace trireme::cuda {

/// An algorithm as the library writes it down: constant for a version of the library.
using AlgorithmBits = std::array<std::uint64_t, 8>;

class AlgorithmFile {
 public:
  /// An empty path: nothing is kept. A file that cannot be read counts as empty.
  explicit AlgorithmFile(std::string path);

  [[nodiscard]] std::optional<AlgorithmBits> find(std::string_view key);
  /// Adds the entries that other processes have written since, then writes the file. Failing to write is not an error: the
  /// algorithm is then found again next time.
  void add(const std::string& key, const AlgorithmBits& bits);

 private:
  void read() TRIREME_REQUIRES(mutex_);

  std::string path_;
  Mutex mutex_;
  std::map<std::string, AlgorithmBits, std::less<>> known_ TRIREME_GUARDED_BY(mutex_);
};

}  // namespace trireme::cuda
