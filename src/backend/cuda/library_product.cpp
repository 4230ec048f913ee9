#include "backend/cuda/library_product.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "backend/cuda/kernel.h"
#include "backend/cuda/libraries.h"
#include "backend/cuda/tuning.h"
#include "tensor/container_size.h"
#include "trireme/error.h"

namespace trireme::cuda {
namespace {

constexpr int kProposals = 16;

void check(cublasStatus_t status, std::string_view what) {
  if (status != CUBLAS_STATUS_SUCCESS) {
    throw Error(ErrorKind::System,
                fmt::format("cuda: cuBLASLt: {}: status {}", what, static_cast<int>(status)));
  }
}

struct DestroyDesc {
  void operator()(cublasLtMatmulDesc_t desc) const { cublas_lt().desc_destroy(desc); }
};
struct DestroyLayout {
  void operator()(cublasLtMatrixLayout_t layout) const { cublas_lt().layout_destroy(layout); }
};
struct DestroyPreference {
  void operator()(cublasLtMatmulPreference_t preference) const {
    cublas_lt().preference_destroy(preference);
  }
};
using Desc = std::unique_ptr<std::remove_pointer_t<cublasLtMatmulDesc_t>, DestroyDesc>;
using Layout = std::unique_ptr<std::remove_pointer_t<cublasLtMatrixLayout_t>, DestroyLayout>;
using Preference =
    std::unique_ptr<std::remove_pointer_t<cublasLtMatmulPreference_t>, DestroyPreference>;

std::optional<cudaDataType_t> library_type(DType dtype) {
  switch (dtype) {
    case DType::F32:
      return CUDA_R_32F;
    case DType::F64:
      return CUDA_R_64F;
    case DType::BF16:
      return CUDA_R_16BF;
    case DType::F16:
      return CUDA_R_16F;
    default:
      return std::nullopt;
  }
}

/// The handle of the calling thread's current device.
cublasLtHandle_t handle() {
  static std::mutex mutex;
  static std::map<int, cublasLtHandle_t> handles;
  int device = 0;
  cuda::check(cudaGetDevice(&device), "finding the current device");
  const std::scoped_lock lock(mutex);
  cublasLtHandle_t& found = handles[device];
  if (found == nullptr) {
    check(cublas_lt().create(&found), "creating a handle");
  }
  return found;
}

/// A row-major matrix with strides, as the library sees it: its transpose, or itself to be transposed.
struct Operand {
  Layout layout{};
  cublasOperation_t operation = CUBLAS_OP_N;
  std::size_t bytes = 0;  ///< from the first element to the last
};

struct Matrix {
  std::int64_t batch = 1;
  std::int64_t rows = 1;
  std::int64_t columns = 1;
  MatrixStrides strides{};
};

/// Nothing if neither rows nor columns are contiguous.
std::optional<Operand> operand_of(const Matrix& m, cudaDataType_t type, std::size_t element) {
  const bool by_rows = m.strides.column == 1 || m.columns == 1;
  const bool by_columns = m.strides.row == 1 || m.rows == 1;
  if (!by_rows && !by_columns) {
    return std::nullopt;
  }
  // A vector may have any stride across it.
  const std::int64_t width = by_rows ? m.columns : m.rows;
  const std::int64_t height = by_rows ? m.rows : m.columns;
  const std::int64_t stride = by_rows ? m.strides.row : m.strides.column;
  const std::int64_t ld = height == 1 ? width : stride;
  if (ld < width) {
    return std::nullopt;
  }
  cublasLtMatrixLayout_t layout = nullptr;
  check(cublas_lt().layout_create(&layout, type, static_cast<std::uint64_t>(width),
                                  static_cast<std::uint64_t>(height), ld),
        "describing a matrix");
  Operand operand{.layout = Layout(layout), .operation = by_rows ? CUBLAS_OP_N : CUBLAS_OP_T};
  if (m.batch > 1) {
    const auto count = static_cast<std::int32_t>(m.batch);
    check(cublas_lt().layout_set(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count),
          "describing a batch");
    check(cublas_lt().layout_set(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                 &m.strides.batch, sizeof m.strides.batch),
          "describing a batch");
  }
  const std::int64_t last = (m.batch - 1) * m.strides.batch + (height - 1) * ld + width;
  operand.bytes = static_cast<std::size_t>(last) * element;
  return operand;
}

std::string to_text(const MatrixStrides& strides) {
  return fmt::format("{},{},{}", strides.batch, strides.row, strides.column);
}

/// Names the product, the current device and the library.
std::string key_of(const ProductKind& kind) {
  const ProductView& v = kind.view;
  return fmt::format("{}, cuBLASLt {}: {} {}x{}x{}x{} a {} b {} y {} epilogue {}{}", device_name(),
                     cublas_lt().version(), trireme::to_text(kind.dtype), v.batch, v.rows,
                     v.columns, v.summed, to_text(v.a), to_text(v.b), to_text(v.y),
                     static_cast<int>(kind.follow), kind.adds ? " adds" : "");
}

static_assert(sizeof(AlgorithmBits) == sizeof(cublasLtMatmulAlgo_t));

cublasLtEpilogue_t epilogue_of(Follow follow) {
  switch (follow) {
    case Follow::Nothing:
      break;
    case Follow::Bias:
      return CUBLASLT_EPILOGUE_BIAS;
    case Follow::BiasGelu:
      return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    case Follow::GeluBackward:
      return CUBLASLT_EPILOGUE_DGELU;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

bool has_bias(Follow follow) {
  return follow == Follow::Bias || follow == Follow::BiasGelu;
}
bool has_aux(Follow follow) {
  return follow == Follow::BiasGelu || follow == Follow::GeluBackward;
}

/// Immutable once it is made.
class LibraryProduct final : public Product {
 public:
  /// Nothing if the library has no algorithm for it.
  static std::shared_ptr<const Product> make(const ProductKind& kind) {
    auto product = std::shared_ptr<LibraryProduct>(new LibraryProduct);
    return product->describe(kind) && product->choose() ? product : nullptr;
  }

  void enqueue(const ProductAddresses& at, cudaStream_t stream) const override {
    check(run(algorithm_, at, stream), "running a product");
  }

 private:
  LibraryProduct() = default;

  bool describe(const ProductKind& kind) {
    const ProductView& v = kind.view;
    const cudaDataType_t type = library_type(kind.dtype).value();
    const std::size_t element = container_size(size_of(kind.dtype));
    auto a = operand_of({v.batch, v.rows, v.summed, v.a}, type, element);
    auto b = operand_of({v.batch, v.summed, v.columns, v.b}, type, element);
    auto y = operand_of({v.batch, v.rows, v.columns, v.y}, type, element);
    if (!a || !b || !y || y->operation != CUBLAS_OP_N) {
      return false;
    }
    kind_ = kind;
    a_ = std::move(*a);
    b_ = std::move(*b);
    y_ = std::move(*y);
    return true;
  }

  /// The library keeps addresses of the bias and of gelu's operand in the description.
  [[nodiscard]] Desc description(const ProductAddresses& at) const {
    const bool is_double = kind_.dtype == DType::F64;
    cublasLtMatmulDesc_t desc = nullptr;
    check(cublas_lt().desc_create(&desc, is_double ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F,
                                  is_double ? CUDA_R_64F : CUDA_R_32F),
          "describing a product");
    Desc owned(desc);
    const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
      check(cublas_lt().desc_set(desc, attribute, &value, sizeof value), "describing a product");
    };
    // y^T = b^T a^T: b is the library's first operand.
    set(CUBLASLT_MATMUL_DESC_TRANSA, b_.operation);
    set(CUBLASLT_MATMUL_DESC_TRANSB, a_.operation);
    if (kind_.follow != Follow::Nothing) {
      set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(kind_.follow));
    }
    if (has_bias(kind_.follow)) {
      set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, at.bias);
      set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, library_type(kind_.dtype).value());
    }
    if (has_aux(kind_.follow)) {
      set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, at.aux);
      set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, kind_.view.columns);
    }
    return owned;
  }

  [[nodiscard]] cublasStatus_t run(const cublasLtMatmulAlgo_t& algorithm,
                                   const ProductAddresses& at, cudaStream_t stream) const {
    const double one64 = 1;
    const double add64 = kind_.adds ? 1 : 0;
    const float one = 1;
    const float add = kind_.adds ? 1 : 0;
    const bool is_double = kind_.dtype == DType::F64;
    const void* alpha = is_double ? static_cast<const void*>(&one64) : &one;
    const void* beta = is_double ? static_cast<const void*>(&add64) : &add;
    return cublas_lt().matmul(handle(), description(at).get(), alpha, at.b, b_.layout.get(), at.a,
                              a_.layout.get(), beta, kind_.adds ? at.addend : at.y, y_.layout.get(),
                              at.y, y_.layout.get(), &algorithm, at.workspace, kProductWorkspace,
                              stream);
  }

  bool choose() { return find_kept() || find_fastest(); }

  /// Takes the algorithm from the file, if the library still accepts it.
  bool find_kept() {
    const std::optional<AlgorithmBits> bits = kept_algorithm(key_of(kind_));
    if (!bits) {
      return false;
    }
    std::memcpy(&algorithm_, bits->data(), sizeof algorithm_);
    const Scratch any(1024);
    const Desc desc = description({.bias = any.data(), .aux = any.data()});
    cublasLtMatmulHeuristicResult_t result{};
    return cublas_lt().algorithm_check(handle(), desc.get(), b_.layout.get(), a_.layout.get(),
                                       y_.layout.get(), y_.layout.get(), &algorithm_,
                                       &result) == CUBLAS_STATUS_SUCCESS &&
           result.workspaceSize <= kProductWorkspace;
  }

  void keep() const {
    AlgorithmBits bits{};
    std::memcpy(bits.data(), &algorithm_, sizeof algorithm_);
    keep_algorithm(key_of(kind_), bits);
  }

  bool find_fastest() {
    cublasLtMatmulPreference_t preference = nullptr;
    check(cublas_lt().preference_create(&preference), "choosing an algorithm");
    const Preference owned(preference);
    check(cublas_lt().preference_set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                     &kProductWorkspace, sizeof kProductWorkspace),
          "choosing an algorithm");
    std::array<cublasLtMatmulHeuristicResult_t, kProposals> proposals{};
    int count = 0;
    const Scratch any(1024);  // the library looks at the alignment of what a description refers to
    const Desc desc = description({.bias = any.data(), .aux = any.data()});
    const cublasStatus_t status = cublas_lt().heuristic(
        handle(), desc.get(), b_.layout.get(), a_.layout.get(), y_.layout.get(), y_.layout.get(),
        preference, kProposals, proposals.data(), &count);
    if (status != CUBLAS_STATUS_SUCCESS || count == 0) {
      return false;
    }
    algorithm_ = proposals.front().algo;
    if (times_algorithms()) {
      algorithm_ = fastest({proposals.data(), static_cast<std::size_t>(count)});
      keep();
    }
    return true;
  }

  /// Times each on its own memory. Products too small to matter use the first.
  [[nodiscard]] cublasLtMatmulAlgo_t fastest(
      std::span<const cublasLtMatmulHeuristicResult_t> proposals) const;

  ProductKind kind_{};
  Operand a_{};
  Operand b_{};
  Operand y_{};
  cublasLtMatmulAlgo_t algorithm_{};
};

