// The matrix of operations, transports and types: every cell is run.
#include "trireme/capabilities.h"

#include <gtest/gtest.h>

#include "trireme/error.h"
#include "trireme/schedule.h"

namespace trireme::measure {
namespace {

TEST(Capabilities, EveryOperationWorksOnEveryTransportWithEveryType) {
  for (const TransportKind kind : {TransportKind::InProcess, TransportKind::SharedMemory,
                                   TransportKind::Tcp, TransportKind::Ucx}) {
    const TransportCapabilities found = find_capabilities(kind);
    EXPECT_EQ(found.built, is_built(kind));
    if (!found.built) {
      EXPECT_TRUE(found.rows.empty());
      continue;
    }
    EXPECT_EQ(found.rows.size(), all_operations().size() + 1);
    for (const Capability& row : found.rows) {
      EXPECT_EQ(row.types, std::vector<DType>(kDTypes.begin(), kDTypes.end()))
          << row.operation << " on " << to_text(kind);
    }
  }
}

TEST(Capabilities, NeedsTransport) {
  EXPECT_THROW((void)find_capabilities(TransportKind::Automatic), Error);
}

}  // namespace
}  // namespace trireme::measure
