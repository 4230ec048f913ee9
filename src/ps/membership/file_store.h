// FileStore: the state of the only coordinator, in a file of its machine. One thread at a time.
#pragma once

#include <string>

#include "ps/membership/coordinator_store.h"

namespace trireme::ps {

class FileStore final : public CoordinatorStore {
 public:
  /// An empty path: the state ends with the process.
  explicit FileStore(std::string path) : path_(std::move(path)) {}

  [[nodiscard]] std::string name() const override { return "'" + path_ + "'"; }
  [[nodiscard]] std::string load() override;
  void store(const std::string& state) override;
  void require_valid() override {}

 private:
  std::string path_;
};

}  // namespace trireme::ps
