// What a run may leave behind: files, descriptors, processes. Used by one thread.
#pragma once

#include <set>
#include <string>
#include <vector>

namespace trireme::fault_fuzz {

/// Gives this process and its children a /dev/shm and a /tmp of their own, so that whatever appears
/// there is theirs, and makes it inherit its orphaned grandchildren. Returns why files cannot be checked
/// here, or "". Call it once, before making threads.
[[nodiscard]] std::string isolate();

/// Compares the state before a run, when made, with that after it.
class Leftovers {
 public:
  enum class Files { Checked, Unchecked };
  explicit Leftovers(Files files);
  /// What is there now and was not then. Ends processes that are left.
  [[nodiscard]] std::vector<std::string> find() const;

 private:
  [[nodiscard]] std::set<std::string> look() const;
  Files files_;
  std::set<std::string> before_;
};

}  // namespace trireme::fault_fuzz
