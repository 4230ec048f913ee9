#include "trireme/host_device.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <system_error>

#include <fmt/format.h>
#include <sys/mman.h>

#include "base/check.h"
#include "runtime/host_exchange.h"
#include "trireme/error.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

/// Dedicated pages, huge ones if available, zero-initialized.
class HostPages {
 public:
  HostPages(Bytes bytes, const std::string& device)
      : size_(static_cast<std::size_t>(std::max<std::int64_t>(bytes.count, 1))) {
    void* pages = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) {
      throw Error(ErrorKind::System,
                  fmt::format("{}: cannot get {} of memory: {}", device, to_text(bytes),
                              std::generic_category().message(errno)));
    }
    (void)madvise(pages, size_, MADV_HUGEPAGE);  // only a hint
    data_ = static_cast<std::byte*>(pages);
  }
  ~HostPages() { munmap(data_, size_); }
  HostPages(const HostPages&) = delete;
  HostPages& operator=(const HostPages&) = delete;

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  std::size_t size_;
  std::byte* data_ = nullptr;
};

class PagesOfDevice final : public DeviceMemory {
 public:
  PagesOfDevice(Bytes bytes, const std::string& device) : pages_(bytes, device) {}
  [[nodiscard]] std::byte* data() override { return pages_.data(); }

 private:
  HostPages pages_;
};

class PagesOfHost final : public HostMemory {
 public:
  PagesOfHost(Bytes bytes, const std::string& device) : pages_(bytes, device) {}
  [[nodiscard]] std::span<std::byte> bytes() override { return {pages_.data(), pages_.size()}; }

 private:
  HostPages pages_;
};

class InlineEvent final : public Event {
 public:
  explicit InlineEvent(bool timed) : timed_(timed) {}
  [[nodiscard]] bool done() override { return true; }
  void wait() override {}
  [[nodiscard]] Seconds since(Event& earlier) override {
    const auto& from = dynamic_cast<InlineEvent&>(earlier);
    TRIREME_CHECK(timed_ && from.timed_, "an event without timing has no time");
    return {std::chrono::duration<double>(time_ - from.time_).count()};
  }
  void mark() {
    if (timed_) {
      time_ = Clock::now();
    }
  }

 private:
  bool timed_;
  Clock::time_point time_{};
};

class InlineStream final : public Stream {
 public:
  void copy_in(std::byte* to, std::span<const std::byte> from) override {
    std::ranges::copy(from, to);
  }
  void copy_out(std::span<std::byte> to, const std::byte* from) override {
    std::copy_n(from, to.size(), to.data());
  }
  void copy(std::byte* to, std::span<const std::byte> from) override {
    std::ranges::copy(from, to);
  }
  void record(Event& event) override { dynamic_cast<InlineEvent&>(event).mark(); }
  void wait(Event&) override {}
  void synchronize() override {}
};

}  // namespace

std::unique_ptr<DeviceMemory> HostDevice::allocate(Bytes bytes) {
  return std::make_unique<PagesOfDevice>(bytes, name());
}

std::unique_ptr<HostMemory> HostDevice::allocate_host(Bytes bytes) {
  return std::make_unique<PagesOfHost>(bytes, name());
}

std::unique_ptr<Stream> HostDevice::make_stream() {
  return std::make_unique<InlineStream>();
}

std::unique_ptr<Event> HostDevice::make_event(const EventOptions& options) {
  return std::make_unique<InlineEvent>(options.timed);
}

std::unique_ptr<PreparedExchange> HostDevice::prepare_exchange(const KernelRequest& request) {
  return runtime::prepare_in_place(request, *this);
}

}  // namespace trireme
