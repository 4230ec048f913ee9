// A graph of cuDNN's backend API: tensors and operations are added, then compiled to a plan that runs on any stream.
// Only what attention needs. One thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "backend/cuda/libraries.h"

namespace trireme::cuda {

/// Throws Error(System): "cuda: cuDNN: what: the library's message".
void check(cudnnStatus_t status, std::string_view what);

struct DestroyDescriptor {
  void operator()(cudnnBackendDescriptor_t descriptor) const {
    cudnn()->destroy_descriptor(descriptor);
  }
};
using CudnnDescriptor =
    std::unique_ptr<std::remove_pointer_t<cudnnBackendDescriptor_t>, DestroyDescriptor>;

/// A compiled graph.
class CudnnPlan {
 public:
  /// The descriptors that plans refer to, shared by the plans of a graph.
  struct Parts {
    std::vector<CudnnDescriptor> descriptors{};
    std::set<std::int64_t> ids{};  ///< of real tensors and scalars
  };
  CudnnPlan(CudnnDescriptor plan, std::shared_ptr<const Parts> parts, std::int64_t proposal);
  /// Addresses of the graph's real tensors and scalars (in host memory), by id. Other tensors are omitted: the library
  /// rejects ids that it does not know.
  using Addresses = std::vector<std::pair<std::int64_t, const void*>>;
  void enqueue(const Addresses& addresses, void* workspace, cudaStream_t stream) const;
  [[nodiscard]] std::int64_t workspace() const { return workspace_; }
  /// Its index among the proposals of the library's heuristic.
  [[nodiscard]] std::int64_t proposal() const { return proposal_; }

 private:
  CudnnDescriptor plan_;
  std::shared_ptr<const Parts> parts_;
  std::int64_t proposal_ = 0;
  std::int64_t workspace_ = 0;
};

class CudnnGraph {
 public:
  using Dims = std::vector<std::int64_t>;
  struct Tensor {
    cudnnBackendDescriptor_t descriptor = nullptr;
    Dims dims{};
    Dims strides{};
  };

  /// In memory, under an id of the caller's.
  Tensor real(std::int64_t id, Dims dims, Dims strides, cudnnDataType_t type);
  /// Between operations only.
  Tensor between(Dims dims, Dims strides, cudnnDataType_t type);
  Tensor between_like(const Tensor& like, cudnnDataType_t type) {
    return between(like.dims, like.strides, type);
  }
  /// One number of rank 4, in host memory.
  Tensor scalar(std::int64_t id, cudnnDataType_t type = CUDNN_DATA_FLOAT);

  void matmul(const Tensor& a, const Tensor& b, const Tensor& y);
  void reshape(const Tensor& x, const Tensor& y);
  void reduce(cudnnReduceTensorOp_t operation, const Tensor& x, const Tensor& y);
  void unary(cudnnPointwiseMode_t mode, const Tensor& x, const Tensor& y);
  void binary(cudnnPointwiseMode_t mode, const Tensor& a, const Tensor& b, const Tensor& y,
              cudnnDataType_t compute = CUDNN_DATA_FLOAT);
  /// y = a where the condition holds, else b.
  void select(const Tensor& condition, const Tensor& a, const Tensor& b, const Tensor& y);
  /// The index of each element along an axis.
  void index(const Tensor& like, std::int64_t axis, const Tensor& y);

  /// Of the engines that the library's heuristic proposes, best first.
  struct Proposals {
    std::int64_t first = 0;
    std::size_t most = 1;        ///< plans to return
    bool deterministic = false;  ///< without engines whose results differ from run to run
  };
  using Plans = std::vector<std::shared_ptr<const CudnnPlan>>;
  /// Those that the library can run on the current device; takes a third of a second for each. Once for each graph.
  [[nodiscard]] Plans compile(const Proposals& wanted);

 private:
  Tensor tensor(std::int64_t id, Dims dims, Dims strides, cudnnDataType_t type,
                cudnnBackendAttributeName_t kind);
  cudnnBackendDescriptor_t make(cudnnBackendDescriptorType_t type);
  cudnnBackendDescriptor_t make_operation(cudnnBackendDescriptorType_t type);
  struct Pointwise {
    cudnnPointwiseMode_t mode{};
    cudnnDataType_t compute = CUDNN_DATA_FLOAT;
    std::int64_t axis = -1;  ///< of an index
  };
  void pointwise(const Pointwise& operation, const Tensor& x, const Tensor* b,
                 const Tensor* condition, const Tensor& y);

  CudnnPlan::Parts parts_;
  std::vector<cudnnBackendDescriptor_t> operations_;
  std::int64_t next_id_ = 1'000'000;
};

}  // namespace trireme::cuda
