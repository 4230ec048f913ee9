#include "trireme/shared_number.h"

#include <cerrno>
#include <new>
#include <system_error>

#include <fmt/format.h>
#include <sys/mman.h>

#include "trireme/error.h"

namespace trireme {
namespace {

static_assert(std::atomic<int>::is_always_lock_free, "a signal handler may set it");

void* shared_page() {
  void* page = mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) {
    throw Error(ErrorKind::System, fmt::format("no memory to share with ranks: {}",
                                               std::system_category().message(errno)));
  }
  return page;
}

}  // namespace

SharedNumber::SharedNumber() : value_(new (shared_page()) std::atomic<int>(0)) {}

SharedNumber::~SharedNumber() {
  munmap(value_, sizeof(std::atomic<int>));
}

}  // namespace trireme
