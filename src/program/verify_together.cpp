// All ranks' programs together. First matches the communication: the n-th message of one source, destination and tag
// with the n-th receive, the n-th collective of each member of a group with one another. Then simulates progress: a
// rank proceeds to the first instruction that needs communication which another rank has not started. When no rank
// moves, the waiting ones form a cycle.
#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "base/indexed_vector.h"
#include "program/traffic.h"
#include "trireme/error.h"
#include "trireme/op.h"
#include "trireme/program_set.h"

namespace trireme {
namespace {

constexpr std::size_t kMaxProblems = 8;

/// An instruction of a rank.
struct Spot {
  int rank = 0;
  std::int32_t at = 0;
};

template <class T>
using ByInstruction = IndexedVector<std::int32_t, T>;

class ProgramSetVerifier {
 public:
  ProgramSetVerifier(std::span<const Program> programs, std::span<const RankGroups> groups)
      : programs_(programs), groups_(groups), partners_(programs.size()) {}

  std::vector<std::string> run() {
    for (int rank = 0; rank < count(); ++rank) {
      partners_[rank].resize(program(rank).instructions.size());
      check_alone(rank);
      check_groups(rank);
      collect(rank);
    }
    for (const auto& [line, ends] : messages_) {
      match_messages(line, ends);
    }
    for (const auto& [group, calls] : calls_) {
      match_calls(group, calls);
    }
    if (problems_.empty()) {
      play();
    }
    problems_.resize(std::min(problems_.size(), kMaxProblems));
    return std::move(problems_);
  }

 private:
  /// Messages stay in order within a line: from, to, tag.
  using Line = std::tuple<int, int, std::int64_t>;
  struct Ends {
    std::vector<Spot> sends{};
    std::vector<Spot> receives{};
  };
  using GroupKey = std::pair<std::string, std::vector<int>>;
  using Calls = std::map<int, std::vector<Spot>>;  ///< by member

  [[nodiscard]] int count() const { return static_cast<int>(programs_.size()); }
  [[nodiscard]] const Program& program(int rank) const { return programs_[rank]; }
  [[nodiscard]] const RankGroups& groups(int rank) const { return groups_[rank]; }
  [[nodiscard]] const Instruction& instruction(Spot spot) const {
    return program(spot.rank).instructions[spot.at];
  }
  [[nodiscard]] Signature signature(Spot spot) const {
    return signature_of(program(spot.rank), instruction(spot));
  }
  [[nodiscard]] std::vector<Spot>& partners(Spot spot) { return partners_[spot.rank][spot.at]; }
  [[nodiscard]] const Buffer& tensor(Spot spot) const {
    const Instruction& what = instruction(spot);
    return program(spot.rank).buffer(what.inputs.empty() ? what.outputs[0] : what.inputs[0]);
  }
  /// The tensor that the members hold together.
  [[nodiscard]] TensorType whole(Spot spot) const {
    TensorType type = tensor(spot).type;
    const Instruction& what = instruction(spot);
    if (what.attributes.contains("size")) {
      const Signature s = signature(spot);
      std::vector<std::int64_t> dims = type.shape.dims();
      const std::int64_t sharded =
          s.integer(what.attributes.contains("from") ? "from" : "dimension");
      if (sharded >= 0 &&
          sharded < std::ssize(dims)) {  // otherwise the op's rule is violated, which is reported
        dims[sharded] = s.integer("size");
      }
      type.shape = Shape(std::move(dims));
    }
    return type;
  }

  // Words.

  [[nodiscard]] std::string name_of(Spot spot) const {
    return fmt::format("rank {}, instruction {}, {}", spot.rank, spot.at, what_is(spot));
  }
  [[nodiscard]] std::string what_is(Spot spot) const {
    const Instruction& what = instruction(spot);
    std::string text =
        fmt::format("{} of %{}: {}", what.op->name, tensor(spot).name, to_text(tensor(spot).type));
    const Signature s = signature(spot);
    if (what.attributes.contains("group")) {
      return text + " along " + s.text("group");
    }
    return text + fmt::format(" {} rank {}, tag {}", what.inputs.empty() ? "from" : "to", peer(s),
                              s.integer("tag"));
  }
  /// What members of a group must agree on.
  [[nodiscard]] std::string agreed(Spot spot) const {
    const Instruction& what = instruction(spot);
    std::string text =
        fmt::format("{} of %{}: {}", what.op->name, tensor(spot).name, to_text(whole(spot)));
    for (const auto& [name, value] : what.attributes) {
      if (name == "group" || name == "index") {
        continue;
      }
      if (const auto* number = std::get_if<std::int64_t>(&value)) {
        text += fmt::format(" {}={}", name, *number);
      } else if (const auto* word = std::get_if<std::string>(&value)) {
        text += fmt::format(" {}={}", name, *word);
      }
    }
    return text;
  }
  template <class... Args>
  void report(fmt::format_string<Args...> format, Args&&... args) {
    problems_.push_back(fmt::format(format, std::forward<Args>(args)...));
  }

