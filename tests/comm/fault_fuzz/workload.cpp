#include "comm/fault_fuzz/workload.h"

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

namespace trireme::fault_fuzz {
namespace {

using Element = std::int32_t;
using Values = std::vector<Element>;

/// Element i of a rank's input in a step. Small, so that sums of all ranks fit.
Element value_of(Rank rank, std::int64_t step, std::size_t i) {
  return static_cast<Element>((static_cast<std::size_t>(rank) * 131 +
                               static_cast<std::size_t>(step) * 17 + i * 7 + (i >> 10)) &
                              1023);
}

class OpRun {
 public:
  OpRun(const Op& op, Group& group, std::int64_t step, const Timed& timed)
      : op_(op),
        group_(group),
        timed_(timed),
        step_(step),
        size_(static_cast<std::size_t>(group.size())),
        whole_(static_cast<std::size_t>(op.elements)),
        block_(std::max<std::size_t>(1, whole_ / size_)),
        root_(static_cast<Rank>(step % group.size())) {}

  void run();

 private:
  [[nodiscard]] Rank me() const { return group_.rank(); }
  [[nodiscard]] Rank world_rank(Rank place) const { return group_.world_ranks()[place]; }
  [[nodiscard]] std::size_t offset(Rank place) const {
    return block_ * static_cast<std::size_t>(place);
  }

  [[nodiscard]] Values values(Rank place, std::size_t from, std::size_t count) const {
    Values made(count);
    for (std::size_t i = 0; i < count; ++i) {
      made[i] = value_of(world_rank(place), step_, from + i);
    }
    return made;
  }
  [[nodiscard]] Values sums(std::size_t from, std::size_t count) const {
    Values made(count);
    for (Rank place = 0; place < group_.size(); ++place) {
      for (std::size_t i = 0; i < count; ++i) {
        made[i] += value_of(world_rank(place), step_, from + i);
      }
    }
    return made;
  }
  /// A block of every member, in order.
  [[nodiscard]] Values blocks(std::size_t from) const {
    Values made;
    for (Rank place = 0; place < group_.size(); ++place) {
      const Values block = values(place, from, block_);
      made.insert(made.end(), block.begin(), block.end());
    }
    return made;
  }

  void check(const Values& got, const Values& expected) const {
    const auto [a, b] = std::ranges::mismatch(got, expected);
    if (a != got.end() || b != expected.end()) {
      throw WrongResult(fmt::format("{} of {} elements, step {}: element {} is {}, not {}",
                                    to_text(op_.kind), expected.size(), step_, a - got.begin(),
                                    a == got.end() ? -1 : *a, b == expected.end() ? -1 : *b));
    }
  }

  /// A collective: its input is `in`, its result must be `expected`.
  void collective(Operation operation, Values in, const Values& expected) {
    Values out(operation == Operation::Broadcast ? 0 : expected.size());
    const std::span<const Element> input(in);
    switch (operation) {
      case Operation::Broadcast:
        timed_([&] { group_.run(broadcast<Element>(in, root_)); });
        check(in, expected);
        return;
      case Operation::Allreduce:
        timed_([&] { group_.run(allreduce<Element>(input, out)); });
        break;
      case Operation::Reduce:
        timed_([&] { group_.run(reduce<Element>(input, out, root_)); });
        break;
      case Operation::Scatter:
        timed_([&] { group_.run(scatter<Element>(input, out, root_)); });
        break;
      case Operation::Gather:
        timed_([&] { group_.run(gather<Element>(input, out, root_)); });
        break;
      case Operation::Allgather:
        timed_([&] { group_.run(allgather<Element>(input, out)); });
        break;
      case Operation::ReduceScatter:
        timed_([&] { group_.run(reduce_scatter<Element>(input, out)); });
        break;
      case Operation::Alltoall:
        timed_([&] { group_.run(alltoall<Element>(input, out)); });
        break;
      case Operation::Barrier:
        timed_([&] { group_.barrier(); });
        break;
    }
    check(out, expected);
  }

  void ring_allreduce() {
    Values data = values(me(), 0, whole_);
    timed_([&] {
      group_.run(
          allreduce<Element>(std::span(data), {.method = Method::scheduled(Algorithm::Ring)}));
    });
    check(data, sums(0, whole_));
  }

  void ring() {
    if (size_ == 1) {
      return;
    }
    const Rank next = (me() + 1) % group_.size();
    const Rank previous = (me() + group_.size() - 1) % group_.size();
    const Values out = values(me(), 0, whole_);
    Values in(whole_);
    timed_([&] {
      Pending sending = group_.start_send<Element>(out, next, 1);
      group_.receive<Element>(in, previous, 1);
      sending.wait();
    });
    check(in, values(previous, 0, whole_));
  }

