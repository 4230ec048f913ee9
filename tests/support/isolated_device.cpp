#include "support/isolated_device.h"

#include <atomic>
#include <map>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <sys/mman.h>

#include "base/check.h"
#include "support/isolated_stream.h"
#include "trireme/cpu_device.h"
#include "trireme/error.h"

namespace trireme {
namespace isolated {
namespace {

/// Addresses that trap, for memory that is elsewhere.
class Reservation {
 public:
  explicit Reservation(std::size_t size)
      : size_(size),
        data_(mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    TRIREME_CHECK(data_ != MAP_FAILED, "no addresses left");
  }
  ~Reservation() { munmap(data_, size_); }
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;
  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(data_); }

 private:
  std::size_t size_;
  void* data_;
};

/// Which addresses stand for which memory, and how much is left.
class AddressSpace {
 public:
  explicit AddressSpace(Bytes memory) : free_(memory) {}

  void add(const std::byte* address, Bytes size, std::byte* memory) {
    ranges_[address] = {size, memory};
    free_.count -= size.count;
  }
  void remove(const std::byte* address) {
    free_.count += ranges_.at(address).size.count;
    ranges_.erase(address);
  }
  [[nodiscard]] std::byte* translate(const std::byte* address) const {
    auto it = ranges_.upper_bound(address);
    TRIREME_CHECK(it != ranges_.begin(), "not an address of the device");
    --it;
    const std::ptrdiff_t offset = address - it->first;
    TRIREME_CHECK(offset <= it->second.size.count, "not an address of the device");
    return it->second.memory + offset;
  }
  [[nodiscard]] Bytes free() const { return free_; }

 private:
  struct Range {
    Bytes size{};
    std::byte* memory = nullptr;
  };
  std::map<const std::byte*, Range> ranges_;
  Bytes free_;
};

class Memory final : public DeviceMemory {
 public:
  Memory(Bytes bytes, std::unique_ptr<DeviceMemory> behind, std::shared_ptr<AddressSpace> space)
      : addresses_(static_cast<std::size_t>(bytes.count) + 1),
        behind_(std::move(behind)),
        space_(std::move(space)) {
    space_->add(addresses_.data(), bytes, behind_->data());
  }
  ~Memory() override { space_->remove(addresses_.data()); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  [[nodiscard]] std::byte* data() override { return addresses_.data(); }

 private:
  Reservation addresses_;
  std::unique_ptr<DeviceMemory> behind_;
  std::shared_ptr<AddressSpace> space_;
};

/// A kernel of the CPU, on the thread of a stream.
class StreamKernel final : public Kernel {
 public:
  StreamKernel(std::unique_ptr<Kernel> kernel, Stream& host)
      : kernel_(std::move(kernel)), host_(host) {}
  void enqueue(Stream& stream) override {
    dynamic_cast<ThreadStream&>(stream).launch([this] { kernel_->enqueue(host_); });
  }

 private:
  std::unique_ptr<Kernel> kernel_;
  Stream& host_;
};

class PreparedStreamKernel final : public PreparedKernel {
 public:
  PreparedStreamKernel(std::unique_ptr<PreparedKernel> kernel, Stream& host,
                       std::shared_ptr<AddressSpace> space)
      : kernel_(std::move(kernel)), host_(host), space_(std::move(space)) {}
  [[nodiscard]] Bytes workspace() const override { return kernel_->workspace(); }
  [[nodiscard]] std::unique_ptr<Kernel> bind(const KernelMemory& memory) override {
    KernelMemory here;
    for (const std::byte* input : memory.inputs) {
      here.inputs.push_back(space_->translate(input));
    }
    for (const std::byte* output : memory.outputs) {
      here.outputs.push_back(space_->translate(output));
    }
    here.workspace = space_->translate(memory.workspace);
    return std::make_unique<StreamKernel>(kernel_->bind(here), host_);
  }

