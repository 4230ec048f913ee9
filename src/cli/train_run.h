// A training run as one rank does it, or one device alone: from the options to the last checkpoint.
#pragma once

#include "cli/interrupt.h"
#include "cli/train_options.h"
#include "trireme/comm.h"
#include "trireme/plan.h"

namespace trireme::cli {

/// The first rank on which it holds; as many as there are ranks if it does on none. All ranks ask.
[[nodiscard]] int first_rank_with(World& world, bool here);

/// Trains, as a rank of the world if there is one. All ranks do the same; the first has the files and the terminal.
/// Ends early, and well, once `interrupted` is not 0. What ends all ranks, such as a loss that is no number, is thrown
/// on one of them.
void run_rank(const TrainOptions& options, const Plan& plan, World* world,
              SharedNumber& interrupted);

}  // namespace trireme::cli
