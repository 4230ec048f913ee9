// What the tests of samplers share.
#pragma once

#include <vector>

#include "trireme/sampler.h"

namespace trireme {

using Samples = std::vector<SampleIndex>;

}  // namespace trireme
