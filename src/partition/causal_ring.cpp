#include "partition/causal_ring.h"

#include <algorithm>
#include <map>
#include <utility>

namespace trireme::partition {
namespace {

using Values = std::vector<ValueId>;

/// Some rows of one place with the keys of another, computed by one of the two.
struct Piece {
  std::size_t rows = 0;
  std::size_t keys = 0;
  std::size_t worker = 0;
  IndexRange range{};  ///< of the rows
  bool is_half = false;
};
using Round = std::vector<Piece>;

/// Which piece is computed where, in each round; the same list on all ranks.
std::vector<Round> rounds_of(const Ring& ring, const RingOp& op) {
  const std::size_t p = op.places();
  const auto range = [&](std::size_t place) { return ring.ranges[place][ring.rows]; };
  std::vector<Round> rounds(1 + p / 2);
  for (std::size_t i = 0; i < p; ++i) {
    rounds[0].push_back({i, i, i, range(i)});
  }
  for (std::size_t s = 1; 2 * s < p; ++s) {
    for (std::size_t i = 0; i < p; ++i) {
      const std::size_t rows = i >= s ? i : i + p - s;
      rounds[s].push_back({rows, i >= s ? i - s : i, i, range(rows)});
    }
  }
  for (std::size_t i = 0; p % 2 == 0 && i < p / 2; ++i) {
    const std::size_t rows = i + p / 2;
    const IndexRange all = range(rows);
    const std::int64_t first = all.length - all.length / 2;
    rounds[p / 2].push_back({rows, i, rows, {all.begin, first}, true});
    rounds[p / 2].push_back({rows, i, i, {all.begin + first, all.length - first}, true});
  }
  for (Round& round : rounds) {
    std::erase_if(round, [&](const Piece& piece) {
      return piece.rows != piece.keys &&
             (piece.range.length == 0 || !op.has_work(piece.rows, piece.keys));
    });
  }
  return rounds;
}

/// The dimension that runs over this factor alone; -1 if there is none.
int dimension_of(const Factors::Dims& dims, std::size_t factor) {
  const auto it =
      std::ranges::find(dims, std::vector<std::int32_t>{static_cast<std::int32_t>(factor)});
  return it == dims.end() ? -1 : static_cast<int>(it - dims.begin());
}

class CausalRing {
 public:
  CausalRing(GraphBuilder& builder, const Ring& ring, std::span<const ValueId> inputs,
             std::int64_t& tag)
      : builder_(builder),
        ring_(ring),
        op_(ring),
        messages_(builder, ring),
        rounds_(rounds_of(ring, op_)),
        inputs_(inputs.begin(), inputs.end()),
        first_tag_(tag) {
    tag += tag_of(rounds_.size(), 0) - first_tag_;
    state_.resize(rounds_.size());
  }

  std::vector<ValueId> run() {
    begin(0);
    for (std::size_t round = 0; round < rounds_.size(); ++round) {
      begin(round + 1);
      compute(round);
      messages_.wait_for(state_[round].sent);
      exchange_results(round);
      if (round > 0) {
        collect(round - 1);
      }
    }
    collect(rounds_.size() - 1);
    Values results(op_.factors().outputs.size());
    for (std::size_t i = 0; i < op_.merged().size(); ++i) {
      results[op_.merged()[i]] = so_far_[i];
    }
    for (std::size_t i = 0; i < op_.carried().size(); ++i) {
      results[op_.carried()[i]] = sums_[i];
    }
    return results;
  }

 private:
  /// The state of a round at this rank, by piece: received operands, then results for the owner of rows and of keys.
  struct RoundState {
    std::map<const Piece*, Values> inputs{};
    std::map<const Piece*, Values> merged{};
    std::map<const Piece*, Values> carried{};
    Values sent{};
    Values results_sent{};
  };

