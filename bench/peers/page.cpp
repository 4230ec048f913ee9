#include "page.h"

#include <algorithm>
#include <cerrno>
#include <system_error>

#include <fcntl.h>
#include <immintrin.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace peers {
namespace {

/// About a microsecond; less than it takes to switch to another process and back.
constexpr int kSpins = 200;

std::int64_t now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1'000'000'000 + time.tv_nsec;
}

void futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value) {
  syscall(SYS_futex, &word, operation, value, nullptr, nullptr, 0);
}

PageLayout* map(const std::string& path) {
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) {
    throw std::system_error(errno, std::generic_category(), path);
  }
  void* memory = mmap(nullptr, sizeof(PageLayout), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  const int error = errno;
  close(file);
  if (memory == MAP_FAILED) {
    throw std::system_error(error, std::generic_category(), "mmap " + path);
  }
  return static_cast<PageLayout*>(memory);
}

}  // namespace

Page::Page(const std::string& path, int rank, int ranks)
    : page_(map(path)), rank_(rank), ranks_(ranks) {
  if (ranks > kMaxRanks) {
    throw std::runtime_error("at most " + std::to_string(kMaxRanks) + " ranks");
  }
}

Page::~Page() {
  munmap(page_, sizeof(PageLayout));
}

void Page::barrier() {
  const std::uint32_t generation = page_->generation.load();
  if (come_last()) {
    open();
  }
  while (page_->generation.load() == generation) {
    futex(page_->generation, FUTEX_WAIT, generation);
  }
}

void Page::start() {
  const std::uint32_t generation = page_->generation.load();
  if (come_last()) {
    page_->release.value = now();
    page_->generation.store(generation + 1);  // no rank sleeps in here
  }
  for (int spins = 0; page_->generation.load() == generation; ++spins) {
    if (spins < kSpins) {
      _mm_pause();
    } else {
      sched_yield();
    }
  }
}

bool Page::come_last() {
  if (page_->arrived.fetch_add(1) + 1 < static_cast<std::uint32_t>(ranks_)) {
    return false;
  }
  page_->arrived.store(0);
  return true;
}

void Page::open() {
  page_->generation.fetch_add(1);
  futex(page_->generation, FUTEX_WAKE, kMaxRanks);
}

double Page::finish() {
  page_->done[rank_].value = now();
  barrier();
  const auto* last =
      std::max_element(page_->done, page_->done + ranks_,
                       [](const auto& a, const auto& b) { return a.value < b.value; });
  return static_cast<double>(last->value - page_->release.value) / 1000;
}

void Page::publish(const Command& command) {
  page_->command = command;
  page_->commands.fetch_add(1);
  futex(page_->commands, FUTEX_WAKE, kMaxRanks);
}

Command Page::await() {
  while (page_->commands.load() == seen_) {
    futex(page_->commands, FUTEX_WAIT, seen_);
  }
  ++seen_;
  return page_->command;
}

int Page::agree(int on) {
  if (rank_ == 0) {
    page_->count.value = on;
  }
  barrier();
  const auto agreed = static_cast<int>(page_->count.value);
  barrier();  // rank 0 may write the next number only now
  return agreed;
}

int Page::count_wrong(bool wrong) {
  if (rank_ == 0) {
    page_->wrong.store(0);
  }
  barrier();
  page_->wrong.fetch_add(wrong ? 1 : 0);
  barrier();
  const auto count = static_cast<int>(page_->wrong.load());
  barrier();
  return count;
}

}  // namespace peers
