// Connection: frames in both directions over an authenticated channel, or through shared memory: two processes of one
// host agree on that right after the handshake, unless one does not want to. Never blocks. Floats are received straight
// into an aligned buffer and sent straight from where they are; only what the socket does not take at once is copied.
//
//   caller                       acceptor
//     Hello, with its host  ──►
//                           ◄──  Offer, if it is the same host
//     Switch                ──►                                   from here on the caller writes to shared memory
//                           ◄──  Switch                           and from here on the acceptor
//
// One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "comm/net/channel.h"
#include "ps/net/shared_stream.h"
#include "ps/protocol/message.h"
#include "ps/wire/frame.h"

namespace trireme::ps {

/// Float buffers that are used again: fresh pages cost more than the data that they receive.
class BufferPool {
 public:
  [[nodiscard]] std::shared_ptr<FloatBuffer> take(std::size_t floats);

 private:
  std::vector<std::shared_ptr<FloatBuffer>> buffers_;
};

class Connection {
  static constexpr std::size_t kNeverSwitched = std::numeric_limits<std::size_t>::max();

 public:
  struct Options {
    NodeId self{};
    std::uint64_t host = 0;  ///< shared_memory_host(); 0: without shared memory
  };
  /// `pool` must outlive it.
  Connection(comm::Channel channel, BufferPool& pool, const Options& options);

  /// Continues the handshake; true once it is done. Throws as Channel::advance().
  [[nodiscard]] bool advance();
  [[nodiscard]] bool is_open() const noexcept { return channel_.is_open(); }
  /// Who the other side says it is; known after its Hello, or set by the caller.
  [[nodiscard]] const std::optional<NodeId>& peer() const noexcept { return peer_; }
  void set_peer(NodeId peer) { peer_ = peer; }
  [[nodiscard]] const comm::Channel& channel() const noexcept { return channel_; }

  using Deliver = std::function<void(NodeId from, Message& message)>;
  /// Where the floats of a large message are wanted, once its fields are known; empty: anywhere. The memory must stay
  /// valid until the message is delivered or release() is called.
  using Place = std::function<std::span<float>(std::uint8_t kind, std::string_view fields,
                                               std::size_t floats)>;
  void set_place(Place place) { place_ = std::move(place); }
  /// Continues elsewhere what is being received into this memory.
  void release(std::span<const float> memory);
  /// Reads and delivers what has arrived, up to a fair share; false if the other side has closed. Throws Error(Input) on
  /// a malformed frame.
  [[nodiscard]] bool receive(const Deliver& deliver);
  /// Whether to receive again at once, because polling would not show what there is.
  [[nodiscard]] bool has_more();

  /// Borrowed floats may change after it returns. Small messages wait for flush().
  void send(const Message& message);
  /// The first message of the side that connected. Requires peer().
  void send_hello();
  /// Copies pinned floats that are still to be sent, and continues elsewhere what is being received into memory of others.
  void detach();
  /// Sends what can be sent now; false if the other side has closed.
  [[nodiscard]] bool flush();
  [[nodiscard]] std::size_t backlog() const noexcept { return backlog_; }
  [[nodiscard]] bool wants_write() const noexcept {
    return channel_.wants_write() || (is_open() && backlog_ > 0 && !writes_shared());
  }

 private:
  struct Segment {
    std::string bytes;
    Values floats;
    std::size_t sent = 0;
    [[nodiscard]] std::size_t size() const { return bytes.size() + floats.view().size_bytes(); }
  };

  [[nodiscard]] bool writes_shared() const noexcept { return stream_ && left_on_socket_ == 0; }
  [[nodiscard]] comm::Transfer read_pieces(std::span<iovec> pieces);
  [[nodiscard]] bool read_some(std::span<std::byte> into, std::size_t& got);
  void read_bells();
  [[nodiscard]] bool has_whole_frame() const;
  [[nodiscard]] bool is_congested() const;
  [[nodiscard]] bool read_ahead_of(std::span<std::byte> rest, std::size_t& got);
  [[nodiscard]] bool fill();
  [[nodiscard]] bool read_header();
  [[nodiscard]] bool read_fields();
  [[nodiscard]] bool read_floats();
  void choose_target();
  void leave_target();
  void deliver(const Deliver& deliver);
  void take_control(std::uint8_t kind);
  void take_hello();
  void take_offer();
  void take_switch();
  void send_switch(bool is_accepted);
  void enqueue(std::uint8_t kind, const std::string& fields, const Values& floats);
  void retain_rest();
  [[nodiscard]] std::size_t next_pieces(std::span<iovec> pieces) const;
  [[nodiscard]] bool write_queue();
  void sent(std::size_t bytes);

  comm::Channel channel_;
  BufferPool& pool_;
  Options options_;
  std::optional<NodeId> peer_;
  bool is_closed_ = false;
  std::unique_ptr<SharedStream> stream_;
  bool is_acceptor_ = false;  ///< of shared memory
  bool reads_shared_ = false;
  std::size_t left_on_socket_ =
      kNeverSwitched;  ///< bytes to be sent before the shared memory is used

  std::vector<std::byte> buffer_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::size_t read_ahead_;
  bool may_have_more_ = true;
  std::optional<FrameHeader> header_;
  std::string fields_;
  Place place_;
  std::span<float> target_;              ///< where the floats of this message go
  std::shared_ptr<FloatBuffer> floats_;  ///< that owns the target; nothing: someone else does
  std::size_t float_bytes_ = 0;          ///< received of them
  std::uint64_t received_frames_ = 0;

  std::deque<Segment> queue_;
  std::size_t backlog_ = 0;
  std::uint64_t sent_frames_ = 0;
};

}  // namespace trireme::ps
