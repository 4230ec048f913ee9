// A training run as one rank does it, or one device alone: from the options to the last checkpoint.
#pragma once

#include <memory>

#include "cli/interrupt.h"
#include "cli/train_options.h"
#include "train/step/step_graph.h"
#include "trireme/comm.h"
#include "trireme/plan.h"

namespace trireme::cli {

/// The first rank on which it holds; as many as there are ranks if it does on none. All ranks ask.
[[nodiscard]] int first_rank_with(World& world, bool here);

/// Trains, as a rank of the world if there is one. All ranks do the same; the first has the files and the terminal.
/// `compiled` is what the options and the plan compile to; nullptr: it compiles them. Ends early, and well, once `interrupted` is not 0. What ends
/// all ranks, such as a loss that is not finite, is thrown on one of them.
void run_rank(const TrainOptions& options, const Plan& plan,
              const std::shared_ptr<const train::CompiledTraining>& compiled, World* world,
              SharedNumber& interrupted);

}  // namespace trireme::cli
