// Record: a rank's report of its call, to detect mismatches. Plain data, kept in shared memory and sent in frames.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "trireme/comm_call.h"

namespace trireme::comm {

/// The properties of a call on which all ranks must agree, and where it was made.
struct Record {
  std::uint64_t sequence = 0;
  std::uint64_t fingerprint = 0;  ///< of all fields below except the site and the history
  /// Of the group's earlier calls: a rank may have left one of them without having seen what all others called, and is
  /// detected here.
  std::uint64_t history = 0;
  std::int64_t count = 0;         ///< elements of the vector that is whole (see geometry.h)
  std::uint64_t counts_hash = 0;  ///< of the sizes of blocks, if given
  std::uint64_t user_hash = 0;    ///< of the name of the user's reduction
  Rank root = 0;
  Operation operation = Operation::Barrier;
  DType dtype = DType::U8;
  Reduction reduction = Reduction::Sum;
  Order order = Order::Any;
  Method::Kind method = Method::Kind::Automatic;
  Algorithm algorithm = Algorithm::Ring;
  char site[48] = {};  ///< truncated on the left if longer; null-terminated
};

/// Fills in the record of this call, except for the sequence and the history; `count` is the number of elements as all
/// ranks see it, `method` the chosen one.
void describe(const Call& call, std::int64_t count, const Method& method, Record& record);

/// Like assignment; takes half the time without a site, the usual case.
inline void copy_record(const Record& from, Record& to) {
  if (from.site[0] != '\0') {
    to = from;
    return;
  }
  std::memcpy(static_cast<void*>(&to), &from, offsetof(Record, site));
  to.site[0] = '\0';
}

/// What ranks compare: equal if this call and all earlier ones were.
[[nodiscard]] inline std::uint64_t compared(const Record& record) {
  return record.fingerprint ^ record.history;
}

/// The history of the next call.
[[nodiscard]] inline std::uint64_t history_after(const Record& record) {
  constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15;  // any mixing that is sensitive to order
  return (std::rotl(record.history, 23) ^ record.fingerprint) * kOdd;
}

/// "all-reduce of 1000 f32, sum, by ring, at train.cpp:12".
[[nodiscard]] std::string to_text(const Record& record);

/// The known call of one rank of a group.
struct Witness {
  Rank world_rank = 0;
  bool known = false;
  Record record{};
};

/// The message for a mismatch: one line with the differences, then a row for each group of ranks with the same call.
[[nodiscard]] std::string mismatch_text(std::uint64_t sequence,
                                        const std::vector<Witness>& witnesses);

/// The world ranks outside the largest set of ranks that agree; all of them if there is none.
[[nodiscard]] std::vector<Rank> mismatch_culprits(const std::vector<Witness>& witnesses);

}  // namespace trireme::comm
