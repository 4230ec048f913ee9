// What a run may leave behind: files, descriptors, processes. Used by one thread.
#pragma once

#include <set>
#include <string>
#include <vector>

namespace trireme::fault_fuzz {

/// Gives this process and its children their own /dev/shm and /tmp, so that any file that appears there is theirs, and
/// makes it inherit its orphaned grandchildren. Returns why files cannot be checked here, or "". Call it once, before
/// creating threads.
[[nodiscard]] std::string isolate();

/// Compares the state before a run, at construction, with that after it.
class Leftovers {
 public:
  enum class Files { Checked, Unchecked };
  explicit Leftovers(Files files);
  /// What is there now but was not then. Ends leftover processes.
  [[nodiscard]] std::vector<std::string> find() const;

 private:
  [[nodiscard]] std::set<std::string> look() const;
  Files files_;
  std::set<std::string> before_;
};

}  // namespace trireme::fault_fuzz
