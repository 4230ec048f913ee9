// SharedStream: bytes in both directions through memory that two processes of one host share. The memory is an anonymous
// file (memfd): it has no name, and disappears with the last of the two, however they end.
//
//   page 0   magic, nonce, and for each direction: bytes written, bytes read, who sleeps
//   then     a ring for what the acceptor writes, and one for what the caller writes
//
// The acceptor makes the file, sealed against changes of its size, and offers it over the authenticated connection; the
// caller opens it through /proc. Each side keeps its own positions to itself. Of the other side it only uses the count of
// bytes written or read, and refuses one that does not fit into the ring, so whatever the other writes there, nothing is
// read or written outside.
//
// A side that finds nothing to read, or no room, says in the memory that it sleeps; the other then rings, with a byte on
// the connection, which therefore stays open: it also shows when the other side has died. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <sys/uio.h>

#include "comm/net/fd.h"
#include "comm/net/socket.h"

namespace trireme::ps {

/// How the caller finds the memory.
struct SharedMemoryOffer {
  std::uint64_t process = 0;
  std::uint64_t descriptor = 0;
  std::uint64_t nonce = 0;

  template <class Io, class Self>
  static void fields(Io& io, Self& self) {
    io(self.process, self.descriptor, self.nonce);
  }
};

/// A number that is the same in processes that can share memory, and not 0.
[[nodiscard]] std::uint64_t shared_memory_host();

class SharedStream {
 public:
  /// The acceptor's side. `connection` must outlive it. Throws Error(System).
  [[nodiscard]] static std::unique_ptr<SharedStream> make(const comm::Fd& connection);
  [[nodiscard]] SharedMemoryOffer offer() const;
  /// The caller has opened it: nobody else will.
  void close_file() { file_.reset(); }
  /// The caller's side. Throws Error(System) if the memory cannot be opened, Error(Input) if it is not what was offered.
  [[nodiscard]] static std::unique_ptr<SharedStream> open(const SharedMemoryOffer& offer,
                                                          const comm::Fd& connection);
  ~SharedStream();
  SharedStream(const SharedStream&) = delete;
  SharedStream& operator=(const SharedStream&) = delete;

  /// Fills the pieces one after the other with what there is; WaitRead if there is nothing. Throws Error(Input) if the
  /// other side's count is impossible.
  [[nodiscard]] comm::Transfer read_pieces(std::span<const iovec> pieces);
  /// WaitWrite if there is no room. Throws as read_pieces().
  [[nodiscard]] comm::Transfer write_pieces(std::span<const iovec> pieces);
  /// Announces that this side sleeps until it can read; false, and it does not, if it can.
  [[nodiscard]] bool sleep_until_readable();
  /// The same for writing.
  [[nodiscard]] bool sleep_until_writable();
  /// The same until half of the ring for writing is free.
  [[nodiscard]] bool sleep_until_half_free();
  [[nodiscard]] bool is_half_free() const;
  /// Waits a few microseconds for more to read: the other side is in the middle of a message.
  void expect_more() const;

 private:
  struct Direction;
  struct Page;

  SharedStream(comm::Fd file, const comm::Fd& connection, bool is_acceptor);
  [[nodiscard]] Page& page() const;
  [[nodiscard]] std::size_t readable() const;
  [[nodiscard]] std::size_t room() const;
  void wake_reader();
  void wake_writer();
  void ring() const;

  comm::Fd file_;
  int connection_;
  std::byte* memory_ = nullptr;
  Direction* in_ = nullptr;
  Direction* out_ = nullptr;
  std::byte* in_ring_ = nullptr;
  std::byte* out_ring_ = nullptr;
  std::uint64_t read_ = 0;  ///< this side's own counts
  std::uint64_t written_ = 0;
};

}  // namespace trireme::ps
