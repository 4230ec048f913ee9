#include "comm/rendezvous/meeting.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <functional>
#include <thread>
#include <utility>
#include <variant>

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/crypto.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes_moved.h"
#include "base/text.h"
#include "comm/net/file_size.h"
#include "trireme/error.h"

namespace trireme::comm {
namespace {

constexpr std::string_view kTitle = "trireme meeting 1";
constexpr std::size_t kLongestFile = 1024;
constexpr std::size_t kLongestName = 100;

/// A problem with the file that may resolve itself soon.
using NotYet = std::string;

[[noreturn]] void refuse(const std::string& path, std::string_view why) {
  throw Error(ErrorKind::System, fmt::format("meeting file {}: {}", path, why));
}

bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_' || c == '.';
}

/// The job's id encoded for a file name; injective.
std::string file_part(const std::string& job) {
  std::string out;
  for (const char c : job) {
    out += is_plain(c) ? std::string(1, c) : fmt::format("%{}", to_hex(bytes_of({&c, 1})));
  }
  if (out.size() <= kLongestName) {
    return out;
  }
  return fmt::format("%{}", to_hex(hmac_sha256(bytes_of("meeting"), {bytes_of(job)})));
}

/// In a directory where others can rename our files, nothing can be trusted.
void check_directory(const std::string& directory) {
  struct stat status {};
  if (::stat(directory.c_str(), &status) != 0) {
    throw_system(fmt::format("meeting directory {}", directory), errno);
  }
  const bool others_write = (status.st_mode & (S_IWGRP | S_IWOTH)) != 0;
  const bool sticky = (status.st_mode & S_ISVTX) != 0;
  const bool ours = status.st_uid == ::geteuid() || status.st_uid == 0;
  if (!S_ISDIR(status.st_mode) || !ours || (others_write && !sticky)) {
    throw Error(ErrorKind::System,
                fmt::format("meeting directory {}: mode {:o} of user {} lets others change what is "
                            "in it; choose one of your own",
                            directory, status.st_mode & 07777, status.st_uid));
  }
}

/// Opens the file if it exists; it then belongs to this user alone.
Fd open_own_file(const std::string& path) {
  Fd file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file.valid()) {
    if (errno == ENOENT) {
      return file;
    }
    if (errno == ELOOP) {
      refuse(path, "it is a link, possibly planted by another user: remove it");
    }
    throw_system(fmt::format("meeting file {}", path), errno);
  }
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) {
    throw_system(fmt::format("meeting file {}", path), errno);
  }
  if (!S_ISREG(status.st_mode) || status.st_uid != ::geteuid() || (status.st_mode & 077) != 0) {
    refuse(path, fmt::format("mode {:o} of user {}, not 600 of user {}; another user may have put "
                             "it there: remove it or choose another directory",
                             status.st_mode & 07777, status.st_uid, ::geteuid()));
  }
  return file;
}

/// Whether the process that created the file is alive: it holds a lock.
bool is_held(const Fd& file) {
  if (::flock(file.get(), LOCK_SH | LOCK_NB) == 0) {
    ::flock(file.get(), LOCK_UN);
    return false;
  }
  if (errno != EWOULDBLOCK) {
    throw_system("cannot query the lock of a meeting file", errno);
  }
  return true;
}

std::string read_text(const Fd& file, const std::string& path) {
  std::array<char, kLongestFile> bytes{};
  const ssize_t count = ::pread(file.get(), bytes.data(), bytes.size(), 0);
  if (count < 0) {
    throw_system(fmt::format("meeting file {}", path), errno);
  }
  std::string text(bytes.data(), bytes_moved(count));
  OPENSSL_cleanse(bytes.data(), bytes.size());
  return text;
}

Meeting parse_meeting(const std::string& text, const std::string& path) {
  const std::vector<std::string_view> lines = split(text, '\n');
  if (lines.size() != 4 || lines[0] != kTitle || !lines[3].empty()) {
    refuse(path, "it was not written by this version of Trireme; run the same one on every rank");
  }
  return {.store = parse_address(lines[1]), .secret = Secret::from_hex(lines[2])};
}

std::variant<Meeting, NotYet> try_meeting(const std::string& path) {
  const Fd file = open_own_file(path);
  if (!file.valid()) {
    return "it is not there";
  }
  if (!is_held(file)) {
    return "it is left over from a dead job";
  }
  return parse_meeting(read_text(file, path), path);
}

void write_text(const Fd& file, std::string_view text, const std::string& path) {
  const FileSizeGuard guard;
  while (!text.empty()) {
    const ssize_t written = ::write(file.get(), text.data(), text.size());
    if (written < 0 && errno != EINTR) {
      throw_file_system(fmt::format("cannot write {}", path), errno);
    }
    text.remove_prefix(bytes_moved(written));
  }
}

