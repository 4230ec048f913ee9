#include "train/step/memory_plan.h"

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "trireme/execution.h"
#include "trireme/memory_prediction.h"
#include "trireme/model_dims.h"
#include "trireme/op.h"
#include "trireme/program_layout.h"

namespace trireme::train {
namespace {

constexpr std::size_t kListedBuffers = 4;

std::string place_text(const Instruction& instruction) {
  return fmt::format("{}{}", to_text(instruction.phase),
                     instruction.block < 0 ? "" : fmt::format(", block {}", instruction.block));
}

/// The origin of a tensor: "parameter", "forward, block 3".
std::string origin_text(const Program& program, const Buffer& buffer) {
  const BufferId id{static_cast<std::int32_t>(&buffer - program.buffers.data())};
  for (const Instruction& instruction : program.instructions) {
    if (buffer.origin == Origin::Node &&
        std::ranges::find(instruction.outputs, id) != instruction.outputs.end()) {
      return place_text(instruction);
    }
  }
  return std::string(to_text(buffer.category));
}

std::vector<LargeTensor> largest_at(const Program& program, std::int32_t moment) {
  std::vector<const Buffer*> alive;
  std::set<std::int32_t> seen;
  for (const Buffer& buffer : program.buffers) {
    if (buffer.first <= moment && moment <= buffer.last && seen.insert(buffer.storage).second) {
      alive.push_back(&buffer);
    }
  }
  std::ranges::stable_sort(alive, std::greater<>(),
                           [](const Buffer* buffer) { return size_of(buffer->type); });
  std::vector<LargeTensor> largest;
  for (const Buffer* buffer : std::span(alive).first(std::min(kListedBuffers, alive.size()))) {
    largest.push_back({buffer->name, buffer->type, origin_text(program, *buffer)});
  }
  return largest;
}

std::string moment_text(const Program& program, std::int32_t moment) {
  if (moment < 0 || moment >= std::ssize(program.instructions)) {
    return "the beginning";
  }
  const Instruction& instruction = program.instructions[moment];
  return fmt::format("{} in {}", instruction.op->name, place_text(instruction));
}

}  // namespace

Bytes MemoryNeed::total() const {
  return {arena.count + workspace.count + update.count + evaluation.count + synchronization.count};
}

namespace {

/// Copies of the model that synchronization keeps.
Bytes synchronization_memory(const CompiledTraining& compiled, int rank) {
  std::int64_t elements = 0;
  for (const Buffer& buffer : compiled.step.program(rank).buffers) {
    elements += buffer.origin == Origin::Parameter ? buffer.type.shape.element_count() : 0;
  }
  return {compiled.model_copies * elements * static_cast<std::int64_t>(sizeof(float))};
}

}  // namespace

MemoryNeed plan_memory(const CompiledTraining& compiled, Device& device, int rank) {
  const auto placed = [&](const Program& program) {
    return aligned_to(program, device.alignment());
  };
  const auto all_of = [&](const Program& unplaced) {
    const Program program = placed(unplaced);
    return Bytes{program.arena.count + workspace_of(program, device).count};
  };
  const Program program = placed(compiled.step.program(rank));
  MemoryNeed need;
  need.arena = program.arena;
  need.workspace = workspace_of(program, device);
  need.update = compiled.update ? all_of(compiled.update->program(rank)) : Bytes{};
  need.evaluation = all_of(compiled.evaluation.program(rank));
  need.synchronization = synchronization_memory(compiled, rank);
  need.use = memory_use(program);
  need.moment = moment_text(program, need.use.moment);
  need.largest = largest_at(program, need.use.moment);
  need.flops = compiled.flops.hardware().products;
  return need;
}

MemoryNeed plan_memory(const TrainerOptions& options, Device& device, int rank) {
  return plan_memory(compile_training(options, rank), device, rank);
}

PredictedMemory predict_memory(const TrainerOptions& options, int rank) {
  const PlannedStep step = make_planned_step(options);
  const Model evaluation = make_evaluation_model(options);
  const MemoryUse forward =
      trireme::predict_memory({.graph = evaluation.graph, .names = dim_names(evaluation.graph)},
                              make_evaluation_plan(options.plan, evaluation.graph), rank);
  return {.step = trireme::predict_memory(step.graph, options.plan, rank).peak,
          .evaluation = forward.peak,
          .flops = step.flops.hardware().products};
}

}  // namespace trireme::train
