#include "trireme/plan.h"

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
  plan.cuts.push_back({"odd", {"vocabulary", "width"}});
  EXPECT_EQ(parse_plan(to_text(plan)), plan);
  plan.context = Plan::Context::Ring;
  EXPECT_EQ(parse_plan(to_text(plan)), plan);
  EXPECT_EQ(parse_plan(R"({"mesh": ""})"), Plan{});
  // A table of one's own.
  plan.table = make_pipeline("chimera", {.ranks = 4, .microbatches = 16});
  plan.schedule = plan.table->name = "mine";
  EXPECT_EQ(parse_plan(to_text(plan)), plan);
  EXPECT_EQ(table_of(plan), plan.table);
  plan.microbatches = 8;
  expect_error(ErrorKind::Usage, "the table mine is for 4 ranks and 16", [&] { plan.verify(); });
  plan.microbatches = 16;
  plan.table->tasks[0].pop_back();
  expect_error(ErrorKind::Usage, "the table mine: ", [&] { plan.verify(); });
}

TEST(Plan, RefusesWhatIsNone) {
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
      {R"({"mesh": "", "cuts": {"data": "batch"}})", "cuts"},
      {R"({"mesh": "", "zeero": 1})", "zero"},
  };
  for (const auto& [text, names] : wrong) {
    SCOPED_TRACE(text);
    expect_error(ErrorKind::Input, names, [&, document = text] { (void)parse_plan(document); });
  }
}

}  // namespace
}  // namespace trireme
