// The predicted memory of a plan is the peak of its ranks' processes: within 2 %, for every plan that is compared with
// one device, and every kind of model. A sixteenth of them in the short tests, where the language models share the plans;
// all in the long ones.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include "on_ranks.h"
#include "plan_cases.h"
#include "temporary_folder.h"
#include "tiny_model.h"
#include "trireme/communicator.h"
#include "trireme/cpu_device.h"
#include "trireme/execution.h"
#include "trireme/model_dims.h"
#include "trireme/model_kinds.h"
#include "trireme/recompute.h"
#include "trireme/training.h"

namespace trireme {
namespace {

/// This process's memory, in bytes: a line of /proc/self/status.
double own_memory(const std::string& field) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(field)) {
      return std::stod(line.substr(field.size())) * 1024;
    }
  }
  throw std::runtime_error("/proc/self/status has no " + field);
}
double memory_now() {
  return own_memory("VmRSS:");
}
/// The part of it shared with other processes: the staging memory of groups, and the message rings. It contains no
/// tensors. It grows when a rank touches another part of it.
double shared_memory_now() {
  return own_memory("RssShmem:");
}
/// The peak since forget_peak().
double peak_memory() {
  return own_memory("VmHWM:");
}
void forget_peak() {
  std::ofstream("/proc/self/clear_refs") << 5 << std::flush;
}

struct Measured {
  double planned = 0;
  double taken = 0;
  [[nodiscard]] double error() const { return taken / planned - 1; }
};

/// Runs this many steps as this rank. The program, like the plan, existed before.
Measured take_steps(int steps, Communicator& communicator, Program program, Device& device) {
  Group& all = communicator.all();
  std::int64_t longest = 0;
  for (const Buffer& buffer : program.buffers) {
    longest = std::max(longest, size_of(buffer.type).count);
  }
  const std::vector<std::byte> zeros(static_cast<std::size_t>(longest));
  all.barrier();
  malloc_trim(0);
  forget_peak();
  const double before = memory_now();
  const double shared_before = shared_memory_now();
  Execution execution(std::move(program), device, &communicator);
  for (const Buffer& buffer : execution.program().buffers) {
    if (buffer.origin != Origin::Node) {
      execution.write(buffer.name,
                      std::span(zeros).first(static_cast<std::size_t>(size_of(buffer.type).count)));
    }
  }
  for (int step = 0; step < steps; ++step) {
    execution.run();
  }
  return {.planned = static_cast<double>(execution.memory().count),
          .taken = (peak_memory() - before) - (shared_memory_now() - shared_before)};
}

/// The first run also allocates what stays the same for all plans: code that oneDNN generates for this processor, and
/// thread stacks.
Measured measure(World& world, const Plan& plan, const Program& program) {
  CpuOptions options;
  options.threads = 1;
  options.pinned = false;
  const auto device = make_cpu_device(options);
  Communicator communicator(world, plan.mesh);
  (void)take_steps(1, communicator, program, *device);
  return take_steps(3, communicator, program, *device);
}

/// By rank, each a process. So is the one that partitions the graph: leftovers of earlier plans, free memory fragmented
/// all over the heap, would distort a rank's numbers.
std::vector<Measured> measure(const Graph& graph, const Plan& plan) {
  const Rank ranks_in_all = plan.mesh.devices();
  const TemporaryFolder folder;
  const auto file_of = [&](Rank rank) { return folder / std::to_string(rank); };
  EXPECT_EQ(launch(1,
                   [&](World&) {
                     const std::vector<Program> programs =
                         programs_of(graph, plan, dim_names(graph));
                     const int code = launch(ranks_in_all, [&](World& world) {
                       const Measured m =
                           measure(world, plan, programs[static_cast<std::size_t>(world.rank())]);
                       std::ofstream(file_of(world.rank())) << m.planned << ' ' << m.taken;
                     });
                     if (code != 0) {
                       throw Error(ErrorKind::Peer, "a rank failed");
                     }
                   }),
            0);
  std::vector<Measured> ranks(static_cast<std::size_t>(ranks_in_all));
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    std::ifstream(file_of(static_cast<Rank>(rank))) >> ranks[rank].planned >> ranks[rank].taken;
  }
  return ranks;
}

bool is_near(const std::vector<Measured>& ranks) {
  return std::ranges::all_of(
      ranks, [](const Measured& m) { return std::abs(m.error()) <= kMemoryTolerance; });
}

/// Messages that arrive before their receiver asks for them take memory, and on a busy machine there are more of them:
/// measures again, at most twice, if a rank takes more than planned.
std::vector<Measured> measure_again(const Graph& graph, const Plan& plan) {
  std::vector<Measured> ranks = measure(graph, plan);
  for (int retry = 0; retry < 2 && !is_near(ranks); ++retry) {
    ranks = measure(graph, plan);
  }
  return ranks;
}

