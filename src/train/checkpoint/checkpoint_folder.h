// File names in a checkpoint folder, shared by saving and loading. Callable from any thread.
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
/// Suffix of an incomplete checkpoint, or one being removed.
inline constexpr std::string_view kTemporary = ".tmp";
/// Suffix of a checkpoint being replaced by one of the same step.
inline constexpr std::string_view kReplaced = ".old";

/// A folder that holds a complete checkpoint, unless damaged since.
struct SavedStep {
  std::int64_t step = 0;
  std::string name;  ///< "step-000123", or "step-000123.old" if only that exists
};

/// "step-000123"
[[nodiscard]] std::string step_name(std::int64_t step);

/// Highest step first. Empty if the folder does not exist.
[[nodiscard]] std::vector<SavedStep> list_steps(const std::string& folder);

/// All names, sorted. Empty if the folder does not exist; throws Error(Input) if it cannot be read.
[[nodiscard]] std::vector<std::string> names_in(const std::string& folder);

}  // namespace trireme::train