  // Each rank.

  void check_alone(int rank) {
    for (const std::string& problem : problems(program(rank))) {
      report("rank {}: {}", rank, problem);
    }
  }

  void check_groups(int rank) {
    for (const auto& [name, members] : groups(rank)) {
      if (std::ranges::find(members, rank) == members.end()) {
        report("rank {}: its group {} has the ranks {} only", rank, name, fmt::join(members, ", "));
      }
      for (const int member : members) {
        const bool exists = member >= 0 && member < count();
        const auto theirs = exists ? groups(member).find(name) : groups(rank).end();
        if (!exists) {
          report("rank {}: its group {} has a rank {} of {}", rank, name, member, count());
        } else if (theirs == groups(member).end() || theirs->second != members) {
          report("rank {}: its group {} has the ranks {}; rank {} does not see it so", rank, name,
                 fmt::join(members, ", "), member);
        }
      }
    }
  }

  [[nodiscard]] static std::int64_t peer(const Signature& s) {
    return s.integer(s.op->name == "send" ? "to" : "from");
  }

  void collect(int rank) {
    for (std::size_t i = 0; i < program(rank).instructions.size(); ++i) {
      const Spot spot{rank, static_cast<std::int32_t>(i)};
      if (!instruction(spot).op->communicates) {
        continue;
      }
      if (instruction(spot).attributes.contains("group")) {
        collect_call(spot);
      } else {
        collect_message(spot);
      }
    }
  }

  void collect_message(Spot spot) {
    const Signature s = signature(spot);
    if (peer(s) < 0 || peer(s) >= count() || peer(s) == spot.rank) {
      report("{}: invalid peer; there are {} ranks", name_of(spot), count());
      return;
    }
    const int other = static_cast<int>(peer(s));
    if (s.op->name == "send") {
      messages_[{spot.rank, other, s.integer("tag")}].sends.push_back(spot);
    } else {
      messages_[{other, spot.rank, s.integer("tag")}].receives.push_back(spot);
    }
  }

  void collect_call(Spot spot) {
    const Signature s = signature(spot);
    const auto group = groups(spot.rank).find(s.text("group"));
    if (group == groups(spot.rank).end()) {
      report("{}: it is in no group of that name", name_of(spot));
      return;
    }
    const std::vector<int>& members = group->second;
    const auto place = std::ranges::find(members, spot.rank) - members.begin();
    if (s.integer("ranks") != static_cast<std::int64_t>(members.size())) {
      report("{}: it is for {} ranks, the group has {}", name_of(spot), s.integer("ranks"),
             members.size());
    }
    if (instruction(spot).attributes.contains("index") && s.integer("index") != place) {
      report("{}: it is for index {} of the group, the rank's is {}", name_of(spot),
             s.integer("index"), place);
    }
    calls_[{group->first, members}][spot.rank].push_back(spot);
  }

  // Matches operations between ranks.

  void match_messages(const Line& line, const Ends& ends) {
    const auto& [from, to, tag] = line;
    const std::size_t both = std::min(ends.sends.size(), ends.receives.size());
    for (std::size_t n = 0; n < both; ++n) {
      const Spot send = ends.sends[n];
      const Spot receive = ends.receives[n];
      if (tensor(send).type != tensor(receive).type) {
        report("{}: its receive is {}", name_of(send), name_of(receive));
      }
      partners(send) = {receive};
      partners(receive) = {send};
    }
    if (ends.sends.size() > both) {
      report("{}: rank {} has no receive for it", name_of(ends.sends[both]), to);
    }
    if (ends.receives.size() > both) {
      report("{}: rank {} has no send for it", name_of(ends.receives[both]), from);
    }
  }

