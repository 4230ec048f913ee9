#include "board.h"

#include <algorithm>
#include <map>
#include <new>

#include <fmt/format.h>
#include <sys/mman.h>

namespace trireme::fuzz {

Board::Board(const Sequence& sequence) : ranks_(static_cast<std::size_t>(sequence.ranks)) {
  const std::size_t bytes = sizeof(Head) + sequence.steps.size() * ranks_ * sizeof(std::uint64_t);
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    throw Error(ErrorKind::System, "cannot map memory for the results");
  }
  memory_ = {static_cast<std::byte*>(memory), bytes};
  new (memory) Head();
}

Board::~Board() {
  munmap(memory_.data(), memory_.size());
}

Board::Head& Board::head() const {
  return *std::launder(reinterpret_cast<Head*>(memory_.data()));
}

void Board::report(std::string_view problem) {
  Head& shared = head();
  if (shared.claimed.exchange(1) != 0) {
    return;
  }
  const std::size_t length = std::min(problem.size(), shared.text.size() - 1);
  std::copy_n(problem.begin(), length, shared.text.begin());
  shared.written.store(1);
}

bool Board::has_report() const {
  return head().written.load() != 0;
}

std::string Board::report_text() const {
  return has_report() ? std::string(head().text.data()) : "";
}

std::uint64_t& Board::hash(std::size_t step, Rank rank) {
  auto* hashes = reinterpret_cast<std::uint64_t*>(memory_.data() + sizeof(Head));
  return hashes[step * ranks_ + static_cast<std::size_t>(rank)];
}

void Board::compare_hashes(const Sequence& sequence) {
  for (std::size_t i = 0; i < sequence.steps.size(); ++i) {
    std::map<std::uint64_t, Rank> seen;  // hash, and a rank that has it
    for (Rank r = 0; r < sequence.ranks; ++r) {
      if (hash(i, r) != 0) {
        seen.emplace(hash(i, r), r);
      }
    }
    if (seen.size() > 1) {
      report(fmt::format("wrong result of step {}: ranks {} and {} have different bits",
                         sequence.steps[i].key, seen.begin()->second, seen.rbegin()->second));
    }
  }
}

}  // namespace trireme::fuzz
