#include "train/sampler/ledger.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/check.h"
#include "train/sampler/order.h"

namespace trireme::train {
namespace {

/// Moves up to `count` elements from the front of `from` to the end of `to`.
template <class To>
void move_first(std::deque<SampleIndex>& from, To& to, std::int64_t count) {
  const auto end = from.begin() + std::min(count, static_cast<std::int64_t>(from.size()));
  to.insert(to.end(), from.begin(), end);
  from.erase(from.begin(), end);
}

}  // namespace

SampleLedger::SampleLedger(const PoolOptions& order, Rank workers)
    : workers_(workers), order_(order_of(order)), samples_(order.samples), left_(order.samples) {}

SampleLedger::SampleLedger(const std::vector<std::vector<SampleIndex>>& lists) {
  workers_.reserve(lists.size());
  for (const std::vector<SampleIndex>& list : lists) {
    workers_.push_back({.list = {list.begin(), list.end()}, .taken = {}});
    left_ += static_cast<std::int64_t>(list.size());
  }
}

SampleLedger::Worker& SampleLedger::living(Rank worker) {
  Worker& found = workers_.at(worker);
  TRIREME_CHECK(!found.lost, fmt::format("worker {} is lost", worker));
  return found;
}

std::vector<SampleIndex> SampleLedger::take(Rank worker, std::int64_t count) {
  Worker& who = living(worker);
  std::vector<SampleIndex> some;
  const auto missing = [&] { return count - static_cast<std::int64_t>(some.size()); };
  move_first(who.list, some, count);
  move_first(given_back_, some, missing());
  for (; reached_ < samples_ && missing() > 0; ++reached_) {
    some.push_back(order_->at(reached_));
  }
  who.taken.insert(who.taken.end(), some.begin(), some.end());
  return some;
}

std::vector<SampleIndex> SampleLedger::confirm(Rank worker, std::int64_t count) {
  Worker& who = living(worker);
  TRIREME_CHECK(count >= 0 && count <= static_cast<std::int64_t>(who.taken.size()),
                fmt::format("worker {} confirms {} of {}", worker, count, who.taken.size()));
  std::vector<SampleIndex> consumed;
  move_first(who.taken, consumed, count);
  left_ -= count;
  return consumed;
}

void SampleLedger::lose(Rank worker) {
  Worker& who = workers_.at(worker);
  for (std::deque<SampleIndex>* some : {&who.taken, &who.list}) {
    move_first(*some, given_back_, static_cast<std::int64_t>(some->size()));
  }
  who.lost = true;
}

}  // namespace trireme::train
