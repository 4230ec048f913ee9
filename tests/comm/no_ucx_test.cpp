// A build without UCX, whatever this one has: the stub is linked before the library.
#include <gtest/gtest.h>

#include "comm/rendezvous_helpers.h"
#include "comm/transport/transport.h"

namespace trireme::comm {
namespace {

TEST(NoUcx, SaysHowToInstallUcx) {
  EXPECT_FALSE(is_built(TransportKind::Ucx));
  EXPECT_TRUE(is_built(TransportKind::Tcp));
  expect_error(ErrorKind::Usage, {"install libucx-dev and build again"},
               [] { (void)make_ucx_transport({}); });
}

TEST(NoUcx, WorldsRequestingUcxFailWithHint) {
  expect_error(ErrorKind::Usage, {"install libucx-dev"}, [] {
    (void)join([](const std::string&) { return std::nullopt; }, {.transport = TransportKind::Ucx});
  });
}

}  // namespace
}  // namespace trireme::comm
