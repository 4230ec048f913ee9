#include "measure/bench_page.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <new>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <sched.h>
#include <sys/mman.h>

#include "base/cores.h"
#include "trireme/bench.h"
#include "trireme/error.h"

namespace trireme::measure {
namespace {

/// About a microsecond; less than it takes to switch to another process and back.
constexpr int kSpins = 200;
/// Yields before a rank that waits for the others sleeps between polls.
constexpr int kYields = 200;
constexpr std::chrono::microseconds kNap{50};
constexpr int kNeverNap = -1;

/// Comparable between the processes of a host.
std::int64_t now() {
  return std::chrono::steady_clock::now().time_since_epoch().count();
}

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

/// Fields that are written separately have their own cache line.
struct BenchPage::Layout {
  struct alignas(64) Line {
    std::int64_t value = 0;
  };
  alignas(64) std::atomic<std::uint32_t> arrived{0};
  alignas(64) std::atomic<std::uint32_t> generation{0};
  alignas(64) std::atomic<bool> failed{false};
  Line release{};  ///< when the last start() opened, in nanoseconds
  Line agreed{};
  alignas(64) std::atomic<int> votes{0};
  std::array<Line, kMaxBenchRanks> done{};
};

void BenchPage::Unmap::operator()(Layout* layout) const noexcept {
  munmap(layout, bytes);
}

BenchPage::BenchPage(Rank ranks, std::size_t result_bytes)
    : ranks_(ranks), result_bytes_(result_bytes) {
  const std::size_t bytes = sizeof(Layout) + result_bytes;
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    throw Error(ErrorKind::System, fmt::format("cannot share {} bytes between ranks: {}", bytes,
                                               std::generic_category().message(errno)));
  }
  layout_ = {new (memory) Layout(), Unmap{bytes}};
}

std::span<std::byte> BenchPage::results() {
  return {reinterpret_cast<std::byte*>(layout_.get() + 1), result_bytes_};
}

bool BenchPage::arrive_last() {
  if (layout_->arrived.fetch_add(1) + 1 < static_cast<std::uint32_t>(ranks_)) {
    return false;
  }
  layout_->arrived.store(0);
  return true;
}

void BenchPage::await(std::uint32_t generation, int max_yields) {
  for (int polls = 0; layout_->generation.load() == generation; ++polls) {
    if (layout_->failed.load(std::memory_order_relaxed)) {
      throw Error(ErrorKind::Peer, "another rank failed");
    }
    if (polls < kSpins) {
      relax();
    } else if (max_yields == kNeverNap || polls < kSpins + max_yields) {
      sched_yield();
    } else {
      std::this_thread::sleep_for(kNap);
    }
  }
}

void BenchPage::barrier() {
  const std::uint32_t generation = layout_->generation.load();
  if (arrive_last()) {
    layout_->generation.store(generation + 1);
  }
  await(generation, kYields);
}

void BenchPage::start() {
  const std::uint32_t generation = layout_->generation.load();
  if (arrive_last()) {
    layout_->release.value = now();
    layout_->generation.store(generation + 1);
  }
  await(generation, kNeverNap);
}

Seconds BenchPage::finish(Rank rank) {
  layout_->done.at(rank).value = now();
  barrier();
  std::int64_t last = 0;
  for (Rank r = 0; r < ranks_; ++r) {
    last = std::max(last, layout_->done.at(r).value);
  }
  return {static_cast<double>(last - layout_->release.value) * 1e-9};
}

std::int64_t BenchPage::agree(Rank rank, std::int64_t number) {
  if (rank == 0) {
    layout_->agreed.value = number;
  }
  barrier();
  const std::int64_t agreed = layout_->agreed.value;
  barrier();  // rank 0 may write the next number only now
  return agreed;
}

int BenchPage::count(Rank rank, bool yes) {
  if (rank == 0) {
    layout_->votes.store(0);
  }
  barrier();
  layout_->votes.fetch_add(yes ? 1 : 0);
  barrier();
  const int votes = layout_->votes.load();
  barrier();
  return votes;
}

void BenchPage::abort() noexcept {
  layout_->failed.store(true);
}

void pin_to_core(Rank rank, Rank ranks) {
  const std::vector<int> cores = allowed_core_ids();
  if (std::cmp_less_equal(ranks, cores.size())) {
    pin_thread_to(cores[rank]);
  }
}

}  // namespace trireme::measure
