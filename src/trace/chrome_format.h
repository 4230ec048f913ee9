// The keywords shared by the writer and the reader of trace files. Callable from any thread.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "trireme/trace.h"

namespace trireme {

inline constexpr std::string_view kChromeFormat = "trireme-trace-1";

// Phases of trace events, and the names of the metadata ones.
inline constexpr std::string_view kMetadata = "M";
inline constexpr std::string_view kSpan = "X";
inline constexpr std::string_view kCounter = "C";
inline constexpr std::string_view kFlowStart = "s";
inline constexpr std::string_view kFlowEnd = "f";
inline constexpr std::string_view kProcessName = "process_name";
inline constexpr std::string_view kThreadName = "thread_name";

/// The "pid" of each track: the number, from 1, of the first track of the same process.
[[nodiscard]] std::vector<std::int32_t> chrome_process_ids(const std::vector<Trace::Track>& tracks);

}  // namespace trireme
