// The data of a training run: batches and their statistics. Callable from any thread.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "trireme/model_kinds.h"
#include "trireme/train_settings.h"

namespace trireme {

/// A run's position in its data: the epoch, and the number of examples consumed in it.
struct DataPosition {
  std::int64_t epoch = 0;
  std::int64_t index = 0;
  friend auto operator<=>(const DataPosition&, const DataPosition&) = default;
};

/// Memory for a batch: the model's inputs and its targets, sized like the graph's inputs.
struct BatchMemory {
  std::span<std::byte> inputs{};
  std::span<std::byte> targets{};
};

/// Examples in an order that depends only on the position, so that a run resumes exactly.
class Batches {
 public:
  Batches() = default;
  virtual ~Batches() = default;
  Batches(const Batches&) = delete;
  Batches& operator=(const Batches&) = delete;

  /// Fills the memory with the examples starting at `at`.
  virtual void fill(DataPosition at, const BatchMemory& to) const = 0;
  /// The position `examples` later.
  [[nodiscard]] virtual DataPosition advance(DataPosition at, std::int64_t examples) const = 0;
  /// Number of examples; 0 if unlimited.
  [[nodiscard]] virtual std::int64_t epoch_size() const { return 0; }
};

/// Losses known before training.
struct LossBounds {
  double floor = 0;             ///< the best average loss of any model
  double uninformed = 0;        ///< loss of a model that ignores its input
  std::string floor_is{};       ///< explanation: "the entropy of …"
  std::string uninformed_is{};  ///< explanation: "always answering the mean"
};

struct TrainData {
  std::string name{};           ///< for display
  std::int64_t vocabulary = 0;  ///< number of tokens; 0: no tokens
  std::int64_t tokens = 0;      ///< in the files, those for validation included; 0: generated
  std::unique_ptr<Batches> training{};
  std::unique_ptr<Batches> validation{};  ///< null if nothing was set aside
  std::optional<LossBounds> bounds{};
  std::function<std::string(std::span<const std::int32_t>)> text{};  ///< empty if not text
};

/// The text of tokens. Tokens outside the data's vocabulary become U+FFFD.
[[nodiscard]] std::string text_of(const TrainData& data, std::span<const std::int32_t> tokens);

/// Sources of data besides the settings.
struct DataInput {
  /// The text that a program has read for "-": libraries never read standard input themselves.
  std::shared_ptr<const std::string> standard_input{};
  std::string run_folder{};  ///< of a resumed run; may have a tokenizer.json
};

/// Opens the data that the settings name, or generates data for the model. Files are joined in the order given; a
/// folder stands for its *.bin files, or else its *.txt files, or else all its files, by name. Throws Error(Usage) that
/// names the option and the file, also for compressed or binary files and for models that take no files.
[[nodiscard]] TrainData open_train_data(const TrainSettings& settings, const AnyModelConfig& model,
                                        const DataInput& input = {});

/// The tokenizer.json for the settings' text: their own, that in the model's folder, or that in the run's folder, if it
/// exists; else "".
[[nodiscard]] std::string find_tokenizer(const TrainSettings& settings,
                                         const std::string& run_folder = {});

}  // namespace trireme
