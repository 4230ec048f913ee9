#include "comm/net/fd.h"

#include <system_error>

#include <fmt/format.h>
#include <unistd.h>

#include "trireme/error.h"

namespace trireme::comm {

void Fd::reset() noexcept {
  if (fd_ >= 0) {
    ::close(fd_);
    fd_ = -1;
  }
}

std::string error_text(int number) {
  return std::error_code(number, std::generic_category()).message();
}

void throw_system(std::string_view what, int number) {
  throw Error(ErrorKind::System, fmt::format("{}: {}", what, error_text(number)));
}

}  // namespace trireme::comm
