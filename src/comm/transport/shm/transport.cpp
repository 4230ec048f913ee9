// Shared memory: ranks are processes of one host. Each rank has one heap, an anonymous file (memfd) that every other
// rank maps whole: its page, the rings into it, its areas and the memory of World::allocate. The file has no name and
// disappears with the last process that has it, however that process ends.
//
// A heap is mapped once at its maximum size, of which only the beginning exists; the owner grows the file. So
// allocations need no announcement: an offset into the heap is all a peer needs.
#include "comm/transport/transport.h"

#include <cstddef>
#include <cstring>
#include <map>
#include <mutex>

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/bytes_moved.h"
#include "base/indexed_vector.h"
#include "base/text.h"
#include "comm/net/fd.h"
#include "comm/net/file_size.h"
#include "comm/transport/ring.h"
#include "trireme/error.h"

namespace trireme::comm {
namespace {

/// Address space for one heap: only allocated memory is used.
constexpr std::int64_t kHeapSpan = std::int64_t{1} << 36;
/// Heaps have the same layout, and are mapped consecutively: see kApart.
constexpr std::int64_t kMapped = kHeapSpan + 91 * kPage;
/// The file grows by at least this much.
constexpr std::int64_t kGrowth = std::int64_t{16} << 20;

std::int64_t round_up(std::int64_t bytes, std::int64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

/// Accessible only to this user, including through /proc/PID/fd.
Fd make_heap_file() {
  Fd file(memfd_create("trireme", MFD_CLOEXEC));
  if (!file.valid() || fchmod(file.get(), S_IRUSR | S_IWUSR) != 0) {
    throw_system("cannot create a file for shared memory", errno);
  }
  return file;
}

std::byte* map_heap(int fd) {
  void* memory = mmap(nullptr, kMapped, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (memory == MAP_FAILED) {
    throw_system("cannot map 64 GiB of address space for shared memory (is `ulimit -v` set?)",
                 errno);
  }
  madvise(memory, kMapped, MADV_DONTDUMP);
  return static_cast<std::byte*>(memory);
}

/// A mapping that unmaps itself.
class Mapping {
 public:
  explicit Mapping(std::byte* base = nullptr) : base_(base) {}
  ~Mapping() {
    if (base_ != nullptr) {
      munmap(base_, kMapped);
    }
  }
  Mapping(Mapping&& other) noexcept : base_(std::exchange(other.base_, nullptr)) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(base_, other.base_);
    return *this;
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  [[nodiscard]] std::byte* base() const { return base_; }

 private:
  std::byte* base_;
};

/// The header at the start of each rank's heap.
struct HeapHead {
  static constexpr std::uint32_t kMagic = 0x54524952;
  RankPage page;
  std::uint32_t magic = kMagic;
  // Rings into this rank follow, one for each rank of the world.
  [[nodiscard]] Ring* ring(Rank from) { return reinterpret_cast<Ring*>(this + 1) + from; }
};

class Heap : public HostMemory {
 public:
  Heap(Rank rank, Rank ranks) : fd_(make_heap_file()), own_(map_heap(fd_.get())), rank_(rank) {
    const auto head = static_cast<std::int64_t>(sizeof(HeapHead)) +
                      static_cast<std::int64_t>(sizeof(Ring)) * ranks;
    top_ = round_up(head, kPage);
    grow(top_);
    new (own_.base()) HeapHead();  // the rings are zero, as they should be at first
    views_.resize(ranks);
    processes_.resize(ranks);
    handles_.resize(ranks, -1);
  }

  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] HeapHead& head(Rank rank) {
    return *reinterpret_cast<HeapHead*>(rank == rank_ ? own_.base() : base(rank));
  }
  void add_view(Rank peer, const Fd& file) { views_[peer] = Mapping(map_heap(file.get())); }

  [[nodiscard]] std::byte* allocate(std::int64_t bytes) override {
    const std::int64_t need = round_up(std::max<std::int64_t>(bytes, 1), kPage) + kApart;
    const std::lock_guard lock(mutex_);
    for (auto it = free_.begin(); it != free_.end(); ++it) {
      if (it->second >= need) {
        const auto [offset, length] = *it;
        free_.erase(it);
        if (length > need) {
          free_[offset + need] = length - need;
        }
        used_[offset] = need;
        return own_.base() + offset;
      }
    }
    if (top_ + need > kHeapSpan) {
      throw Error(ErrorKind::System,
                  fmt::format("no room for {} bytes of shared memory: a rank can "
                              "have {} in all",
                              bytes, to_text(Bytes{kHeapSpan})));
    }
    grow(top_ + need);
    used_[top_] = need;
    top_ += need;
    return own_.base() + top_ - need;
  }

  void release(void* memory) noexcept override {
    const std::lock_guard lock(mutex_);
    const auto it = used_.find(static_cast<std::byte*>(memory) - own_.base());
    if (it == used_.end()) {
      return;
    }
    // Returns the pages, so that they are zero when reused.
    fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, it->first, it->second);
    auto [place, inserted] = free_.emplace(it->first, it->second);
    used_.erase(it);
    const auto next = std::next(place);
    if (next != free_.end() && place->first + place->second == next->first) {
      place->second += next->second;
      free_.erase(next);
    }
    if (place != free_.begin()) {
      const auto before = std::prev(place);
      if (before->first + before->second == place->first) {
        before->second += place->second;
        free_.erase(place);
      }
    }
  }

  [[nodiscard]] std::optional<std::uint64_t> place_of(const void* memory,
                                                      std::size_t bytes) const override {
    const auto* at = static_cast<const std::byte*>(memory);
    if (at < own_.base() || at + bytes > own_.base() + kHeapSpan) {
      return std::nullopt;
    }
    return static_cast<std::uint64_t>(at - own_.base());
  }
  [[nodiscard]] std::byte* base() const { return own_.base(); }
  /// `handle` is the process' pidfd.
  void add_process(Rank peer, pid_t process, int handle) {
    processes_[peer] = process;
    handles_[peer] = handle;
  }
  void allow_fetch(bool allowed) { can_fetch_ = allowed; }
  [[nodiscard]] bool can_fetch() const override { return can_fetch_; }
  void fetch(Rank peer, std::uint64_t address, std::span<std::byte> into) const override {
    const std::string problem = try_fetch(peer, address, into);
    if (!problem.empty()) {
      throw Error(ErrorKind::Peer, problem);
    }
  }
  /// Whether the peer's process still exists. The PID of one that does not may have been reused, by a process whose
  /// memory must not be written to.
  [[nodiscard]] bool is_alive(Rank peer) const {
    return syscall(SYS_pidfd_send_signal, handles_[peer], 0, nullptr, 0) == 0;
  }
  void put(Rank peer, std::uint64_t address, std::span<const std::byte> from) const override {
    if (!is_alive(peer)) {
      throw Error(ErrorKind::Peer, fmt::format("rank {} has exited", peer));
    }
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): it is only read
    const std::span<std::byte> local{const_cast<std::byte*>(from.data()), from.size()};
    const int problem = try_copy(process_vm_writev, peer, address, local);
    if (problem != 0) {
      throw Error(ErrorKind::Peer, fmt::format("cannot write {} bytes to rank {}'s memory: {}",
                                               from.size(), peer, error_text(problem)));
    }
  }
  /// "" or why it did not work.
  [[nodiscard]] std::string try_fetch(Rank peer, std::uint64_t address,
                                      std::span<std::byte> into) const {
    const int problem = try_copy(process_vm_readv, peer, address, into);
    return problem == 0 ? ""
                        : fmt::format("cannot read {} bytes of rank {}'s memory: {}", into.size(),
                                      peer, error_text(problem));
  }

