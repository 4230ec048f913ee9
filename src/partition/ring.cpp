#include "partition/ring.h"

#include <utility>

#include "partition/causal_ring.h"

namespace trireme::partition {
namespace {

class RingBuilder {
 public:
  RingBuilder(GraphBuilder& builder, const Ring& ring, std::span<const ValueId> inputs,
              std::int64_t& tag)
      : builder_(builder),
        ring_(ring),
        op_(ring),
        messages_(builder, ring),
        places_(op_.places()),
        inputs_(inputs.begin(), inputs.end()),
        first_tag_(tag) {
    tag += static_cast<std::int64_t>((op_.operands().size() + op_.carried().size()) * places_);
    for (std::size_t part = 0; part < places_; ++part) {
      stops_.push_back(stops_of(part));
    }
  }

  std::vector<ValueId> run() {
    for (std::size_t time = 0; time < places_; ++time) {
      do_turn(time);
    }
    messages_.wait_for(sums_sent_);
    std::vector<ValueId> results(op_.factors().outputs.size());
    for (std::size_t i = 0; i < op_.merged().size(); ++i) {
      results[op_.merged()[i]] = so_far_[i];
    }
    for (std::size_t i = 0; i < op_.carried().size(); ++i) {
      results[op_.carried()[i]] = own_sums_[i];
    }
    return results;
  }

 private:
  using Values = std::vector<ValueId>;

  [[nodiscard]] std::size_t me() const { return ring_.index; }
  [[nodiscard]] std::size_t after(std::size_t place, std::size_t steps) const {
    return (place + steps) % places_;
  }
  [[nodiscard]] std::size_t part_at(std::size_t time) const { return after(me(), places_ - time); }
  /// Whether this rank receives the part that it would have then.
  [[nodiscard]] bool has_part(std::size_t time) const {
    return time < places_ && time < stops_[part_at(time)];
  }

  /// How many ranks the part visits, including its own.
  [[nodiscard]] std::size_t stops_of(std::size_t part) const {
    std::size_t stops = 1;
    for (std::size_t steps = 1; steps < places_; ++steps) {
      stops = op_.has_work(after(part, steps), part) ? steps + 1 : stops;
    }
    return stops;
  }

  // Messages.

  [[nodiscard]] std::int64_t tag_of(std::size_t what, std::size_t part) const {
    return first_tag_ + static_cast<std::int64_t>(what * places_ + part);
  }
  Values receive_operands(std::size_t time) {
    Values received;
    const std::size_t part = part_at(time);
    for (std::size_t i = 0; i < op_.operands().size(); ++i) {
      received.push_back(
          messages_.receive(op_.input_type(op_.operands()[i], op_.ranges_of(me(), part)),
                            after(me(), places_ - 1), tag_of(i, part)));
    }
    return received;
  }
  Values receive_sums(std::size_t part, std::size_t from) {
    Values received;
    for (std::size_t i = 0; i < op_.carried().size(); ++i) {
      received.push_back(
          messages_.receive(op_.output_type(op_.carried()[i], op_.ranges_of(me(), part)), from,
                            tag_of(op_.operands().size() + i, part)));
    }
    return received;
  }

  // One time.

  void do_turn(std::size_t time) {
    Values next;
    if (has_part(time + 1)) {
      next = receive_operands(time + 1);
    }
    if (has_part(time)) {
      use_part(time);
    }
    for (std::size_t i = 0; i < next.size(); ++i) {
      inputs_[op_.operands()[i]] = next[i];
    }
    // At this time the sums of this rank's own part are sent home.
    if (time > 0 && time + 1 == stops_[me()]) {
      own_sums_ = receive_sums(me(), after(me(), time));
    }
  }

  void use_part(std::size_t time) {
    const std::size_t part = part_at(time);
    Values sent;
    const bool goes_on = time + 1 < stops_[part];
    for (std::size_t i = 0; goes_on && i < op_.operands().size(); ++i) {
      messages_.send(inputs_[op_.operands()[i]], after(me(), 1), tag_of(i, part), sent);
    }
    Values sums;
    if (time > 0) {
      sums = receive_sums(part, after(me(), places_ - 1));
    }
    if (time == 0 || op_.has_work(me(), part)) {
      compute(part, sums);
    }
    sent.insert(sent.end(), sums_sent_.begin(), sums_sent_.end());
    messages_.wait_for(sent);
    hand_on(time, sums);
  }

  void compute(std::size_t part, Values& sums) {
    const Values results = op_.compute(builder_, inputs_, op_.ranges_of(me(), part));
    Values more;
    for (const std::size_t k : op_.merged()) {
      more.push_back(results[k]);
    }
    so_far_ = op_.merge(builder_, std::move(so_far_), more);
    for (std::size_t i = 0; i < op_.carried().size(); ++i) {
      const ValueId own = results[op_.carried()[i]];
      if (i < sums.size()) {
        sums[i] = builder_.add1("add", {sums[i], own});
      } else {
        sums.push_back(own);
      }
    }
  }

  /// The sums of a part follow the part, and return from the last rank.
  void hand_on(std::size_t time, const Values& sums) {
    const std::size_t part = part_at(time);
    const bool goes_on = time + 1 < stops_[part];
    sums_sent_.clear();
    if (!goes_on && time == 0) {
      own_sums_ = sums;
      return;
    }
    for (std::size_t i = 0; i < op_.carried().size(); ++i) {
      messages_.send(sums[i], goes_on ? after(me(), 1) : part,
                     tag_of(op_.operands().size() + i, part), sums_sent_);
    }
  }

  GraphBuilder& builder_;
  const Ring& ring_;
  RingOp op_;
  RingMessages messages_;
  std::size_t places_;
  Values inputs_;  ///< with the current parts
  std::int64_t first_tag_;
  std::vector<std::size_t> stops_;  ///< by part
  Values so_far_;                   ///< by merged()
  Values own_sums_;                 ///< by carried()
  Values sums_sent_;                ///< of the part before
};

}  // namespace

std::vector<ValueId> add_ring(GraphBuilder& builder, const Ring& ring,
                              std::span<const ValueId> inputs, std::int64_t& tag) {
  return is_causal(ring) ? add_causal_ring(builder, ring, inputs, tag)
                         : RingBuilder(builder, ring, inputs, tag).run();
}

}  // namespace trireme::partition
