#include "trireme/sample_steps.h"

#include <string>

#include "trireme/plan.h"
#include "trireme/train_step.h"

namespace trireme {
namespace {

struct Sample {
  AnyModelConfig model{};
  std::int64_t batch = 1;
  std::int64_t length = 1;
  std::string mesh{};
  int zero = 0;
};

ModelConfig transformer(Family family, std::int64_t width, std::int64_t vocabulary) {
  ModelConfig config = preset_model(family == Family::Llama ? "llama-tiny" : "gpt-mini");
  config.width = width;
  config.layers = 2;
  config.heads = width / 32;
  config.key_heads = family == Family::Llama ? config.heads / 2 : config.heads;
  config.hidden = family == Family::Llama ? width * 11 / 4 : 4 * width;
  config.vocabulary = vocabulary;
  return config;
}

std::vector<Sample> samples(const SampleStepOptions& options) {
  std::vector<Sample> chosen{
      {.model = transformer(Family::Gpt2, 64, 256), .batch = 4, .length = 64},
      {.model = transformer(Family::Gpt2, 128, 256), .batch = 8, .length = 128},
      {.model = transformer(Family::Llama, 128, 256), .batch = 4, .length = 64, .mesh = "tensor=2"},
  };
  if (!options.quick) {
    ModelConfig experts = preset_model("experts-mini");
    experts.layers = 2;
    chosen.insert(chosen.end(),
                  {{.model = transformer(Family::Gpt2, 128, 256), .batch = 1, .length = 128},
                   {.model = transformer(Family::Gpt2, 128, 256),
                    .batch = 16,
                    .length = 64,
                    .mesh = "tensor=2"},
                   {.model = transformer(Family::Gpt2, 256, 2048), .batch = 4, .length = 128},
                   {.model = transformer(Family::Gpt2, 128, 256),
                    .batch = 8,
                    .length = 32,
                    .mesh = "data=2",
                    .zero = 3},
                   {.model = transformer(Family::Llama, 256, 1024), .batch = 4, .length = 128},
                   {.model = transformer(Family::Gpt2, 512, 4096), .batch = 1, .length = 128},
                   {.model = preset_model("gpt-mini"), .batch = 16, .length = 128},
                   {.model = experts, .batch = 4, .length = 64},
                   {.model = experts, .batch = 12, .length = 64},
                   {.model = preset_model("switch-mini"), .batch = 2, .length = 64},
                   {.model = preset_model("switch-mini"), .batch = 12, .length = 128},
                   {.model = preset_model("depths-mini"), .batch = 8, .length = 64},
                   {.model = preset_any_model("conv-mini"), .batch = 32},
                   {.model = preset_any_model("conv-mini"), .batch = 8},
                   {.model = preset_any_model("mlp-deep"), .batch = 256},
                   {.model = preset_any_model("mlp-deep"), .batch = 64, .mesh = "tensor=2"}});
  }
  return chosen;
}

Program program_of(const Sample& sample) {
  TrainSettings settings;
  settings.batch = sample.batch;
  settings.length = sample.length;
  Plan plan;
  plan.mesh = parse_mesh(sample.mesh);
  plan.zero = sample.zero;
  return compile_train_step(sample.model, settings, plan).compiled.program(0);
}

}  // namespace

std::vector<Program> sample_steps(const SampleStepOptions& options) {
  std::vector<Program> programs;
  for (const Sample& sample : samples(options)) {
    programs.push_back(program_of(sample));
  }
  return programs;
}

}  // namespace trireme
