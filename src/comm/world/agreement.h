// Agreement: how the members of a failed group agree on the survivors. A pure state machine: takes observations and
// messages, returns messages; it neither waits nor sends. One thread at a time.
//
// This is single-decree Paxos. The value to agree on is the list of members that continue. The coordinator is the
// lowest member that a rank believes alive. It waits until every member that it believes alive has joined, excludes
// members that do not reach one another, and then runs the two phases with the rest: prepare and promise, propose and
// accept. A member that accepted a value before reports it with its promise, and the coordinator proposes that value
// again, so a decision stands, however many coordinators come and go.
//
// Quorum. Members known to be dead do not count. Of the remaining ones a coordinator needs more than half, or exactly
// half including the lowest of them. So at most one side of a partitioned network continues. All others are rejected:
// they must not continue, because they cannot know whether the other side does. A coordinator that stalled, and was
// declared dead for it, leaves the decision to the others if they have a quorum. A member that died after it joined may
// have voted with members that are silent now; so it does count, unless no member is silent.
//
// Example: a group of ranks 0 to 4; rank 1 was killed, ranks 3 and 4 are on the other side of a network partition. Of
// {0, 2, 3, 4} the side {0, 2} has half and the lowest rank: it continues. {3, 4} are rejected.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/indexed_vector.h"
#include "trireme/schedule.h"

namespace trireme::comm {

/// How one member sees another. Only ever gets worse.
enum class Standing : std::uint8_t {
  Alive,
  GaveUpOnUs,      ///< it reported that it declared this member dead
  FoundUsStalled,  ///< the same, and this member did stall for about that long
  Silent,          ///< it was silent for the deadline, or its messages were corrupt
  Dead,    ///< its process ended, it left, or it is certain to learn that it was declared dead
  Fallen,  ///< the same, after it had joined
};
[[nodiscard]] constexpr bool gave_up_on_us(Standing standing) {
  return standing == Standing::GaveUpOnUs || standing == Standing::FoundUsStalled;
}

/// Numbers attempts to decide. A coordinator uses each of its own once.
struct Ballot {
  std::uint64_t round = 0;
  Rank coordinator = -1;
  friend auto operator<=>(const Ballot&, const Ballot&) = default;
};

/// Members are ranks in the failed group, 0 to size - 1.
struct AgreementMessage {
  enum class Kind : std::uint8_t {
    Join,      ///< "I am here, and this is how I see the others": standings, payload
    Prepare,   ///< coordinator: "promise me this ballot"
    Promise,   ///< "I join no ballot below it": with what it accepted before, if anything
    Propose,   ///< coordinator: "accept these members"
    Accept,    ///< "accepted"
    Reject,    ///< "I promised a later ballot"
    Decide,    ///< "these members continue"
    Withdraw,  ///< "I do not continue"
  } kind = Kind::Join;
  Ballot ballot{};
  Ballot accepted{};                     ///< Promise: the ballot of `members`
  std::vector<Rank> members{};           ///< Promise, Propose, Decide
  IndexedVector<Rank, Standing> seen{};  ///< Join: by place
  std::vector<std::byte> payload{};      ///< Join: of the sender
  /// Propose, Promise, Decide: of the members, in their order.
  std::vector<std::vector<std::byte>> payloads{};
  friend bool operator==(const AgreementMessage&, const AgreementMessage&) = default;
};

/// The wire format. parse_agreement(to_bytes(m)) == m; nothing if the bytes are not a message.
[[nodiscard]] std::vector<std::byte> to_bytes(const AgreementMessage& message);
[[nodiscard]] std::optional<AgreementMessage> parse_agreement(std::span<const std::byte> bytes);

class Agreement {
 public:
  struct Letter {
    Rank to = 0;
    AgreementMessage message{};
  };
  enum class Outcome : std::uint8_t { Open, Decided, Refused };

  /// For member `me` of `size`. `payload` is sent to the others if this member continues.
  Agreement(Rank size, Rank me, std::vector<std::byte> payload);

