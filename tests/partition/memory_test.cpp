// The memory that a plan is said to take is what its ranks' processes take: within 2 % for plans of every kind.
#include <algorithm>
#include <fstream>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include "on_ranks.h"
#include "plan_case.h"
#include "temporary_folder.h"
#include "trireme/communicator.h"
#include "trireme/cpu_device.h"
#include "trireme/execution.h"
#include "trireme/model_dims.h"
#include "trireme/training.h"

namespace trireme {
namespace {

/// Of this process, in bytes: "RssAnon".
double status(const std::string& field) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(field + ":")) {
      return std::stod(line.substr(field.size() + 1)) * 1024;
    }
  }
  throw std::runtime_error("/proc/self/status has no " + field);
}

struct Measured {
  double planned = 0;
  double taken = 0;
};

/// Takes two steps as this rank. Nothing is given back before the end, so what the process has then is the most that
/// it had.
Measured step_twice(World& world, const Plan& plan, const Program& program, Device& device) {
  Communicator communicator(world, plan.mesh);
  malloc_trim(0);
  const double before = status("RssAnon");
  Execution execution(program, device, &communicator);
  for (const Buffer& buffer : program.buffers) {
    if (buffer.origin != Origin::Node) {
      const std::vector<std::byte> zeros(static_cast<std::size_t>(size_of(buffer.type).count));
      execution.write(buffer.name, zeros);
    }
  }
  execution.run();
  execution.run();
  malloc_trim(0);
  return {.planned = static_cast<double>(execution.memory().count),
          .taken = status("RssAnon") - before};
}

/// The first time around, the process also gets what stays the same for all plans: code that oneDNN makes for this
/// processor, and the stacks of threads. Of the others the least counts: a message that nobody has asked for when it
/// comes is kept aside, which seldom happens, on machines with too few cores.
Measured measure(World& world, const Plan& plan, const Program& program) {
  CpuOptions options;
  options.threads = 1;
  options.pinned = false;
  const auto device = make_cpu_device(options);
  (void)step_twice(world, plan, program, *device);
  Measured least = step_twice(world, plan, program, *device);
  for (int again = 0; again < 2; ++again) {
    const Measured m = step_twice(world, plan, program, *device);
    least.taken = std::min(least.taken, m.taken);
  }
  return least;
}

void expect_planned_memory(const std::vector<Case>& plans) {
  ModelConfig config;
  config.name = "gpt";
  config.family = Family::Gpt2;
  config.vocabulary = 2048;
  config.context = 64;
  config.width = 480;
  config.layers = 4;
  config.heads = 12;
  config.key_heads = 12;
  config.head_width = 40;
  config.hidden = 1920;
  TrainingOptions options;
  options.clip_limit = 1;
  const Graph graph =
      make_training_graph(make_model(config, {.sequences = 12, .length = 64}).graph, options);
  for (const Case& c : plans) {
    SCOPED_TRACE(describe(c));
    const Plan plan = plan_of(c);
    const std::vector<Program> programs = programs_of(graph, plan, dim_names(graph));
    const TemporaryFolder folder;
    const auto file_of = [&](int rank) { return folder / std::to_string(rank); };
    ASSERT_EQ(launch(plan.mesh.devices(),
                     [&](World& world) {
                       const Measured m =
                           measure(world, plan, programs[static_cast<std::size_t>(world.rank())]);
                       std::ofstream(file_of(world.rank())) << m.planned << ' ' << m.taken;
                     }),
              0);
    for (int rank = 0; rank < plan.mesh.devices(); ++rank) {
      Measured m;
      std::ifstream(file_of(rank)) >> m.planned >> m.taken;
      EXPECT_GT(m.planned, 1e6);
      EXPECT_NEAR(m.taken / m.planned, 1, 0.02) << fmt::format(
          "rank {}: planned {:.2f} MB, measured {:.2f} MB", rank, m.planned / 1e6, m.taken / 1e6);
    }
  }
}

TEST(PlannedMemory, IsWhatProcessesTake) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer takes memory of its own";
#endif
  expect_planned_memory({{.mesh = "data=2"},
                         {.mesh = "data=2,tensor=2", .zero = 3, .sequence = true},
                         {.mesh = "context=2", .context = Plan::Context::AllToAll},
                         {.mesh = "pipe=2,data=2", .microbatches = 2, .zero = 1}});
}

}  // namespace
}  // namespace trireme
