#include "partition/ring.h"

#include <algorithm>
#include <utility>

#include "trireme/op_rules.h"

namespace trireme::partition {
namespace {

bool stands_in(const Factors::Dims& dims, std::size_t factor) {
  return std::ranges::any_of(dims, [&](const std::vector<std::int32_t>& dim) {
    return std::ranges::find(dim, static_cast<std::int32_t>(factor)) != dim.end();
  });
}

class RingBuilder {
 public:
  RingBuilder(GraphBuilder& builder, const Ring& ring, std::span<const ValueId> inputs,
              std::int64_t& tag)
      : builder_(builder),
        ring_(ring),
        places_(ring.ranks.size()),
        factors_(ring.whole.op->factors(ring.whole)),
        inputs_(inputs.begin(), inputs.end()),
        first_tag_(tag) {
    for (std::size_t k = 0; k < inputs_.size(); ++k) {
      if (stands_in(factors_.inputs[k], ring_.factor)) {
        operands_.push_back(k);
      }
    }
    for (std::size_t k = 0; k < factors_.outputs.size(); ++k) {
      (stands_in(factors_.outputs[k], ring_.factor) ? carried_ : merged_).push_back(k);
    }
    tag += static_cast<std::int64_t>((operands_.size() + carried_.size()) * places_);
    for (std::size_t part = 0; part < places_; ++part) {
      stops_.push_back(stops_of(part));
    }
  }

