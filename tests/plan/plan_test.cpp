#include "trireme/plan.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "expect_error.h"

namespace trireme {
namespace {

TEST(Plan, TextRoundTrips) {
  Plan plan;
  plan.mesh = parse_mesh("data=2,pipe=4,tensor=8");
  plan.microbatches = 16;
  plan.schedule = "interleaved";
  plan.chunks = 2;
  plan.zero = 3;
  plan.sequence = true;
  plan.context = Plan::Context::AllToAll;
  plan.compression = parse_compression("top-k:0.003");
  plan.recompute.budget = Bytes{123'456'789};
  plan.stage_blocks = {1, 2, 2, 2, 2, 2, 2, 1};
  plan.bucket = Bytes{25'000'000};
  plan.sharding.push_back({"odd", {"vocabulary", "width"}});
  EXPECT_EQ(parse_plan(to_text(plan)), plan);
  plan.context = Plan::Context::Ring;
  plan.recompute = {.mode = RecomputeMode::Selective};
  EXPECT_EQ(parse_plan(to_text(plan)), plan);
  EXPECT_EQ(parse_plan(R"({"mesh": ""})"), Plan{});
  plan.stage_blocks.clear();
  // A custom table.
  plan.table = make_pipeline("chimera", {.ranks = 4, .microbatches = 16});
  plan.schedule = plan.table->name = "mine";
  EXPECT_EQ(parse_plan(to_text(plan)), plan);
  EXPECT_EQ(table_of(plan), plan.table);
  plan.microbatches = 8;
  expect_error(ErrorKind::Usage, "the table mine is for 4 ranks and 16",
               [&] { require_valid(plan); });
  plan.microbatches = 16;
  plan.table->tasks[0].pop_back();
  expect_error(ErrorKind::Usage, "the table mine: ", [&] { require_valid(plan); });
}

// Every field has its line, whatever its value, except for those that are rarely given.
TEST(Plan, MatchesGoldenText) {
  Plan plan;
  plan.mesh = parse_mesh("data=2,tensor=2");
  plan.zero = 1;
  plan.recompute.mode = RecomputeMode::Full;
  plan.sharding = {{"data", {"batch"}}, {"tensor", {"heads"}}};
  EXPECT_EQ(to_text(plan), R"({
  "mesh": "data=2,tensor=2",
  "microbatches": 1,
  "schedule": "1f1b",
  "chunks": 1,
  "zero": 1,
  "sequence": false,
  "context": "gather",
  "compression": "none",
  "recompute": "full",
  "sharding": {
    "data": [
      "batch"
    ],
    "tensor": [
      "heads"
    ]
  }
}
)");
}

TEST(Plan, AssignmentsRoundTrip) {
  Plan plan;
  plan.mesh = parse_mesh("pipe=2,tensor=2");
  plan.ops = {{.selector = "*", .location = {PipeLocation::Unit::Device, 1}},
              {.selector = "@block(3)", .location = {PipeLocation::Unit::Stage, 0}}};
  plan.values = {{.selector = "w1", .location = PipeLocation{}, .axes = {{"tensor", 1}}},
                 {.selector = "h.*", .location = {}, .axes = {{"tensor", std::nullopt}}}};
  EXPECT_EQ(parse_plan(to_text(plan)), plan);
  const std::string text = to_text(plan);
  EXPECT_EQ(text.substr(text.find("  \"ops\"")), R"json(  "ops": {
    "*": {
      "device": 1
    },
    "@block(3)": {
      "stage": 0
    }
  },
  "values": {
    "w1": {
      "stage": 0,
      "tensor": "sharded(1)"
    },
    "h.*": {
      "tensor": "replicated"
    }
  }
}
)json");
}

// With several stages per device, or several devices per stage, a device does not say which stage.
TEST(Plan, AssignedDevicesHaveOneStage) {
  Plan plan;
  plan.mesh = parse_mesh("pipe=2");
  plan.microbatches = 2;
  plan.ops = {{.selector = "*", .location = {PipeLocation::Unit::Device, 1}}};
  require_valid(plan);
  for (const char* schedule : {"zb-v", "chimera"}) {
    plan.schedule = schedule;
    expect_error(ErrorKind::Usage,
                 fmt::format("ops: '*': device 1 does not have exactly one stage in schedule {}; "
                             "name a stage",
                             schedule),
                 [&] { require_valid(plan); });
  }
  plan.ops.front().location = {PipeLocation::Unit::Stage, 1};
  require_valid(plan);
  EXPECT_EQ(with_devices(plan).ops.front().location,
            (PipeLocation{PipeLocation::Unit::Device, table_of(plan).rank_of(0, 1)}));
}

TEST(Plan, RecomputationIsModeOrBudget) {
  Plan plan;
  plan.recompute = {.mode = RecomputeMode::Full, .budget = Bytes{1 << 20}};
  expect_error(ErrorKind::Usage, "recompute is full and has a budget too, 1 MiB",
               [&] { require_valid(plan); });
}

