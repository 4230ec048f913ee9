// OpContext: the parts of its group and world that an operation may use.
#pragma once

#include "comm/op/failure_handler.h"
#include "comm/op/membership.h"
#include "comm/op/messenger.h"
#include "comm/op/scratch.h"

namespace trireme::comm {

/// Everything outlives the operation.
struct OpContext {
  const Membership& members;
  Messenger& messages;
  ScratchPool& scratch;
  FailureHandler& failures;
};

}  // namespace trireme::comm
