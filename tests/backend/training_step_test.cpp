// Whole training steps on the CPU: in place, and equal to the references.
#include <algorithm>
#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include "graph/evaluate.h"
#include "trireme/cpu_device.h"
#include "trireme/cuda_device.h"
#include "trireme/execution.h"
#include "trireme/model.h"
#include "trireme/model_dims.h"
#include "trireme/op.h"
#include "trireme/optimize.h"
#include "trireme/training.h"

namespace trireme::testing {
namespace {

constexpr BatchShape kBatch{.sequences = 2, .length = 5};

ModelConfig small_model(DType dtype) {
  return {.vocabulary = 19,
          .context = 8,
          .width = 12,
          .layers = 2,
          .heads = 3,
          .key_heads = 3,
          .head_width = 4,
          .hidden = 20,
          .dtype = dtype};
}

Graph training_graph(const Model& model, const Optimizer& optimizer) {
  TrainingOptions options{.optimizer = optimizer, .clip_limit = 1.0};
  options.dim_names = dim_names(model.graph);
  return make_training_graph(model.graph, options);
}

TEST(TrainingStep, UpdatesInPlace) {
  const Model model = make_model(small_model(DType::F32), kBatch);
  for (const Optimizer& optimizer : {Optimizer(Sgd{}), Optimizer(Momentum{}), Optimizer(Adagrad{}),
                                     Optimizer(AdamW{}), Optimizer(Lion{}), Optimizer(Muon{})}) {
    const Graph graph = training_graph(model, optimizer);
    const Program program = make_program(graph);
    require_valid(program);
    EXPECT_TRUE(std::ranges::none_of(program.instructions,
                                     [](const Instruction& i) { return i.op->name == "copy"; }));
    for (const Update& update : graph.updates()) {
      EXPECT_EQ(program.buffer({update.target.index}).offset,
                program.buffer({update.value.index}).offset)
          << graph.value(update.target).name;
    }
  }
}

/// Runs steps on a device; returns the parameters afterwards.
class Training {
 public:
  Training(const Model& model, const Graph& graph, Device& device, const BatchShape& batch = kBatch)
      : model_(model), execution_(make_program(graph), device) {
    for (const ModelParameter& parameter : model.parameters) {
      execution_.write(parameter.name, initial_values(parameter, 1).raw());
    }
    std::mt19937 generator(3);
    for (const char* name : {"tokens", "targets"}) {
      HostBuffer ids(DType::I32, batch.sequences * batch.length);
      std::ranges::generate(ids.as<std::int32_t>(),
                            [&] { return static_cast<std::int32_t>(generator() % 19); });
      execution_.write(name, ids.raw());
    }
  }

  void step(std::int64_t number) {
    HostBuffer step(DType::I64, 1);
    step.as<std::int64_t>()[0] = number;
    execution_.write("step", step.raw());
    write_rate();
    execution_.run();
  }

  [[nodiscard]] double loss() const { return execution_.number("loss"); }

  [[nodiscard]] HostBuffer parameter(const ModelParameter& which) const {
    HostBuffer values(which.type.dtype, which.type.shape.element_count());
    execution_.read(which.name, values.raw());
    return values;
  }

 private:
  void write_rate() {
    const bool wide = model_.dtype == DType::F64;
    HostBuffer rate(wide ? DType::F64 : DType::F32, 1);
    if (wide) {
      rate.as<double>()[0] = 0.01;
    } else {
      rate.as<float>()[0] = 0.01F;
    }
    execution_.write("learning_rate", rate.raw());
  }

