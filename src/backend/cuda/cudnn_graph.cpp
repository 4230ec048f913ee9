#include "backend/cuda/cudnn_graph.h"

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <span>

#include <fmt/format.h>

#include "backend/cuda/kernel.h"
#include "trireme/error.h"

namespace trireme::cuda {
namespace {

constexpr auto kReal = CUDNN_ATTR_TENSOR_UNIQUE_ID;  // no attribute of its own

/// The handle of the current device.
cudnnHandle_t dnn_handle() {
  static std::mutex mutex;
  static std::map<int, cudnnHandle_t> handles;
  int device = 0;
  check(cudaGetDevice(&device), "finding the current device");
  const std::scoped_lock lock(mutex);
  cudnnHandle_t& found = handles[device];
  if (found == nullptr) {
    check(cudnn()->create(&found), "creating a handle");
  }
  return found;
}

template <class T>
void set(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
         cudnnBackendAttributeType_t type, const T* values, std::size_t count = 1) {
  check(cudnn()->set_attribute(descriptor, name, type, static_cast<std::int64_t>(count), values),
        fmt::format("setting attribute {}", static_cast<int>(name)));
}

void set(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
         cudnnBackendDescriptor_t value) {
  set(descriptor, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, &value);
}

void finalize(cudnnBackendDescriptor_t descriptor, std::string_view what) {
  check(cudnn()->finalize(descriptor), what);
}

CudnnDescriptor create(cudnnBackendDescriptorType_t type) {
  cudnnBackendDescriptor_t descriptor = nullptr;
  check(cudnn()->create_descriptor(type, &descriptor), "creating a descriptor");
  return CudnnDescriptor(descriptor);
}

/// The engine configurations that the library's heuristic proposes, best first.
std::vector<CudnnDescriptor> proposals(cudnnBackendDescriptor_t graph) {
  const CudnnDescriptor heuristic = create(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  const cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
  set(heuristic.get(), CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  set(heuristic.get(), CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, &mode);
  if (cudnn()->finalize(heuristic.get()) != CUDNN_STATUS_SUCCESS) {
    return {};
  }
  std::int64_t count = 0;
  check(cudnn()->get_attribute(heuristic.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                               CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr),
        "counting engines");
  std::vector<CudnnDescriptor> configurations;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (std::int64_t i = 0; i < count; ++i) {
    configurations.push_back(create(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
    raw.push_back(configurations.back().get());
  }
  check(cudnn()->get_attribute(heuristic.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                               CUDNN_TYPE_BACKEND_DESCRIPTOR, count, &count, raw.data()),
        "listing engines");
  configurations.resize(count);
  return configurations;
}

bool is_deterministic(cudnnBackendDescriptor_t configuration) {
  const CudnnDescriptor engine = create(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t raw = engine.get();
  std::int64_t count = 0;
  check(cudnn()->get_attribute(configuration, CUDNN_ATTR_ENGINECFG_ENGINE,
                               CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &raw),
        "reading an engine");
  std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> notes{};
  check(cudnn()->get_attribute(raw, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                               CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &count, notes.data()),
        "reading an engine's notes");
  const std::span known(notes.data(), static_cast<std::size_t>(count));
  return std::ranges::find(known, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) == known.end();
}

}  // namespace

void check(cudnnStatus_t status, std::string_view what) {
  if (status != CUDNN_STATUS_SUCCESS) {
    throw Error(ErrorKind::System,
                fmt::format("cuda: cuDNN: {}: {}", what, cudnn()->error_string(status)));
  }
}

CudnnPlan::CudnnPlan(CudnnDescriptor plan, std::shared_ptr<const Parts> parts,
                     std::int64_t proposal)
    : plan_(std::move(plan)), parts_(std::move(parts)), proposal_(proposal) {
  std::int64_t count = 0;
  check(cudnn()->get_attribute(plan_.get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                               CUDNN_TYPE_INT64, 1, &count, &workspace_),
        "reading the size of the workspace");
}

void CudnnPlan::enqueue(const Addresses& addresses, void* workspace, cudaStream_t stream) const {
  std::vector<std::int64_t> ids;
  std::vector<const void*> at;
  for (const auto& [id, address] : addresses) {
    if (parts_->ids.contains(id)) {
      ids.push_back(id);
      at.push_back(address);
    }
  }
  const CudnnDescriptor pack = create(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  set(pack.get(), CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, ids.data(), ids.size());
  set(pack.get(), CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, at.data(), at.size());
  set(pack.get(), CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, &workspace);
  finalize(pack.get(), "placing tensors");
  check(cudnn()->set_stream(dnn_handle(), stream), "choosing a stream");
  check(cudnn()->execute(dnn_handle(), plan_.get(), pack.get()), "running attention");
}

cudnnBackendDescriptor_t CudnnGraph::make(cudnnBackendDescriptorType_t type) {
  return parts_.descriptors.emplace_back(create(type)).get();
}

cudnnBackendDescriptor_t CudnnGraph::make_operation(cudnnBackendDescriptorType_t type) {
  return operations_.emplace_back(make(type));
}

CudnnGraph::Tensor CudnnGraph::tensor(std::int64_t id, Dims dims, Dims strides,
                                      cudnnDataType_t type, cudnnBackendAttributeName_t kind) {
  const cudnnBackendDescriptor_t tensor = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  const std::int64_t alignment = 16;
  const bool yes = true;
  set(tensor, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, &type);
  set(tensor, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, dims.data(), dims.size());
  set(tensor, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, strides.data(), strides.size());
  set(tensor, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, &id);
  set(tensor, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, &alignment);
  if (kind != kReal) {
    set(tensor, kind, CUDNN_TYPE_BOOLEAN, &yes);
  }
  finalize(tensor, "describing a tensor");
  if (kind != CUDNN_ATTR_TENSOR_IS_VIRTUAL) {
    parts_.ids.insert(id);
  }
  return {tensor, std::move(dims), std::move(strides)};
}

CudnnGraph::Tensor CudnnGraph::real(std::int64_t id, Dims dims, Dims strides,
                                    cudnnDataType_t type) {
  return tensor(id, std::move(dims), std::move(strides), type, kReal);
}

CudnnGraph::Tensor CudnnGraph::between(Dims dims, Dims strides, cudnnDataType_t type) {
  return tensor(next_id_++, std::move(dims), std::move(strides), type,
                CUDNN_ATTR_TENSOR_IS_VIRTUAL);
}

CudnnGraph::Tensor CudnnGraph::scalar(std::int64_t id, cudnnDataType_t type) {
  return tensor(id, {1, 1, 1, 1}, {1, 1, 1, 1}, type, CUDNN_ATTR_TENSOR_IS_BY_VALUE);
}

void CudnnGraph::matmul(const Tensor& a, const Tensor& b, const Tensor& y) {
  const cudnnBackendDescriptor_t how = make(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
  set(how, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, &compute);
  finalize(how, "describing a product");
  const cudnnBackendDescriptor_t op = make_operation(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  set(op, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a.descriptor);
  set(op, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b.descriptor);
  set(op, CUDNN_ATTR_OPERATION_MATMUL_CDESC, y.descriptor);
  set(op, CUDNN_ATTR_OPERATION_MATMUL_DESC, how);
  finalize(op, "adding a product");
}

void CudnnGraph::reshape(const Tensor& x, const Tensor& y) {
  const cudnnBackendDescriptor_t op = make_operation(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  set(op, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x.descriptor);
  set(op, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y.descriptor);
  finalize(op, "adding a reshape");
}

void CudnnGraph::reduce(cudnnReduceTensorOp_t operation, const Tensor& x, const Tensor& y) {
  const cudnnBackendDescriptor_t how = make(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
  set(how, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, &compute);
  set(how, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, &operation);
  finalize(how, "describing a reduction");
  const cudnnBackendDescriptor_t op = make_operation(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  set(op, CUDNN_ATTR_OPERATION_REDUCTION_DESC, how);
  set(op, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x.descriptor);
  set(op, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y.descriptor);
  finalize(op, "adding a reduction");
}

void CudnnGraph::pointwise(const Pointwise& operation, const Tensor& x, const Tensor* b,
                           const Tensor* condition, const Tensor& y) {
  const cudnnBackendDescriptor_t how = make(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  set(how, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, &operation.mode);
  set(how, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, &operation.compute);
  if (operation.axis >= 0) {
    set(how, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, &operation.axis);
  }
  finalize(how, "describing an element-wise operation");
  const cudnnBackendDescriptor_t op = make_operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  set(op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
  set(op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x.descriptor);
  set(op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y.descriptor);
  if (b != nullptr) {
    set(op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b->descriptor);
  }
  if (condition != nullptr) {
    set(op, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, condition->descriptor);
  }
  finalize(op, "adding an element-wise operation");
}

void CudnnGraph::unary(cudnnPointwiseMode_t mode, const Tensor& x, const Tensor& y) {
  pointwise({.mode = mode}, x, nullptr, nullptr, y);
}

void CudnnGraph::binary(cudnnPointwiseMode_t mode, const Tensor& a, const Tensor& b,
                        const Tensor& y, cudnnDataType_t compute) {
  pointwise({.mode = mode, .compute = compute}, a, &b, nullptr, y);
}

void CudnnGraph::select(const Tensor& condition, const Tensor& a, const Tensor& b,
                        const Tensor& y) {
  pointwise({.mode = CUDNN_POINTWISE_BINARY_SELECT}, a, &b, &condition, y);
}

void CudnnGraph::index(const Tensor& like, std::int64_t axis, const Tensor& y) {
  pointwise({.mode = CUDNN_POINTWISE_GEN_INDEX, .axis = axis}, like, nullptr, nullptr, y);
}

CudnnGraph::Plans CudnnGraph::compile(const Proposals& wanted) {
  const cudnnBackendDescriptor_t graph = make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  const cudnnHandle_t library = dnn_handle();
  set(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, operations_.data(),
      operations_.size());
  set(graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, &library);
  if (cudnn()->finalize(graph) != CUDNN_STATUS_SUCCESS) {
    return {};
  }
  std::vector<std::pair<std::int64_t, CudnnDescriptor>> compiled;
  std::int64_t number = -1;
  for (CudnnDescriptor& configuration : proposals(graph)) {
    if (++number < wanted.first || compiled.size() == wanted.most ||
        (wanted.deterministic && !is_deterministic(configuration.get()))) {
      continue;
    }
    CudnnDescriptor plan = create(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    set(plan.get(), CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, &library);
    set(plan.get(), CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration.get());
    if (cudnn()->finalize(plan.get()) == CUDNN_STATUS_SUCCESS) {
      compiled.emplace_back(number, std::move(plan));
      parts_.descriptors.push_back(std::move(configuration));
    }
  }
  const auto parts = std::make_shared<const CudnnPlan::Parts>(std::move(parts_));
  Plans plans;
  for (auto& [proposal, plan] : compiled) {
    plans.push_back(std::make_shared<CudnnPlan>(std::move(plan), parts, proposal));
  }
  return plans;
}

}  // namespace trireme::cuda
