// Planted faults: deliberate protocol errors with which the tests show that the simulator's checks can fail. Production
// code has none: planted() is constant false. The tests compile the protocol a second time against a header of the same
// name in which a test selects one (tests/ps/planted).
#pragma once

namespace trireme::ps {

enum class Fault {
  AcknowledgeAtHead,      ///< a push is acknowledged before it is replicated
  AcceptStaleEpoch,       ///< a replica applies what a deposed predecessor forwards
  ServeWithoutLease,      ///< a tail serves pulls after its lease has ended
  DropPullsWithoutLease,  ///< a tail leaves pulls without an answer while it has no lease
  ServeAtHead,            ///< any member serves pulls, also of values that may get lost
  ServeUnsynced,    ///< a new tail serves pulls before it has everything that was acknowledged
  IgnoreSequences,  ///< a repeated push is applied again
  SnapshotWithoutSequences,  ///< state transfer loses the sequence numbers
  SkipGaps,                  ///< a replica applies a push although earlier ones are missing
  IgnoreIncarnation,         ///< a restarted server takes its old place without state
  ReuseEpoch,                ///< the coordinator changes a view without a new epoch
  ForgetViews,               ///< the coordinator restarts without its durable state
  ExpireEarly,               ///< the coordinator replaces servers whose lease is still valid
  AdmitLearnerEarly,         ///< a learner becomes a member before it has the state
  DropLastSynced,            ///< the coordinator removes the last replica that has everything
  IgnoreReadMyWrites,        ///< a pull does not wait for the worker's own push
  RenumberRetries,           ///< a worker repeats a push under a new sequence number
  StartEarly,                ///< a worker starts an iteration too far ahead of the slowest one
  ShareProcess,              ///< replicas of a shard are placed on two nodes of one process
  ClockBeforeAcknowledged,   ///< a worker reports an iteration before its pushes are acknowledged
};

[[nodiscard]] constexpr bool planted(Fault /*fault*/) {
  return false;
}

}  // namespace trireme::ps
