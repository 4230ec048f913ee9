// How devices, clusters and number types are named. Callable from any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trireme {

/// The number types that a peak rate can be given for.
[[nodiscard]] const std::vector<std::string>& peak_types();

/// The name as in peak_types(): "BF16" is bf16, "FP8" f8, "INT8" i8. Unknown types come back in
/// lower case.
[[nodiscard]] std::string normal_peak_type(std::string_view name);

/// Converts ASCII letters to lower case.
[[nodiscard]] std::string to_lower(std::string_view text);

}  // namespace trireme
