#include "runtime/exchange_layout.h"

#include <functional>
#include <map>
#include <numeric>
#include <string_view>

#include <fmt/format.h>

#include "graph/blocks.h"
#include "trireme/error.h"
#include "trireme/op.h"

namespace trireme::runtime {
namespace {

using Where = OperandPlace::Where;

Signature signature_of(const KernelRequest& request) {
  return {.op = request.op, .inputs = request.inputs, .attributes = &request.attributes};
}

BlockedTensor blocked(const TensorType& type, std::int64_t dimension, std::int64_t unit,
                      std::int64_t ranks) {
  const auto& dims = type.shape.dims();
  const auto at = dims.begin() + dimension;
  BlockedTensor tensor;
  tensor.dtype = type.dtype;
  tensor.outer = std::accumulate(dims.begin(), at, std::int64_t{1}, std::multiplies<>());
  tensor.size = *at;
  tensor.inner = std::accumulate(at + 1, dims.end(), std::int64_t{1}, std::multiplies<>());
  for (std::int64_t r = 0; r < ranks; ++r) {
    tensor.blocks.push_back(block_of(tensor.size, unit, ranks, r));
  }
  return tensor;
}

OperandPlace input_of(const KernelRequest& request) {
  return {.where = Where::Input, .size = size_of(request.inputs[0])};
}
OperandPlace output_of(const KernelRequest& request) {
  return {.where = Where::Output, .size = size_of(request.outputs[0])};
}

// The blocks that an all-gather receives, a reduce-scatter sends, and an all-to-all sends and
// receives.

BlockedTensor gathered(const KernelRequest& request) {
  const Signature s = signature_of(request);
  return blocked(request.outputs[0], s.integer("dimension"), s.integer("unit"), s.integer("ranks"));
}
BlockedTensor scattered(const KernelRequest& request) {
  const Signature s = signature_of(request);
  return blocked(request.inputs[0], s.integer("dimension"), s.integer("unit"), s.integer("ranks"));
}
BlockedTensor sent_to_all(const KernelRequest& request) {
  const Signature s = signature_of(request);
  return blocked(request.inputs[0], s.integer("to"), s.integer("to_unit"), s.integer("ranks"));
}
BlockedTensor received_from_all(const KernelRequest& request) {
  const Signature s = signature_of(request);
  return blocked(request.outputs[0], s.integer("from"), s.integer("from_unit"), s.integer("ranks"));
}

ExchangeLayout all_reduce_layout(const KernelRequest& request) {
  return {.source = input_of(request), .target = output_of(request), .in_place = true};
}

ExchangeLayout all_gather_layout(const KernelRequest& request) {
  ExchangeLayout layout{.source = input_of(request), .target = output_of(request)};
  if (BlockedTensor tensor = gathered(request); !tensor.contiguous()) {
    layout.target->where = Where::Scratch;
    layout.unpacked = std::move(tensor);
  }
  return layout;
}

ExchangeLayout reduce_scatter_layout(const KernelRequest& request) {
  ExchangeLayout layout{.source = input_of(request), .target = output_of(request)};
  if (BlockedTensor tensor = scattered(request); !tensor.contiguous()) {
    layout.source->where = Where::Scratch;
    layout.packed = std::move(tensor);
  }
  return layout;
}

/// Always through the scratch: an all-to-all may have its result where its input is.
ExchangeLayout all_to_all_layout(const KernelRequest& request) {
  const Bytes sent = size_of(request.inputs[0]);
  return {.source = {{.where = Where::Scratch, .size = sent}},
          .target = {{.where = Where::Scratch,
                      .offset = sent.count,
                      .size = size_of(request.outputs[0])}},
          .packed = sent_to_all(request),
          .unpacked = received_from_all(request)};
}

ExchangeLayout send_layout(const KernelRequest& request) {
  return {.source = input_of(request)};
}
ExchangeLayout receive_layout(const KernelRequest& request) {
  return {.target = output_of(request)};
}

// The operations of `comm`.

Call call_of(const KernelRequest& request, Operation operation) {
  Call call;
  call.operation = operation;
  call.dtype = request.inputs[0].dtype;
  call.options.site = request.op->name.data();
  return call;
}

Call all_reduce_call(const KernelRequest& request) {
  Call call = call_of(request, Operation::Allreduce);
  call.options.reduction = parse_reduction(signature_of(request).text("reduction"));
  return call;
}

Call all_gather_call(const KernelRequest& request) {
  Call call = call_of(request, Operation::Allgather);
  call.counts = gathered(request).counts();
  return call;
}

Call reduce_scatter_call(const KernelRequest& request) {
  Call call = call_of(request, Operation::ReduceScatter);
  call.options.reduction = parse_reduction(signature_of(request).text("reduction"));
  call.counts = scattered(request).counts();
  return call;
}

Call all_to_all_call(const KernelRequest& request) {
  Call call = call_of(request, Operation::Alltoall);
  call.counts = sent_to_all(request).counts();
  call.receive_counts = received_from_all(request).counts();
  return call;
}

StartOnHost start_collective(const CollectiveCall& collective, Communicator& communicator) {
  return [&group = communicator.along(collective.axis), call = collective.call](
             std::span<const std::byte> source, std::span<std::byte> target) mutable {
    call.input = source;
    call.output = target;
    return group.start(call);
  };
}

StartOnHost start_send(const KernelRequest& request, Communicator& communicator) {
  const Signature s = signature_of(request);
  return
      [&all = communicator.all(), dtype = request.inputs[0].dtype,
       to = static_cast<Rank>(s.integer("to")), tag = static_cast<std::int32_t>(s.integer("tag"))](
          std::span<const std::byte> source, std::span<std::byte>) {
        return all.start_send(source, dtype, to, tag);
      };
}

StartOnHost start_receive(const KernelRequest& request, Communicator& communicator) {
  const Signature s = signature_of(request);
  return [&all = communicator.all(), dtype = request.outputs[0].dtype,
          from = static_cast<Rank>(s.integer("from")),
          tag = static_cast<std::int32_t>(s.integer("tag"))](std::span<const std::byte>,
                                                             std::span<std::byte> target) {
    return all.start_receive(target, dtype, from, tag);
  };
}

/// A collective has a call, a message how it is started.
struct Row {
  ExchangeLayout (*layout)(const KernelRequest&) = nullptr;
  Call (*call)(const KernelRequest&) = nullptr;
  StartOnHost (*message)(const KernelRequest&, Communicator&) = nullptr;
};

const Row& row_of(const KernelRequest& request) {
  static const std::map<std::string_view, Row> rows{
      {"all_reduce", {all_reduce_layout, all_reduce_call}},
      {"all_gather", {all_gather_layout, all_gather_call}},
      {"all_to_all", {all_to_all_layout, all_to_all_call}},
      {"reduce_scatter", {reduce_scatter_layout, reduce_scatter_call}},
      {"send", {send_layout, nullptr, start_send}},
      {"receive", {receive_layout, nullptr, start_receive}}};
  const auto it = rows.find(request.op->name);
  if (it == rows.end()) {
    throw Error(ErrorKind::Usage, fmt::format("{} is not a communication op", request.op->name));
  }
  return it->second;
}

}  // namespace

std::vector<std::int64_t> BlockedTensor::counts() const {
  std::vector<std::int64_t> counts;
  counts.reserve(blocks.size());
  for (const IndexRange& block : blocks) {
    counts.push_back(outer * block.length * inner);
  }
  return counts;
}

ExchangeLayout layout_of(const KernelRequest& request) {
  return row_of(request).layout(request);
}

std::optional<CollectiveCall> collective_of(const KernelRequest& request) {
  const Row& row = row_of(request);
  if (row.call == nullptr) {
    return std::nullopt;
  }
  return CollectiveCall{.axis = std::string(signature_of(request).text("group")),
                        .call = row.call(request)};
}

StartOnHost operation_of(const KernelRequest& request, Communicator& communicator) {
  if (const std::optional<CollectiveCall> collective = collective_of(request)) {
    return start_collective(*collective, communicator);
  }
  return row_of(request).message(request, communicator);
}

}  // namespace trireme::runtime
