// The symbolic verifier. Checks each step against the state before it, applies the step, and
// finally compares every rank's blocks with the operation's guarantees.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/indexed_vector.h"
#include "trireme/collective.h"
#include "trireme/error.h"

namespace trireme {

class Verifier {
 public:
  explicit Verifier(const Schedule& schedule) : schedule_(schedule), holdings_(schedule) {}

  std::vector<std::string> run() {
    for (now_ = 0; now_ < schedule_.steps.size() && !full(); ++now_) {
      const Step& step = schedule_.steps[now_];
      judge(step);
      holdings_.apply(step);
    }
    if (!full()) {
      check_result();
    }
    return std::move(problems_);
  }

 private:
  using Cell = std::pair<Rank, Block>;

  [[nodiscard]] bool full() const { return problems_.size() >= 8; }

  void complain(const std::string& what) {
    if (!full()) {
      problems_.push_back(what);
    }
  }

  template <class... Args>
  void complain_here(const Message& m, Block block, fmt::format_string<Args...> text,
                     Args&&... args) {
    complain(fmt::format("step {}, rank {} to rank {}, block {}: {}", now_ + 1, m.from, m.to, block,
                         fmt::format(text, std::forward<Args>(args)...)));
  }

  /// Checks the step's reads and writes against the state before it.
  void judge(const Step& step) {
    std::set<Cell> sent;
    for_each_message(step, [&](const Message& m) {
      for_each_block(m.blocks, [&](Block block) { sent.emplace(m.from, block); });
    });
    // The contributions that each cell has received in this step: nothing may arrive twice.
    std::map<Cell, std::vector<std::uint64_t>> arrived;
    copied_.clear();
    for_each_message(step, [&](const Message& m) {
      if (!full() && brings_nothing(m)) {
        complain_here(m, m.blocks.front().first, "the receiver has all of this message already");
        return;
      }
      for_each_block(m.blocks, [&](Block block) {
        if (full()) {
          return;
        }
        if (holdings_.contributors(m.from, block) == 0) {
          complain_here(m, block, "the sender does not have it{}", describe_wait({m.from, block}));
          return;
        }
        judge_arrival(m, block, sent, arrived);
      });
    });
  }

  /// A copy may repeat some blocks (a whole vector to a rank that has a part), but not all of them.
  [[nodiscard]] bool brings_nothing(const Message& m) const {
    bool nothing = m.action == Action::Copy;
    for_each_block(m.blocks, [&](Block block) {
      nothing = nothing && holdings_.contributors(m.from, block) > 0 &&
                std::ranges::equal(holdings_.set(m.from, block), holdings_.set(m.to, block));
    });
    return nothing;
  }

  void judge_arrival(const Message& m, Block block, const std::set<Cell>& sent,
                     std::map<Cell, std::vector<std::uint64_t>>& arrived) {
    const auto incoming = std::as_const(holdings_).set(m.from, block);
    const auto held = std::as_const(holdings_).set(m.to, block);
    const Cell cell{m.to, block};
    if (m.action == Action::Copy) {
      if (arrived.contains(cell)) {
        complain_here(m, block, "it arrives twice in this step");
      } else if (sent.contains(cell)) {
        complain_here(m, block, "it would overwrite what rank {} is sending in this step", m.to);
      } else if (!includes(incoming, held)) {
        complain_here(m, block, "the copy would lose contributions that the receiver holds");
      }
      arrived[cell].assign(incoming.begin(), incoming.end());
      copied_.insert(cell);
      return;
    }
    if (copied_.contains(cell)) {
      complain_here(m, block, "it is added to what another message of this step replaces");
    }
    std::vector<std::uint64_t>& taken = arrived[cell];
    if (taken.empty()) {
      taken.assign(held.begin(), held.end());
    }
    if (schedule_.operation == Operation::Barrier) {
      if (includes(taken, incoming)) {
        complain_here(m, block, "it brings the receiver nothing new");
      }
    } else if (overlap(taken, incoming)) {
      complain_here(m, block, "a contribution would be counted twice");
    } else if (holdings_.contributors(m.to, block) == 0) {
      complain_here(m, block, "the receiver has nothing to combine it with");
    }
    for (std::size_t w = 0; w < taken.size(); ++w) {
      taken[w] |= incoming[w];
    }
  }

  static bool includes(std::span<const std::uint64_t> larger,
                       std::span<const std::uint64_t> smaller) {
    for (std::size_t w = 0; w < larger.size(); ++w) {
      if ((smaller[w] & ~larger[w]) != 0) {
        return false;
      }
    }
    return true;
  }