  [[nodiscard]] std::size_t me() const { return ring_.index; }
  /// Tensors are numbered: inputs, then outputs.
  [[nodiscard]] std::int64_t tag_of(std::size_t round, std::size_t tensor) const {
    const std::size_t tensors = op_.factors().inputs.size() + op_.factors().outputs.size();
    return first_tag_ + static_cast<std::int64_t>(round * tensors + tensor);
  }
  [[nodiscard]] std::int64_t output_tag(std::size_t round, std::size_t output) const {
    return tag_of(round, op_.factors().inputs.size() + output);
  }
  [[nodiscard]] std::vector<IndexRange> ranges_of(const Piece& piece) const {
    std::vector<IndexRange> ranges = op_.ranges_of(piece.rows, piece.keys);
    ranges[ring_.rows] = piece.range;
    return ranges;
  }

  /// An input of this rank, restricted to the rows of the piece.
  ValueId own_rows(const Piece& piece, std::size_t k) {
    const int d = dimension_of(op_.factors().inputs[k], ring_.rows);
    if (!piece.is_half || d < 0) {
      return inputs_[k];
    }
    std::vector<std::int64_t> end = builder_.shape(inputs_[k]).dims();
    std::vector<std::int64_t> begin(end.size(), 0);
    begin[d] = piece.range.begin - ring_.ranges[me()][ring_.rows].begin;
    end[d] = begin[d] + piece.range.length;
    return builder_.add1("slice", {inputs_[k]}, {{"begin", begin}, {"end", end}});
  }

  // Operands.

  void begin(std::size_t round) {
    if (round >= rounds_.size()) {
      return;
    }
    for (const Piece& piece : rounds_[round]) {
      if (piece.worker == me()) {
        receive_operands(round, piece);
      }
    }
    for (const Piece& piece : rounds_[round]) {
      if (piece.worker != me()) {
        send_operands(round, piece);
      }
    }
  }

  void receive_operands(std::size_t round, const Piece& piece) {
    Values& inputs = state_[round].inputs[&piece] = inputs_;
    const auto receive = [&](std::size_t from, const std::vector<std::size_t>& which) {
      for (const std::size_t k : which) {
        inputs[k] = messages_.receive(op_.input_type(k, ranges_of(piece)), from, tag_of(round, k));
      }
    };
    if (piece.rows != me()) {
      receive(piece.rows, op_.others());
    } else {
      for (const std::size_t k : op_.others()) {
        inputs[k] = own_rows(piece, k);
      }
    }
    if (piece.keys != me()) {
      receive(piece.keys, op_.operands());
    }
  }

  void send_operands(std::size_t round, const Piece& piece) {
    Values& sent = state_[round].sent;
    for (const std::size_t k : op_.others()) {
      if (piece.rows == me()) {
        messages_.send(own_rows(piece, k), piece.worker, tag_of(round, k), sent);
      }
    }
    for (const std::size_t k : op_.operands()) {
      if (piece.keys == me()) {
        messages_.send(inputs_[k], piece.worker, tag_of(round, k), sent);
      }
    }
  }

  // Results.

  void compute(std::size_t round) {
    RoundState& state = state_[round];
    for (const Piece& piece : rounds_[round]) {
      if (piece.worker != me()) {
        continue;
      }
      const Values results = op_.compute(builder_, state.inputs[&piece], ranges_of(piece));
      for (const std::size_t k : op_.merged()) {
        state.merged[&piece].push_back(results[k]);
      }
      for (const std::size_t k : op_.carried()) {
        state.carried[&piece].push_back(results[k]);
      }
    }
  }

