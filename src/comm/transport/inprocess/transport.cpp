// In-process: ranks are threads. All ranks see all memory; a rank's allocations stay until the last rank has left,
// because a slower one may still be reading it.
#include "comm/transport/transport.h"

#include <map>
#include <mutex>

#include <sys/mman.h>

#include "base/indexed_vector.h"
#include "comm/transport/ring.h"
#include "trireme/error.h"

namespace trireme::comm {

class InProcessHub {
 public:
  explicit InProcessHub(Rank ranks) : pages_(ranks) {
    for (auto& page : pages_) {
      page = std::make_unique<RankPage>();
    }
  }
  ~InProcessHub() {
    for (const auto& [memory, bytes] : memory_) {
      munmap(memory, bytes);
    }
  }
  InProcessHub(const InProcessHub&) = delete;
  InProcessHub& operator=(const InProcessHub&) = delete;

  [[nodiscard]] RankPage& page(Rank rank) { return *pages_[rank]; }

  /// The ring from one rank to another; created on first use.
  [[nodiscard]] Ring& ring(Rank from, Rank to) {
    const std::lock_guard lock(mutex_);
    std::unique_ptr<Ring>& ring = rings_[{from, to}];
    if (!ring) {
      ring = std::make_unique<Ring>();
    }
    return *ring;
  }

  [[nodiscard]] std::byte* allocate(std::size_t bytes) {
    bytes += kApart;
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
      throw Error(ErrorKind::System, "out of memory for a shared buffer; use a smaller one");
    }
    const std::lock_guard lock(mutex_);
    memory_[memory] = bytes;
    return static_cast<std::byte*>(memory);
  }
  void release(void* memory) {
    const std::lock_guard lock(mutex_);
    const auto it = memory_.find(memory);
    if (it != memory_.end()) {
      munmap(it->first, it->second);
      memory_.erase(it);
    }
  }

 private:
  std::mutex mutex_;
  IndexedVector<Rank, std::unique_ptr<RankPage>> pages_;
  std::map<std::pair<Rank, Rank>, std::unique_ptr<Ring>> rings_;
  std::map<void*, std::size_t> memory_;
};

namespace {

class ThreadMemory : public HostMemory {
 public:
  explicit ThreadMemory(InProcessHub& hub) : hub_(hub) {}
  [[nodiscard]] std::byte* allocate(std::int64_t bytes) override {
    return hub_.allocate(std::max<std::int64_t>(bytes, 1));
  }
  void release(void* memory) noexcept override { hub_.release(memory); }
  [[nodiscard]] std::optional<std::uint64_t> place_of(const void* memory,
                                                      std::size_t /*bytes*/) const override {
    return reinterpret_cast<std::uint64_t>(memory);
  }
  [[nodiscard]] std::byte* view(Rank /*peer*/, std::uint64_t place) const override {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): an address of this very process
    return reinterpret_cast<std::byte*>(place);
  }

 private:
  InProcessHub& hub_;
};

class InProcessTransport : public Transport {
 public:
  InProcessTransport(std::shared_ptr<InProcessHub> hub, Rank rank)
      : hub_(std::move(hub)), rank_(rank), memory_(*hub_) {}

  [[nodiscard]] TransportKind kind() const override { return TransportKind::InProcess; }
  [[nodiscard]] std::string address() const override { return "thread"; }
  void connect(const std::vector<PeerAddress>& /*peers*/, Deadline /*deadline*/) override {}
  [[nodiscard]] std::vector<std::unique_ptr<Stream>> streams(Rank peer) override {
    std::vector<std::unique_ptr<Stream>> one;
    one.push_back(std::make_unique<RingStream>(hub_->ring(rank_, peer), hub_->ring(peer, rank_),
                                               hub_->page(peer).bell));
    return one;
  }
  [[nodiscard]] HostMemory* memory() override { return &memory_; }
  [[nodiscard]] RankPage* page(Rank rank) override { return &hub_->page(rank); }

 private:
  std::shared_ptr<InProcessHub> hub_;
  Rank rank_;
  ThreadMemory memory_;
};

}  // namespace

std::shared_ptr<InProcessHub> make_in_process_hub(Rank ranks) {
  return std::make_shared<InProcessHub>(ranks);
}

std::unique_ptr<Transport> make_inprocess_transport(std::shared_ptr<InProcessHub> hub, Rank rank) {
  return std::make_unique<InProcessTransport>(std::move(hub), rank);
}

}  // namespace trireme::comm