  [[nodiscard]] std::byte* view(Rank peer, std::uint64_t place) const override {
    return (peer == rank_ ? own_.base() : base(peer)) + place;
  }

 private:
  [[nodiscard]] std::byte* base(Rank peer) const { return views_[peer].base(); }
  /// Between this rank's memory and an address of the peer's process. Returns 0 or errno.
  [[nodiscard]] int try_copy(decltype(&process_vm_readv) copy, Rank peer, std::uint64_t address,
                             std::span<std::byte> memory) const {
    std::size_t done = 0;
    while (done < memory.size()) {
      const iovec local{memory.data() + done, memory.size() - done};
      // NOLINTNEXTLINE(performance-no-int-to-ptr): an address of the other process
      const iovec remote{reinterpret_cast<void*>(address + done), memory.size() - done};
      const ssize_t got = copy(processes_[peer], &local, 1, &remote, 1, 0);
      if (got <= 0) {
        return got < 0 ? errno : EFAULT;
      }
      done += bytes_moved(got);
    }
    return 0;
  }
  void grow(std::int64_t needed) {
    if (needed <= length_) {
      return;
    }
    const std::int64_t length = round_up(needed, kGrowth);
    const FileSizeGuard guard;
    if (ftruncate(fd_.get(), length) != 0) {
      throw_file_system(fmt::format("cannot create shared memory of {}", to_text(Bytes{length})),
                        errno);
    }
    length_ = length;
  }

