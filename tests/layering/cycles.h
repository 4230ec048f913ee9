// Finds include cycles between the components of each folder in src/. A component of a folder is a
// header with the sources of the same stem (a.h, a.cpp), or a sub-folder with all its files. A public
// header counts as a header of the folder that lists it. Reads files only; any thread.
#pragma once

#include <filesystem>

#include "layering/layering.h"

namespace trireme::layering {

/// One problem for each strongly connected set of components, with a shortest cycle through it as a
/// path:
///
///   src/comm: include cycle group -> world/ -> group
///     src/comm/group.cpp:3 includes comm/world/core.h
///     src/comm/world/core.h:8 includes comm/group.h
[[nodiscard]] Problems check_cycles(const std::filesystem::path& root);

}  // namespace trireme::layering
