// The step that checks everything it computes.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.h"
#include "runtime/host_values.h"
#include "runtime/staging_queue.h"
#include "tensor/container_size.h"
#include "trireme/execution.h"
#include "trireme/op.h"

namespace trireme {
namespace {

template <class T>
double wide(T element) {
  if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>) {
    return to_f32(element);
  } else {
    return element;
  }
}

struct Found {
  std::int64_t element = 0;
  double value = 0;
};

template <class T>
std::optional<Found> find_in(std::span<const std::byte> bytes) {
  for (std::size_t i = 0; i < bytes.size() / sizeof(T); ++i) {
    T element;
    std::memcpy(&element, bytes.data() + i * sizeof(T), sizeof(T));
    if (const double value = wide(element); !std::isfinite(value)) {
      return Found{static_cast<std::int64_t>(i), value};
    }
  }
  return std::nullopt;
}

std::optional<Found> find_in(std::span<const std::byte> bytes, DType dtype) {
  switch (dtype) {
    case DType::F32:
      return find_in<float>(bytes);
    case DType::F64:
      return find_in<double>(bytes);
    case DType::F16:
      return find_in<Float16>(bytes);
    case DType::BF16:
      return find_in<BFloat16>(bytes);
    default:
      return std::nullopt;
  }
}

/// The coordinates of an element: 17 of [2,3,4] is at [1,1,1].
std::vector<std::int64_t> place_of(std::int64_t element, const Shape& shape) {
  std::vector<std::int64_t> place;
  for (const std::int64_t stride : shape.strides()) {
    place.push_back(element / stride);
    element %= stride;
  }
  return place;
}

/// "einsum", or "fused add, gelu".
std::string op_text(const Instruction& instruction) {
  const auto program = instruction.attributes.find("program");
  if (program == instruction.attributes.end()) {
    return std::string(instruction.op->name);
  }
  std::vector<std::string_view> steps;
  for (const std::string_view step : split(std::get<std::string>(program->second), ';')) {
    steps.push_back(trim(step.substr(0, step.find('('))));
  }
  return fmt::format("{} {}", instruction.op->name, fmt::join(steps, ", "));
}

/// "einsum(%x, %w) in forward, block 3".
std::string instruction_text(const Instruction& instruction, const Program& program) {
  std::vector<std::string> inputs;
  for (const BufferId input : instruction.inputs) {
    inputs.push_back("%" + program.buffer(input).name);
  }
  return fmt::format("{}({}) in {}{}", op_text(instruction), fmt::join(inputs, ", "),
                     to_text(instruction.phase),
                     instruction.block < 0 ? "" : fmt::format(", block {}", instruction.block));
}

/// "nan" for either sign; "inf", "-inf".
std::string value_text(double value) {
  return std::isnan(value) ? "nan" : fmt::format("{}", value);
}

/// "the parameter", "the optimizer's state".
std::string source_text(Origin origin) {
  return fmt::format("the {}{}", origin == Origin::State ? "optimizer's " : "", to_text(origin));
}

}  // namespace

std::string to_text(const NonFinite& found, const Program& program) {
  const Buffer& buffer = program.buffer(found.buffer);
  const std::string where = fmt::format(
      "%{} {}, whose [{}] is {}", buffer.name, to_text(buffer.type),
      fmt::join(place_of(found.element, buffer.type.shape), ","), value_text(found.value));
  return found.instruction < 0
             ? fmt::format("{} {}", source_text(buffer.origin), where)
             : fmt::format("{} gave {}",
                           instruction_text(program.instructions.at(found.instruction), program),
                           where);
}

std::optional<NonFinite> Execution::first_non_finite(BufferId id) {
  const Buffer& buffer = program_.buffer(id);
  if (!is_float(buffer.type.dtype)) {
    return std::nullopt;
  }
  checked_.resize(container_size(size_of(buffer.type)));
  compute_->copy_out(checked_, address_of(id));
  compute_->synchronize();
  const std::optional<Found> found = find_in(checked_, buffer.type.dtype);
  return found ? std::optional(NonFinite{id, found->element, found->value}) : std::nullopt;
}

std::optional<NonFinite> Execution::find_non_finite_leaf() {
  for (std::size_t b = 0; b < program_.buffers.size(); ++b) {
    if (program_.buffers[b].origin != Origin::Node) {
      if (auto found = first_non_finite({static_cast<std::int32_t>(b)})) {
        return found;
      }
    }
  }
  return std::nullopt;
}

std::optional<NonFinite> Execution::run_checked() {
  staging_->clear();
  std::optional<NonFinite> first = find_non_finite_leaf();
  // Other ranks may wait for this rank's communication: if there is any, continues to the end.
  const bool alone =
      std::ranges::none_of(exchanges_, [](const auto& one) { return one != nullptr; });
  for (std::size_t i = 0; i < kernels_.size() && !(first && alone); ++i) {
    if (kernels_[i]) {
      kernels_[i]->enqueue(*compute_);
    } else if (exchanges_[i]) {
      exchanges_[i]->start(*compute_);
      exchanges_[i]->finish(*compute_);
    } else {
      continue;
    }
    for (const BufferId output : program_.instructions[i].outputs) {
      if (first) {
        break;
      }
      first = first_non_finite(output);
      if (first) {
        first->instruction = static_cast<std::int32_t>(i);
      }
    }
  }
  numbers_->enqueue_copies(*compute_);
  compute_->synchronize();
  return first;
}

}  // namespace trireme
