// The losses of a small GPT-2, and what another framework needs to train the same: see write_losses().
#pragma once

#include <string>

#include "trireme/device.h"
#include "trireme/tensor.h"

namespace trireme {

/// Trains a small GPT-2 for 200 steps on the device and writes to the folder: weights.txt (a line "name dims…" for each
/// parameter), weights.bin (their first values in f32, in that order), tokens.bin (for each step 8 sequences of 257 ids in
/// i32: all but the last are the tokens, all but the first the targets), and losses.txt.
void write_losses(const std::string& folder, DType dtype, Device& device);

}  // namespace trireme
