#include "backend/cuda/libraries.h"

#include <functional>
#include <optional>
#include <utility>

#include <dlfcn.h>
#include <fmt/format.h>

#include "trireme/error.h"

namespace trireme::cuda {
namespace {

/// A shared library that stays open until the process ends.
class Library {
 public:
  /// `name` without the version, which is that of the headers.
  Library(std::string_view name, int version, std::string_view package)
      : file_(fmt::format("{}.so.{}", name, version)) {
    for (const std::string& path : {file_, "/usr/local/cuda/lib64/" + file_}) {
      handle_ = handle_ == nullptr ? dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) : handle_;
    }
    if (handle_ == nullptr) {
      throw Error(ErrorKind::System,
                  fmt::format("cuda: cannot open {}: install {}, or add its folder to "
                              "LD_LIBRARY_PATH",
                              file_, package));
    }
  }

  template <class F>
  void find(F& function, const char* symbol) const {
    function = reinterpret_cast<F>(dlsym(handle_, symbol));
    if (function == nullptr) {
      throw Error(ErrorKind::System, fmt::format("cuda: {} has no {}: install the version that "
                                                 "this program was built with",
                                                 file_, symbol));
    }
  }

 private:
  std::string file_;
  void* handle_ = nullptr;
};

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

std::vector<CudaLibrary> library_facts() {
  const auto facts = [](std::string name, const std::function<std::string()>& version) {
    CudaLibrary library{.name = std::move(name)};
    try {
      library.version = version();
    } catch (const Error& error) {
      library.problem = error.what();
    }
    return library;
  };
  // 130100: 13.1.0; 91900: 9.19.0
  const auto text = [](std::size_t version) {
    return fmt::format("{}.{}", version / 10000, version / 100 % 100);
  };
  return {facts("cuBLASLt", [&] { return text(cublas_lt().version()); }),
          facts("cuDNN", [&] { return text(open_cudnn().version()); })};
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
