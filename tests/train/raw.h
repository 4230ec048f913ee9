// Numbers as the bytes of a file.
#pragma once

#include <string>
#include <vector>

namespace trireme {

template <class T>
std::string raw(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

}  // namespace trireme
