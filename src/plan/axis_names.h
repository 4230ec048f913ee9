// The mesh axes with a meaning of their own.
#pragma once

#include <string_view>

namespace trireme {

inline constexpr std::string_view kPipe = "pipe";  ///< stages of the pipeline
inline constexpr std::string_view kData = "data";  ///< replicas; ZeRO shards their state

}  // namespace trireme
