// Names for the dimensions of values: batch, sequence, heads, … A plan shards dimensions by name.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace trireme {

/// The names of a value's dimensions, by the value's name.
using DimNames = std::map<std::string, std::vector<std::string>, std::less<>>;

}  // namespace trireme
