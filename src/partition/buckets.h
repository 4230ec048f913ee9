// Small all-reduces are put off and done together: each costs a latency, whatever its size. One thread at a time.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "trireme/graph.h"

namespace trireme::partition {

class Buckets {
 public:
  /// What is to be summed up, how, and who is told the result.
  struct Member {
    ValueId value{};
    std::function<void(ValueId)> done{};
  };
  /// All-reduces that can go together.
  struct Key {
    Attributes attributes{};
    DType dtype = DType::F32;
    Phase phase = Phase::Forward;
    friend bool operator==(const Key&, const Key&) = default;
  };

  explicit Buckets(GraphBuilder& builder) : builder_(builder) {}

  /// Done at once if it is large, else when flush() is called or enough has come together.
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
  std::vector<Bucket> buckets_;
};

}  // namespace trireme::partition
