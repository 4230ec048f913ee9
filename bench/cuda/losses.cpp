#include "losses.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <vector>

#include <fmt/format.h>
#include <fmt/ostream.h>
#include <fmt/ranges.h>

#include "trireme/execution.h"
#include "trireme/model.h"
#include "trireme/optimize.h"
#include "trireme/program.h"
#include "trireme/training.h"

namespace trireme {
namespace {

constexpr int kSteps = 200;
constexpr BatchShape kSequences{.sequences = 8, .length = 256};

ModelConfig small_gpt(DType dtype) {
  ModelConfig config = preset_model("gpt-mini");
  config.vocabulary = 8192;
  config.width = 256;
  config.head_width = 64;
  config.hidden = 1024;
  config.dtype = dtype;
  return config;
}

/// Sequences in which each id but the first is one of eight that follow from the one before.
std::vector<std::int32_t> sequences(std::mt19937& random, std::int64_t vocabulary) {
  std::vector<std::int32_t> ids;
  for (std::int64_t s = 0; s < kSequences.sequences; ++s) {
    auto id = static_cast<std::int64_t>(random()) % vocabulary;
    for (std::int64_t t = 0; t <= kSequences.length; ++t) {
      ids.push_back(static_cast<std::int32_t>(id));
      id = (5 * id + 13 + static_cast<std::int64_t>(random() % 8)) % vocabulary;
    }
  }
  return ids;
}

void write_bytes(std::ofstream& file, std::span<const std::byte> bytes) {
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

/// Each parameter's first values, to the execution and to files.
void write_parameters(const std::string& folder, const Model& wide, const Graph& graph, DType dtype,
                      Execution& execution) {
  std::ofstream names(folder + "/weights.txt");
  std::ofstream weights(folder + "/weights.bin", std::ios::binary);
  for (const ModelParameter& parameter : wide.parameters) {
    const HostBuffer values = initial_values(parameter, 1);
    fmt::print(names, "{} {}\n", parameter.name, fmt::join(parameter.type.shape.dims(), " "));
    write_bytes(weights, values.raw());
    if (dtype == DType::F32) {
      execution.write(parameter.name, values.raw());
      continue;
    }
    HostBuffer narrow(DType::BF16, parameter.type.shape.element_count());
    std::ranges::transform(values.as<float>(), narrow.as<BFloat16>().begin(), to_bf16);
    execution.write(parameter.name, narrow.raw());
    const std::string master = master_of(parameter.name);
    if (std::ranges::any_of(graph.values(), [&](const Value& v) { return v.name == master; })) {
      execution.write(master, values.raw());
    }
  }
}

void write_batch(const std::vector<std::int32_t>& ids, Execution& execution) {
  const auto length = static_cast<std::size_t>(kSequences.length);
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> targets;
  for (std::size_t begin = 0; begin < ids.size(); begin += length + 1) {
    tokens.insert(tokens.end(), ids.data() + begin, ids.data() + begin + length);
    targets.insert(targets.end(), ids.data() + begin + 1, ids.data() + begin + length + 1);
  }
  execution.write("tokens", std::as_bytes(std::span(tokens)));
  execution.write("targets", std::as_bytes(std::span(targets)));
}

}  // namespace

void write_losses(const std::string& folder, DType dtype, Device& device) {
  std::filesystem::create_directories(folder);
  const ModelConfig config = small_gpt(dtype);
  const Model model = make_model(config, kSequences);
  const Graph graph = fuse_for(remove_dead_nodes(make_training_graph(
                                   model.graph, {.optimizer = AdamW{.beta2 = 0.95, .decay = 0.1},
                                                 .clip_limit = 1.0,
                                                 .no_decay = {".bias"}})),
                               device.fusions());
  Execution execution(make_program(graph), device);
  write_parameters(folder, make_model(small_gpt(DType::F32), kSequences), graph, dtype, execution);
  std::ofstream tokens(folder + "/tokens.bin", std::ios::binary);
  std::ofstream losses(folder + "/losses.txt");
  std::mt19937 random(1);
  for (std::int64_t step = 1; step <= kSteps; ++step) {
    const std::vector<std::int32_t> ids = sequences(random, config.vocabulary);
    write_bytes(tokens, std::as_bytes(std::span(ids)));
    write_batch(ids, execution);
    const float rate = 3e-4F;
    execution.write("step", std::as_bytes(std::span(&step, 1)));
    execution.write("learning_rate", std::as_bytes(std::span(&rate, 1)));
    execution.run();
    fmt::print(losses, "{:.7f}\n", execution.number("loss"));
  }
}

}  // namespace trireme
