#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <map>
#include <memory>
#include <system_error>
#include <type_traits>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>

#include "backend/cuda/batch.h"
#include "backend/cuda/exchange.h"
#include "backend/cuda/graph_memsets.h"
#include "backend/cuda/kernel.h"
#include "backend/cuda/libraries.h"
#include "backend/cuda/session.h"
#include "trireme/cuda_device.h"
#include "trireme/error.h"

namespace trireme {
namespace cuda {

void check(cudaError_t status, std::string_view what) {
  if (status != cudaSuccess) {
    throw Error(ErrorKind::System, fmt::format("cuda: {}: {}", what, cudaGetErrorString(status)));
  }
}

void clear_memory(void* data, std::size_t bytes) {
  check(cudaMemset(data, 0, bytes), "clearing memory");
  check(cudaStreamSynchronize(cudaStreamLegacy), "clearing memory");
}

namespace {

std::size_t size_in_bytes(Bytes bytes) {
  return static_cast<std::size_t>(std::max<std::int64_t>(bytes.count, 1));
}

class Memory : public DeviceMemory {
 public:
  Memory(Bytes bytes, std::string_view device) {
    check(cudaMalloc(&data_, size_in_bytes(bytes)),
          fmt::format("{}: allocating {}", device, to_text(bytes)));
    clear_memory(data_, size_in_bytes(bytes));
  }
  ~Memory() override { (void)cudaFree(data_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  [[nodiscard]] std::byte* data() override { return static_cast<std::byte*>(data_); }

 private:
  void* data_ = nullptr;
};

/// Pages of the process, registered with the driver. Memory that the driver allocates cannot be read by other processes
/// through the kernel, as `comm` does.
class PinnedMemory : public HostMemory {
 public:
  explicit PinnedMemory(Bytes bytes) : size_(size_in_bytes(bytes)) {
    data_ = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data_ == MAP_FAILED) {
      throw Error(ErrorKind::System, fmt::format("cannot get {} of memory: {}", to_text(bytes),
                                                 std::generic_category().message(errno)));
    }
    if (const cudaError_t status = cudaHostRegister(data_, size_, cudaHostRegisterDefault);
        status != cudaSuccess) {
      munmap(data_, size_);
      check(status, fmt::format("pinning {} of memory", to_text(bytes)));
    }
  }
  ~PinnedMemory() override {
    (void)cudaHostUnregister(data_);
    munmap(data_, size_);
  }
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;
  [[nodiscard]] std::span<std::byte> bytes() override {
    return {static_cast<std::byte*>(data_), size_};
  }

 private:
  std::size_t size_;
  void* data_ = nullptr;
};

class CudaEvent : public Event {
 public:
  explicit CudaEvent(bool timed) {
    check(cudaEventCreateWithFlags(&event_, timed ? cudaEventDefault : cudaEventDisableTiming),
          "creating an event");
  }
  ~CudaEvent() override { (void)cudaEventDestroy(event_); }
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;

