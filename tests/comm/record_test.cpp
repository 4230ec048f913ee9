#include "comm/wire/record.h"

#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace trireme::comm {
namespace {

Record record_of(const Call& call, std::int64_t count = 12,
                 const Method& method = Method::direct()) {
  Record record;
  describe(call, count, method, record);
  return record;
}

TEST(Record, DistinguishesCallsThatDifferInOneField) {
  std::vector<float> data(12);
  const UserReduction one{"one", {}};
  const UserReduction other{"other", {}};
  const Call sum = allreduce<float>(data);
  Call wide = sum;
  wide.dtype = DType::I32;
  const std::vector<Record> records{
      record_of(sum),
      record_of(sum, 11),
      record_of(sum, 12, Method::scheduled(Algorithm::Ring)),
      record_of(sum, 12, Method::scheduled(Algorithm::Mst)),
      record_of(wide),
      record_of(allreduce<float>(data, {.reduction = Reduction::Max})),
      record_of(allreduce<float>(data, {.order = Order::Fixed})),
      record_of(allreduce<float>(data, {.user = &one})),
      record_of(allreduce<float>(data, {.user = &other})),
      record_of(broadcast<float>(data, 0)),
      record_of(broadcast<float>(data, 1)),
      record_of(broadcast<float>(data, 2)),
      record_of(with_counts(allgather<float>(data, data), {5, 7})),
      record_of(with_counts(allgather<float>(data, data), {7, 5})),
      record_of(allgather<float>(data, data)),
  };
  std::set<std::uint64_t> fingerprints;
  for (const Record& record : records) {
    EXPECT_TRUE(fingerprints.insert(record.fingerprint).second) << to_text(record);
  }
}

TEST(Record, KeepsNothingFromPreviousCall) {
  std::vector<float> data(12);
  const Call plain = broadcast<float>(data, 0);
  Record used = record_of(allreduce<float>(
      data, {.reduction = Reduction::Max, .order = Order::Fixed, .site = "train.cpp:12"}));
  EXPECT_NE(to_text(used).find("at train.cpp:12"), std::string::npos);
  describe(plain, 12, Method::direct(), used);
  EXPECT_EQ(to_text(used), to_text(record_of(plain)));
  EXPECT_EQ(used.fingerprint, record_of(plain).fingerprint);
}

TEST(Record, CopiesWithAndWithoutCallSite) {
  std::vector<float> data(12);
  const Record plain = record_of(broadcast<float>(data, 3));
  const Record placed =
      record_of(broadcast<float>(data, 3, {.site = "a/long/way/to/train.cpp:12"}));
  Record copy;
  for (const Record& from : {plain, placed, plain}) {
    copy_record(from, copy);
    EXPECT_EQ(to_text(copy), to_text(from));
    EXPECT_EQ(copy.fingerprint, from.fingerprint);
  }
}

}  // namespace
}  // namespace trireme::comm
