#include "backend/cuda/libraries.h"

#include <functional>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "backend/cuda/library.h"
#include "backend/cuda/nccl.h"
#include "trireme/error.h"

namespace trireme::cuda {
namespace {

CublasLt open_cublas_lt() {
  const Library library("libcublasLt", CUBLAS_VER_MAJOR, "cuBLAS of the CUDA toolkit");
  CublasLt lt;
  library.find(lt.create, "cublasLtCreate");
  library.find(lt.version, "cublasLtGetVersion");
  library.find(lt.matmul, "cublasLtMatmul");
  library.find(lt.algorithm_check, "cublasLtMatmulAlgoCheck");
  library.find(lt.heuristic, "cublasLtMatmulAlgoGetHeuristic");
  library.find(lt.desc_create, "cublasLtMatmulDescCreate");
  library.find(lt.desc_destroy, "cublasLtMatmulDescDestroy");
  library.find(lt.desc_set, "cublasLtMatmulDescSetAttribute");
  library.find(lt.preference_create, "cublasLtMatmulPreferenceCreate");
  library.find(lt.preference_destroy, "cublasLtMatmulPreferenceDestroy");
  library.find(lt.preference_set, "cublasLtMatmulPreferenceSetAttribute");
  library.find(lt.layout_create, "cublasLtMatrixLayoutCreate");
  library.find(lt.layout_destroy, "cublasLtMatrixLayoutDestroy");
  library.find(lt.layout_set, "cublasLtMatrixLayoutSetAttribute");
  return lt;
}

Cudnn open_cudnn() {
  const Library library("libcudnn", CUDNN_MAJOR, "cuDNN");
  Cudnn dnn;
  library.find(dnn.create, "cudnnCreate");
  library.find(dnn.error_string, "cudnnGetErrorString");
  library.find(dnn.version, "cudnnGetVersion");
  library.find(dnn.set_stream, "cudnnSetStream");
  library.find(dnn.create_descriptor, "cudnnBackendCreateDescriptor");
  library.find(dnn.destroy_descriptor, "cudnnBackendDestroyDescriptor");
  library.find(dnn.execute, "cudnnBackendExecute");
  library.find(dnn.finalize, "cudnnBackendFinalize");
  library.find(dnn.get_attribute, "cudnnBackendGetAttribute");
  library.find(dnn.set_attribute, "cudnnBackendSetAttribute");
  return dnn;
}

std::optional<Cudnn> open_cudnn_if_there() {
  try {
    return open_cudnn();
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

CudaLibrary library_fact(std::string name, const std::function<std::string()>& version) {
  CudaLibrary library{.name = std::move(name)};
  try {
    library.version = version();
  } catch (const Error& error) {
    library.problem = error.what();
  }
  return library;
}

std::vector<CudaLibrary> library_facts() {
  // 130100: 13.1.0; 91900: 9.19.0
  const auto text = [](std::size_t version) {
    return fmt::format("{}.{}", version / 10000, version / 100 % 100);
  };
  return {library_fact("cuBLASLt", [&] { return text(cublas_lt().version()); }),
          library_fact("cuDNN", [&] { return text(open_cudnn().version()); }), nccl_fact()};
}

const Cudnn* cudnn() {
  static const std::optional<Cudnn> library = open_cudnn_if_there();
  return library ? &*library : nullptr;
}

const CublasLt& cublas_lt() {
  static const CublasLt library = open_cublas_lt();
  return library;
}

}  // namespace trireme::cuda