  [[nodiscard]] bool done() override {
    const cudaError_t status = cudaEventQuery(event_);
    if (status == cudaErrorNotReady) {
      return false;
    }
    check(status, "waiting for the device");
    return true;
  }
  void wait() override { check(cudaEventSynchronize(event_), "waiting for the device"); }
  [[nodiscard]] Seconds since(Event& earlier) override {
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, static_cast<CudaEvent&>(earlier).event_, event_),
          "reading the time of an event");
    return {milliseconds * 1e-3};
  }
  [[nodiscard]] cudaEvent_t handle() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

class CudaStream : public Stream {
 public:
  CudaStream() {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "creating a stream");
  }
  ~CudaStream() override {
    (void)cudaStreamSynchronize(stream_);
    (void)cudaStreamDestroy(stream_);
  }
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  void copy_in(std::byte* to, std::span<const std::byte> from) override {
    flush();
    check(cudaMemcpyAsync(to, from.data(), from.size(), cudaMemcpyHostToDevice, stream_),
          "copying to the device");
  }
  void copy_out(std::span<std::byte> to, const std::byte* from) override {
    flush();
    check(cudaMemcpyAsync(to.data(), from, to.size(), cudaMemcpyDeviceToHost, stream_),
          "copying from the device");
  }
  void copy(std::byte* to, std::span<const std::byte> from) override {
    flush();
    check(cudaMemcpyAsync(to, from.data(), from.size(), cudaMemcpyDeviceToDevice, stream_),
          "copying on the device");
  }
  void record(Event& event) override {
    flush();
    check(cudaEventRecord(static_cast<CudaEvent&>(event).handle(), stream_), "recording an event");
  }
  void wait(Event& event) override {
    flush();
    check(cudaStreamWaitEvent(stream_, static_cast<CudaEvent&>(event).handle()),
          "ordering streams");
  }
  void synchronize() override {
    flush();
    check(cudaStreamSynchronize(stream_), "waiting for the device");
  }
  void enqueue(const Launch& launch, const KernelMemory& memory, const Footprint& footprint) {
    if (launch.enqueue_batch != nullptr) {
      batch_.add(launch.enqueue_batch, {&memory, launch.prepared.get()}, footprint, stream_);
    } else {
      flush();
      launch.enqueue(memory, stream_);
    }
  }
  /// Enqueues the kernels that wait for others to run with.
  void flush() { batch_.flush(stream_); }
  /// Ends a failed recording and discards its state.
  void abandon_recording() {
    batch_.clear();
    cudaGraph_t graph = nullptr;
    (void)cudaStreamEndCapture(stream_, &graph);
    if (graph != nullptr) {
      (void)cudaGraphDestroy(graph);
    }
    (void)cudaGetLastError();  // so that no later kernel is blamed for the failure
  }
  [[nodiscard]] cudaStream_t handle() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
  Batch batch_;
};

CudaStream& own(Stream& stream) {
  return static_cast<CudaStream&>(stream);
}

class BoundKernel : public Kernel {
 public:
  BoundKernel(Launch launch, KernelMemory memory, Footprint footprint)
      : launch_(std::move(launch)), memory_(std::move(memory)), footprint_(std::move(footprint)) {}
  void enqueue(Stream& stream) override { own(stream).enqueue(launch_, memory_, footprint_); }

 private:
  Launch launch_;
  KernelMemory memory_;
  Footprint footprint_;
};

class Prepared : public PreparedKernel {
 public:
  Prepared(Launch launch, const KernelRequest& request)
      : launch_(std::move(launch)), request_(request) {}
  [[nodiscard]] Bytes workspace() const override { return launch_.workspace; }
  [[nodiscard]] std::unique_ptr<Kernel> bind(const KernelMemory& memory) override {
    return std::make_unique<BoundKernel>(launch_, memory, footprint_of(request_, memory));
  }

 private:
  Launch launch_;
  KernelRequest request_;
};

/// A CUDA graph.
class GraphRecording : public Recording {
 public:
  GraphRecording(CudaStream& of, const std::function<void()>& enqueue) {
    of.flush();
    try {
      record(of, enqueue);
    } catch (...) {
      of.abandon_recording();
      throw;
    }
  }
  ~GraphRecording() override { (void)cudaGraphExecDestroy(executable_); }
  GraphRecording(const GraphRecording&) = delete;
  GraphRecording& operator=(const GraphRecording&) = delete;
  void enqueue(Stream& stream) override {
    own(stream).flush();
    check(cudaGraphLaunch(executable_, own(stream).handle()), "launching a graph of kernels");
  }

 private:
  void record(CudaStream& of, const std::function<void()>& enqueue) {
    cudaGraph_t graph = nullptr;
    check(cudaStreamBeginCapture(of.handle(), cudaStreamCaptureModeThreadLocal),
          "recording kernels");
    enqueue();
    of.flush();
    check(cudaStreamEndCapture(of.handle(), &graph), "recording kernels");
    const std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, decltype(&cudaGraphDestroy)> owned(
        graph, &cudaGraphDestroy);
    replace_memsets(graph);
    check(cudaGraphInstantiate(&executable_, graph), "instantiating a graph of kernels");
  }

  cudaGraphExec_t executable_ = nullptr;
};

std::span<const std::span<const KernelRow>> kernel_tables() {
  static const std::array tables{
      adamw_kernels(),          product_kernels(),    cudnn_kernels(),       attention_kernels(),
      cast_kernels(),           classifier_kernels(), elementwise_kernels(), norm_kernels(),
      norm_backward_kernels(),  loss_kernels(),       embedding_kernels(),   optimizer_kernels(),
      reduction_kernels(),      shape_kernels(),      random_kernels(),      expert_kernels(),
      strided_product_kernels()};
  return tables;
}

[[noreturn]] void refuse(const KernelRequest& request) {
  std::vector<std::string> types;
  std::ranges::transform(request.inputs, std::back_inserter(types),
                         [](const TensorType& type) { return to_text(type); });
  throw Error(ErrorKind::Usage, fmt::format("CUDA has no kernel for {}({}); use --device cpu",
                                            request.op->name, fmt::join(types, ", ")));
}

class CudaDevice : public Device {
 public:
  CudaDevice(int number, CudaExchange exchange) : exchange_(exchange) {
    check(cudaSetDevice(number), fmt::format("using device {}", number));
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, number), "reading the device's properties");
    name_ = fmt::format("cuda:{}, {}", number, properties.name);
  }