  void exchange_results(std::size_t round) {
    for (const Piece& piece : rounds_[round]) {
      pass(round, piece, piece.rows, op_.merged(), state_[round].merged);
      pass(round, piece, piece.keys, op_.carried(), state_[round].carried);
    }
  }
  /// Outputs of a piece, from who computed it to their owner.
  void pass(std::size_t round, const Piece& piece, std::size_t owner,
            const std::vector<std::size_t>& outputs, std::map<const Piece*, Values>& results) {
    for (std::size_t i = 0; i < outputs.size() && owner != piece.worker; ++i) {
      const std::size_t k = outputs[i];
      if (piece.worker == me()) {
        messages_.send(results[&piece][i], owner, output_tag(round, k), state_[round].results_sent);
      } else if (owner == me()) {
        results[&piece].push_back(messages_.receive(op_.output_type(k, ranges_of(piece)),
                                                    piece.worker, output_tag(round, k)));
      }
    }
  }

  /// Adds the round's results for this rank's rows and keys.
  void collect(std::size_t round) {
    RoundState& state = state_[round];
    Values halves;
    for (const Piece& piece : rounds_[round]) {
      if (piece.rows == me()) {
        collect_rows(piece, state.merged[&piece], halves);
      }
      if (piece.keys == me()) {
        add_sums(state.carried[&piece]);
      }
    }
    messages_.wait_for(state.results_sent);
  }

  /// The first half of a shard waits for the second; a shard of one row has only the first.
  void collect_rows(const Piece& piece, const Values& merged, Values& halves) {
    const bool complete = !piece.is_half ||
                          piece.range.length == ring_.ranges[me()][ring_.rows].length ||
                          !halves.empty();
    if (!complete) {
      halves = merged;
      return;
    }
    so_far_ = op_.merge(builder_, std::move(so_far_),
                        halves.empty() ? merged : concatenated(halves, merged));
  }
  Values concatenated(const Values& first, const Values& second) {
    Values whole;
    for (std::size_t i = 0; i < first.size(); ++i) {
      const int d = dimension_of(op_.factors().outputs[op_.merged()[i]], ring_.rows);
      whole.push_back(builder_.add1("concat", {first[i], second[i]}, {{"axis", std::int64_t{d}}}));
    }
    return whole;
  }
  void add_sums(const Values& carried) {
    for (std::size_t i = 0; i < carried.size(); ++i) {
      if (i < sums_.size()) {
        sums_[i] = builder_.add1("add", {sums_[i], carried[i]});
      } else {
        sums_.push_back(carried[i]);
      }
    }
  }

  GraphBuilder& builder_;
  const Ring& ring_;
  RingOp op_;
  RingMessages messages_;
  std::vector<Round> rounds_;
  Values inputs_;
  std::int64_t first_tag_;
  std::vector<RoundState> state_;  ///< by round
  Values so_far_;                  ///< by merged()
  Values sums_;                    ///< by carried()
};

bool can_move_rows(const Ring& ring, const RingOp& op) {
  const auto has_rows = [&](const Factors::Dims& dims) {
    return dimension_of(dims, ring.rows) >= 0;
  };
  const Factors& factors = op.factors();
  return ring.rows != ring.factor &&
         std::ranges::all_of(op.others(),
                             [&](std::size_t k) { return has_rows(factors.inputs[k]); }) &&
         std::ranges::none_of(op.operands(),
                              [&](std::size_t k) { return has_rows(factors.inputs[k]); }) &&
         std::ranges::all_of(op.merged(),
                             [&](std::size_t k) { return has_rows(factors.outputs[k]); });
}

}  // namespace

bool is_causal(const Ring& ring) {
  const RingOp op(ring);
  bool is_hidden = false;
  for (std::size_t i = 0; i < op.places(); ++i) {
    for (std::size_t j = i + 1; j < op.places(); ++j) {
      if (op.has_work(i, j)) {
        return false;
      }
      is_hidden = true;
    }
  }
  return is_hidden && can_move_rows(ring, op);
}

std::vector<ValueId> add_causal_ring(GraphBuilder& builder, const Ring& ring,
                                     std::span<const ValueId> inputs, std::int64_t& tag) {
  return CausalRing(builder, ring, inputs, tag).run();
}

}  // namespace trireme::partition
