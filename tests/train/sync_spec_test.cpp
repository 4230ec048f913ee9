#include <functional>

#include <gtest/gtest.h>

#include "expect_error.h"
#include "trireme/sync.h"

namespace trireme {
namespace {

TEST(SyncSpec, TextRoundTrips) {
  for (const char* text :
       {"allreduce", "tree", "gossip", "group=4", "group=4,global=10", "local=8", "hogwild",
        "ps:bsp", "ps:ssp=3", "ps:essp=0", "ps:async", "ps:async,inconsistent", "ps:ssp=3,pool",
        "ps:async,inconsistent,pool"}) {
    EXPECT_EQ(to_text(parse_sync(text)), text);
  }
}

TEST(SyncSpec, RejectsInvalidSpecs) {
  for (const char* text :
       {"", "all-reduce", "group", "group=", "group=x", "group=4,global=", "group=4,global=0",
        "local=4,global=2", "gossip=2", "ps:ssp", "gossip,pool", "ps:async,pool,inconsistent"}) {
    expect_error(ErrorKind::Usage, "unknown strategy", [&] { (void)parse_sync(text); });
  }
  expect_error(ErrorKind::Usage, "2 workers or more", [] { (void)parse_sync("group=1"); });
  expect_error(ErrorKind::Usage, "1 step or more", [] { (void)parse_sync("local=0"); });
  expect_error(ErrorKind::Usage, "0 or more", [] { (void)parse_sync("ps:ssp=-1"); });
  expect_error(ErrorKind::Usage, "nothing to hand out", [] { (void)parse_sync("ps:bsp,pool"); });
  expect_error(ErrorKind::Usage, "nothing to hand out", [] { (void)parse_sync("ps:ssp=0,pool"); });
  expect_error(ErrorKind::Usage, "only ps:async",
               [] { (void)parse_sync("ps:ssp=3,inconsistent"); });
}

std::string problem_of(const std::string& sync, const std::string& mesh,
                       const std::function<void(Plan&)>& change = {}) {
  Plan plan;
  plan.mesh = parse_mesh(mesh);
  if (change) {
    change(plan);
  }
  const std::vector<std::string> found = problems(parse_sync(sync), plan);
  return found.empty() ? "" : found.front();
}

TEST(SyncSpec, FitsPlanOrExplainsWhyNot) {
  const auto contains = [](const std::string& text, const std::string& words) {
    EXPECT_NE(text.find(words), std::string::npos) << text;
  };
  EXPECT_EQ(problem_of("local=4", "data=2,tensor=2"), "");
  EXPECT_EQ(problem_of("gossip", "pipe=2,data=4"), "");
  EXPECT_EQ(problem_of("allreduce", "data=2", [](Plan& plan) { plan.zero = 3; }), "");
  contains(problem_of("gossip", "tensor=2"), "several workers");
  contains(problem_of("gossip", "data=2", [](Plan& plan) { plan.zero = 1; }), "--zero 1");
  contains(problem_of("tree", "data=2",
                      [](Plan& plan) { plan.compression = parse_compression("sign"); }),
           "--compress");
  contains(problem_of("tree", "data=2,tensor=2"), "one device");
  contains(problem_of("hogwild", "data=2,tensor=2"), "one thread");
  contains(problem_of("group=8", "data=4"), "only 4 workers");
  EXPECT_EQ(problem_of("ps:ssp=3", "data=4"), "");
  contains(problem_of("ps:bsp", "data=2,tensor=2"), "one device");
  contains(problem_of("ps:bsp", "data=2", [](Plan& plan) { plan.microbatches = 2; }),
           "--microbatches");
  contains(problem_of("ps:async", "data=2", [](Plan& plan) { plan.zero = 1; }), "--zero 1");
}

}  // namespace
}  // namespace trireme
