#include "comm/net/file_size.h"

#include <cerrno>
#include <ctime>

#include <fmt/format.h>
#include <pthread.h>
#include <sys/resource.h>

#include "comm/net/fd.h"
#include "trireme/error.h"
#include "trireme/units.h"

namespace trireme::comm {
namespace {

sigset_t only_file_size() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGXFSZ);
  return set;
}

}  // namespace

FileSizeGuard::FileSizeGuard() noexcept {
  const sigset_t set = only_file_size();
  pthread_sigmask(SIG_BLOCK, &set, &before_);
  sigset_t pending;
  sigpending(&pending);
  was_pending_ = sigismember(&pending, SIGXFSZ) == 1;
}

FileSizeGuard::~FileSizeGuard() {
  const sigset_t set = only_file_size();
  const timespec at_once{};
  while (!was_pending_ && sigtimedwait(&set, nullptr, &at_once) < 0 && errno == EINTR) {
  }
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void throw_file_system(std::string_view what, int number) {
  rlimit limit{};
  if (number != EFBIG || getrlimit(RLIMIT_FSIZE, &limit) != 0) {
    throw_system(what, number);
  }
  throw Error(
      ErrorKind::System,
      fmt::format("{}: {}: files are limited to {}; raise the limit (ulimit -f unlimited)", what,
                  error_text(number), to_text(Bytes{static_cast<std::int64_t>(limit.rlim_cur)})));
}

}  // namespace trireme::comm