TEST(Plan, RejectsInvalidText) {
  const std::vector<std::pair<const char*, const char*>> wrong{
      {R"({})", "mesh"},
      {R"({"mesh": "data=0"})", "mesh"},
      {R"({"mesh": "odd=2"})", "odd"},
      {R"({"mesh": "", "zero": 4})", "4"},
      {R"({"mesh": "", "microbatches": 0})", "micro-batches"},
      {R"({"mesh": "", "microbatches": -1})", "microbatches"},
      {R"({"mesh": "pipe=2", "schedule": "2f2b"})", "2f2b"},
      {R"({"mesh": "pipe=3", "schedule": "chimera"})", "chimera"},
      {R"({"mesh": "", "table": "trireme pipeline 2"})", "table"},
      {R"({"mesh": "", "sequence": 1})", "sequence"},
      {R"({"mesh": "", "context": "spiral"})", "all-to-all"},
      {R"({"mesh": "", "compression": "zstd"})", "power:RANK"},
      {R"({"mesh": "", "recompute": "most"})",
       "plan: recompute is invalid: unknown recomputation 'most'"},
      {R"({"mesh": "", "recompute": 64})", "recompute"},
      {R"({"mesh": "", "recompute": "64XB"})", "'64XB' is not a size"},
      {R"({"mesh": "", "sharding": {"data": "batch"}})", "sharding"},
      {R"({"mesh": "", "zeero": 1})", "zero"},
      {R"({"mesh": "pipe=2", "ops": ["relu"]})", "ops"},
      {R"({"mesh": "pipe=2", "ops": {"relu": {}}})", "ops.relu.device is missing"},
      {R"({"mesh": "pipe=2", "ops": {"relu": {"devise": 1}}})", "device"},
      {R"({"mesh": "pipe=2", "ops": {"relu": {"device": -1}}})", "ops.relu.device is -1"},
      {R"({"mesh": "pipe=2", "ops": {"relu": {"device": 1, "stage": 1}}})", "leave out one"},
      {R"({"mesh": "pipe=2", "ops": {"relu": {"device": 2}}})",
       "ops: 'relu': device 2 does not exist: the plan has 2 devices along pipe, from 0"},
      {R"({"mesh": "", "ops": {"relu": {"stage": 1}}})",
       "stage 1 does not exist: the plan has 1 stage; give the mesh an axis pipe"},
      {R"json({"mesh": "data=2", "values": {"w": {"tensor": "sharded(0)"}}})json",
       "values: 'w': the mesh data=2 has no axis 'tensor'"},
      {R"({"mesh": "tensor=2", "values": {"w": {"tensor": "split"}}})",
       "values.w.tensor is invalid: invalid placement 'split'; use replicated, or sharded(0)"},
      {R"({"mesh": "pipe=2", "values": {"w": {"pipe": "replicated"}}})",
       "pipe does not shard values; name a stage or a device"},
      {R"({"mesh": "tensor=2", "values": {"w": 1}})", "values.w"},
      {R"({"mesh": "pipe=2", "stage_blocks": [1, 2, 3]})", "3 entries, the pipeline 2 stages"},
      {R"({"mesh": "pipe=2", "stage_blocks": [3, 0]})", "a stage without blocks"},
      {R"({"mesh": "pipe=2", "stage_blocks": ["many", 0]})", "stage_blocks"},
      {R"({"mesh": "", "bucket_bytes": -1})", "-1 bytes"},
  };
  for (const auto& [text, names] : wrong) {
    SCOPED_TRACE(text);
    expect_error(ErrorKind::Input, names, [&, document = text] { (void)parse_plan(document); });
  }
}

TEST(Compression, TextRoundTrips) {
  for (const char* text : {"none", "top-k:0.01", "top-k:1", "top-k:1e-05", "sign", "ternary",
                           "int8", "fp16", "power:1", "power:1024"}) {
    EXPECT_EQ(to_text(parse_compression(text)), text);
  }
  EXPECT_EQ(to_text(parse_compression("top-k")), "top-k:0.01");
  EXPECT_EQ(to_text(parse_compression("power")), "power:4");
  EXPECT_FALSE(Compression{}.any());
}

TEST(Compression, RejectsInvalidText) {
  const std::vector<std::pair<const char*, const char*>> wrong{
      {"top-k:0", "above 0 and at most 1"},
      {"top-k:2", "above 0 and at most 1"},
      {"top-k:-0.1", "above 0 and at most 1"},
      {"top-k:nan", "above 0 and at most 1"},
      {"top-k:0.1x", "above 0 and at most 1"},
      {"top-k:", "top-k:0.01"},
      {"power:-1", "from 1 to 1024"},
      {"power:0", "from 1 to 1024"},
      {"power:1.5", "power:4"},
      {"power:99999999999999999999", "from 1 to 1024"},
      {"sign:1", "takes no number"},
      {"zstd", "use none, top-k:SHARE"},
      {"", "use none"},
  };
  for (const auto& [text, names] : wrong) {
    SCOPED_TRACE(text);
    expect_error(ErrorKind::Usage, names, [&, given = text] { (void)parse_compression(given); });
  }
}

TEST(Plan, RejectsSequenceSlicingSchedule) {
  Plan plan;
  plan.mesh = parse_mesh("pipe=2");
  plan.microbatches = 4;
  plan.schedule = "terapipe";
  ASSERT_EQ(problems(plan).size(), 1U);
  EXPECT_NE(problems(plan).front().find("use gpipe"), std::string::npos) << problems(plan).front();
}

}  // namespace
}  // namespace trireme
