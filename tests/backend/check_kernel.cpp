#include "backend/check_kernel.h"

#include <cmath>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "graph/evaluate.h"
#include "trireme/execution.h"

namespace trireme::testing {
namespace {

HostBuffer buffer_of(const TensorType& type, const Dense& values) {
  HostBuffer buffer(type.dtype, type.shape.element_count());
  for (std::size_t i = 0; i < values.data.size(); ++i) {
    const double v = values.data[i];
    switch (type.dtype) {
      case DType::F32:
        buffer.as<float>()[i] = static_cast<float>(v);
        break;
      case DType::F64:
        buffer.as<double>()[i] = v;
        break;
      case DType::F16:
        buffer.as<Float16>()[i] = to_f16(static_cast<float>(v));
        break;
      case DType::BF16:
        buffer.as<BFloat16>()[i] = to_bf16(static_cast<float>(v));
        break;
      case DType::I32:
        buffer.as<std::int32_t>()[i] = static_cast<std::int32_t>(v);
        break;
      case DType::I64:
        buffer.as<std::int64_t>()[i] = static_cast<std::int64_t>(v);
        break;
      case DType::U8:
        buffer.as<std::uint8_t>()[i] = static_cast<std::uint8_t>(v);
        break;
      case DType::I8:
        buffer.as<std::int8_t>()[i] = static_cast<std::int8_t>(v);
        break;
    }
  }
  return buffer;
}

Dense dense_of(const TensorType& type, const HostBuffer& buffer) {
  Dense values(type.shape);
  for (std::size_t i = 0; i < values.data.size(); ++i) {
    switch (type.dtype) {
      case DType::F32:
        values.data[i] = buffer.as<float>()[i];
        break;
      case DType::F64:
        values.data[i] = buffer.as<double>()[i];
        break;
      case DType::F16:
        values.data[i] = to_f32(buffer.as<Float16>()[i]);
        break;
      case DType::BF16:
        values.data[i] = to_f32(buffer.as<BFloat16>()[i]);
        break;
      case DType::I32:
        values.data[i] = buffer.as<std::int32_t>()[i];
        break;
      case DType::I64:
        values.data[i] = static_cast<double>(buffer.as<std::int64_t>()[i]);
        break;
      case DType::U8:
        values.data[i] = buffer.as<std::uint8_t>()[i];
        break;
      case DType::I8:
        values.data[i] = buffer.as<std::int8_t>()[i];
        break;
    }
  }
  return values;
}

/// The tolerance relative to the largest operand or result: some units in the last place.
double tolerance(DType dtype) {
  switch (dtype) {
    case DType::F32:
      return 1e-5;
    case DType::F64:
      return 1e-12;
    case DType::F16:
      return 4e-3;
    case DType::BF16:
      return 3e-2;
    default:
      return 0;
  }
}

}  // namespace

Graph graph_with_copies(const OpCase& c, DType real) {
  const Graph plain = graph_of(c, real);
  GraphBuilder builder("in_place");
  std::vector<ValueId> inputs;
  for (const ValueId input : plain.nodes().front().inputs) {
    const Value& value = plain.value(input);
    inputs.push_back(builder.add1("copy", {builder.parameter(value.name, value.type)}));
  }
  std::size_t k = 0;
  for (const ValueId output : builder.add(c.op, inputs, c.attributes)) {
    builder.output(fmt::format("out{}", k++), output);
  }
  return builder.finish();
}

void check_kernel(const OpCase& c, DType real, const Graph& graph, Device& device) {
  const std::string what = to_text(graph);
  Execution execution(make_program(graph), device);
  Leaves leaves;
  const std::vector<Dense> drawn = draw_inputs(c);
  for (std::size_t k = 0; k < drawn.size(); ++k) {
    const std::string name = fmt::format("in{}", k);
    const TensorType& type = graph.value(graph.find(name)).type;
    leaves[name] = drawn[k];
    execution.write(name, buffer_of(type, drawn[k]).raw());
  }
  execution.run();
  const std::vector<Dense> expected = evaluate(graph, leaves);
  for (const Output& output : graph.outputs()) {
    const TensorType& type = graph.value(output.value).type;
    HostBuffer buffer(type.dtype, type.shape.element_count());
    execution.read(output.name, buffer.raw());
    const Dense found = dense_of(type, buffer);
    const Dense& right = expected[static_cast<std::size_t>(output.value.index)];
    double largest = 1e-3;
    for (const double element : right.data) {
      largest = std::isfinite(element) ? std::max(largest, std::abs(element)) : largest;
    }
    // The inputs were rounded, too: results of f32 statistics over bf16 inputs are only as accurate as those.
    const double allowed =
        std::max(tolerance(type.dtype), is_float(type.dtype) ? tolerance(real) / 10 : 0) * largest;
    for (std::size_t i = 0; i < right.data.size(); ++i) {
      if (found.data[i] == right.data[i]) {
        continue;  // infinities too
      }
      ASSERT_NEAR(found.data[i], right.data[i], allowed) << what << output.name << " at " << i;
    }
  }
}

}  // namespace trireme::testing
