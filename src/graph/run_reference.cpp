#include <cstring>

#include "graph/evaluate.h"
#include "trireme/op.h"

namespace trireme {
namespace {

template <class T, class F>
void widen(const std::byte* from, Dense& to, F f) {
  const T* elements = reinterpret_cast<const T*>(from);
  for (std::size_t i = 0; i < to.data.size(); ++i) {
    to.data[i] = f(elements[i]);
  }
}

template <class T, class F>
void narrow(const Dense& from, std::byte* to, F f) {
  T* elements = reinterpret_cast<T*>(to);
  for (std::size_t i = 0; i < from.data.size(); ++i) {
    elements[i] = f(from.data[i]);
  }
}

template <class T>
double plain(T value) {
  return static_cast<double>(value);
}

Dense read(const TensorType& type, const std::byte* from) {
  Dense values(type.shape);
  const auto half = [](auto value) { return static_cast<double>(to_f32(value)); };
  switch (type.dtype) {
    case DType::F32:
      widen<float>(from, values, plain<float>);
      break;
    case DType::F64:
      widen<double>(from, values, plain<double>);
      break;
    case DType::F16:
      widen<Float16>(from, values, half);
      break;
    case DType::BF16:
      widen<BFloat16>(from, values, half);
      break;
    case DType::I8:
      widen<std::int8_t>(from, values, plain<std::int8_t>);
      break;
    case DType::U8:
      widen<std::uint8_t>(from, values, plain<std::uint8_t>);
      break;
    case DType::I32:
      widen<std::int32_t>(from, values, plain<std::int32_t>);
      break;
    case DType::I64:
      widen<std::int64_t>(from, values, plain<std::int64_t>);
      break;
  }
  return values;
}

void write(const TensorType& type, const Dense& values, std::byte* to) {
  switch (type.dtype) {
    case DType::F32:
      return narrow<float>(values, to, [](double v) { return static_cast<float>(v); });
    case DType::F64:
      return narrow<double>(values, to, [](double v) { return v; });
    case DType::F16:
      return narrow<Float16>(values, to, [](double v) { return to_f16(static_cast<float>(v)); });
    case DType::BF16:
      return narrow<BFloat16>(values, to, [](double v) { return to_bf16(static_cast<float>(v)); });
    case DType::I8:
      return narrow<std::int8_t>(values, to, [](double v) { return static_cast<std::int8_t>(v); });
    case DType::U8:
      return narrow<std::uint8_t>(values, to,
                                  [](double v) { return static_cast<std::uint8_t>(v); });
    case DType::I32:
      return narrow<std::int32_t>(values, to,
                                  [](double v) { return static_cast<std::int32_t>(v); });
    case DType::I64:
      return narrow<std::int64_t>(values, to,
                                  [](double v) { return static_cast<std::int64_t>(v); });
  }
}

}  // namespace

void run_reference(const ReferenceCall& call, std::span<const std::byte* const> inputs,
                   std::span<std::byte* const> outputs) {
  std::vector<Dense> operands;
  for (std::size_t k = 0; k < call.inputs.size(); ++k) {
    operands.push_back(read(call.inputs[k], inputs[k]));
  }
  const Signature signature{.op = &call.op, .inputs = call.inputs, .attributes = &call.attributes};
  const std::vector<Dense> results = evaluate(signature, operands);
  for (std::size_t k = 0; k < results.size(); ++k) {
    write(call.outputs[k], results[k], outputs[k]);
  }
}

}  // namespace trireme
