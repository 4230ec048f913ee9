// StepRecorder: a step as spans of a trace. Marks events on the compute stream while the step is enqueued, and reads
// them after it is done, so that recording does not wait for the device. One thread at a time.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "trireme/device.h"
#include "trireme/program.h"
#include "trireme/trace.h"

namespace trireme::runtime {

class StepRecorder {
 public:
  struct Options {
    Trace& trace;
    const Program& program;
    Device& device;
    Stream& compute;
    int rank = 0;
  };
  /// Time 0 is where the compute stream is now.
  explicit StepRecorder(const Options& options);

  /// Before and after instruction `i` is enqueued: a kernel.
  void begin_kernel(std::size_t i);
  void end_kernel(std::size_t i);
  /// Before exchange `i` is started. Exchanges in flight together are on separate tracks.
  void begin_exchange(std::size_t i);
  /// Before and after exchange `i` is finished: between the two, kernels wait for it.
  void begin_wait(std::size_t i);
  void end_wait(std::size_t i);

  /// Adds the spans to the trace, and the memory in use by category. Requires that the step is done.
  void write_spans();

 private:
  struct Span {
    TrackId track{};
    std::size_t instruction = 0;
    Event* begin = nullptr;
    Event* end = nullptr;
    std::vector<TraceArg> args{};
  };

  [[nodiscard]] const Instruction& instruction(std::size_t i) const {
    return options_.program.instructions[i];
  }
  Event* mark();
  std::size_t free_track();
  void write_memory();
  [[nodiscard]] std::vector<TraceArg> exchange_args(std::size_t i) const;

  Options options_;
  std::string process_;
  std::vector<std::unique_ptr<Event>> events_;
  Event* zero_;
  TrackId compute_;
  TrackId waiting_;
  std::vector<Span> spans_;
  std::vector<Event*> begun_;          ///< by instruction
  std::vector<Event*> waited_;         ///< likewise: where its wait began
  std::vector<std::size_t> track_of_;  ///< likewise
  std::vector<TrackId> tracks_;        ///< of exchanges
  std::vector<bool> busy_;             ///< by track
};

}  // namespace trireme::runtime
