// einsum by cuBLASLt, which takes matrices by columns: a row-major y = a b is the column-major y^T = b^T a^T. Of the
// algorithms that its heuristic proposes, the fastest on this device is taken, which is timed once for each shape; the
// first proposal is up to 1.35 times slower.
#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include <fmt/format.h>

#include "backend/cuda/kernel.h"
#include "backend/cuda/libraries.h"
#include "graph/product_view.h"
#include "trireme/error.h"

namespace trireme::cuda {
namespace {

constexpr std::size_t kWorkspace = std::size_t{32} << 20U;
constexpr int kProposals = 8;

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

/// A product of known shapes and types, with its algorithm. Immutable.
class Product {
 public:
  /// Nothing if the library has no algorithm for it.
  static std::shared_ptr<const Product> make(const ProductView& v, DType dtype) {
    auto product = std::shared_ptr<Product>(new Product);
    return product->describe(v, dtype) && product->choose() ? product : nullptr;
  }

  void enqueue(const void* a, const void* b, void* y, void* workspace, cudaStream_t stream) const {
    check(run(algorithm_, a, b, y, workspace, stream), "running a product");
  }

 private:
  Product() = default;

  bool describe(const ProductView& v, DType dtype) {
    const cudaDataType_t type = library_type(dtype).value();
    const auto element = static_cast<std::size_t>(size_of(dtype).count);
    auto a = operand_of({v.batch, v.rows, v.summed, v.a}, type, element);
    auto b = operand_of({v.batch, v.summed, v.columns, v.b}, type, element);
    auto y = operand_of({v.batch, v.rows, v.columns, v.y}, type, element);
    if (!a || !b || !y || y->operation != CUBLAS_OP_N) {
      return false;
    }
    is_double_ = dtype == DType::F64;
    cublasLtMatmulDesc_t desc = nullptr;
    check(cublas_lt().desc_create(&desc, is_double_ ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F,
                                  is_double_ ? CUDA_R_64F : CUDA_R_32F),
          "describing a product");
    desc_ = Desc(desc);
    // y^T = b^T a^T: b is the library's first operand.
    check(
        cublas_lt().desc_set(desc, CUBLASLT_MATMUL_DESC_TRANSA, &b->operation, sizeof b->operation),
        "describing a product");
    check(
        cublas_lt().desc_set(desc, CUBLASLT_MATMUL_DESC_TRANSB, &a->operation, sizeof a->operation),
        "describing a product");
    a_ = std::move(*a);
    b_ = std::move(*b);
    y_ = std::move(*y);
    return true;
  }

  [[nodiscard]] cublasStatus_t run(const cublasLtMatmulAlgo_t& algorithm, const void* a,
                                   const void* b, void* y, void* workspace,
                                   cudaStream_t stream) const {
    const double one64 = 1;
    const double zero64 = 0;
    const float one = 1;
    const float zero = 0;
    const void* alpha = is_double_ ? static_cast<const void*>(&one64) : &one;
    const void* beta = is_double_ ? static_cast<const void*>(&zero64) : &zero;
    return cublas_lt().matmul(handle(), desc_.get(), alpha, b, b_.layout.get(), a, a_.layout.get(),
                              beta, y, y_.layout.get(), y, y_.layout.get(), &algorithm, workspace,
                              kWorkspace, stream);
  }

  bool choose() {
    cublasLtMatmulPreference_t preference = nullptr;
    check(cublas_lt().preference_create(&preference), "choosing an algorithm");
    const Preference owned(preference);
    check(cublas_lt().preference_set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                     &kWorkspace, sizeof kWorkspace),
          "choosing an algorithm");
    std::array<cublasLtMatmulHeuristicResult_t, kProposals> proposals{};
    int count = 0;
    const cublasStatus_t status = cublas_lt().heuristic(
        handle(), desc_.get(), b_.layout.get(), a_.layout.get(), y_.layout.get(), y_.layout.get(),
        preference, kProposals, proposals.data(), &count);
    if (status != CUBLAS_STATUS_SUCCESS || count == 0) {
      return false;
    }
    algorithm_ = fastest({proposals.data(), static_cast<std::size_t>(count)});
    return true;
  }

  /// By timing each on memory of its own. Products too small to matter take the first.
  [[nodiscard]] cublasLtMatmulAlgo_t fastest(
      std::span<const cublasLtMatmulHeuristicResult_t> proposals) const;

