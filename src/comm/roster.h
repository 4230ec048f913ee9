// Roster: which process is which rank of a job, as recorded in the job's store. Any thread.
#pragma once

#include <string>

#include "comm/rendezvous/store.h"
#include "trireme/schedule.h"

namespace trireme::comm {

/// This machine's name, as people know it.
[[nodiscard]] std::string machine_name();

/// Reserves a rank number for the calling process. Of several processes that claim one number, at the
/// same moment or not, the first gets it and does not notice the others; each other gets an
/// Error(Usage) that names both processes.
void claim_rank(Store& store, Rank rank);

/// For a process that knows already that another has its rank: waits until that one has claimed it.
/// Throws the error of claim_rank(), or Error(Peer) at the deadline.
[[noreturn]] void report_rank_taken(Store& store, Rank rank, Deadline deadline);

}  // namespace trireme::comm