/// Keeps two processes of this user from claiming the same place at the same moment, until the
/// descriptor is closed.
Fd lock_directory(const std::string& directory) {
  const Deadline deadline = deadline_in({5.0});
  Fd locked(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  while (locked.valid() && ::flock(locked.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK || passed(deadline)) {
      throw_system(fmt::format("cannot lock meeting directory {}", directory), errno);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  if (!locked.valid()) {
    throw_system(fmt::format("meeting directory {}", directory), errno);
  }
  return locked;
}

/// Creates the file under a temporary name, locks it, and renames it once it is complete.
Fd publish(const std::string& path, const std::string& text) {
  std::array<std::byte, 8> random{};
  fill_random(random);
  const std::string draft = fmt::format("{}.{}", path, to_hex(random));
  Fd file(::open(draft.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file.valid()) {
    throw_system(fmt::format("cannot make {}", draft), errno);
  }
  try {
    if (::fchmod(file.get(), 0600) != 0 || ::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
      throw_system(fmt::format("cannot lock {}", draft), errno);
    }
    write_text(file, text, draft);
    if (::rename(draft.c_str(), path.c_str()) != 0) {
      throw_system(fmt::format("cannot rename {} to {}", draft, path), errno);
    }
  } catch (...) {
    ::unlink(draft.c_str());
    throw;
  }
  return file;
}

void check_place_is_free(const std::string& path, const std::string& job) {
  const Fd old = open_own_file(path);
  if (old.valid() && is_held(old)) {
    throw MeetingTaken(fmt::format(
        "meeting file {} belongs to a job '{}' that is running; give this job another id", path,
        job));
  }
}

}  // namespace

std::string MeetingPlace::path() const {
  return fmt::format("{}/trireme-{}-{}.meet", directory, ::geteuid(), file_part(job));
}

std::string job_of_parent() {
  return fmt::format("parent-{}", ::getppid());
}

MeetingHost::MeetingHost(MeetingPlace place, Encryption encryption)
    : place_(std::move(place)),
      server_({.listen = {}, .secret = secret_, .encryption = encryption}),
      meeting_{.store = server_.address(), .secret = secret_} {
  const std::string path = place_.path();
  check_directory(place_.directory);
  const Fd lock = lock_directory(place_.directory);
  check_place_is_free(path, place_.job);
  std::string text =
      fmt::format("{}\n{}\n{}\n", kTitle, to_text(meeting_.store), meeting_.secret.hex());
  file_ = publish(path, text);
  OPENSSL_cleanse(text.data(), text.size());
}

MeetingHost::~MeetingHost() {
  struct stat ours {};
  struct stat there {};
  const std::string path = place_.path();
  if (::fstat(file_.get(), &ours) == 0 && ::lstat(path.c_str(), &there) == 0 &&
      ours.st_ino == there.st_ino && ours.st_dev == there.st_dev) {
    ::unlink(path.c_str());
  }
}

namespace {

/// The meeting of a live rank 0 in one of the directories, or the problem with the last of them.
std::variant<Meeting, NotYet> try_directories(const std::vector<std::string>& directories,
                                              const std::string& job) {
  std::variant<Meeting, NotYet> found = "it is not there";
  for (const std::string& directory : directories) {
    check_directory(directory);
    found = try_meeting(MeetingPlace{directory, job}.path());
    if (std::holds_alternative<Meeting>(found)) {
      break;
    }
  }
  return found;
}

using FindDirectories = std::function<std::vector<std::string>()>;

/// `first` is the place named in messages.
Meeting await_meeting_in(const FindDirectories& find, const MeetingPlace& first,
                         Deadline deadline) {
  constexpr std::chrono::milliseconds kLongestPause(20);
  const Clock::time_point begin = Clock::now();
  for (std::chrono::milliseconds pause(1);; pause = std::min(pause * 2, kLongestPause)) {
    std::variant<Meeting, NotYet> found = try_directories(find(), first.job);
    if (Meeting* meeting = std::get_if<Meeting>(&found)) {
      return std::move(*meeting);
    }
    if (Clock::now() + pause >= deadline) {
      refuse(first.path(),
             fmt::format("{}, after {}; is rank 0 running on this host, with job id '{}'?",
                         std::get<NotYet>(found), trireme::to_text(since(begin)), first.job));
    }
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace

Meeting await_meeting(const MeetingPlace& place, Deadline deadline) {
  return await_meeting_in([&] { return std::vector{place.directory}; }, place, deadline);
}

Meeting await_meeting(const MeetingSearch& search, Deadline deadline) {
  return await_meeting_in([&] { return find_meeting_folders(search.folders); },
                          {first_meeting_folder(search.folders), search.job}, deadline);
}

}  // namespace trireme::comm
