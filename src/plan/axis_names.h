// The mesh axes with a special meaning.
#pragma once

#include <string_view>

namespace trireme {

inline constexpr std::string_view kPipe = "pipe";  ///< stages of the pipeline
inline constexpr std::string_view kData = "data";  ///< replicas; ZeRO shards their state

}  // namespace trireme
