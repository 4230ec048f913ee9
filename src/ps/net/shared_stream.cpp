#include "ps/net/shared_stream.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <random>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "comm/net/host.h"
#include "trireme/error.h"

namespace trireme::ps {
namespace {

using comm::Transfer;

constexpr std::uint64_t kSharedMagic = 0x314d4853'53505254;  // "TRPSSHM1"
constexpr std::size_t kPageBytes = 4096;
/// Larger than a message or two of the usual sizes, small enough for the caches.
constexpr std::size_t kRingBytes = std::size_t{4} << 20;
constexpr std::size_t kFileBytes = kPageBytes + 2 * kRingBytes;
/// What is copied before the other side may continue with it.
constexpr std::size_t kSlice = std::size_t{128} << 10;
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

std::uint64_t random_nonce() {
  std::random_device device;
  return static_cast<std::uint64_t>(device()) << 32 | device();
}

/// Accessible only to this user, including through /proc/PID/fd.
comm::Fd make_file() {
  comm::Fd file(::memfd_create("trireme-ps", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const bool is_made = file.valid() && ::fchmod(file.get(), S_IRUSR | S_IWUSR) == 0 &&
                       ::ftruncate(file.get(), kFileBytes) == 0 &&
                       ::fcntl(file.get(), F_ADD_SEALS, kSeals) == 0;
  if (!is_made) {
    comm::throw_system("cannot make shared memory", errno);
  }
  return file;
}

comm::Fd open_file(const SharedMemoryOffer& offer) {
  const std::string path = fmt::format("/proc/{}/fd/{}", offer.process, offer.descriptor);
  comm::Fd file(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
  if (!file.valid()) {
    comm::throw_system("cannot open the server's shared memory", errno);
  }
  struct stat status {};
  const bool is_expected = ::fcntl(file.get(), F_GET_SEALS) == kSeals &&
                           ::fstat(file.get(), &status) == 0 &&
                           status.st_size == static_cast<off_t>(kFileBytes);
  if (!is_expected) {
    throw Error(ErrorKind::Input, "the server's shared memory is not what it offered");
  }
  return file;
}

/// Copies `bytes` between the pieces, from `done` on, and the ring at a position that counts all bytes ever moved.
template <class Copy>
void copy_slice(std::span<const iovec> pieces, std::size_t done, std::byte* ring,
                std::uint64_t position, std::size_t bytes, Copy copy) {
  for (const iovec& piece : pieces) {
    const std::size_t skipped = std::min(done, piece.iov_len);
    done -= skipped;
    auto* at = static_cast<std::byte*>(piece.iov_base) + skipped;
    for (std::size_t left = std::min(bytes, piece.iov_len - skipped); left > 0;) {
      const std::size_t place = position % kRingBytes;
      const std::size_t length = std::min(left, kRingBytes - place);
      copy(at, ring + place, length);
      at += length;
      left -= length;
      bytes -= length;
      position += length;
    }
  }
}

std::size_t total(std::span<const iovec> pieces) {
  std::size_t bytes = 0;
  for (const iovec& piece : pieces) {
    bytes += piece.iov_len;
  }
  return bytes;
}

void require_count(bool holds) {
  if (!holds) {
    throw Error(ErrorKind::Input, "malformed shared memory: an impossible count of bytes");
  }
}

}  // namespace

struct SharedStream::Direction {
  alignas(64) std::atomic<std::uint64_t> written;
  std::atomic<std::uint32_t> reader_sleeps;
  alignas(64) std::atomic<std::uint64_t> read;
  std::atomic<std::uint32_t> writer_sleeps;
};

struct SharedStream::Page {
  std::uint64_t magic;
  std::uint64_t nonce;
  std::array<Direction, 2> directions;  ///< of the acceptor, of the caller
};

std::uint64_t shared_memory_host() {
  const std::string identity = fmt::format("{}/{}", comm::host_identity(), ::geteuid());
  return XXH3_64bits(identity.data(), identity.size()) | 1U;
}

SharedStream::SharedStream(comm::Fd file, const comm::Fd& connection, bool is_acceptor)
    : file_(std::move(file)), connection_(connection.get()) {
  static_assert(sizeof(Page) <= kPageBytes);
  void* const memory =
      ::mmap(nullptr, kFileBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
  if (memory == MAP_FAILED) {
    comm::throw_system("cannot map shared memory", errno);
  }
  memory_ = static_cast<std::byte*>(memory);
  const std::size_t own = is_acceptor ? 0 : 1;
  out_ = &page().directions.at(own);
  in_ = &page().directions.at(1 - own);
  out_ring_ = memory_ + kPageBytes + own * kRingBytes;
  in_ring_ = memory_ + kPageBytes + (1 - own) * kRingBytes;
}

SharedStream::~SharedStream() {
  ::munmap(memory_, kFileBytes);
}

SharedStream::Page& SharedStream::page() const {
  return *reinterpret_cast<Page*>(memory_);
}

std::unique_ptr<SharedStream> SharedStream::make(const comm::Fd& connection) {
  std::unique_ptr<SharedStream> stream(new SharedStream(make_file(), connection, true));
  stream->page().magic = kSharedMagic;  // the rest of a new file is zero, as it should be
  stream->page().nonce = random_nonce();
  return stream;
}

SharedMemoryOffer SharedStream::offer() const {
  return {static_cast<std::uint64_t>(::getpid()), static_cast<std::uint64_t>(file_.get()),
          page().nonce};
}

std::unique_ptr<SharedStream> SharedStream::open(const SharedMemoryOffer& offer,
                                                 const comm::Fd& connection) {
  std::unique_ptr<SharedStream> stream(new SharedStream(open_file(offer), connection, false));
  if (stream->page().magic != kSharedMagic || stream->page().nonce != offer.nonce) {
    throw Error(ErrorKind::Input, "the server's shared memory is not what it offered");
  }
  stream->close_file();
  return stream;
}

std::size_t SharedStream::readable() const {
  const std::uint64_t bytes = in_->written.load(std::memory_order_seq_cst) - read_;
  require_count(bytes <= kRingBytes);
  return bytes;
}

std::size_t SharedStream::room() const {
  const std::uint64_t bytes = written_ - out_->read.load(std::memory_order_seq_cst);
  require_count(bytes <= kRingBytes);
  return kRingBytes - bytes;
}

/// A byte; if the connection has no room for it, the other side has been rung often enough.
void SharedStream::ring() const {
  const char bell = 0;
  [[maybe_unused]] const ssize_t sent =
      ::send(connection_, &bell, sizeof(bell), MSG_DONTWAIT | MSG_NOSIGNAL);
}

/// The other side, if it sleeps for lack of data.
void SharedStream::wake_reader() {
  if (out_->reader_sleeps.load(std::memory_order_seq_cst) != 0 &&
      out_->reader_sleeps.exchange(0, std::memory_order_seq_cst) != 0) {
    ring();
  }
}

/// The other side, if it sleeps for lack of room and half of the ring is free again.
void SharedStream::wake_writer() {
  if (in_->writer_sleeps.load(std::memory_order_seq_cst) != 0 && readable() <= kRingBytes / 2 &&
      in_->writer_sleeps.exchange(0, std::memory_order_seq_cst) != 0) {
    ring();
  }
}

Transfer SharedStream::read_pieces(std::span<const iovec> pieces) {
  const std::size_t wanted = total(pieces);
  std::size_t done = 0;
  while (done < wanted) {
    const std::size_t bytes = std::min({wanted - done, readable(), kSlice});
    if (bytes == 0) {
      break;
    }
    copy_slice(pieces, done, in_ring_, read_, bytes,
               [](std::byte* own, const std::byte* ring, std::size_t length) {
                 std::memcpy(own, ring, length);
               });
    read_ += bytes;
    in_->read.store(read_, std::memory_order_seq_cst);
    wake_writer();
    done += bytes;
  }
  return {
      .outcome = done > 0 || wanted == 0 ? Transfer::Outcome::Moved : Transfer::Outcome::WaitRead,
      .bytes = done};
}

Transfer SharedStream::write_pieces(std::span<const iovec> pieces) {
  const std::size_t wanted = total(pieces);
  std::size_t done = 0;
  while (done < wanted) {
    const std::size_t bytes = std::min({wanted - done, room(), kSlice});
    if (bytes == 0) {
      break;
    }
    copy_slice(pieces, done, out_ring_, written_, bytes,
               [](const std::byte* own, std::byte* ring, std::size_t length) {
                 std::memcpy(ring, own, length);
               });
    written_ += bytes;
    out_->written.store(written_, std::memory_order_seq_cst);
    done += bytes;
  }
  wake_reader();  // once for all: a reader that is awake has noticed, and waking up is what costs on a busy machine
  return {
      .outcome = done > 0 || wanted == 0 ? Transfer::Outcome::Moved : Transfer::Outcome::WaitWrite,
      .bytes = done};
}

// The flag is set before the count is checked, and the other side publishes its count before it checks the flag: one of
// the two sees the other.

bool SharedStream::sleep_until_readable() {
  in_->reader_sleeps.store(1, std::memory_order_seq_cst);
  if (readable() == 0) {
    return true;
  }
  in_->reader_sleeps.store(0, std::memory_order_seq_cst);
  return false;
}

bool SharedStream::sleep_until_writable() {
  out_->writer_sleeps.store(1, std::memory_order_seq_cst);
  return room() == 0;  // otherwise a needless bell, at most
}

bool SharedStream::sleep_until_half_free() {
  out_->writer_sleeps.store(1, std::memory_order_seq_cst);
  return !is_half_free();
}

bool SharedStream::is_half_free() const {
  return room() >= kRingBytes / 2;
}

void SharedStream::expect_more() const {
  constexpr int kTries = 1000;
  for (int i = 0; i < kTries && readable() == 0; ++i) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
}

}  // namespace trireme::ps
