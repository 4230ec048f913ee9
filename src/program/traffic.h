// The bytes that a communication op sends, derived from its op, operand types and attributes. Callable from any thread.
#pragma once

#include "trireme/op.h"
#include "trireme/program.h"

namespace trireme {

[[nodiscard]] Signature signature_of(const Program& program, const Instruction& instruction);

/// Bytes that this rank sends, by the lower bounds of collectives; 0 if the op does not communicate. With n bytes of
/// input on p ranks:
///
///   all_reduce      2 n (p-1)/p
///   all_gather      n (p-1)
///   reduce_scatter  n less this rank's block
///   all_to_all      n less this rank's own block
///   send            n
[[nodiscard]] double bytes_sent(const Signature& exchange);

}  // namespace trireme
