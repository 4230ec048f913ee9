// The comm internals that the probe and the collective benchmark use: the loops over data, the sizes at which direct
// operations switch algorithms, the size of staging memory, and the predicted times.
#pragma once

#include "comm/direct/direct_cost.h"    // IWYU pragma: export
#include "comm/direct/direct_limits.h"  // IWYU pragma: export
#include "comm/direct/staging.h"        // IWYU pragma: export
#include "comm/group/group_model.h"     // IWYU pragma: export
#include "comm/kernels/kernels.h"       // IWYU pragma: export
