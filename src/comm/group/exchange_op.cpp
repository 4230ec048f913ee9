#include "comm/group/exchange_op.h"

#include <utility>

#include <fmt/format.h>

namespace trireme::comm {

ExchangeOp::ExchangeOp(WorldCore& world, Options options)
    : world_(world), options_(std::move(options)), heard_(options_.ranks.size()) {}

Progress ExchangeOp::advance() {
  if (!sent_) {
    sent_ = true;
    for (std::size_t i = 0; i < options_.ranks.size(); ++i) {
      if (options_.ranks[i] == world_.rank()) {
        heard_[i] = Exchanges::Bytes(options_.mine.begin(), options_.mine.end());
      } else {
        world_.post_control(options_.ranks[i], ControlKind::Exchange, options_.context,
                            options_.mine);
      }
    }
  }
  return listen();
}

Progress ExchangeOp::listen() {
  world_.messages().progress();
  bool moved = false;
  bool all = true;
  for (std::size_t i = 0; i < heard_.size(); ++i) {
    if (!heard_[i]) {
      heard_[i] = world_.exchanges().take(options_.context, options_.ranks[i]);
      moved = moved || heard_[i].has_value();
      all = all && heard_[i].has_value();
    }
  }
  if (all) {
    return Progress::Done;
  }
  return moved ? Progress::Moved : Progress::Stuck;
}

void ExchangeOp::check(Seconds /*stuck*/) {
  for (std::size_t i = 0; i < heard_.size(); ++i) {
    const Rank rank = options_.ranks[i];
    const std::optional<Failure> failure = world_.failure(rank);
    if (heard_[i] || !failure || !world_.is_final(rank, left_)) {
      continue;
    }
    (void)listen();  // messages that it sent before it ended still count
    if (heard_[i]) {
      continue;
    }
    throw CommError(
        failure->fault, {rank},
        fmt::format("making a group: rank {} {}", rank,
                    failure->fault == CommFault::Left ? "left the world" : failure->text));
  }
}

void ExchangeOp::expire(Seconds stuck) {
  for (std::size_t i = 0; i < heard_.size(); ++i) {
    if (!heard_[i]) {
      throw CommError(
          CommFault::Late, {options_.ranks[i]},
          fmt::format("making a group: rank {} is alive but did not join within {:.1f} s",
                      options_.ranks[i], stuck.count));
    }
  }
}

}  // namespace trireme::comm
