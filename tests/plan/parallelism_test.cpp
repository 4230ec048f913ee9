// Each kind of parallelism in the classic view (data or model) and in the operator view (intra-op or inter-op).
#include "trireme/parallelism.h"

#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace trireme {
namespace {

Plan plan_of(const std::string& mesh) {
  Plan plan;
  plan.mesh = parse_mesh(mesh);
  return plan;
}

/// "data parallelism by data=2: data, intra-op", …
std::vector<std::string> rows_of(const Plan& plan) {
  std::vector<std::string> rows;
  for (const Parallelism& one : parallelism_of(plan)) {
    rows.push_back(fmt::format("{} by {}: {}, {}", one.name, one.by, to_text(one.classic),
                               to_text(one.operators)));
    EXPECT_FALSE(one.why.empty());
  }
  return rows;
}

using Rows = std::vector<std::string>;

TEST(Parallelism, OneDeviceHasNone) {
  EXPECT_EQ(rows_of(Plan{}), Rows{});
  EXPECT_EQ(rows_of(plan_of("data=1,tensor=1")), Rows{});
}

TEST(Parallelism, IsClassifiedInBothViews) {
  EXPECT_EQ(rows_of(plan_of("data=2")), Rows{"data parallelism by data=2: data, intra-op"});
  EXPECT_EQ(rows_of(plan_of("tensor=4")), Rows{"tensor parallelism by tensor=4: model, intra-op"});
  EXPECT_EQ(rows_of(plan_of("pipe=4")), Rows{"pipeline parallelism by pipe=4: model, inter-op"});
  EXPECT_EQ(rows_of(plan_of("expert=2")),
            Rows{"expert parallelism by expert=2: data and model, intra-op"});
  EXPECT_EQ(rows_of(plan_of("context=2")),
            Rows{"context parallelism (gather) by context=2: neither, intra-op"});
}

// ZeRO is often listed as model parallelism, but it changes only what is kept.
TEST(Parallelism, ZeroDividesNeitherDataNorModel) {
  Plan plan = plan_of("data=8");
  plan.zero = 3;
  EXPECT_EQ(rows_of(plan),
            (Rows{"data parallelism by data=8: data, intra-op",
                  "sharded data parallelism (ZeRO, FSDP) by ZeRO stage 3: neither, neither"}));
  plan.mesh = parse_mesh("tensor=8");  // there is nothing to shard along
  EXPECT_EQ(rows_of(plan), Rows{"tensor parallelism by tensor=8: model, intra-op"});
}

TEST(Parallelism, ListsCombinationsInMeshOrder) {
  Plan plan = plan_of("pipe=2,data=2,tensor=2");
  plan.sequence = true;
  plan.microbatches = 4;
  EXPECT_EQ(rows_of(plan), (Rows{"pipeline parallelism by pipe=2: model, inter-op",
                                 "data parallelism by data=2: data, intra-op",
                                 "tensor parallelism by tensor=2: model, intra-op",
                                 "sequence parallelism by --sequence: neither, intra-op"}));
}

TEST(Parallelism, ClassifiesByWhatAxisShards) {
  Plan plan = plan_of("workers=2,slices=3");
  plan.sharding = {{"workers", {"batch"}}, {"slices", {"hidden"}}};
  EXPECT_EQ(rows_of(plan), (Rows{"data parallelism by workers=2: data, intra-op",
                                 "tensor parallelism by slices=3: model, intra-op"}));
  plan = plan_of("ffn=2");
  plan.sharding = {{"ffn", {"batch", "hidden"}}};
  EXPECT_EQ(rows_of(plan), Rows{"data and tensor parallelism by ffn=2: data and model, intra-op"});
}

TEST(Parallelism, ModelReplicasDivideDataAndModel) {
  Plan plan = plan_of("pipe=4");
  plan.schedule = "chimera";
  plan.microbatches = 4;
  EXPECT_EQ(rows_of(plan), Rows{"pipeline parallelism by pipe=4: data and model, inter-op"});
}

TEST(Parallelism, OpsOnNamedDevicesAreInterOp) {
  Plan plan = plan_of("pipe=2");
  plan.ops.push_back({});
  EXPECT_EQ(rows_of(plan), Rows{"operator placement by pipe=2: model, inter-op"});
}

}  // namespace
}  // namespace trireme
