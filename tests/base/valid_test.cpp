#include "trireme/valid.h"

#include <cmath>

#include <gtest/gtest.h>

#include "expect_error.h"

namespace trireme {
namespace {

struct Share {
  double value = 0;
};

std::vector<std::string> problems(const Share& share) {
  std::vector<std::string> found;
  if (share.value < 0) {
    found.emplace_back("a share is below 0");
  }
  if (std::isnan(share.value)) {
    found.emplace_back("a share is not a number");
  }
  return found;
}

TEST(RequireValid, AcceptsValidValue) {
  EXPECT_NO_THROW(require_valid(Share{0.5}));
}

TEST(RequireValid, ThrowsFirstProblem) {
  expect_error(ErrorKind::Usage, "a share is below 0", [] { require_valid(Share{-1}); });
  expect_error(ErrorKind::Input, "shares.json: a share is below 0",
               [] { require_valid(Share{-1}, ErrorKind::Input, "shares.json"); });
}

}  // namespace
}  // namespace trireme
