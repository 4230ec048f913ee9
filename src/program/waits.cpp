#include "program/waits.h"

#include <algorithm>
#include <deque>
#include <map>

#include "base/indexed_vector.h"
#include "trireme/op.h"

namespace trireme {
namespace {

class Waits {
 public:
  explicit Waits(const Outline& outline)
      : outline_(outline),
        end_(static_cast<std::int32_t>(outline.nodes.size())),
        done_before_(outline.nodes.size(), -1) {}

  IndexedVector<std::int32_t, std::int32_t> run() {
    find_first_uses();
    settle_sends();
    bound();
    return std::move(done_before_);
  }

 private:
  [[nodiscard]] const Outline::Node& node(std::int32_t number) const {
    return outline_.nodes[number];
  }

  void find_first_uses() {
    IndexedVector<ValueId, std::int32_t> first_use(outline_.values.size(), end_);
    for (std::int32_t i = end_; i-- > 0;) {
      const Outline::Node& one = node(i);
      if (one.op->communicates) {
        done_before_[i] = end_;
        for (const ValueId output : outline_.outputs_of(one)) {
          done_before_[i] = std::min(done_before_[i], first_use[output]);
        }
        if (one.tag >= 0) {
          received_[one.tag] = done_before_[i];
        }
      }
      const std::int32_t use = one.op->is_view ? first_use[outline_.outputs_of(one)[0]] : i;
      for (const ValueId input : outline_.inputs_of(one)) {
        first_use[input] = std::min(first_use[input], use);
      }
    }
  }

  void settle_sends() {
    for (std::int32_t i = 0; i < end_; ++i) {
      const auto it = received_.find(node(i).until);
      if (node(i).until >= 0 && it != received_.end() && it->second > i) {
        done_before_[i] = std::min(done_before_[i], it->second);
      }
    }
  }

  void bound() {
    const std::vector<std::int32_t> later = exchanges_for_later();
    const std::int64_t most = most_of_a_block(later);
    std::deque<std::int32_t> under_way;
    std::int64_t bytes = 0;
    for (const std::int32_t i : later) {
      while (!under_way.empty() && bytes + bytes_of(i) > most) {
        const std::int32_t first = under_way.front();
        done_before_[first] = std::min(done_before_[first], i);
        bytes -= bytes_of(first);
        under_way.pop_front();
      }
      under_way.push_back(i);
      bytes += bytes_of(i);
    }
  }

  /// Reduce-scatters, whose result is smaller than their input, if another block computes before their result is
  /// needed; and gathers of updated values, which nothing reads. Not point-to-point messages, for which other ranks may
  /// wait in another order.
  [[nodiscard]] std::vector<std::int32_t> exchanges_for_later() {
    std::int32_t copies = end_;  // from here on results are copied to their targets
    while (copies > 0 && node(copies - 1).op->name == "copy") {
      --copies;
    }
    std::vector<std::int32_t> found;
    std::int32_t next = end_;   // that computes
    std::int32_t other = end_;  // that computes for another block than the next one does
    for (std::int32_t i = end_; i-- > 0;) {
      const Outline::Node& one = node(i);
      const bool leads_on = next < end_ && node(next).block != one.block;
      const std::int32_t another = leads_on ? next : other;  // that computes for another block
      if (!one.op->communicates) {
        other = another;
        next = i;
        continue;
      }
      const bool stays = done_before_[i] > another;
      if (one.is_collective &&
          (one.phase == Phase::Update ? done_before_[i] >= copies
                                      : stays && output_bytes(i) < input_bytes(i))) {
        found.push_back(i);
      }
    }
    std::ranges::reverse(found);
    return found;
  }

  /// The most that the backward of one block communicates this way; without blocks, the largest.
  [[nodiscard]] std::int64_t most_of_a_block(const std::vector<std::int32_t>& exchanges) const {
    std::map<std::int32_t, std::int64_t> of_block;
    std::int64_t largest = 0;
    for (const std::int32_t i : exchanges) {
      largest = std::max(largest, bytes_of(i));
      if (node(i).phase == Phase::Backward && node(i).block >= 0) {
        of_block[node(i).block] += bytes_of(i);
      }
    }
    std::int64_t most = 0;
    for (const auto& [block, bytes] : of_block) {
      most = std::max(most, bytes);
    }
    return most > 0 ? most : largest;
  }

  [[nodiscard]] std::int64_t input_bytes(std::int32_t i) const {
    return outline_.value(outline_.inputs_of(node(i))[0]).bytes;
  }
  [[nodiscard]] std::int64_t output_bytes(std::int32_t i) const {
    return outline_.value(outline_.outputs_of(node(i))[0]).bytes;
  }
  [[nodiscard]] std::int64_t bytes_of(std::int32_t i) const {
    return std::max(input_bytes(i), output_bytes(i));
  }

  const Outline& outline_;
  std::int32_t end_;
  IndexedVector<std::int32_t, std::int32_t> done_before_;
  /// By tag: the instruction before which the receive completes.
  std::map<std::int64_t, std::int32_t> received_;
};

}  // namespace

IndexedVector<std::int32_t, std::int32_t> find_waits(const Outline& outline) {
  return Waits(outline).run();
}

}  // namespace trireme