void expect_planned_memory(const Graph& graph, const std::vector<Case>& plans) {
  double least = std::numeric_limits<double>::max();
  Measured worst{.planned = 1, .taken = 1};
  std::string where;
  for (const Case& c : plans) {
    SCOPED_TRACE(describe(c));
    const std::vector<Measured> ranks = measure_again(graph, plan_of(c));
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      const Measured& m = ranks[rank];
      EXPECT_NEAR(m.error(), 0, kMemoryTolerance) << fmt::format(
          "rank {}: planned {:.2f} MB, measured {:.2f} MB", rank, m.planned / 1e6, m.taken / 1e6);
      if (std::abs(m.error()) > std::abs(worst.error())) {
        worst = m;
        where = fmt::format("rank {} of {}", rank, describe(c));
      }
      least = std::min(least, m.planned);
    }
  }
  fmt::print("{} plans, {:.0f} MB a rank at least; the worst: planned {:.2f} MB, {:+.2f} % ({})\n",
             plans.size(), least / 1e6, worst.planned / 1e6, 100 * worst.error(), where);
}

// The models that plans are checked with, larger in every dimension: kernels and communication ops take 0.1 to 2 KB
// each on the heap, which no plan counts, and which must be negligible next to tens of megabytes.

ModelConfig large_model(Family family = Family::Gpt2) {
  constexpr std::int64_t kHeadWidth = 152;
  ModelConfig config = tiny_model(family);
  config.vocabulary = 1000;
  config.context = 128;
  config.head_width = kHeadWidth;
  config.width = config.heads * kHeadWidth;
  config.hidden = 4 * config.width;
  config.dtype = DType::F32;
  return config;
}

Graph language_graph(const ModelConfig& config) {
  TrainingOptions options;
  options.clip_limit = 0.5;
  return make_training_graph(make_model(config, {.sequences = 4, .length = 64}).graph, options);
}

Graph recomputed_graph() {
  ModelConfig config = large_model();
  config.dropout = 0.2;
  return recompute(language_graph(config), {.mode = RecomputeMode::Full, .blocks = {}});
}

Graph experts_graph() {
  ModelConfig config = large_model();
  config.layers = 2;
  config.experts = 6;
  config.experts_per_token = 2;
  config.capacity_factor = 1.0;
  config.shared_experts = 1;
  return language_graph(config);
}

Graph example_graph(const Model& model) {
  TrainingOptions options;
  options.optimizer = Momentum{};
  return make_training_graph(model.graph, options);
}

Graph perceptron_graph() {
  MlpConfig config;
  config.inputs = 800;
  config.hidden = {1280, 960, 1120, 960};
  config.outputs = 480;
  return example_graph(make_model(config, 700));
}

Graph convolution_graph() {
  ConvNetConfig config;
  config.size = 32;
  config.channels = 3;
  config.filters = 16;
  config.classes = 10;
  return example_graph(make_model(config, 480));
}

class PlannedMemory : public testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "a sanitizer needs additional memory";
#endif
  }
};
using LongPlannedMemory = PlannedMemory;

TEST_F(PlannedMemory, Gpt) {
  expect_planned_memory(language_graph(large_model()),
                        every_nth(plans_of_language_models(), 48, 0));
}
TEST_F(PlannedMemory, GptWithDropoutAndRecomputation) {
  expect_planned_memory(recomputed_graph(), every_nth(plans_of_language_models(), 48, 16));
}
TEST_F(PlannedMemory, Llama) {
  expect_planned_memory(language_graph(large_model(Family::Llama)),
                        every_nth(plans_of_language_models(), 48, 32));
}
TEST_F(PlannedMemory, MixtureOfExperts) {
  expect_planned_memory(experts_graph(), every_nth(plans_of_experts(), 16, 0));
}
TEST_F(PlannedMemory, Perceptron) {
  expect_planned_memory(perceptron_graph(), every_nth(plans_of_examples(), 16, 0));
}
TEST_F(PlannedMemory, ConvNet) {
  expect_planned_memory(convolution_graph(), every_nth(plans_of_examples(), 16, 8));
}

TEST_F(LongPlannedMemory, Gpt) {
  expect_planned_memory(language_graph(large_model()), plans_of_language_models());
}
TEST_F(LongPlannedMemory, GptWithDropoutAndRecomputation) {
  expect_planned_memory(recomputed_graph(), plans_of_language_models());
}
TEST_F(LongPlannedMemory, Llama) {
  expect_planned_memory(language_graph(large_model(Family::Llama)), plans_of_language_models());
}
TEST_F(LongPlannedMemory, MixtureOfExperts) {
  expect_planned_memory(experts_graph(), plans_of_experts());
}
TEST_F(LongPlannedMemory, Perceptron) {
  expect_planned_memory(perceptron_graph(), plans_of_examples());
}
TEST_F(LongPlannedMemory, ConvNet) {
  expect_planned_memory(convolution_graph(), plans_of_examples());
}

}  // namespace
}  // namespace trireme
