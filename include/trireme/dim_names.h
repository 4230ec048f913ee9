// Names for the dimensions of values: batch, sequence, heads, … Whoever spreads a computation over devices says
// which of them are cut.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace trireme {

/// The names of a value's dimensions, by the value's name.
using DimNames = std::map<std::string, std::vector<std::string>, std::less<>>;

}  // namespace trireme