  [[nodiscard]] std::string name() const override { return name_; }
  [[nodiscard]] Bytes alignment() const override { return {256}; }
  [[nodiscard]] Fusions fusions() const override {
    return {
        .classifier = true, .projections = true, .products = true, .norms = true, .updates = true};
  }
  [[nodiscard]] std::optional<Bytes> free_memory() const override {
    std::size_t free = 0;
    std::size_t all = 0;
    check(cudaMemGetInfo(&free, &all), "reading the device's free memory");
    return Bytes{static_cast<std::int64_t>(free)};
  }
  [[nodiscard]] std::unique_ptr<DeviceMemory> allocate(Bytes bytes) override {
    return std::make_unique<Memory>(bytes, name_);
  }
  [[nodiscard]] std::unique_ptr<HostMemory> allocate_host(Bytes bytes) override {
    return std::make_unique<PinnedMemory>(bytes);
  }
  [[nodiscard]] std::unique_ptr<Stream> make_stream() override {
    return std::make_unique<CudaStream>();
  }
  [[nodiscard]] std::unique_ptr<Event> make_event(const EventOptions& options) override {
    return std::make_unique<CudaEvent>(options.timed);
  }
  [[nodiscard]] std::unique_ptr<PreparedKernel> prepare(const KernelRequest& request) override {
    for (const std::span<const KernelRow> rows : kernel_tables()) {
      const auto row = std::ranges::find(rows, request.op->name, &KernelRow::op);
      if (row != rows.end()) {
        if (auto launch = row->prepare(request)) {
          return std::make_unique<Prepared>(std::move(*launch), request);
        }
      }
    }
    refuse(request);
  }
  [[nodiscard]] std::unique_ptr<Recording> record(Stream& stream,
                                                  const std::function<void()>& enqueue) override {
    return std::make_unique<GraphRecording>(own(stream), enqueue);
  }

  [[nodiscard]] std::unique_ptr<PreparedExchange> prepare_exchange(
      const KernelRequest& request) override {
    return cuda::prepare_exchange(request, *this);
  }
  [[nodiscard]] std::shared_ptr<ExchangeSession> connect(Communicator& communicator) override {
    std::shared_ptr<ExchangeSession> session = sessions_[&communicator].lock();
    if (!session) {
      session = connect_ranks(*this, communicator, exchange_);
      sessions_[&communicator] = session;
    }
    return session;
  }

 private:
  std::string name_;
  CudaExchange exchange_;
  /// Of executions that share a communicator, such as training and evaluation.
  std::map<const Communicator*, std::weak_ptr<ExchangeSession>> sessions_;
};

}  // namespace

cudaStream_t handle_of(Stream& stream) {
  own(stream).flush();
  return own(stream).handle();
}

}  // namespace cuda

int cuda_device_count() {
  int count = 0;
  while (std::filesystem::exists(fmt::format("/dev/nvidia{}", count))) {
    ++count;
  }
  return count;
}

bool has_cuda() {
  return true;
}

CudaFacts cuda_facts(int number) {
  cudaDeviceProp properties{};
  cuda::check(cudaGetDeviceProperties(&properties, number), fmt::format("using device {}", number));
  cuda::check(cudaSetDevice(number), fmt::format("using device {}", number));
  std::size_t free = 0;
  std::size_t all = 0;
  cuda::check(cudaMemGetInfo(&free, &all), "reading the device's free memory");
  return {.name = properties.name,
          .memory = Bytes{static_cast<std::int64_t>(all)},
          .free = Bytes{static_cast<std::int64_t>(free)},
          .libraries = cuda::library_facts()};
}

std::unique_ptr<Device> make_cuda_device(int number, CudaExchange exchange) {
  return std::make_unique<cuda::CudaDevice>(number, exchange);
}

DeviceFactory cuda_devices(std::optional<int> number, CudaExchange exchange) {
  return [number, exchange](const RankOnHost& place) {
    int devices = 1;
    cuda::check(cudaGetDeviceCount(&devices), "counting the devices");
    return make_cuda_device(number.value_or(place.rank % devices), exchange);
  };
}

}  // namespace trireme