  Fd fd_;
  Mapping own_;
  Rank rank_;
  IndexedVector<Rank, Mapping> views_;
  IndexedVector<Rank, pid_t> processes_;
  IndexedVector<Rank, int> handles_;
  bool can_fetch_ = false;
  std::mutex mutex_;
  std::int64_t top_ = 0;
  std::int64_t length_ = 0;
  std::map<std::int64_t, std::int64_t> free_;  ///< offset to length; adjacent ones are merged
  std::map<std::int64_t, std::int64_t> used_;
};

class ShmTransport : public Transport {
 public:
  ShmTransport(Rank rank, Rank ranks) : rank_(rank), heap_(rank, ranks), deaths_(ranks) {
    // Lets the other ranks, which belong to the same user, fetch from this process if the system requires permission
    // (Yama). If it fails, they do without.
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
  }

  [[nodiscard]] TransportKind kind() const override { return TransportKind::SharedMemory; }
  [[nodiscard]] std::string address() const override {
    return fmt::format("{} {} {}", getpid(), heap_.fd(),
                       reinterpret_cast<std::uint64_t>(heap_.base()));
  }

  void connect(const std::vector<PeerAddress>& peers, Deadline /*deadline*/) override {
    bool fetches = true;
    for (const PeerAddress& peer : peers) {
      const auto words = split_words(peer.address);
      const std::string path = fmt::format("/proc/{}/fd/{}", words.at(0), words.at(1));
      const Fd file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
      if (!file.valid()) {
        throw_system(fmt::format("cannot open the shared memory of rank {} ({}); do all ranks run "
                                 "as the same user?",
                                 peer.rank, path),
                     errno);
      }
      heap_.add_view(peer.rank, file);
      const auto pid = parse_integer(words.at(0));
      deaths_[peer.rank] = Fd(static_cast<int>(syscall(SYS_pidfd_open, pid.value_or(0), 0)));
      heap_.add_process(peer.rank, static_cast<pid_t>(pid.value_or(0)), deaths_[peer.rank].get());
      fetches = fetches && heap_.is_alive(peer.rank) && try_fetch(peer.rank, words.at(2));
    }
    heap_.allow_fetch(fetches);
    heap_.head(rank_).page.fetches.store(fetches);
  }

  [[nodiscard]] std::vector<std::unique_ptr<Stream>> streams(Rank peer) override {
    std::vector<std::unique_ptr<Stream>> one;
    one.push_back(std::make_unique<RingStream>(
        *heap_.head(peer).ring(rank_), *heap_.head(rank_).ring(peer), heap_.head(peer).page.bell));
    return one;
  }
  [[nodiscard]] HostMemory* memory() override { return &heap_; }
  [[nodiscard]] RankPage* page(Rank rank) override { return &heap_.head(rank).page; }
  [[nodiscard]] int death_watch(Rank peer) override { return deaths_[peer].get(); }

 private:
  /// Whether the kernel lets this process read that one's memory: reads a known word.
  [[nodiscard]] bool try_fetch(Rank peer, std::string_view base) {
    std::uint32_t word = 0;
    const auto address = static_cast<std::uint64_t>(parse_integer(base).value_or(0));
    return heap_
               .try_fetch(peer, address + offsetof(HeapHead, magic),
                          std::as_writable_bytes(std::span(&word, 1)))
               .empty() &&
           word == HeapHead::kMagic;
  }

  Rank rank_;
  Heap heap_;
  IndexedVector<Rank, Fd> deaths_;
};

}  // namespace

std::unique_ptr<Transport> make_shm_transport(Rank rank, Rank ranks) {
  return std::make_unique<ShmTransport>(rank, ranks);
}

}  // namespace trireme::comm
