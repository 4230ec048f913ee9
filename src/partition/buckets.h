// Gradient buckets: small all-reduces are deferred and combined, because each costs a latency whatever its size. One
// thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "trireme/graph.h"

namespace trireme::partition {

struct BucketLimits {
  /// From this size on, an all-reduce runs separately: bucketing it would copy more than it saves.
  std::int64_t large = 64 << 10;
  /// A bucket of this size is reduced at once.
  std::int64_t full = 1 << 20;
};
/// Of Plan::bucket.
[[nodiscard]] BucketLimits bucket_limits(Bytes bucket);

class Buckets {
 public:
  /// What to reduce, how, and who gets the result.
  struct Member {
    ValueId value{};
    std::function<void(ValueId)> done{};
  };
  /// All-reduces with the same key can share a bucket.
  struct Key {
    Attributes attributes{};
    DType dtype = DType::F32;
    Phase phase = Phase::Forward;
    friend bool operator==(const Key&, const Key&) = default;
  };

  /// `bucket` as in Plan::bucket.
  Buckets(GraphBuilder& builder, Bytes bucket);

  /// Runs at once if it is large, else when flush() is called or the bucket is full.
  void add(const Key& key, Member member);
  void flush();

 private:
  struct Bucket {
    Key key{};
    std::vector<Member> members{};
    std::int64_t bytes = 0;
  };
  void reduce(const Bucket& bucket);

  GraphBuilder& builder_;
  BucketLimits limits_;
  std::vector<Bucket> buckets_;
};

}  // namespace trireme::partition
