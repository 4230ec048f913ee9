// Parsers for the comma-separated lists of a BenchSelection. Each throws Error(Usage). Callable from any thread.
#pragma once

#include <string>
#include <vector>

#include "trireme/bench.h"

namespace trireme::measure {

/// "8,1K,64K", and ranges "8..64M" in steps of four or "8..64M:2" in steps of two. Ascending, without duplicates.
[[nodiscard]] std::vector<Bytes> parse_size_list(const std::string& text);

/// "allreduce,broadcast", or "all".
[[nodiscard]] std::vector<Operation> parse_operation_list(const std::string& text);

/// "automatic,direct,ring".
[[nodiscard]] std::vector<Method> parse_method_list(const std::string& text);

}  // namespace trireme::measure
