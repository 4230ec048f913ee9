// Compressed gradients: sent and kept parts add up to the gradient, bytes match the formulas, and all ranks have the
// same result.
#include <cmath>
#include <mutex>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "expect_error.h"
#include "on_ranks.h"
#include "plan_case.h"
#include "tiny_model.h"
#include "trireme/communicator.h"
#include "trireme/cpu_device.h"
#include "trireme/execution.h"
#include "trireme/model_dims.h"
#include "trireme/model_kinds.h"
#include "trireme/optimize.h"
#include "trireme/training.h"

namespace trireme {
namespace {

constexpr BatchShape kCompressBatch{.sequences = 8, .length = 4};

struct SmallGpt {
  std::vector<ModelParameter> parameters{};
  Graph graph{};
  Numbers first{};
};

/// Matrices of 1024 and 2048 elements, which are compressed, and others, which are not.
SmallGpt small_gpt(DType dtype) {
  ModelConfig config = tiny_model();
  config.context = kCompressBatch.length;
  config.width = 32;
  config.layers = 2;
  config.head_width = 8;
  config.hidden = 64;
  config.dtype = dtype;
  const Model model = make_model(config, kCompressBatch);
  TrainingOptions options;
  options.optimizer = Sgd{};
  SmallGpt task;
  task.parameters = model.parameters;
  task.graph = make_training_graph(model.graph, options);
  std::mt19937_64 random(7);
  std::normal_distribution<double> normal(0, 0.2);
  for (const ModelParameter& parameter : model.parameters) {
    std::vector<double>& numbers = task.first[parameter.name];
    numbers.resize(static_cast<std::size_t>(parameter.type.shape.element_count()));
    for (double& number : numbers) {
      number = normal(random);
    }
  }
  return task;
}

Numbers batch_of(int step) {
  std::mt19937_64 random(static_cast<std::uint64_t>(step));
  std::uniform_int_distribution<int> token(0, 12);
  Numbers batch{{"step", {step + 1.0}}, {"learning_rate", {kRate}}};
  for (const char* name : {"tokens", "targets"}) {
    std::vector<double>& numbers = batch[name];
    numbers.resize(kCompressBatch.sequences * kCompressBatch.length);
    for (double& number : numbers) {
      number = token(random);
    }
  }
  return batch;
}

Plan plan_for(const Case& c, const char* compression) {
  Plan plan = plan_of(c);
  plan.compression = parse_compression(compression);
  return plan;
}

NamedGraph compressed(const Graph& graph, const Plan& plan) {
  return compress_gradients(graph, plan, dim_names(graph));
}

/// The sum of the residuals that ranks keep; nothing if they keep none.
std::vector<double> kept_of(const Numbers& kept, const std::string& parameter,
                            std::size_t elements) {
  std::vector<double> sum(elements, 0.0);
  const auto it = kept.find(std::string(kResidual) + parameter);
  if (it != kept.end()) {
    for (std::size_t i = 0; i < it->second.size(); ++i) {
      sum[i % elements] += it->second[i];
    }
  }
  return sum;
}

constexpr std::array kMethods{"top-k:0.05", "sign", "ternary", "int8", "fp16", "power:3"};

/// How far sent and kept parts together may be from a gradient of this size. fp16 is summed in fp16: no rank keeps the
/// rounding error of the sum.
double tolerance(const char* method, double largest) {
  return std::string_view(method) == "fp16" ? 2e-3 * largest : 1e-11;
}

double largest_of(const std::vector<double>& numbers) {
  double largest = 0;
  for (const double number : numbers) {
    largest = std::max(largest, std::abs(number));
  }
  return largest;
}

/// For one parameter: sent + kept after = gradient + kept before. With p' = p - rate g, what was applied is known.
/// Returns whether anything was kept.
bool check_parameter(const std::string& name, const Numbers& before, const Trained& one,
                     const Trained& many, const char* method) {
  const std::vector<double>& p = before.at(name);
  std::vector<double> wanted = kept_of(before, name, p.size());
  const std::vector<double> kept = kept_of(many.kept, name, p.size());
  for (std::size_t i = 0; i < p.size(); ++i) {
    wanted[i] += (p[i] - one.kept.at(name)[i]) / kRate;
  }
  const double allowed = tolerance(method, largest_of(wanted));
  for (std::size_t i = 0; i < p.size(); ++i) {
    const double sent = (p[i] - many.kept.at(name)[i]) / kRate;
    EXPECT_NEAR(sent + kept[i], wanted[i], allowed) << name << " at " << i;
  }
  return largest_of(kept) > 0;
}

/// Some steps, each from the ranks' current state, next to the gradient on one device from there.
void check_identity(const SmallGpt& task, const Case& c, const char* method, int steps) {
  const Plan plan = plan_for(c, method);
  const NamedGraph named = compressed(task.graph, plan);
  EXPECT_EQ(trireme::problems(programs_of(named.graph, plan, named.names), groups_of(plan.mesh)),
            std::vector<std::string>());
  Numbers at = task.first;
  for (int step = 0; step < steps; ++step) {
    Numbers parameters;
    for (const ModelParameter& parameter : task.parameters) {
      parameters[parameter.name] = at.at(parameter.name);
    }
    const Trained one = train_alone(task.graph, parameters, {batch_of(step)});
    const Trained many = train_on_ranks(named.graph, plan, named.names, at, {batch_of(step)});
    EXPECT_NEAR(one.losses[0], many.losses[0], 1e-10);
    std::size_t kept = 0;
    for (const ModelParameter& parameter : task.parameters) {
      kept += check_parameter(parameter.name, at, one, many, method) ? 1 : 0;
    }
    EXPECT_EQ(kept, 12U) << "the matrices of both blocks";
    at = many.kept;
  }
}

TEST(Compress, SentPlusResidualEqualsGradient) {
  const SmallGpt task = small_gpt(DType::F64);
  for (const char* method : kMethods) {
    for (const char* mesh : {"data=2", "data=3", "data=4"}) {
      SCOPED_TRACE(fmt::format("{} on {}", method, mesh));
      check_identity(task, {.mesh = mesh}, method, 3);
    }
  }
}

/// Checks every nth pair of a method and a plan with other axes too.
void check_with_other_axes(std::size_t nth) {
  const SmallGpt task = small_gpt(DType::F64);
  const std::vector<Case> cases{
      {.mesh = "data=2", .microbatches = 2},
      {.mesh = "data=2,tensor=2"},
      {.mesh = "tensor=4,data=2", .sequence = true},
      {.mesh = "data=2,context=2"},
      {.mesh = "pipe=2,data=2", .microbatches = 4, .schedule = "zb-h1"},
      {.mesh = "data=2,pipe=2,tensor=2", .microbatches = 2},
      {.mesh = "data=2", .zero = 1},
      {.mesh = "data=3", .microbatches = 2, .zero = 2},
      {.mesh = "data=2,tensor=2", .zero = 3},
  };
  std::size_t diagonal = 0;
  for (const char* method : kMethods) {
    for (std::size_t i = diagonal++ % nth; i < cases.size(); i += nth) {
      SCOPED_TRACE(fmt::format("{} on {}", method, describe(cases[i])));
      check_identity(task, cases[i], method, 2);
    }
  }
}

/// Each method on three plans, each plan with two methods.
TEST(Compress, CombinesWithOtherAxes) {
  check_with_other_axes(3);
}
TEST(LongCompress, CombinesWithOtherAxes) {
  check_with_other_axes(1);
}

/// The sizes of the matrices [a, b] that are compressed; for [4, 8, 32], the most square: [32, 32].
std::vector<std::pair<double, double>> matrices_of(const SmallGpt& task) {
  std::vector<std::pair<double, double>> all;
  for (const ModelParameter& parameter : task.parameters) {
    const Shape& shape = parameter.type.shape;
    if (shape.element_count() >= Compression::kMinElements) {
      const double n = static_cast<double>(shape.element_count());
      double a = static_cast<double>(shape.dim(0));
      if (shape.rank() == 3 && a + n / a > 2 * std::sqrt(n)) {
        a *= static_cast<double>(shape.dim(1));
      }
      all.emplace_back(a, n / a);
    }
  }
  return all;
}

/// By the formulas of compression.h, in f32 on p ranks.
double formula(const std::string& method, double a, double b, double p) {
  const double n = a * b;
  if (method.starts_with("top-k")) {
    return 8 * std::round(0.05 * n) * (p - 1);
  }
  if (method == "sign") {
    return (n / 8 + 4) * (p - 1);
  }
  if (method == "ternary") {
    return (n / 4 + 4) * (p - 1);
  }
  if (method == "int8") {
    return (n + 4) * (p - 1);
  }
  return method == "fp16" ? 4 * n * (p - 1) / p : 8 * 3 * (a + b) * (p - 1) / p;
}

double bytes_along_data(const Program& program) {
  double bytes = 0;
  for (const OpTraffic& traffic : traffic_of(program)) {
    bytes += traffic.group == "data" ? traffic.bytes : 0;
  }
  return bytes;
}

// Uncompressed, 8 n (p-1)/p bytes of each matrix are sent. Only these change.
TEST(Compress, SentBytesMatchFormulas) {
  const SmallGpt task = small_gpt(DType::F32);
  const DimNames names = dim_names(task.graph);
  ASSERT_EQ(matrices_of(task).size(), 12U);
  for (const int p : {2, 3, 4}) {
    const Case c{.mesh = fmt::format("data={}", p)};
    const std::vector<Program> plain = programs_of(task.graph, plan_of(c), names);
    for (const char* method : kMethods) {
      SCOPED_TRACE(fmt::format("{} on {}", method, c.mesh));
      const NamedGraph named = compressed(task.graph, plan_for(c, method));
      double fewer = 0;
      for (const auto& [a, b] : matrices_of(task)) {
        fewer += 8 * a * b * (p - 1) / p - formula(method, a, b, p);
      }
      EXPECT_GT(fewer, 0);
      const std::vector<Program> programs =
          programs_of(named.graph, plan_for(c, method), named.names);
      for (std::size_t rank = 0; rank < programs.size(); ++rank) {
        EXPECT_NEAR(bytes_along_data(plain[rank]) - bytes_along_data(programs[rank]), fewer, 1e-6);
      }
    }
  }
}

/// Each rank's parameters after three steps, and the bytes that it counted as sent.
struct Ended {
  std::vector<std::vector<std::byte>> parameters{};
  std::map<std::string, double> sent{};
};

std::vector<Ended> run_three_steps(const SmallGpt& task, const Plan& plan) {
  const NamedGraph named = compressed(task.graph, plan);
  const std::vector<Program> programs = programs_of(named.graph, plan, named.names);
  std::vector<Ended> ended(programs.size());
  run_threads(plan.mesh.devices(), [&](World& world) {
    Communicator communicator(world, plan.mesh);
    const auto device = make_cpu_device({.threads = 1, .pinned = false});
    const auto rank = static_cast<std::size_t>(world.rank());
    Execution execution(programs[rank], *device, &communicator);
    const auto write = [&](const std::string& name, const std::vector<double>& numbers) {
      const std::vector<float> narrow(numbers.begin(), numbers.end());
      execution.write(name, std::as_bytes(std::span(narrow)));
    };
    for (const auto& [name, numbers] : task.first) {
      write(name, numbers);
    }
    for (int step = 0; step < 3; ++step) {
      Numbers batch = batch_of(step);
      write("learning_rate", batch["learning_rate"]);
      const auto each = batch["tokens"].size() / programs.size();
      for (const char* name : {"tokens", "targets"}) {
        const auto begin = batch[name].begin() + static_cast<std::ptrdiff_t>(rank * each);
        const std::vector<std::int32_t> mine(begin, begin + static_cast<std::ptrdiff_t>(each));
        execution.write(name, std::as_bytes(std::span(mine)));
      }
      execution.run();
    }
    for (const ModelParameter& parameter : task.parameters) {
      std::vector<std::byte> bytes(static_cast<std::size_t>(size_of(parameter.type).count));
      execution.read(parameter.name, bytes);
      ended[rank].parameters.push_back(std::move(bytes));
    }
    ended[rank].sent = execution.bytes_sent();
  });
  return ended;
}

TEST(Compress, LeavesAllRanksBitIdentical) {
  const SmallGpt task = small_gpt(DType::F32);
  for (const char* method : kMethods) {
    for (const int p : {2, 4}) {
      SCOPED_TRACE(fmt::format("{} on {} ranks", method, p));
      const Plan plan = plan_for({.mesh = fmt::format("data={}", p)}, method);
      const std::vector<Ended> ended = run_three_steps(task, plan);
      const NamedGraph named = compressed(task.graph, plan);
      std::map<std::string, double> predicted;
      for (const OpTraffic& traffic :
           traffic_of(programs_of(named.graph, plan, named.names).front())) {
        predicted[traffic.op] += traffic.bytes;
      }
      for (const Ended& one : ended) {
        EXPECT_EQ(one.parameters, ended.front().parameters);
        EXPECT_EQ(one.sent, predicted);
      }
    }
  }
}

// A gradient that is not finite is transmitted as such, however it is packed: the step is skipped, and the residuals do
// not change.
TEST(Compress, SkipsNonFiniteSteps) {
  const SmallGpt task = small_gpt(DType::F64);
  for (const char* method : kMethods) {
    SCOPED_TRACE(method);
    const Plan plan = plan_for({.mesh = "data=2"}, method);
    const NamedGraph named = compressed(task.graph, plan);
    const Trained good = train_on_ranks(named.graph, plan, named.names, task.first, {batch_of(0)});
    Numbers broken = good.kept;
    broken.at("h.1.mlp.c_fc.weight")[5] = std::numeric_limits<double>::infinity();
    const Trained bad = train_on_ranks(named.graph, plan, named.names, broken, {batch_of(1)});
    EXPECT_FALSE(std::isfinite(bad.losses[0]));
    EXPECT_EQ(bad.kept, broken);
  }
}

// The gradient of positions that no sequence has consists of zeros around what was already reduced.
TEST(Compress, SkipsGradientsThatAreNotSent) {
  ModelConfig config = preset_model("gpt-nano");
  config.layers = 1;
  const Model model = make_model(config, {.sequences = 2, .length = 4});
  const Graph graph = make_training_graph(model.graph);
  const NamedGraph named = compressed(graph, plan_for({.mesh = "data=2"}, "sign"));
  EXPECT_EQ(named.names.contains("residual/wpe.weight"), false);
  EXPECT_EQ(named.names.contains("residual/wte.weight"), true);
  EXPECT_EQ(named.names.contains("residual/ln_f.weight"), false);
}

TEST(Compress, IsOffByDefault) {
  const SmallGpt task = small_gpt(DType::F32);
  EXPECT_EQ(compressed(task.graph, plan_of({.mesh = "data=2"})).graph, task.graph);
  expect_error(ErrorKind::Usage, "data=2",
               [&] { (void)compressed(task.graph, plan_for({.mesh = "tensor=2"}, "sign")); });
  TrainingOptions scaled;
  scaled.loss_scaling = LossScaling{};
  GraphBuilder b("scaled");
  const ValueId w = b.parameter("w", {DType::F32, {40, 40}});
  b.output("loss", b.add1("reduce_sum", {w}, {{"axes", std::vector<std::int64_t>{0, 1}}}));
  const Graph graph = make_training_graph(b.finish(), scaled);
  expect_error(ErrorKind::Usage, "loss scale",
               [&] { (void)compressed(graph, plan_for({.mesh = "data=2"}, "sign")); });
}

}  // namespace
}  // namespace trireme
