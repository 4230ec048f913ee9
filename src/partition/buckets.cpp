#include "partition/buckets.h"

#include <algorithm>
#include <utility>

namespace trireme::partition {

Buckets::Buckets(Bytes bucket) {
  if (bucket.count > 0) {
    large_ = bucket.count;
    full_ = bucket.count;
  }
}

std::optional<Bucket> Buckets::add(const Bucket::Key& key, const Bucket::Member& member,
                                   std::int64_t bytes) {
  if (bytes >= large_) {
    return Bucket{.key = key, .members = {member}, .bytes = bytes};
  }
  auto it = std::ranges::find(open_, key, &Bucket::key);
  if (it == open_.end()) {
    it = open_.insert(it, {.key = key, .members = {}, .bytes = 0});
  }
  it->members.push_back(member);
  it->bytes += bytes;
  if (it->bytes < full_) {
    return std::nullopt;
  }
  Bucket full = std::move(*it);
  open_.erase(it);
  return full;
}

std::vector<Bucket> Buckets::take() {
  return std::exchange(open_, {});
}

}  // namespace trireme::partition
