// Resolves a model by name, for estimates and searches. Callable from any thread.
#pragma once

#include <string>

#include "trireme/estimate.h"

namespace trireme {

/// A name of architecture(), or a path to a Hugging Face config.json or its folder. Throws Error(Usage) on an unknown
/// name, Error(Input) on a file.
[[nodiscard]] Architecture named_architecture(const std::string& model);

}  // namespace trireme
