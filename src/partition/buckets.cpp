#include "partition/buckets.h"

#include <algorithm>

namespace trireme::partition {

BucketLimits bucket_limits(Bytes bucket) {
  return bucket.count > 0 ? BucketLimits{.large = bucket.count, .full = bucket.count}
                          : BucketLimits{};
}

Buckets::Buckets(GraphBuilder& builder, Bytes bucket)
    : builder_(builder), limits_(bucket_limits(bucket)) {}

void Buckets::add(const Key& key, Member member) {
  const std::int64_t bytes = size_of(builder_.type(member.value)).count;
  if (bytes >= limits_.large) {
    reduce({.key = key, .members = {std::move(member)}, .bytes = bytes});
    return;
  }
  auto it = std::ranges::find(buckets_, key, &Bucket::key);
  if (it == buckets_.end()) {
    buckets_.push_back({.key = key, .members = {}, .bytes = 0});
    it = buckets_.end() - 1;
  }
  it->members.push_back(std::move(member));
  it->bytes += bytes;
  if (it->bytes >= limits_.full) {
    const Bucket full = std::move(*it);
    buckets_.erase(it);
    reduce(full);
  }
}

void Buckets::flush() {
  const std::vector<Bucket> all = std::move(buckets_);
  buckets_.clear();
  for (const Bucket& bucket : all) {
    reduce(bucket);
  }
}

void Buckets::reduce(const Bucket& bucket) {
  builder_.set_phase(bucket.key.phase);
  if (bucket.members.size() == 1) {
    const Member& only = bucket.members.front();
    only.done(builder_.add1("all_reduce", {only.value}, bucket.key.attributes));
    return;
  }
  std::vector<ValueId> flat;
  std::vector<std::int64_t> ends;
  flat.reserve(bucket.members.size());
  ends.reserve(bucket.members.size());
  std::int64_t end = 0;
  for (const Member& member : bucket.members) {
    const std::int64_t count = builder_.shape(member.value).element_count();
    end += count;
    ends.push_back(end);
    flat.push_back(
        builder_.add1("reshape", {member.value}, {{"shape", std::vector<std::int64_t>{count}}}));
  }
  const ValueId together = builder_.add1("concat", flat, {{"axis", std::int64_t{0}}});
  builder_.rename(together, "bucket");  // the same on all ranks, whatever else they concatenate
  const ValueId sum = builder_.add1("all_reduce", {together}, bucket.key.attributes);
  for (std::size_t i = 0; i < bucket.members.size(); ++i) {
    const Shape shape = builder_.shape(bucket.members[i].value);
    const ValueId part =
        builder_.add1("slice", {sum},
                      {{"begin", std::vector<std::int64_t>{ends[i] - shape.element_count()}},
                       {"end", std::vector<std::int64_t>{ends[i]}}});
    bucket.members[i].done(builder_.add1("reshape", {part}, {{"shape", shape.dims()}}));
  }
}

}  // namespace trireme::partition
