// The environment variables in which launchers describe the job. Pure: the caller provides the lookup, since libraries
// do not read the environment. Callable from any thread.
//
//   launcher   rank, size                                  meeting point
//   Trireme    TRIREME_RANK, TRIREME_SIZE                  TRIREME_STORE
//   torchrun   RANK, WORLD_SIZE                            MASTER_ADDR, MASTER_PORT + 1
//   Open MPI   OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE  –
//   MPICH      PMI_RANK (or PMI_ID), PMI_SIZE              –
//   Slurm      SLURM_PROCID, SLURM_STEP_NUM_TASKS          SLURM_STEP_NODELIST, if of several nodes
//              (or SLURM_NTASKS), with SLURM_STEP_ID
//
// TRIREME_STORE and TRIREME_SECRET take precedence with any launcher; then MASTER_ADDR and MASTER_PORT.
//
// MASTER_PORT + 1: on MASTER_PORT itself, torchrun's agent serves its own store, or PyTorch will in the very process
// that uses Trireme. Always the next port, so that ranks need not find out which.
//
// Slurm: SLURM_NTASKS and even SLURM_PROCID are also set in the batch script and in the shell of salloc, which are not
// tasks; SLURM_STEP_ID is set only by srun. SLURM_LAUNCH_NODE_IPADDR is where srun was called, which may be a login
// node; rank 0 runs on the first node of the step.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "comm/net/secret.h"
#include "comm/net/socket.h"
#include "trireme/schedule.h"

namespace trireme::comm {

enum class Launcher : std::uint8_t { Alone, Trireme, Torchrun, OpenMpi, Mpich, Slurm };
/// "Open MPI".
[[nodiscard]] std::string_view to_text(Launcher launcher);

struct LaunchInfo {
  Launcher launcher = Launcher::Alone;  ///< Alone: no variables, a job of one rank
  Rank rank = 0;
  Rank size = 1;
  std::optional<Rank> local_rank;  ///< among the ranks of this host
  std::optional<Rank> local_size;
  /// Where rank 0 serves the store and the others find it. Without one, ranks of one host can use a
  /// meeting file (meeting.h).
  std::optional<Address> store;
  std::optional<Secret> secret;
  /// The same on all ranks, and different from any other current job on this host; "" if unknown.
  std::string job;
  /// Whether all ranks are on this host, if known.
  std::optional<bool> one_host;

  [[nodiscard]] bool serves_store() const { return rank == 0; }
};

/// The value of a variable, or nothing. An empty one counts as not set.
using Lookup = std::function<std::optional<std::string>(const std::string&)>;

/// Throws Error(Usage) naming the variables and their values if a number is invalid or out of range, if a rank is set
/// without a size, or if two launchers disagree. They may disagree if one can have started the other: Slurm's tasks
/// that run mpirun's or torchrun's daemons, or any that run `trireme launch`; then the outer one has fewer processes,
/// and the inner one counts.
[[nodiscard]] LaunchInfo find_launch(const Lookup& lookup);

/// "node01" of "node[01-04,07],login". For the tests.
[[nodiscard]] std::string first_host(std::string_view node_list);

}  // namespace trireme::comm
