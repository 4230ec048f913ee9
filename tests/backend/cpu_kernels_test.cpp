// Every op on the CPU against its reference, over the table of cases, in every element type.
#include <cmath>
#include <cstring>
#include <limits>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backend/cpu/kernel.h"
#include "backend/large_cases.h"
#include "graph/evaluate.h"
#include "graph/op_cases.h"
#include "trireme/cpu_device.h"
#include "trireme/error.h"
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

/// The case's graph; its inputs go through copies, which the op may then overwrite.
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

void check_graph(const OpCase& c, DType real, const Graph& graph, Device& device) {
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

class CpuKernels : public ::testing::TestWithParam<DType> {};

TEST_P(CpuKernels, AgreeWithReferences) {
  for (const int threads : {1, 2}) {
    const std::unique_ptr<Device> device = make_cpu_device({.threads = threads, .pinned = false});
    for (const OpCase& c : op_cases()) {
      check_graph(c, GetParam(), graph_of(c, GetParam()), *device);
      check_graph(c, GetParam(), graph_with_copies(c, GetParam()), *device);
      if (HasFatalFailure()) {
        return;
      }
    }
  }
}

TEST_P(CpuKernels, AgreeBeyondTheirBlocks) {
  for (const int threads : {1, 2, 3}) {
    const std::unique_ptr<Device> device = make_cpu_device({.threads = threads, .pinned = false});
    for (const OpCase& c : large_cases()) {
      check_graph(c, GetParam(), graph_of(c, GetParam()), *device);
      if (HasFatalFailure()) {
        return;
      }
    }
  }
}

/// The reference, which takes no scratch memory, would compute them in f64 on one thread, and allocate in the step.
TEST_P(CpuKernels, LeaveNoProductAndNoTableToTheReference) {
  const std::unique_ptr<Device> device = make_cpu_device({.threads = 2, .pinned = false});
  std::vector<OpCase> cases;
  for (const char* equation : {"bhtd,hdcz->bzct", "xhtd,hdcz->zctx", "tdhx,czhd->tzcx"}) {
    cases.push_back(
        {"einsum", {{{2, 3, 4, 5}}, {{3, 5, 6, 2}}}, {{"equation", std::string(equation)}}});
  }
  cases[2].inputs = {{{2, 5, 3, 4}}, {{6, 2, 3, 5}}};
  cases.push_back({"embedding_backward",
                   {{{9, 70}}, {{9}, 0, 4, 0, Operand::Kind::Whole}},
                   {{"rows", std::int64_t{5}}}});
  for (const OpCase& c : cases) {
    const bool plain = c.op == "embedding_backward" && size_of(GetParam()).count > 2;
    const Program program = make_program(graph_of(c, GetParam()));
    EXPECT_EQ(workspace_of(program, *device).count > 0, !plain) << describe(c);
    check_graph(c, GetParam(), graph_of(c, GetParam()), *device);
  }
}

/// Ops without a kernel run by the reference, always: a new op needs a kernel, or a line here and in reference.cpp.
TEST(ReferenceKernels, AreAllThereIsForTheseOps) {
  std::vector<std::string_view> without;
  for (const Op* op : all_ops()) {
    if (!op->is_view && !op->communicates && !cpu::has_kernel(op->name)) {
      without.push_back(op->name);
    }
  }
  EXPECT_EQ(without, std::vector<std::string_view>{"orthonormal"});
  for (const cpu::ReferenceUse& use : cpu::reference_uses()) {
    ASSERT_NE(find_op(use.op), nullptr) << use.op;
    EXPECT_EQ(use.when == "always", !cpu::has_kernel(use.op)) << use.op;
  }
}

TEST(ReferenceKernels, AreNotForOtherOps) {
  const std::vector<TensorType> x{{DType::F32, Shape{2}}, {DType::F32, Shape{2}}};
  const KernelRequest request{
      .op = find_op("add"), .attributes = {}, .inputs = x, .outputs = {x[0]}};
  try {
    (void)cpu::reference_kernel(request);
    FAIL() << "no throw";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Usage);
    EXPECT_STREQ(error.what(), "the CPU has no kernel for add(f32[2], f32[2])");
  }
}

INSTANTIATE_TEST_SUITE_P(Types, CpuKernels,
                         ::testing::Values(DType::F32, DType::F64, DType::BF16, DType::F16),
                         [](const auto& tested) { return std::string(to_text(tested.param)); });

}  // namespace
}  // namespace trireme::testing