  /// One difference per group: later ones are usually its consequences.
  void match_calls(const GroupKey& group, const Calls& calls) {
    const std::vector<int>& members = group.second;
    std::size_t longest = 0;
    for (const auto& [rank, own] : calls) {
      longest = std::max(longest, own.size());
    }
    for (std::size_t n = 0; n < longest; ++n) {
      std::vector<Spot> spots;
      for (const int member : members) {
        const auto own = calls.find(member);
        if (own == calls.end() || n >= own->second.size()) {
          report("group {} of ranks {}, call {}: rank {} does not make it; {}", group.first,
                 fmt::join(members, ", "), n, member, who_makes(calls, n));
          return;
        }
        spots.push_back(own->second[n]);
      }
      const std::string first = agreed(spots[0]);
      for (const Spot spot : spots) {
        if (agreed(spot) != first) {
          report(
              "group {} of ranks {}, call {}: rank {}, instruction {}, does {}; rank {}, "
              "instruction {}, does {}",
              group.first, fmt::join(members, ", "), n, spots[0].rank, spots[0].at, first,
              spot.rank, spot.at, agreed(spot));
          return;
        }
        partners(spot) = spots;
      }
    }
  }
  [[nodiscard]] std::string who_makes(const Calls& calls, std::size_t n) const {
    for (const auto& [rank, own] : calls) {
      if (n < own.size()) {
        return name_of(own[n]) + ", does";
      }
    }
    return "";
  }

  // Progress.

  struct Wait {
    Spot exchange{};
    Spot missing{};  ///< what another rank has not started
  };

  /// Exchanges by the instruction before which they must be done.
  [[nodiscard]] ByInstruction<std::vector<std::int32_t>> waits_of(int rank) const {
    const auto& all = program(rank).instructions;
    ByInstruction<std::vector<std::int32_t>> waits(all.size() + 1);
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i].op->communicates) {
        waits[all[i].done_before].push_back(static_cast<std::int32_t>(i));
      }
    }
    return waits;
  }

  /// A rank has started the instructions before `begun_`.
  [[nodiscard]] const Wait* find_wait(int rank) {
    for (const std::int32_t e : waits_[rank][begun_[rank]]) {
      for (const Spot partner : partners({rank, e})) {
        const bool itself = partner.rank == rank;
        if (!itself && begun_[partner.rank] <= partner.at) {
          stuck_[rank] = {{rank, e}, partner};
          return &stuck_[rank];
        }
      }
    }
    return nullptr;
  }

  void play() {
    begun_.assign(programs_.size(), 0);
    for (int rank = 0; rank < count(); ++rank) {
      waits_.push_back(waits_of(rank));
    }
    for (bool moves = true; moves;) {
      moves = false;
      stuck_.clear();
      for (int rank = 0; rank < count(); ++rank) {
        moves = advance(rank) || moves;
      }
    }
    if (!stuck_.empty()) {
      report_cycle();
    }
  }

  /// Advances as far as possible; returns whether it advanced at all.
  bool advance(int rank) {
    std::int32_t& begun = begun_[rank];
    const std::int32_t before = begun;
    while (find_wait(rank) == nullptr && std::cmp_less(begun, program(rank).instructions.size())) {
      ++begun;
    }
    return begun != before;
  }

  void report_cycle() {
    int rank = stuck_.begin()->first;
    std::vector<int> path;
    while (std::ranges::find(path, rank) == path.end()) {
      path.push_back(rank);
      rank = stuck_.at(rank).missing.rank;
    }
    path.erase(path.begin(), std::ranges::find(path, rank));
    std::vector<std::string> links;
    links.reserve(path.size());
    for (const int one : path) {
      const Wait& wait = stuck_.at(one);
      links.push_back(fmt::format(
          "rank {} is blocked at instruction {} until instruction {}, {}, is done, for which rank "
          "{} must begin its instruction {}",
          one, begun_[one], wait.exchange.at, what_is(wait.exchange), wait.missing.rank,
          wait.missing.at));
    }
    report("cyclic wait: {}", fmt::join(links, "; "));
  }

  std::span<const Program> programs_;
  std::span<const RankGroups> groups_;
  std::vector<std::string> problems_;
  std::map<Line, Ends> messages_;
  std::map<GroupKey, Calls> calls_;
  IndexedVector<int, ByInstruction<std::vector<Spot>>> partners_;  ///< by rank
  IndexedVector<int, ByInstruction<std::vector<std::int32_t>>> waits_;
  IndexedVector<int, std::int32_t> begun_;  ///< by rank
  std::map<int, Wait> stuck_;
};

}  // namespace

std::vector<std::string> problems(std::span<const Program> programs,
                                  std::span<const RankGroups> groups) {
  if (programs.size() != groups.size()) {
    throw Error(ErrorKind::Usage, fmt::format("{} programs, but the groups of {} ranks",
                                              programs.size(), groups.size()));
  }
  return ProgramSetVerifier(programs, groups).run();
}

}  // namespace trireme
