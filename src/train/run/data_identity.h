// Identifies the data of a run by its contents, wherever it is stored. Callable from any thread.
#pragma once

#include <string>

#include "trireme/train_data.h"

namespace trireme::train {

/// "512100 tokens, 4000 examples of 128 tokens, xxh3 1f…": the number of tokens and of windows, and a hash of all of them or, if there are many, of
/// windows spread over them. "" if the data is generated.
[[nodiscard]] std::string data_identity(const TrainData& data, const TrainSettings& settings);

/// Stores the identity in RUN_FOLDER/data.json.
void write_data_identity(const std::string& run_folder, const std::string& identity);

/// Throws Error(Input) unless the identity is the one stored there, if any.
void require_same_data(const std::string& run_folder, const std::string& identity,
                       const TrainSettings& settings);

}  // namespace trireme::train
