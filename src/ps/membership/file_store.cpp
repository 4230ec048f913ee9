#include "ps/membership/file_store.h"

#include <filesystem>

#include "trireme/files.h"

namespace trireme::ps {

std::string FileStore::load() {
  return path_.empty() || !std::filesystem::exists(path_) ? std::string() : read_file(path_);
}

void FileStore::store(const std::string& state) {
  if (!path_.empty()) {
    write_file(path_, state);
  }
}

}  // namespace trireme::ps