  const Model& model_;
  Execution execution_;
};

constexpr int kSteps = 3;

/// The largest difference of any parameter's element after some steps of both graphs.
template <class T>
double difference(const Model& model, const Graph& a, const Graph& b, int threads_of_b) {
  std::vector<HostBuffer> found;
  for (const auto& [graph, threads] : {std::pair(&a, 1), std::pair(&b, threads_of_b)}) {
    const std::unique_ptr<Device> device = make_cpu_device({.threads = threads, .pinned = false});
    Training training(model, *graph, *device);
    for (int step = 1; step <= kSteps; ++step) {
      training.step(step);
    }
    for (const ModelParameter& parameter : model.parameters) {
      found.push_back(training.parameter(parameter));
    }
  }
  double largest = 0;
  const std::size_t count = model.parameters.size();
  for (std::size_t k = 0; k < count; ++k) {
    for (std::size_t i = 0; i < found[k].as<T>().size(); ++i) {
      const double off = static_cast<double>(found[k].as<T>()[i]) -
                         static_cast<double>(found[k + count].as<T>()[i]);
      largest = std::max(largest, std::abs(off));
    }
  }
  return largest;
}

TEST(TrainingStep, IsIndependentOfThreadCount) {
  const Model model = make_model(small_model(DType::F32), kBatch);
  const Graph graph = training_graph(model, AdamW{});
  EXPECT_EQ(difference<float>(model, graph, graph, 2), 0);
}

TEST(TrainingStep, FusionPreservesResults) {
  const Model wide = make_model(small_model(DType::F64), kBatch);
  const Graph graph = training_graph(wide, AdamW{});
  EXPECT_LT(difference<double>(wide, graph, fuse_elementwise(graph), 1), 1e-12);
  const Model model = make_model(small_model(DType::F32), kBatch);
  const Graph narrow = training_graph(model, AdamW{});
  EXPECT_LT(difference<float>(model, narrow, fuse_elementwise(narrow), 1), 1e-4);
}

constexpr Fusions kAll{
    .classifier = true, .projections = true, .products = true, .norms = true, .updates = true};

/// With 19 classes, which are padded, and 24, which are not.
TEST(TrainingStep, AcceleratorFusionsPreserveResults) {
  for (const Family family : {Family::Gpt2, Family::Llama}) {
    for (const std::int64_t vocabulary : {19, 24}) {
      ModelConfig config = small_model(DType::F64);
      config.family = family;
      config.vocabulary = vocabulary;
      config.key_heads = family == Family::Llama ? 1 : 3;
      const Model wide = make_model(config, kBatch);
      const Graph graph = training_graph(wide, AdamW{});
      EXPECT_LT(difference<double>(wide, graph, fuse_for(graph, kAll), 1), 1e-9);
      config.dtype = DType::F32;
      const Model model = make_model(config, kBatch);
      const Graph narrow = training_graph(model, Momentum{});  // AdamW amplifies rounding
      EXPECT_LT(difference<float>(model, narrow, fuse_for(narrow, kAll), 1), 1e-4);
    }
  }
}

/// With what the device fuses. In bf16, kernels of the two devices round differently.
TEST(CudaTraining, MatchesCpu) {
  if (cuda_device_count() == 0) {
    GTEST_SKIP() << "no CUDA device";
  }
  const std::unique_ptr<Device> cpu = make_cpu_device({.threads = 1, .pinned = false});
  const std::unique_ptr<Device> cuda = make_cuda_device();
  for (const Family family : {Family::Gpt2, Family::Llama}) {
    for (const auto& [dtype, tolerance] : {std::pair(DType::F32, 1e-4), {DType::BF16, 5e-2}}) {
      ModelConfig config = small_model(dtype);
      config.family = family;
      config.width = 24;
      config.head_width = 8;
      config.hidden = 32;
      const Model model = make_model(config, kBatch);
      const Graph graph = training_graph(model, AdamW{});
      Training expected(model, graph, *cpu);
      Training found(model, fuse_for(graph, cuda->fusions()), *cuda);
      for (int step = 1; step <= 5; ++step) {
        expected.step(step);
        found.step(step);
        EXPECT_NEAR(found.loss(), expected.loss(), tolerance) << to_text(dtype) << " " << step;
      }
    }
  }
}

/// With attention by the library, in several blocks.
TEST(CudaTraining, IsBitReproducibleWhenRequested) {
  if (cuda_device_count() == 0) {
    GTEST_SKIP() << "no CUDA device";
  }
  keep_cuda_algorithms("", AlgorithmChoice::Reproducible);
  const std::unique_ptr<Device> cuda = make_cuda_device();
  ModelConfig config = small_model(DType::BF16);
  config.width = 128;
  config.head_width = 64;
  config.heads = 2;
  config.key_heads = 2;
  config.context = 512;
  const BatchShape batch{.sequences = 4, .length = 512};
  const Model model = make_model(config, batch);
  const Graph graph = fuse_for(training_graph(model, AdamW{}), cuda->fusions());
  Training one(model, graph, *cuda, batch);
  Training other(model, graph, *cuda, batch);
  for (int step = 1; step <= 5; ++step) {
    one.step(step);
    other.step(step);
  }
  keep_cuda_algorithms("");
  for (const ModelParameter& parameter : model.parameters) {
    EXPECT_TRUE(
        std::ranges::equal(one.parameter(parameter).raw(), other.parameter(parameter).raw()))
        << parameter.name;
  }
}

/// Parameters in bf16 are rounded by the node that updates their master copies, in place.
TEST(TrainingStep, FusesRoundingIntoOptimizerUpdate) {
  const Model model = make_model(small_model(DType::BF16), kBatch);
  const Graph graph = fuse_for(remove_dead_nodes(training_graph(model, AdamW{})), kAll);
  EXPECT_TRUE(std::ranges::none_of(graph.nodes(), [](const Node& node) {
    return node.op->name == "adamw" || node.op->name == "cast";
  }));
  const Program program = make_program(graph);
  require_valid(program);
  EXPECT_TRUE(std::ranges::none_of(program.instructions,
                                   [](const Instruction& i) { return i.op->name == "copy"; }));
}

}  // namespace
}  // namespace trireme::testing
