// A wrapper of UCX: a worker with its settings, and endpoints to the workers of peers. An endpoint is a bidirectional
// byte stream; outgoing data is copied first, so the caller may reuse its memory at once.
//
// Callable from any thread. Only one thread at a time enters UCX, under the worker's mutex; its callbacks run inside
// such a call.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <ucp/api/ucp.h>

#include "base/mutex.h"
#include "comm/net/deadline.h"
#include "comm/net/fd.h"

namespace trireme::comm {

class UcxWorker {
 public:
  /// Uses the network interface with the address `bind`, over TCP, unless the user's UCX_NET_DEVICES and UCX_TLS say
  /// otherwise. Throws Error(System).
  explicit UcxWorker(const std::string& bind);
  /// Requires that its endpoints are destroyed.
  ~UcxWorker();
  UcxWorker(const UcxWorker&) = delete;
  UcxWorker& operator=(const UcxWorker&) = delete;

  /// The address for endpoints of other workers, as one line of text.
  [[nodiscard]] std::string address();

  /// Lets UCX make progress, if there is something to send or a read found too little. With a timeout: in any case, and
  /// sleeps until there is something to do or the time is over.
  void poll(std::chrono::milliseconds at_most);
  void wake();

 private:
  friend class UcxEndpoint;

  bool work() TRIREME_REQUIRES(mutex_);

  ucp_context_h context_ = nullptr;
  Mutex mutex_;
  ucp_worker_h worker_ TRIREME_GUARDED_BY(mutex_) = nullptr;
  /// Since the last poll something was written, or a read found too little. UCX buffers fetched data without limit, so
  /// it runs only when needed.
  bool is_wanted_ TRIREME_GUARDED_BY(mutex_) = true;
  int parcels_out_ TRIREME_GUARDED_BY(mutex_) = 0;  ///< which it still needs
  int events_ = -1;  ///< the worker's: readable when there is something to do
  Fd wake_;
};

class UcxEndpoint {
 public:
  /// Starts connecting to a worker's address. The worker must outlive it. Throws Error(Peer) if the address cannot be
  /// reached.
  UcxEndpoint(UcxWorker& worker, const std::string& address);
  /// Drops unsent data; the peer sees the end of the stream. See flush().
  ~UcxEndpoint();
  UcxEndpoint(const UcxEndpoint&) = delete;
  UcxEndpoint& operator=(const UcxEndpoint&) = delete;

  /// As Stream: never wait; throw Error(Peer), and Closed when the peer has closed and all is read.
  [[nodiscard]] std::size_t write(std::span<const std::byte> head, std::span<const std::byte> body);
  [[nodiscard]] std::size_t read(std::span<std::byte> into);

  /// Waits until everything written has left this process, the peer has closed, or the deadline.
  void flush(Deadline deadline);

 private:
  friend class UcxWorker;

  /// Bytes being sent.
  struct Parcel {
    UcxWorker* worker = nullptr;  ///< the endpoint's
    std::unique_ptr<std::byte[]> bytes;
    bool busy = false;
  };

  /// Bytes that arrived, in UCX's pieces and memory.
  struct Part {
    void* memory = nullptr;
    std::span<const std::byte> unread;
  };

  [[nodiscard]] Parcel* free_parcel() TRIREME_REQUIRES(worker_.mutex_);
  void collect() TRIREME_REQUIRES(worker_.mutex_);
  void drop_first_part() TRIREME_REQUIRES(worker_.mutex_);
  static void on_sent(void* request, ucs_status_t status, void* parcel);
  static void on_error(void* endpoint, ucp_ep_h handle, ucs_status_t status);

  UcxWorker& worker_;
  ucp_ep_h handle_ TRIREME_GUARDED_BY(worker_.mutex_) = nullptr;
  ucs_status_t status_ TRIREME_GUARDED_BY(worker_.mutex_) = UCS_OK;  ///< why it broke
  std::array<Parcel, 4> parcels_ TRIREME_GUARDED_BY(worker_.mutex_);
  std::deque<Part> parts_ TRIREME_GUARDED_BY(worker_.mutex_);
};

}  // namespace trireme::comm
