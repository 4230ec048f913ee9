// Libraries that are opened at run time, so that one program runs on machines with and without them.
#pragma once

#include <vector>

#include <cublasLt.h>
#include <cudnn.h>

#include "trireme/cuda_device.h"

namespace trireme::cuda {

/// cuBLASLt's functions that this folder uses.
struct CublasLt {
  decltype(&cublasLtCreate) create = nullptr;
  decltype(&cublasLtGetVersion) version = nullptr;
  decltype(&cublasLtMatmul) matmul = nullptr;
  decltype(&cublasLtMatmulAlgoCheck) algorithm_check = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic = nullptr;
  decltype(&cublasLtMatmulDescCreate) desc_create = nullptr;
  decltype(&cublasLtMatmulDescDestroy) desc_destroy = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) desc_set = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create = nullptr;
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) layout_create = nullptr;
  decltype(&cublasLtMatrixLayoutDestroy) layout_destroy = nullptr;
  decltype(&cublasLtMatrixLayoutSetAttribute) layout_set = nullptr;
};

/// Opened once. Throws Error(System) that says which library is missing and how to get it.
[[nodiscard]] const CublasLt& cublas_lt();

/// cuDNN's functions that this folder uses.
struct Cudnn {
  decltype(&cudnnCreate) create = nullptr;
  decltype(&cudnnGetErrorString) error_string = nullptr;
  decltype(&cudnnGetVersion) version = nullptr;
  decltype(&cudnnSetStream) set_stream = nullptr;
  decltype(&cudnnBackendCreateDescriptor) create_descriptor = nullptr;
  decltype(&cudnnBackendDestroyDescriptor) destroy_descriptor = nullptr;
  decltype(&cudnnBackendExecute) execute = nullptr;
  decltype(&cudnnBackendFinalize) finalize = nullptr;
  decltype(&cudnnBackendGetAttribute) get_attribute = nullptr;
  decltype(&cudnnBackendSetAttribute) set_attribute = nullptr;
};

/// Opened once; nullptr if it is not installed. Attention then runs by a kernel of our own.
[[nodiscard]] const Cudnn* cudnn();

/// The libraries that can be opened here, and those that are missing.
[[nodiscard]] std::vector<CudaLibrary> library_facts();

}  // namespace trireme::cuda
