#include "base/check.h"

#include <fmt/format.h>

namespace trireme {

void fail_check(const char* condition, const char* file, int line, const std::string& detail) {
  throw Bug(fmt::format("{}:{}: check failed: {}: {}", file, line, condition, detail));
}

}  // namespace trireme
