// Execution: a Program on a Device. Memory is allocated and kernels are prepared once; a step then enqueues them in
// order, waits once, and allocates nothing.
//
// One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/communicator.h"
#include "trireme/device.h"
#include "trireme/program.h"
#include "trireme/trace.h"

namespace trireme {

namespace runtime {
class FetchedNumbers;
class StagedInputs;
class StagingQueue;
class StepRecorder;
}  // namespace runtime

/// An element that is infinite or NaN.
struct NonFinite {
  BufferId buffer{};
  std::int64_t element = 0;       ///< index of the first one in the buffer, row-major
  double value = 0;               ///< its value
  std::int32_t instruction = -1;  ///< the instruction that produced it; -1: present before the step
};

/// "einsum(%x, %h.3.mlp.c_fc.weight) in forward, block 3 gave %y f32[4,32,256], whose [0,5,17] is inf".
[[nodiscard]] std::string to_text(const NonFinite& found, const Program& program);

/// The scratch memory for the program's kernels and exchanges on this device, in addition to the arena. Does not
/// allocate it.
[[nodiscard]] Bytes workspace_of(const Program& program, Device& device);

class Execution {
 public:
  /// The device and the communicator, which a program with communication ops needs, must outlive this object. Throws
  /// Error(Usage) if the device lacks a kernel, Error(System) if memory is short.
  Execution(Program program, Device& device, Communicator* communicator = nullptr);
  ~Execution();
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;

  [[nodiscard]] const Program& program() const noexcept { return program_; }
  /// Total memory: the arena and the workspace.
  [[nodiscard]] Bytes memory() const noexcept;

  /// An input, parameter, state or output by name; the span must have exactly its size. Throws Error(Usage) otherwise.
  /// An input is copied asynchronously from a staging buffer, so the caller may reuse its memory.
  void write(std::string_view name, std::span<const std::byte> data);
  void read(std::string_view name, std::span<std::byte> data) const;
  /// Sets an input of the next run() while this one computes; call it from `while_computing`. A write() before the next
  /// run() replaces it.
  void write_ahead(std::string_view name, std::span<const std::byte> data);
  /// A scalar output of the last step, already on the host. Throws Error(Usage) if there is no such output.
  [[nodiscard]] double number(std::string_view output) const;

  /// Runs one step. Communication overlaps with later instructions until one needs its result. With a trace: a span for
  /// each instruction, with its FLOPs and bytes, one for each communication op from its start until its result was
  /// available to its first consumer, and one for each wait. `while_computing`, if given, is called once the step is
  /// enqueued, while the device may still compute it. Throws CommError if another rank failed.
  void run(Trace* trace = nullptr, const std::function<void()>& while_computing = nullptr);
  /// Whether communication overlaps with later instructions (the default), or each communication op blocks, to measure
  /// the gain from overlap.
  void set_overlap(bool overlap) noexcept { overlap_ = overlap; }
  /// Bytes that a step sends to other ranks, by op.
  [[nodiscard]] std::map<std::string, double> bytes_sent() const;

  /// Runs one step and checks everything: first inputs, parameters and state, then the results of each instruction.
  /// Stops after the first value that is not finite, unless other ranks wait for this rank's communication. Returns
  /// nullopt if all values are finite; the step then took effect. Slow: for debugging. All ranks call it.
  [[nodiscard]] std::optional<NonFinite> run_checked();
  /// Checks only inputs, parameters and state; runs nothing.
  [[nodiscard]] std::optional<NonFinite> find_non_finite_leaf();

 private:
  /// Instructions [begin, end) without a wait in between: kernels, or one exchange.
  struct Segment {
    std::size_t begin = 0;
    std::size_t end = 0;
    std::unique_ptr<Recording> recording{};  ///< of its kernels, if the device records
  };

  void bind_instructions(Communicator* communicator);
  void bind_exchanges(Communicator* communicator);
  void run_step(Trace* trace, const std::function<void()>& while_computing);
  void wait_for_step();
  void make_segments();
  void record_segments();
  [[nodiscard]] BufferId checked_buffer(std::string_view name, std::size_t size) const;
  [[nodiscard]] std::byte* address_of(BufferId id) const;

  void enqueue_step(runtime::StepRecorder* recorder);
  void enqueue_kernels(const Segment& segment, runtime::StepRecorder* recorder);
  void finish_exchange(std::size_t exchange, runtime::StepRecorder* recorder);
  [[nodiscard]] std::optional<NonFinite> first_non_finite(BufferId id);

  Program program_;
  Device& device_;
  int rank_ = 0;
  bool overlap_ = true;
  std::int64_t untraced_steps_ = 0;
  std::unique_ptr<DeviceMemory> arena_;
  std::unique_ptr<DeviceMemory> workspace_;  ///< of kernels
  /// Separate from that of kernels, which run at the same time.
  std::unique_ptr<DeviceMemory> exchange_workspace_;
  Bytes workspace_bytes_{};  ///< of both workspaces
  std::unique_ptr<runtime::StagedInputs> inputs_;
  std::unique_ptr<runtime::FetchedNumbers> numbers_;
  std::unique_ptr<runtime::StagingQueue> staging_;
  /// By instruction; nullptr for a view or a communication op.
  std::vector<std::unique_ptr<Kernel>> kernels_;
  std::shared_ptr<ExchangeSession> session_;          ///< may be null
  std::vector<std::unique_ptr<Exchange>> exchanges_;  ///< by instruction
  /// By instruction, and for the end: communication ops to finish first.
  std::vector<std::vector<std::size_t>> waits_;
  std::vector<Segment> segments_;
  std::vector<std::byte> checked_;  ///< scratch of run_checked
  // Last, so that their work ends before what it uses.
  std::unique_ptr<Stream> exchange_stream_;
  std::unique_ptr<Stream> compute_;
};

}  // namespace trireme
