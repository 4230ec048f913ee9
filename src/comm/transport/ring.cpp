#include "comm/transport/ring.h"

#include <algorithm>
#include <cstring>

namespace trireme::comm {
namespace {

/// Calls move(ring bytes, offset so far) for each of the at most two contiguous pieces.
template <class Move>
void for_each_piece(Ring& ring, std::uint64_t position, std::size_t bytes, Move move) {
  std::size_t done = 0;
  while (done < bytes) {
    const std::size_t at = (position + done) % Ring::kBytes;
    const std::size_t length = std::min(bytes - done, Ring::kBytes - at);
    move(std::span(ring.data).subspan(at, length), done);
    done += length;
  }
}

}  // namespace

std::size_t RingStream::write(std::span<const std::byte> head, std::span<const std::byte> body) {
  const std::uint64_t written = outgoing_.written.load(std::memory_order_relaxed);
  const std::uint64_t read = outgoing_.read.load(std::memory_order_acquire);
  std::size_t room = Ring::kBytes - (written - read);
  std::uint64_t position = written;
  for (const std::span<const std::byte> part : {head, body}) {
    const std::size_t length = std::min(room, part.size());
    for_each_piece(outgoing_, position, length, [&](std::span<std::byte> to, std::size_t done) {
      std::memcpy(to.data(), part.data() + done, to.size());
    });
    position += length;
    room -= length;
  }
  if (position != written) {
    outgoing_.written.store(position, std::memory_order_seq_cst);
    peer_.ring();
  }
  return position - written;
}

std::size_t RingStream::read(std::span<std::byte> into) {
  const std::uint64_t read = incoming_.read.load(std::memory_order_relaxed);
  const std::uint64_t written = incoming_.written.load(std::memory_order_acquire);
  const std::size_t length = std::min<std::size_t>(into.size(), written - read);
  if (length == 0) {
    return 0;
  }
  for_each_piece(incoming_, read, length, [&](std::span<std::byte> from, std::size_t done) {
    std::memcpy(into.data() + done, from.data(), from.size());
  });
  incoming_.read.store(read + length, std::memory_order_seq_cst);
  peer_.ring();
  return length;
}

}  // namespace trireme::comm
