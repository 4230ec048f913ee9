// A program as the simulator sees it: what each instruction takes, and which communication it waits for. Computed once for
// all ranks that run the program. Values; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trireme/collective.h"
#include "trireme/compute_times.h"
#include "trireme/op.h"
#include "trireme/program.h"
#include "trireme/units.h"

namespace trireme::simulate {

struct ProgramSteps {
  /// A communication op.
  struct Exchange {
    enum class Kind : std::uint8_t { Collective, Send, Receive } kind = Kind::Collective;
    std::size_t at = 0;  ///< the instruction
    Signature signature{};
    double sent = 0;  ///< bytes
    // Of a collective:
    std::size_t group = 0;  ///< in `groups`
    Operation operation{};
    Bytes whole{};  ///< of the vector that is whole on one side of the operation
    // Of a message:
    int peer = 0;
    std::int64_t tag = 0;
  };
  struct Step {
    std::int32_t exchange = -1;  ///< in `exchanges`; -1: a kernel, or a view that takes no time
    Seconds time{};              ///< of a kernel that nothing disturbs
    Work work{};
    bool runs = false;  ///< a kernel
  };

  const Program* program = nullptr;  ///< outlives this value
  std::vector<Step> steps{};         ///< by instruction
  std::vector<Exchange> exchanges{};
  std::vector<std::string> groups{};  ///< the names of those that it uses
  double sent = 0;                    ///< bytes

  /// The exchanges that must be complete before an instruction; the end of the program is one, too.
  [[nodiscard]] std::span<const std::size_t> waits_before(std::size_t at) const {
    return std::span(waits_).subspan(first_wait_[at], first_wait_[at + 1] - first_wait_[at]);
  }

 private:
  friend ProgramSteps steps_of(const Program& program, const ComputeTime& compute, bool overlap);
  std::vector<std::size_t> first_wait_{};  ///< by instruction, in waits_
  std::vector<std::size_t> waits_{};
};

/// Without overlap, each exchange must be complete before the next instruction. Throws Error(Usage) naming a communication op
/// that cannot be simulated.
[[nodiscard]] ProgramSteps steps_of(const Program& program, const ComputeTime& compute,
                                    bool overlap);

}  // namespace trireme::simulate