  Desc desc_{};
  Operand a_{};
  Operand b_{};
  Operand y_{};
  bool is_double_ = false;
  cublasLtMatmulAlgo_t algorithm_{};
};

/// Device memory for timing.
class Scratch {
 public:
  explicit Scratch(std::size_t bytes) {
    cuda::check(cudaMalloc(&data_, bytes), "allocating memory to time a product");
    cuda::check(cudaMemset(data_, 0, bytes), "clearing memory");
  }
  ~Scratch() { (void)cudaFree(data_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  [[nodiscard]] void* data() const { return data_; }

 private:
  void* data_ = nullptr;
};

class Timer {
 public:
  Timer() {
    cuda::check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "creating a stream");
    cuda::check(cudaEventCreate(&begin_), "creating an event");
    cuda::check(cudaEventCreate(&end_), "creating an event");
  }
  ~Timer() {
    (void)cudaEventDestroy(begin_);
    (void)cudaEventDestroy(end_);
    (void)cudaStreamDestroy(stream_);
  }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  /// The shortest of a few runs, in milliseconds. f(stream) enqueues one.
  template <class F>
  float time(F f) {
    float best = 1e30F;
    for (int round = 0; round < 4; ++round) {
      cuda::check(cudaEventRecord(begin_, stream_), "timing a product");
      f(stream_);
      cuda::check(cudaEventRecord(end_, stream_), "timing a product");
      cuda::check(cudaEventSynchronize(end_), "timing a product");
      float time = 0;
      cuda::check(cudaEventElapsedTime(&time, begin_, end_), "timing a product");
      best = round == 0 ? best : std::min(best, time);  // the first warms up
    }
    return best;
  }

 private:
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
};

cublasLtMatmulAlgo_t Product::fastest(
    std::span<const cublasLtMatmulHeuristicResult_t> proposals) const {
  constexpr std::size_t kSmall = std::size_t{1} << 20U;
  if (a_.bytes + b_.bytes + y_.bytes < kSmall) {
    return proposals.front().algo;
  }
  const Scratch a(a_.bytes);
  const Scratch b(b_.bytes);
  const Scratch y(y_.bytes);
  const Scratch workspace(kWorkspace);
  Timer timer;
  std::size_t best = 0;
  float least = 1e30F;
  for (std::size_t i = 0; i < proposals.size(); ++i) {
    bool works = true;
    const float time = timer.time([&](cudaStream_t stream) {
      works = works && run(proposals[i].algo, a.data(), b.data(), y.data(), workspace.data(),
                           stream) == CUBLAS_STATUS_SUCCESS;
    });
    if (works && time < least) {
      best = i;
      least = time;
    }
  }
  return proposals[best].algo;
}

struct ProductKey {
  ProductView view{};
  DType dtype{};
  int device = 0;
  auto operator<=>(const ProductKey&) const = default;
};

/// Shared by all kernels of the same shape.
std::shared_ptr<const Product> product_of(const ProductView& view, DType dtype) {
  static std::mutex mutex;
  static std::map<ProductKey, std::shared_ptr<const Product>> products;
  ProductKey key{view, dtype};
  cuda::check(cudaGetDevice(&key.device), "finding the current device");
  const std::scoped_lock lock(mutex);
  const auto found = products.find(key);
  return found != products.end() ? found->second : products[key] = Product::make(view, dtype);
}

/// Nothing to sum: zeros.
Launch clear_result(const KernelRequest& request) {
  const auto bytes = static_cast<std::size_t>(size_of(request.outputs[0]).count);
  return {.enqueue = [bytes](const KernelMemory& m, cudaStream_t stream) {
    cuda::check(cudaMemsetAsync(m.outputs[0], 0, bytes, stream), "clearing a product");
  }};
}

std::optional<Launch> prepare_einsum(const KernelRequest& request) {
  const DType dtype = request.inputs[0].dtype;
  if (!library_type(dtype)) {
    return std::nullopt;
  }
  if (request.inputs[0].shape.element_count() == 0 ||
      request.inputs[1].shape.element_count() == 0) {
    return clear_result(request);
  }
  std::optional<ProductView> v = product_view(signature_of(request));
  if (!v) {
    return std::nullopt;
  }
  const bool by_columns = v->y.column != 1 && v->columns != 1 && v->y.row == 1;
  const std::size_t first = by_columns ? 1 : 0;
  const std::shared_ptr<const Product> product =
      product_of(by_columns ? v->transposed() : *v, dtype);
  if (product == nullptr) {
    return std::nullopt;
  }
  return Launch{.enqueue =
                    [product, first](const KernelMemory& m, cudaStream_t stream) {
                      product->enqueue(m.inputs[first], m.inputs[1 - first], m.outputs[0],
                                       m.workspace, stream);
                    },
                .workspace = {static_cast<std::int64_t>(kWorkspace)}};
}

}  // namespace

std::span<const KernelRow> product_kernels() {
  static constexpr std::array kRows{KernelRow{"einsum", prepare_einsum}};
  return kRows;
}

}  // namespace trireme::cuda