  /// How this member sees the others now, by place; better standings than before are ignored.
  void observe(const IndexedVector<Rank, Standing>& seen);
  void receive(Rank from, const AgreementMessage& message);
  /// This member does not continue, whatever the others do. No effect once the outcome is known.
  void withdraw(const std::string& why);
  /// The messages to send since the last call, in order.
  [[nodiscard]] std::vector<Letter> take_letters();

  [[nodiscard]] Outcome outcome() const { return outcome_; }
  /// Once decided: the members that continue, ascending, and their payloads.
  [[nodiscard]] const std::vector<Rank>& members() const { return value_.members; }
  [[nodiscard]] const std::vector<std::vector<std::byte>>& payloads() const {
    return value_.payloads;
  }
  /// Why this member is refused.
  [[nodiscard]] const std::string& reason() const { return reason_; }
  /// Members that this one believes alive but that have not joined.
  [[nodiscard]] std::vector<Rank> missing() const;

 private:
  using Kind = AgreementMessage::Kind;
  struct Joined {
    IndexedVector<Rank, Standing> seen;
    std::vector<std::byte> payload;
  };
  struct Value {
    std::vector<Rank> members;
    std::vector<std::vector<std::byte>> payloads;
  };
  /// The current attempt of this member as coordinator.
  struct Attempt {
    Attempt(Ballot ballot_of, std::vector<Rank> voters_of)
        : ballot(ballot_of), voters(std::move(voters_of)) {}

    Ballot ballot;
    std::vector<Rank> voters;  ///< all of them must promise and accept
    std::set<Rank> promised;
    std::set<Rank> accepted;
    Ballot carried{};  ///< the latest ballot of a value that a voter had accepted
    Value value;
    bool proposed = false;
  };

  void step();
  void announce();
  void coordinate();
  void prepare();
  void on_join(Rank from, const AgreementMessage& message);
  void on_prepare(Rank from, const Ballot& ballot);
  void answer_waiting();
  void on_promise(Rank from, const AgreementMessage& message);
  void on_propose(Rank from, const AgreementMessage& message);
  void on_accept(Rank from, const AgreementMessage& message);
  void answer_late(Rank from, const AgreementMessage& message);
  void decide(Value value);
  void send(Rank to, AgreementMessage message);
  void send_to_others(const AgreementMessage& message);

  [[nodiscard]] bool is_alive(Rank place) const;
  [[nodiscard]] Rank coordinator() const;
  [[nodiscard]] bool reach_each_other(Rank a, Rank b) const;
  [[nodiscard]] std::vector<Rank> connected() const;
  [[nodiscard]] Rank least_connected(const std::vector<Rank>& places) const;
  [[nodiscard]] Standing worst_seen(const std::vector<Rank>& voters, Rank place) const;
  [[nodiscard]] std::vector<Rank> electorate(const std::vector<Rank>& voters) const;
  [[nodiscard]] bool should_step_down() const;
  [[nodiscard]] bool is_valid(const Attempt& attempt) const;

  Rank size_;
  Rank me_;
  std::vector<std::byte> payload_;
  IndexedVector<Rank, Standing> seen_;
  /// By place: what the member announced.
  IndexedVector<Rank, std::optional<Joined>> joined_;
  std::uint64_t round_ = 0;  ///< the latest one seen
  Ballot promised_{};
  Ballot accepted_{};
  Value accepted_value_{};
  std::optional<Attempt> attempt_;
  /// The ranks that requested a promise, and for which ballot, while this member still believed in another coordinator.
  std::map<Rank, Ballot> waiting_;
  Outcome outcome_ = Outcome::Open;
  Value value_{};
  std::string reason_;
  std::vector<Letter> letters_;
};

/// Whether `voters` may decide for `electorate`; both ascending.
[[nodiscard]] bool is_quorum(const std::vector<Rank>& voters, const std::vector<Rank>& electorate);

}  // namespace trireme::comm
