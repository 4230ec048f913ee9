#include "ps/history.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace trireme::ps {

std::size_t KeyHistory::begin_push(std::size_t worker, SimTime now) {
  pushes_[worker].push_back({now, kNever});
  return pushes_[worker].size() - 1;
}

void KeyHistory::end_push(std::size_t worker, std::size_t number, SimTime now) {
  pushes_[worker][number].end = now;
}

void KeyHistory::add_read(SimTime begin, SimTime end, std::vector<int> seen) {
  reads_.push_back({begin, end, std::move(seen)});
}

int KeyHistory::acknowledged(std::size_t worker) const {
  return static_cast<int>(
      std::ranges::count_if(pushes_[worker], [](const Push& p) { return p.end != kNever; }));
}

std::string KeyHistory::problem_of(const Read& read) const {
  SimTime latest = read.begin;
  for (std::size_t w = 0; w < pushes_.size(); ++w) {
    if (read.seen[w] < 0 || read.seen[w] > begun(w)) {
      return fmt::format("a read at {} returned {} pushes of worker {}, of {}: doubled", read.end,
                         read.seen[w], w, begun(w));
    }
    for (int i = 0; i < read.seen[w]; ++i) {
      const Push& push = pushes_[w][static_cast<std::size_t>(i)];
      latest = std::max(latest, push.begin);
      if (push.begin > read.end) {
        return fmt::format("a read at {} includes push {} of worker {} of {}", read.end, i, w,
                           push.begin);
      }
    }
  }
  for (std::size_t w = 0; w < pushes_.size(); ++w) {
    for (std::size_t i = static_cast<std::size_t>(read.seen[w]); i < pushes_[w].size(); ++i) {
      if (pushes_[w][i].end < latest) {
        return fmt::format("a read from {} to {} lacks push {} of worker {}, acknowledged at {}",
                           read.begin, read.end, i, w, pushes_[w][i].end);
      }
    }
  }
  return {};
}

std::string KeyHistory::problem() const {
  for (const Read& read : reads_) {
    if (std::string found = problem_of(read); !found.empty()) {
      return found;
    }
  }
  std::vector<const Read*> order;
  for (const Read& read : reads_) {
    order.push_back(&read);
  }
  const auto total = [](const Read* read) {
    return std::accumulate(read->seen.begin(), read->seen.end(), 0);
  };
  std::ranges::sort(order, {}, total);
  SimTime latest_begin = 0;  // of the reads so far, which include no more than the next
  for (std::size_t i = 0; i < order.size(); ++i) {
    const Read& read = *order[i];
    const bool includes =
        i == 0 || std::ranges::equal(order[i - 1]->seen, read.seen, std::less_equal<>());
    if (!includes) {
      return fmt::format("reads at {} and {} disagree on the order of pushes: [{}] and [{}]",
                         order[i - 1]->end, read.end, fmt::join(order[i - 1]->seen, " "),
                         fmt::join(read.seen, " "));
    }
    const bool is_more = i > 0 && total(order[i - 1]) < total(&read);
    if (is_more) {
      for (std::size_t j = 0; j < i; ++j) {
        if (total(order[j]) < total(&read)) {
          latest_begin = std::max(latest_begin, order[j]->begin);
        }
      }
    }
    if (is_more && read.end < latest_begin) {
      return fmt::format("a read that began at {} includes less than one that ended at {}",
                         latest_begin, read.end);
    }
  }
  return {};
}

}  // namespace trireme::ps