  static bool overlap(std::span<const std::uint64_t> a, std::span<const std::uint64_t> b) {
    for (std::size_t w = 0; w < a.size(); ++w) {
      if ((a[w] & b[w]) != 0) {
        return true;
      }
    }
    return false;
  }

  /// Which rank delivers this block to this rank from the current step on, and when.
  struct Delivery {
    std::size_t step;
    Rank from;
  };
  [[nodiscard]] std::optional<Delivery> next_delivery(const Cell& cell) const {
    std::optional<Delivery> found;
    for (std::size_t t = now_; t < schedule_.steps.size() && !found; ++t) {
      for_each_message(schedule_.steps[t], [&](const Message& m) {
        if (!found && m.to == cell.first && has_block(m, cell.second)) {
          found = Delivery{t, m.from};
        }
      });
    }
    return found;
  }

  static bool has_block(const Message& m, Block wanted) {
    bool found = false;
    for_each_block(m.blocks, [&](Block block) { found = found || block == wanted; });
    return found;
  }

  /// Why a missing block is missing: it never arrives, it arrives too late, or its senders wait for
  /// one another.
  [[nodiscard]] std::string describe_wait(const Cell& missing) const {
    const std::optional<Delivery> delivery = next_delivery(missing);
    if (!delivery) {
      return " and never gets it";
    }
    std::string path = fmt::format("rank {}", missing.first);
    std::set<Rank> seen{missing.first};
    Rank at = delivery->from;
    for (;;) {
      path += fmt::format(" waits for rank {}", at);
      if (!seen.insert(at).second) {
        return fmt::format(": a cycle of waits, {}", path);
      }
      if (holdings_.contributors(at, missing.second) > 0) {
        break;
      }
      const std::optional<Delivery> next = next_delivery({at, missing.second});
      if (!next) {
        break;
      }
      at = next->from;
      path += ", which";
    }
    return fmt::format(" yet: it arrives in step {}", delivery->step + 1);
  }

  /// Whether a finished block has the right contributions: those of all ranks, or of the one rank
  /// that started with it.
  [[nodiscard]] bool is_right(Rank rank, Block block, const Promise& due) const {
    if (holdings_.contributors(rank, block) != due.contributors) {
      return false;
    }
    if (due.contributors == schedule_.ranks) {
      return true;
    }
    return holdings_.contains(rank, block, origin(block));
  }

  /// The one rank whose data this block is, for operations that only move data.
  [[nodiscard]] Rank origin(Block block) const {
    switch (schedule_.operation) {
      case Operation::Gather:
      case Operation::Allgather:
        return static_cast<Rank>(block);
      case Operation::Alltoall:
        return static_cast<Rank>(block / schedule_.ranks);
      default:
        return schedule_.root;
    }
  }

  void check_result() {
    for (Rank rank = 0; rank < schedule_.ranks; ++rank) {
      for (Block block = 0; block < schedule_.blocks; ++block) {
        const Promise due = promise(schedule_, rank, block);
        if (due.wanted && !is_right(rank, block, due)) {
          complain(fmt::format("at the end rank {} has {} of {} contributions to block {}", rank,
                               holdings_.contributors(rank, block), due.contributors, block));
        }
      }
    }
  }

  const Schedule& schedule_;  // outlives the Verifier, which lives for one call of problems()
  Holdings holdings_;
  std::vector<std::string> problems_;
  std::set<Cell> copied_;  // what messages of the current step replace
  std::size_t now_ = 0;
};

std::vector<std::string> problems(const Schedule& schedule) {
  if (std::vector<std::string> found = form_problems(schedule); !found.empty()) {
    return found;
  }
  return Verifier(schedule).run();
}

std::optional<PortConflict> find_port_conflict(const Schedule& schedule) {
  for (std::size_t step = 0; step < schedule.steps.size(); ++step) {
    IndexedVector<Rank, std::int64_t> sends(schedule.ranks);
    IndexedVector<Rank, std::int64_t> receives(schedule.ranks);
    for_each_message(schedule.steps[step], [&](const Message& m) {
      ++sends[m.from];
      ++receives[m.to];
    });
    for (Rank r = 0; r < schedule.ranks; ++r) {
      if (sends[r] > 1 || receives[r] > 1) {
        return PortConflict{step, r, sends[r], receives[r]};
      }
    }
  }
  return std::nullopt;
}

}  // namespace trireme
