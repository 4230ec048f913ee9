#include "comm/rendezvous/meeting_folder.h"

#include <cerrno>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "comm/net/fd.h"
#include "trireme/error.h"

namespace trireme::comm {
namespace {

namespace fs = std::filesystem;

/// Why the path is not a directory, not a link, that only this user can enter.
std::vector<std::string> folder_problems(const std::string& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) {
    return {error_text(errno)};
  }
  if (status.st_uid != ::geteuid()) {
    return {fmt::format("it belongs to user {}, not to user {}", status.st_uid, ::geteuid())};
  }
  if (!S_ISDIR(status.st_mode)) {
    return {S_ISLNK(status.st_mode) ? "it is a symbolic link" : "it is not a directory"};
  }
  if ((status.st_mode & 0777) != 0700) {
    return {fmt::format("it has mode {:o}, not 700", status.st_mode & 0777)};
  }
  return {};
}

/// A runtime directory that can be trusted, or "".
std::string trusted_runtime(const MeetingFolderOptions& options) {
  const bool absolute = options.runtime.starts_with('/');
  return absolute && folder_problems(options.runtime).empty() ? options.runtime : "";
}

/// Creates the folder at this path if it is missing. Returns what is wrong with it.
std::vector<std::string> try_make(const std::string& path) {
  const int failed = ::mkdir(path.c_str(), 0700) == 0 ? 0 : errno;
  struct stat status {};
  const bool exists = ::lstat(path.c_str(), &status) == 0;
  return failed != 0 && !exists ? std::vector{error_text(failed)} : folder_problems(path);
}

/// Folders with random names that this user created in the shared directory.
std::vector<std::string> find_random(const std::string& first) {
  std::vector<std::string> found;
  std::error_code ignored;
  const fs::path path(first);
  for (fs::directory_iterator it(path.parent_path(), ignored), end; it != end;
       it.increment(ignored)) {
    const std::string name = it->path().filename().string();
    if (name.starts_with(path.filename().string() + "-") && folder_problems(it->path()).empty()) {
      found.push_back(it->path());
    }
  }
  return found;
}

/// One left over from an earlier job, or a new one; "" if none can be created.
std::string take_random(const std::string& first) {
  for (const std::string& old : find_random(first)) {
    return old;
  }
  std::string name = first + "-XXXXXX";
  return ::mkdtemp(name.data()) != nullptr && folder_problems(name).empty() ? name : "";
}

}  // namespace

std::string first_meeting_folder(const MeetingFolderOptions& options) {
  const std::string runtime = trusted_runtime(options);
  return runtime.empty() ? fmt::format("{}/trireme-{}", options.shared, ::geteuid())
                         : runtime + "/trireme";
}

std::string make_meeting_folder(const MeetingFolderOptions& options) {
  const std::string first = first_meeting_folder(options);
  const std::vector<std::string> found = try_make(first);
  if (found.empty()) {
    return first;
  }
  if (const std::string random = take_random(first); !random.empty()) {
    return random;
  }
  throw Error(
      ErrorKind::System,
      fmt::format("meeting folder {}: {}; remove it, set XDG_RUNTIME_DIR to a directory of yours "
                  "with mode 700, or give the ranks TRIREME_STORE and TRIREME_SECRET",
                  first, found.front()));
}

std::vector<std::string> find_meeting_folders(const MeetingFolderOptions& options) {
  const std::string first = first_meeting_folder(options);
  return folder_problems(first).empty() ? std::vector{first} : find_random(first);
}

}  // namespace trireme::comm
