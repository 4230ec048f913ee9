// Streams and events: how the host gives work to a device and learns that it is done. A stream runs the work enqueued
// on it in order; streams run concurrently, ordered only by events.
//
// A stream and an event are used by one thread at a time. Work that failed is reported by the next wait(),
// synchronize() or done() that covers it; later work of the stream is skipped.
#pragma once

#include <cstddef>
#include <span>

#include "trireme/units.h"

namespace trireme {

/// A point in a stream. Recording it again marks a new point. Complete before its first recording.
class Event {
 public:
  Event() = default;
  virtual ~Event() = default;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  /// Whether the stream has reached it. Does not block.
  [[nodiscard]] virtual bool done() = 0;
  /// Returns when the stream has reached it.
  virtual void wait() = 0;
  /// The device's time from `earlier` to this event. Requires that both are done and were made with timing.
  [[nodiscard]] virtual Seconds since(Event& earlier) = 0;
};

/// Every function but synchronize() only enqueues and returns; a device that computes on the calling thread does the
/// work first. The destructor waits for enqueued work.
class Stream {
 public:
  Stream() = default;
  virtual ~Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  /// Copies between host and device memory. Host memory must not change until the copy is done. Any memory works, but
  /// only memory from Device::allocate_host() is guaranteed not to block the caller.
  virtual void copy_in(std::byte* to, std::span<const std::byte> from) = 0;
  virtual void copy_out(std::span<std::byte> to, const std::byte* from) = 0;
  /// Copies within device memory. The two ranges are disjoint.
  virtual void copy(std::byte* to, std::span<const std::byte> from) = 0;
  /// Marks the end of the work enqueued so far.
  virtual void record(Event& event) = 0;
  /// Work enqueued after this call starts after the point that `event` marks now, on any stream of the device.
  virtual void wait(Event& event) = 0;
  /// Returns when all enqueued work is done.
  virtual void synchronize() = 0;
};

/// Kernels recorded once, to be enqueued as a whole with one call (a CUDA graph).
class Recording {
 public:
  Recording() = default;
  virtual ~Recording() = default;
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  virtual void enqueue(Stream& stream) = 0;
};

}  // namespace trireme