cublasLtMatmulAlgo_t LibraryProduct::fastest(
    std::span<const cublasLtMatmulHeuristicResult_t> proposals) const {
  constexpr std::size_t kSmall = std::size_t{1} << 20U;
  if (a_.bytes + b_.bytes + y_.bytes < kSmall) {
    return proposals.front().algo;
  }
  const Scratch a(a_.bytes);
  const Scratch b(b_.bytes);
  const Scratch y(y_.bytes);
  const Scratch workspace(kProductWorkspace);
  const Scratch bias(has_bias(kind_.follow) ? b_.bytes : 0);
  const Scratch aux(has_aux(kind_.follow) ? y_.bytes : 0);
  const Scratch addend(kind_.adds ? y_.bytes : 0);
  const ProductAddresses at{a.data(),   b.data(),      y.data(),        bias.data(),
                            aux.data(), addend.data(), workspace.data()};
  const std::size_t best = fastest_of(proposals.size(), [&](std::size_t i, cudaStream_t stream) {
    return run(proposals[i].algo, at, stream) == CUBLAS_STATUS_SUCCESS;
  });
  return proposals[best].algo;
}

}  // namespace

bool has_products_of(DType dtype) {
  return library_type(dtype).has_value();
}

std::shared_ptr<const Product> product_of(const ProductKind& kind) {
  static std::mutex mutex;
  static std::map<std::pair<ProductKind, int>, std::shared_ptr<const Product>> products;
  int device = 0;
  cuda::check(cudaGetDevice(&device), "finding the current device");
  const std::scoped_lock lock(mutex);
  const auto [found, is_new] = products.try_emplace({kind, device});
  if (is_new) {
    found->second = LibraryProduct::make(kind);
  }
  return found->second;
}

}  // namespace trireme::cuda
