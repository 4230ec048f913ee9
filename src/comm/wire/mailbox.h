// Mailbox: messages over streams. Splits them into pieces with headers, stripes long ones over several streams,
// verifies arriving data, and delivers each message to the matching receive.
//
// An unexpected short message is buffered. Of a long point-to-point message (the message topic) only the beginning is
// sent eagerly; the rest stays with its sender until the receiver requests it, so that it takes no memory and nothing
// behind it waits. A long part of a collective waits in its stream, and is buffered only if it blocks the stream for
// long. Any thread may call; the thread that calls progress() does the work.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/indexed_vector.h"
#include "comm/wire/message.h"
#include "comm/wire/stream.h"
#include "trireme/schedule.h"

namespace trireme::comm {

namespace mailbox {
struct Peer;
struct Line;
struct Stored;
struct Sending;
}  // namespace mailbox

/// How a peer was lost.
enum class LossKind : std::uint8_t {
  Closed,   ///< all its streams ended, as they do when its process ends
  Cut,      ///< one of several streams ended, or could not be read any further
  Damaged,  ///< the last data received was corrupt
};

class Mailbox {
 public:
  /// `control` gets every message of the control topic, on the thread that makes progress, and may call the mailbox.
  /// The other handlers must not. `lost` is called once, with the reason, when messages of a peer are lost.
  struct Handlers {
    std::function<void(Rank from, const PieceHeader&, std::span<const std::byte>)> control;
    std::function<void(Rank peer, LossKind kind, const std::string& why)> lost;
    std::function<void(Rank peer)> heard;  ///< bytes arrived
    std::function<void()> completed;  ///< something is done; other threads may be waiting for it
  };
  Mailbox(Rank ranks, Handlers handlers);
  ~Mailbox();
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  /// The streams to a peer; the first carries all short messages.
  void connect(Rank peer, std::vector<std::unique_ptr<Stream>> streams, bool checksums);

  void send(Outgoing& message);
  void receive(Incoming& message);
  /// Afterwards the mailbox no longer refers to the message. The rest of a piece that is half sent goes out from a
  /// copy.
  void cancel(Outgoing& message);
  void cancel(Incoming& message);
  /// Sends a copy of `data` when possible, without waiting for it. Urgent: before everything that is not in flight yet.
  enum class Urgency : std::uint8_t { InTurn, Urgent };
  void post(Rank to, const Key& key, std::span<const std::byte> data,
            Urgency urgency = Urgency::InTurn);
  /// Whether an unexpected message blocks a stream, or its impatient sender: then check again soon.
  [[nodiscard]] bool is_held_up() const { return held_up_.load(std::memory_order_relaxed); }
  /// The peer sends only control messages after this many pieces.
  void expect_end(Rank from, std::uint64_t pieces);
  /// Whether everything that a peer sent before it left or died has arrived: its last message, on one stream, may be
  /// received before earlier ones on other streams.
  [[nodiscard]] bool has_everything(Rank from);
  /// Discards past and future messages of a failed group.
  void forget(std::uint64_t context);

  /// Makes as much progress as possible. True if there was any. False immediately if another thread is already in it.
  bool progress();

 private:
  using Peer = mailbox::Peer;
  using Line = mailbox::Line;
  using Stored = mailbox::Stored;
  using Sending = mailbox::Sending;

  void enqueue(Rank to, const Key& key, std::shared_ptr<Sending> sending, Urgency urgency);
  void ask(Peer& peer, std::uint32_t serial);
  void resume(Peer& peer, std::uint64_t serial);
  void resume_impatient(Peer& peer);
  bool push_out(Peer& peer);
  bool progress_out(Peer& peer);
  bool take_next(Peer& peer, Line& line, bool is_first_line);
  bool write_some(Line& line);
  void prepare_piece(Line& line);
  bool progress_in(Rank from, Peer& peer);
  bool read_line(Rank from, Peer& peer, Line& line);
  bool read_header(Rank from, Peer& peer, Line& line);
  static void check_header(Rank from, const Peer& peer, const PieceHeader& header);
  bool bind(Peer& peer, Line& line);
  bool bind_first_piece(Peer& peer, Line& line);
  void keep(Peer& peer, Line& line);
  bool read_body(Rank from, Peer& peer, Line& line);
  void finish_piece(Rank from, Peer& peer, Line& line);
  void land(Incoming& message, std::uint64_t offset, std::span<const std::byte> data) const;
  void complete(Incoming& message);
  void watch_closing(Rank from, Peer& peer);
  void break_peer(Rank from, Peer& peer, LossKind kind, const std::string& why);
  void report_lost(Rank from, Peer& peer, LossKind kind, const std::string& why);
  void progress_peer(Rank rank, Peer& peer, bool& moved);
  void dispatch();
  bool try_stored(Peer& peer, Incoming& message);
  void redirect(Peer& peer, const Stored& stored, Incoming* target);

  Handlers handlers_;
  std::mutex mutex_;
  IndexedVector<Rank, std::unique_ptr<Peer>> peers_;
  std::set<std::uint64_t> forgotten_;
  struct ControlMessage {
    Rank from = 0;
    PieceHeader header{};
    std::vector<std::byte> data{};
  };
  std::vector<ControlMessage> controls_;
  struct Loss {
    Rank rank = 0;
    LossKind kind = LossKind::Closed;
    std::string why{};
  };
  std::vector<Loss> lost_;
  bool in_dispatch_ = false;  ///< control messages were taken out but not all are handled
  std::mutex dispatching_;    ///< held while control messages are passed to their handler, in order
  std::atomic<bool> held_up_{false};
  std::chrono::steady_clock::time_point last_moved_{};  ///< of any data, while a stream was blocked
  bool completed_ = false;
};

}  // namespace trireme::comm
