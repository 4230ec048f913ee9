// Library: a shared library that is opened at run time.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include <dlfcn.h>
#include <fmt/format.h>

#include "trireme/cuda_device.h"
#include "trireme/error.h"

namespace trireme::cuda {

/// A shared library that stays open until the process ends.
class Library {
 public:
  /// `name` without the version, which is that of the headers.
  Library(std::string_view name, int version, std::string_view package)
      : file_(fmt::format("{}.so.{}", name, version)) {
    for (const std::string& path :
         {file_, "/usr/local/cuda/lib64/" + file_, "/usr/local/cuda/lib/" + file_}) {
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

/// `version` throws Error if the library cannot be opened.
[[nodiscard]] CudaLibrary library_fact(std::string name,
                                       const std::function<std::string()>& version);

}  // namespace trireme::cuda
