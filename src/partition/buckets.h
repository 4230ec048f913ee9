// Gradient buckets: small all-reduces are deferred and combined, because each costs a latency regardless of size. One
// thread at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "partition/placed.h"
#include "partition/run_order.h"
#include "trireme/graph.h"
#include "trireme/units.h"

namespace trireme::partition {

/// All-reduces that run as one.
struct Bucket {
  /// Those with the same key can share a bucket.
  struct Key {
    int axis = 0;
    Merge merge = Merge::Sum;
    DType dtype = DType::F32;
    Phase phase = Phase::Forward;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct Member {
    ValueId value{};
    Instance sum{};  ///< what it becomes
  };
  Key key{};
  std::vector<Member> members{};
  std::int64_t bytes = 0;
};

class Buckets {
 public:
  /// `bucket` as in Plan::bucket.
  explicit Buckets(Bytes bucket);

  /// Returns what is to be reduced now: a large member alone, or the bucket that it filled.
  [[nodiscard]] std::optional<Bucket> add(const Bucket::Key& key, const Bucket::Member& member,
                                          std::int64_t bytes);
  /// All that are open, which then are not.
  [[nodiscard]] std::vector<Bucket> take();

 private:
  /// Bytes from which a gradient is reduced separately: a bucket would copy more than it saves.
  std::int64_t large_ = 64 << 10;
  std::int64_t full_ = 1 << 20;
  std::vector<Bucket> open_;
};

}  // namespace trireme::partition