  std::vector<ValueId> run() {
    for (std::size_t time = 0; time < places_; ++time) {
      do_turn(time);
    }
    wait_for(std::exchange(sums_sent_, {}));
    std::vector<ValueId> results(factors_.outputs.size());
    for (std::size_t i = 0; i < merged_.size(); ++i) {
      results[merged_[i]] = so_far_[i];
    }
    for (std::size_t i = 0; i < carried_.size(); ++i) {
      results[carried_[i]] = own_sums_[i];
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

  // What there is to do.

  [[nodiscard]] std::vector<IndexRange> ranges_of(std::size_t place, std::size_t part) const {
    std::vector<IndexRange> ranges = ring_.ranges[place];
    ranges[ring_.factor] = ring_.ranges[part][ring_.factor];
    return ranges;
  }
  [[nodiscard]] Attributes attributes_of(std::span<const IndexRange> ranges) const {
    const Signature& whole = ring_.whole;
    return whole.op->part == nullptr ? *whole.attributes : whole.op->part(whole, ranges);
  }
  [[nodiscard]] TensorType type_of(const TensorType& whole, const Factors::Dims& dims,
                                   std::size_t part) const {
    return {whole.dtype, Shape(rules::part_of_dims(dims, ranges_of(me(), part)))};
  }

  [[nodiscard]] bool has_work(std::size_t place, std::size_t part) const {
    const std::vector<IndexRange> ranges = ranges_of(place, part);
    const Attributes attributes = attributes_of(ranges);
    Signature mine = ring_.whole;
    mine.attributes = &attributes;
    for (std::size_t k = 0; k < mine.inputs.size(); ++k) {
      mine.inputs[k].shape = Shape(rules::part_of_dims(factors_.inputs[k], ranges));
    }
    const Work work = mine.op->work(mine);
    return work.products * (1 - work.causal) + work.others > 0;
  }

  /// How many ranks the part visits, including its own.
  [[nodiscard]] std::size_t stops_of(std::size_t part) const {
    std::size_t stops = 1;
    for (std::size_t steps = 1; steps < places_; ++steps) {
      stops = has_work(after(part, steps), part) ? steps + 1 : stops;
    }
    return stops;
  }

  // Messages.

  [[nodiscard]] std::int64_t tag_of(std::size_t what, std::size_t part) const {
    return first_tag_ + static_cast<std::int64_t>(what * places_ + part);
  }
  void send(ValueId value, std::size_t to, std::int64_t tag, Values& sent) {
    sent.push_back(
        builder_.add1("send", {value}, {{"to", std::int64_t{ring_.ranks[to]}}, {"tag", tag}}));
  }
  ValueId receive(const TensorType& type, std::size_t from, std::int64_t tag) {
    Attributes attributes{{"from", std::int64_t{ring_.ranks[from]}}, {"tag", tag}};
    attributes["shape"] = type.shape.dims();
    attributes["dtype"] = std::string(to_text(type.dtype));
    return builder_.add1("receive", {}, attributes);
  }
  void wait_for(const Values& sent) {
    if (!sent.empty()) {
      builder_.add("wait", sent);
    }
  }

  Values receive_operands(std::size_t time) {
    Values received;
    for (std::size_t i = 0; i < operands_.size(); ++i) {
      const std::size_t k = operands_[i];
      const std::size_t part = part_at(time);
      received.push_back(receive(type_of(ring_.whole.inputs[k], factors_.inputs[k], part),
                                 after(me(), places_ - 1), tag_of(i, part)));
    }
    return received;
  }
  Values receive_sums(std::size_t part, std::size_t from) {
    Values received;
    const std::vector<TensorType> types = ring_.whole.op->infer(ring_.whole);
    for (std::size_t i = 0; i < carried_.size(); ++i) {
      const std::size_t k = carried_[i];
      received.push_back(receive(type_of(types[k], factors_.outputs[k], part), from,
                                 tag_of(operands_.size() + i, part)));
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
      inputs_[operands_[i]] = next[i];
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
    for (std::size_t i = 0; goes_on && i < operands_.size(); ++i) {
      send(inputs_[operands_[i]], after(me(), 1), tag_of(i, part), sent);
    }
    Values sums;
    if (time > 0) {
      sums = receive_sums(part, after(me(), places_ - 1));
    }
    if (time == 0 || has_work(me(), part)) {
      compute(part, sums);
    }
    sent.insert(sent.end(), sums_sent_.begin(), sums_sent_.end());
    wait_for(sent);
    hand_on(time, sums);
  }

  void compute(std::size_t part, Values& sums) {
    const Values results =
        builder_.add(ring_.whole.op->name, inputs_, attributes_of(ranges_of(me(), part)));
    Values merged = so_far_;
    for (const std::size_t k : merged_) {
      merged.push_back(results[k]);
    }
    so_far_ = so_far_.empty() ? merged : builder_.add(ring_.whole.op->merge, merged);
    for (std::size_t i = 0; i < carried_.size(); ++i) {
      const ValueId own = results[carried_[i]];
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
    for (std::size_t i = 0; i < carried_.size(); ++i) {
      send(sums[i], goes_on ? after(me(), 1) : part, tag_of(operands_.size() + i, part),
           sums_sent_);
    }
  }

  GraphBuilder& builder_;
  const Ring& ring_;
  std::size_t places_;
  Factors factors_;
  Values inputs_;  ///< with the current parts
  std::int64_t first_tag_;
  std::vector<std::size_t> operands_;  ///< inputs that circulate
  std::vector<std::size_t> merged_;    ///< outputs without the factor
  std::vector<std::size_t> carried_;   ///< outputs with it
  std::vector<std::size_t> stops_;     ///< by part
  Values so_far_;                      ///< by merged_
  Values own_sums_;                    ///< by carried_
  Values sums_sent_;                   ///< of the part before
};

}  // namespace

int find_ring(const Factors& factors, std::span<const Placement::Dim> sharding) {
  for (std::size_t f = 0; f < sharding.size(); ++f) {
    if (factors.factors[f].split == Factor::Split::InTurn && !sharding[f].axes.empty()) {
      return static_cast<int>(f);
    }
  }
  return -1;
}

std::vector<IndexRange> ranges_at(const Factors& factors, std::span<const Placement::Dim> sharding,
                                  const Axes& axes, std::span<const int> coordinates) {
  std::vector<IndexRange> ranges;
  ranges.reserve(factors.factors.size());
  for (std::size_t f = 0; f < factors.factors.size(); ++f) {
    ranges.push_back(block_at(sharding[f], factors.factors[f].size, axes, coordinates));
  }
  return ranges;
}

Ring ring_at(const Signature& whole, std::span<const Placement::Dim> sharding, const Axes& axes,
             std::vector<int> coordinates, std::span<const std::vector<int>> axis_ranks) {
  const Factors factors = whole.op->factors(whole);
  const auto factor = static_cast<std::size_t>(find_ring(factors, sharding));
  const auto axis = static_cast<std::size_t>(sharding[factor].axes.front());
  Ring ring{.whole = whole,
            .factor = factor,
            .ranges = {},
            .ranks = axis_ranks[axis],
            .index = static_cast<std::size_t>(coordinates[axis])};
  int& at = coordinates[axis];
  for (at = 0; at < axes[axis].size; ++at) {
    ring.ranges.push_back(ranges_at(factors, sharding, axes, coordinates));
  }
  return ring;
}

std::vector<ValueId> add_ring(GraphBuilder& builder, const Ring& ring,
                              std::span<const ValueId> inputs, std::int64_t& tag) {
  return RingBuilder(builder, ring, inputs, tag).run();
}

}  // namespace trireme::partition
