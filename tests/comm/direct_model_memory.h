// What the memory of a DirectModel holds: ranges of addresses, each with the origin of its bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "comm/direct_model.h"

namespace trireme::test {

/// The bytes from `offset` on of a rank's input in a call; or of the combination of all inputs.
struct Origin {
  std::size_t call = 0;
  Rank rank = 0;  ///< kCombined: of all
  std::uint64_t offset = 0;
  friend bool operator==(const Origin&, const Origin&) = default;
};
inline constexpr Rank kCombined = -1;

/// Consecutive bytes of one origin.
struct Segment {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  Origin origin{};
};

class ModelMemory {
 public:
  void write(std::uint64_t begin, std::uint64_t bytes, const Origin& origin);
  /// The content of a range; omits gaps, where nothing was written.
  [[nodiscard]] std::vector<Segment> read(std::uint64_t begin, std::uint64_t bytes) const;
  /// Whether the range holds exactly this.
  [[nodiscard]] bool holds(std::uint64_t begin, std::uint64_t bytes, const Origin& origin) const;

 private:
  void cut(std::uint64_t at);
  std::map<std::uint64_t, Segment> segments_{};  ///< by begin
};

/// The call of a rank. Its buffers are addresses that must not be dereferenced.
[[nodiscard]] Call model_call(const ModelCase& c, std::size_t call, Rank rank);

class DirectModel::Contents {
 public:
  explicit Contents(const DirectModel& model);

  /// Throws if the step reads bytes that have not arrived yet, or not those of this call, or writes
  /// bytes of a caller a second time.
  void execute(std::size_t call, const Candidate& step);
  /// Throws unless the rank's output holds the result, and its input is unchanged.
  void check_result(std::size_t call, Rank rank) const;

 private:
  void copy(std::size_t call, const Transfer& transfer);
  void combine(std::size_t call, const Transfer& transfer);
  void write(std::uint64_t begin, std::uint64_t bytes, const Origin& origin);
  void check_gathered(std::size_t call, Rank rank) const;
  void check_exchanged(std::size_t call, Rank rank) const;
  void check_input(std::size_t call, Rank rank) const;
  void expect(std::uint64_t begin, std::uint64_t bytes, const Origin& origin) const;

  const DirectModel& model_;
  ModelMemory memory_{};
  ModelMemory written_{};  ///< in callers' memory: by any rank, but only once
};

}  // namespace trireme::test