 private:
  std::unique_ptr<PreparedKernel> kernel_;
  Stream& host_;
  std::shared_ptr<AddressSpace> space_;
};

class KernelRecording final : public Recording {
 public:
  KernelRecording(std::vector<ThreadStream::Task> tasks, std::shared_ptr<IsolatedCounts> counts)
      : tasks_(std::move(tasks)), counts_(std::move(counts)) {}
  void enqueue(Stream& stream) override {
    ++counts_->replays;
    dynamic_cast<ThreadStream&>(stream).launch([this] {
      for (const auto& task : tasks_) {
        task();
      }
    });
  }

 private:
  std::vector<ThreadStream::Task> tasks_;
  std::shared_ptr<IsolatedCounts> counts_;
};

class IsolatedDevice final : public Device {
 public:
  explicit IsolatedDevice(const IsolatedOptions& options)
      : options_(options),
        cpu_(make_cpu_device({.threads = 1, .pinned = false})),
        host_(cpu_->make_stream()),
        space_(std::make_shared<AddressSpace>(options.memory)) {}

  [[nodiscard]] std::string name() const override { return "isolated"; }
  [[nodiscard]] Bytes alignment() const override { return {256}; }
  [[nodiscard]] Fusions fusions() const override { return options_.fusions; }
  [[nodiscard]] std::optional<Bytes> free_memory() const override { return space_->free(); }

  [[nodiscard]] std::unique_ptr<DeviceMemory> allocate(Bytes bytes) override {
    if (bytes > space_->free()) {
      throw Error(ErrorKind::System, fmt::format("{}: cannot get {} of memory: {} are free", name(),
                                                 to_text(bytes), to_text(space_->free())));
    }
    return std::make_unique<Memory>(bytes, cpu_->allocate(bytes), space_);
  }
  [[nodiscard]] std::unique_ptr<HostMemory> allocate_host(Bytes bytes) override {
    ++options_.counts->host_allocations;
    return cpu_->allocate_host(bytes);
  }
  [[nodiscard]] std::unique_ptr<Stream> make_stream() override {
    return std::make_unique<ThreadStream>(StreamOptions{
        .seed = options_.seed * 1000 + ++streams_,
        .longest_delay = options_.longest_delay,
        .translate = [space = space_](const std::byte* at) { return space->translate(at); },
        .counts = options_.counts});
  }
  [[nodiscard]] std::unique_ptr<Event> make_event(const EventOptions& options) override {
    return std::make_unique<StreamEvent>(options.timed);
  }
  [[nodiscard]] std::unique_ptr<PreparedKernel> prepare(const KernelRequest& request) override {
    return std::make_unique<PreparedStreamKernel>(cpu_->prepare(request), *host_, space_);
  }
  [[nodiscard]] std::unique_ptr<Recording> record(Stream& stream,
                                                  const std::function<void()>& enqueue) override {
    if (options_.cannot_record) {
      throw Error(ErrorKind::System, "isolated: cannot record kernels");
    }
    return std::make_unique<KernelRecording>(dynamic_cast<ThreadStream&>(stream).capture(enqueue),
                                             options_.counts);
  }

 private:
  IsolatedOptions options_;
  std::unique_ptr<Device> cpu_;
  std::unique_ptr<Stream> host_;  ///< on which the CPU's kernels run, inline
  std::shared_ptr<AddressSpace> space_;
  std::uint64_t streams_ = 0;
};

}  // namespace
}  // namespace isolated

std::unique_ptr<Device> make_isolated_device(const IsolatedOptions& options) {
  return std::make_unique<isolated::IsolatedDevice>(options);
}

DeviceFactory isolated_devices(const IsolatedOptions& options) {
  const auto made = std::make_shared<std::atomic<std::uint64_t>>(0);
  return [options, made](const RankOnHost&) {
    IsolatedOptions mine = options;
    mine.seed += (*made)++;
    return make_isolated_device(mine);
  };
}

}  // namespace trireme
