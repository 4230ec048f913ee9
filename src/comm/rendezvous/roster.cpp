// The contents of the store:
//   world/claim/R    which process is rank R
//   world/options    the options of the rank that joined first
//   world/problem    why the ranks are incompatible; "" once all have joined and are compatible
//   world/remark     a duplicate rank number, to help explain a missing rank
//   world/here/R     1 once rank R has joined
//   world/here       how many have joined
//   world/met        the verdict once all have joined: "", or the kind and text of the error for all
//   world/connected  how many have connected to all others
//   world/complete   the verdict when all have
#include "comm/rendezvous/roster.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "base/text.h"
#include "comm/net/secret.h"
#include "trireme/error.h"

namespace trireme::comm {
namespace {

constexpr const char* kMet = "world/met";
constexpr const char* kComplete = "world/complete";
constexpr const char* kProblem = "world/problem";
constexpr const char* kRemark = "world/remark";

std::string claim_key(Rank rank) {
  return fmt::format("world/claim/{}", rank);
}

/// "host node1 pid 123\n" and random digits, which distinguish threads of one process.
std::string make_claim() {
  std::array<std::byte, 16> random{};
  fill_random(random);
  return fmt::format("host {} pid {}\n{}", machine_name(), getpid(), to_hex(random));
}

std::string process_of(const std::string& claim) {
  return std::string(split(claim, '\n').front());
}

std::string taken_text(Rank rank, const std::string& first, const std::string& second) {
  return fmt::format("rank {} joined twice: {} and {}; give every process its own rank", rank,
                     process_of(first), process_of(second));
}

/// What must be the same on all ranks, a line each, after a line with the rank.
std::string record_text(RosterPlace place, const WorldOptions& options) {
  return fmt::format(
      "{}\nsize = {}\ntransport = {}\nencrypt = {}\nchecksums = {}\nconnections = {}\n"
      "deadline = {} s",
      place.rank, place.size, to_text(options.transport), options.encrypt ? "on" : "off",
      to_text(options.checksums), options.connections, options.deadline.count);
}

/// The first difference between two records, as a sentence; "" if there is none.
std::string difference(const std::string& own, const std::string& other) {
  const auto mine = split(own, '\n');
  const auto theirs = split(other, '\n');
  if (mine.size() != theirs.size()) {
    return "the ranks run different versions of Trireme; run the same one on every rank";
  }
  for (std::size_t i = 1; i < mine.size(); ++i) {
    if (mine[i] != theirs[i]) {
      return fmt::format(
          "rank {} was started with {}, rank {} with {}: give all ranks the same "
          "options",
          mine[0], mine[i], theirs[0], theirs[i].substr(theirs[i].find("= ") + 2));
    }
  }
  return "";
}

/// "2, 3"; truncated if there are many.
std::string list(const std::vector<Rank>& ranks) {
  constexpr std::size_t kMax = 16;
  const auto shown = static_cast<std::ptrdiff_t>(std::min(ranks.size(), kMax));
  const std::string text = fmt::format("{}", fmt::join(ranks.begin(), ranks.begin() + shown, ", "));
  return ranks.size() <= kMax ? text : fmt::format("{} and {} more", text, ranks.size() - kMax);
}

/// A verdict: "", or the first letter of the error's kind and its text.
std::string verdict_text(ErrorKind kind, const std::string& text) {
  return (kind == ErrorKind::Usage ? "U" : "P") + text;
}
void throw_if_bad(const std::string& verdict) {
  if (!verdict.empty()) {
    throw Error(verdict.front() == 'U' ? ErrorKind::Usage : ErrorKind::Peer, verdict.substr(1));
  }
}

}  // namespace

std::string machine_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

void report_rank_taken(Store& store, Rank rank, Deadline deadline) {
  throw RankTaken(taken_text(rank, store.get(claim_key(rank), deadline), make_claim()));
}

Roster::Roster(Store& store, RosterPlace place, Deadline deadline)
    : store_(store), place_(place), deadline_(deadline), expected_(place.size) {}

void Roster::claim() {
  const std::string own = make_claim();
  const std::string holder = store_.insert(claim_key(place_.rank), own);
  if (holder != own) {
    const std::string text = taken_text(place_.rank, holder, own);
    store_.insert(kRemark, text);  // a possible reason for another missing rank
    throw RankTaken(text);
  }
}

void Roster::record(const WorldOptions& options) {
  const std::string own = record_text(place_, options);
  const std::string first = store_.insert("world/options", own);
  if (const std::string text = difference(own, first); !text.empty()) {
    store_.insert(kProblem, verdict_text(ErrorKind::Usage, text));
    const std::string_view line = split(first, '\n').at(1);
    const auto size = parse_integer(line.substr(line.rfind(' ') + 1)).value_or(place_.size);
    // If the sizes differ, ranks beyond the smaller size may never join.
    expected_ = std::min(place_.size, static_cast<Rank>(size));
  }
}

void Roster::await_all() {
  store_.add(fmt::format("world/here/{}", place_.rank), 1);
  if (store_.add("world/here", 1) >= expected_) {
    // A rank that found a problem recorded it before counting itself.
    store_.insert(kMet, store_.insert(kProblem, ""));
  }
  await_verdict(kMet);
}

void Roster::await_connected() {
  if (store_.add("world/connected", 1) == place_.size) {
    store_.insert(kComplete, "");
  }
  await_verdict(kComplete);
}

void Roster::fail(const std::string& why) noexcept {
  try {
    const std::string verdict =
        verdict_text(ErrorKind::Peer, fmt::format("rank {} could not join: {}", place_.rank, why));
    store_.insert(kMet, verdict);  // no effect if there already is one
    store_.insert(kComplete, verdict);
  } catch (const std::exception&) {  // the store has failed; the others detect that themselves
  }
}

void Roster::await_verdict(const std::string& stage) {
  std::string verdict;
  try {
    verdict = store_.get(stage, deadline_);
  } catch (const Error& error) {
    if (!passed(deadline_)) {  // the store has failed
      throw Error(error.kind(), fmt::format("rank {} of {} waits for the others: {}", place_.rank,
                                            place_.size, error.what()));
    }
    const std::string problem = stage == kMet ? store_.insert(kProblem, "") : "";
    verdict = store_.insert(
        stage, problem.empty() ? verdict_text(ErrorKind::Peer, timeout_text(stage)) : problem);
  }
  throw_if_bad(verdict);
}

std::string Roster::timeout_text(const std::string& stage) {
  const std::string waited =
      fmt::format("rank {} waited {}; ", place_.rank, trireme::to_text(place_.patience));
  if (stage != kMet) {
    return fmt::format("{}{} of {} ranks have connected to all others", waited,
                       store_.add("world/connected", 0), place_.size);
  }
  const std::vector<Rank> missing = missing_ranks();
  if (missing.empty()) {
    return waited + "the last rank arrived too late: start all ranks within the join timeout";
  }
  const std::string remark = store_.insert(kRemark, "");
  return fmt::format("{}rank{} {} of {} {} not joined: start all ranks within the join timeout{}{}",
                     waited, missing.size() == 1 ? "" : "s", list(missing), place_.size,
                     missing.size() == 1 ? "has" : "have", remark.empty() ? "" : "; ", remark);
}

std::vector<Rank> Roster::missing_ranks() {
  std::vector<Rank> missing;
  for (Rank r = 0; r < place_.size; ++r) {
    if (store_.add(fmt::format("world/here/{}", r), 0) == 0) {
      missing.push_back(r);
    }
  }
  return missing;
}

}  // namespace trireme::comm