  void pairs() {
    const Rank other = me() ^ 1;
    if (other >= group_.size()) {
      return;
    }
    const Values out = values(me(), 0, whole_);
    Values in(whole_);
    timed_([&] {
      if (me() < other) {
        group_.send<Element>(out, other, 2);
        group_.receive<Element>(in, other, 3);
      } else {
        group_.receive<Element>(in, other, 2);
        group_.send<Element>(out, other, 3);
      }
    });
    check(in, values(other, 0, whole_));
  }

  void flood() {
    const Values out = values(me(), 0, block_);
    std::vector<Values> in(size_, Values(block_));
    timed_([&] {
      std::vector<Pending> pending;
      for (Rank place = 0; place < group_.size(); ++place) {
        if (place != me()) {
          pending.push_back(group_.start_receive<Element>(in[place], place, 4));
          pending.push_back(group_.start_send<Element>(out, place, 4));
        }
      }
      for (Pending& one : pending) {
        one.wait();
      }
    });
    for (Rank place = 0; place < group_.size(); ++place) {
      if (place != me()) {
        check(in[place], values(place, 0, block_));
      }
    }
  }

  void started() {
    Values sum = values(me(), 0, whole_);
    Values copy = values(me(), 5, block_);
    const Values out = values(me(), 9, block_);
    Values in(block_);
    const Rank next = (me() + 1) % group_.size();
    const Rank previous = (me() + group_.size() - 1) % group_.size();
    timed_([&] {
      Pending reducing = group_.start(allreduce<Element>(sum));
      Pending copying = group_.start(broadcast<Element>(copy, root_));
      if (size_ > 1) {
        Pending sending = group_.start_send<Element>(out, next, 5);
        group_.receive<Element>(in, previous, 5);
        sending.wait();
      }
      copying.wait();
      reducing.wait();
    });
    check(sum, sums(0, whole_));
    check(copy, values(root_, 5, block_));
    check(in, size_ > 1 ? values(previous, 9, block_) : Values(block_));
  }

  void split() {
    Values data = values(me(), 0, whole_);
    timed_([&] {
      Group half = group_.split(me() % 2);
      half.run(allreduce<Element>(data));
    });
    Values expected(whole_);
    for (Rank place = me() % 2; place < group_.size(); place += 2) {
      const Values theirs = values(place, 0, whole_);
      std::ranges::transform(expected, theirs, expected.begin(), std::plus<>());
    }
    check(data, expected);
  }

  const Op& op_;
  Group& group_;
  const Timed& timed_;
  std::int64_t step_;
  std::size_t size_;
  std::size_t whole_;
  std::size_t block_;
  Rank root_;
};

void OpRun::run() {
  const bool is_root = me() == root_;
  const std::size_t all = block_ * size_;
  switch (op_.kind) {
    case Op::Kind::Barrier:
      return collective(Operation::Barrier, {}, {});
    case Op::Kind::Allreduce:
      return collective(Operation::Allreduce, values(me(), 0, whole_), sums(0, whole_));
    case Op::Kind::RingAllreduce:
      return ring_allreduce();
    case Op::Kind::Broadcast:
      return collective(Operation::Broadcast, values(me(), 0, whole_), values(root_, 0, whole_));
    case Op::Kind::Reduce:
      return collective(Operation::Reduce, values(me(), 0, whole_),
                        is_root ? sums(0, whole_) : Values{});
    case Op::Kind::Scatter:
      return collective(Operation::Scatter, is_root ? values(me(), 0, all) : Values{},
                        values(root_, offset(me()), block_));
    case Op::Kind::Gather:
      return collective(Operation::Gather, values(me(), 0, block_), is_root ? blocks(0) : Values{});
    case Op::Kind::Allgather:
      return collective(Operation::Allgather, values(me(), 0, block_), blocks(0));
    case Op::Kind::ReduceScatter:
      return collective(Operation::ReduceScatter, values(me(), 0, all), sums(offset(me()), block_));
    case Op::Kind::Alltoall:
      return collective(Operation::Alltoall, values(me(), 0, all), blocks(offset(me())));
    case Op::Kind::Ring:
      return ring();
    case Op::Kind::Pairs:
      return pairs();
    case Op::Kind::Flood:
      return flood();
    case Op::Kind::Started:
      return started();
    case Op::Kind::Split:
      return split();
  }
}

}  // namespace

void run_op(const Op& op, Group& group, std::int64_t step, const Timed& timed) {
  OpRun(op, group, step, timed).run();
}

}  // namespace trireme::fault_fuzz
