// The names in a folder of checkpoints, shared by saving and loading. Any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::train {

inline constexpr std::string_view kModelFile = "model.safetensors";
inline constexpr std::string_view kOptimizerFile = "optimizer.safetensors";
inline constexpr std::string_view kManifestFile = "manifest.json";
inline constexpr std::string_view kLatestFile = "latest";
/// Ends the name of what is not whole yet, or being removed.
inline constexpr std::string_view kTemporary = ".tmp";
/// Ends the name of a checkpoint that is being replaced by one of the same step.
inline constexpr std::string_view kReplaced = ".old";

/// A folder that holds a whole checkpoint, unless it has been damaged since.
struct SavedStep {
  std::int64_t step = 0;
  std::string name;  ///< "step-000123", or "step-000123.old" if only that is left
};

/// "step-000123"
[[nodiscard]] std::string step_name(std::int64_t step);

/// The highest step first. Nothing if the folder is not there.
[[nodiscard]] std::vector<SavedStep> list_steps(const std::string& folder);

/// All names, sorted. Nothing if the folder is not there; throws Error(System) if it cannot be read.
[[nodiscard]] std::vector<std::string> names_in(const std::string& folder);

}  // namespace trireme::train
