// Where the peak of the hardware went, for the end of a training run. Callable from any thread.
#pragma once

#include <string>
#include <string_view>

#include "trireme/waterfall.h"

namespace trireme::report {

/// A heading that ends with `whose` ("rank 0"; "": omitted), and a line with a bar for each part that is not 0, at most
/// eight lines of less than 80 columns:
///
///     where the peak went in step 3:
///        40.0 %  memory-bound kernels                            ▒▒▒▒▒▒▒▒▒▒
///        60.0 %  MFU                              ███████████████
[[nodiscard]] std::string waterfall_text(const Waterfall& waterfall, std::string_view whose);

}  // namespace trireme::report
