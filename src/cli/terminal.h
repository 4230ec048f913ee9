// What standard output can show: colours and width.
#pragma once

#include "report/text_style.h"

namespace trireme::cli {

/// Of standard output and the environment (NO_COLOR).
[[nodiscard]] Terminal standard_output();

}  // namespace trireme::cli
