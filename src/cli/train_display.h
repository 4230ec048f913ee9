// What a training run shows: a line that changes on a terminal, lines now and then elsewhere, JSON for
// machines, and a last word.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/train_data.h"
#include "cli/train_memory.h"
#include "train/step/step_graph.h"
#include "trireme/units.h"

namespace trireme::cli {

/// What is known before the first step.
struct TrainFacts {
  std::string model{};
  std::string weights{};  ///< that it begins with; "": random ones
  std::string data{};
  std::string device{};
  std::int64_t parameters = 0;
  std::int64_t vocabulary = 0;  ///< of the data; 0: it has no tokens
  std::int64_t first_step = 0;
  std::int64_t steps = 0;
  std::string unit = "tokens";  ///< what a batch is counted in
  std::int64_t units_per_step = 0;
  double model_flops = 0;     ///< of a step: matrix products of forward and backward
  double hardware_flops = 0;  ///< with what is computed again
  double peak_flops = 0;      ///< measured, of a large matrix product
  Bytes memory{};
  std::vector<MemoryPart> memory_parts{};  ///< at the fullest moment; of rank 0
  std::string ranks{};                     ///< "4 ranks: data=4"; "" on one device
  std::optional<train::CompressedBytes> bytes_along_data{};  ///< if gradients are compressed
  std::optional<LossMarks> marks{};
};

/// One step, or the mean of some.
struct TrainMoment {
  std::int64_t step = 0;
  double loss = 0;
  double gradient_norm = 0;
  double rate = 0;
  Seconds step_time{};
  std::optional<double> loss_scale{};  ///< after it, where there is one
  std::optional<double> validation{};
};

struct TrainEnd {
  std::int64_t step = 0;
  std::optional<double> first_loss{};  ///< of the first step, if there was one
  std::optional<double> loss{};        ///< the mean of the last steps
  std::optional<double> validation{};
  Seconds time{};
  double units_per_second = 0;
  std::string run_folder{};
  std::string exported{};  ///< the folder, if the model was
  std::string sample{};
  std::string program{};     ///< how it was called
  bool tensorboard = false;  ///< event files were written
  bool traced = false;       ///< a step was written down
  bool interrupted = false;
  std::int64_t compilations = 0;  ///< of graphs, by this process: the step and its evaluation
  std::int64_t overflows = 0;     ///< steps that were taken again with a smaller loss scale
};

class TrainDisplay {
 public:
  TrainDisplay() = default;
  virtual ~TrainDisplay() = default;
  TrainDisplay(const TrainDisplay&) = delete;
  TrainDisplay& operator=(const TrainDisplay&) = delete;
  virtual void begin(const TrainFacts& facts) = 0;
  /// After every step.
  virtual void step(const TrainFacts& facts, const TrainMoment& moment) = 0;
  virtual void end(const TrainFacts& facts, const TrainEnd& end) = 0;
};

/// For the standard output that there is.
[[nodiscard]] std::unique_ptr<TrainDisplay> make_train_display(bool json);

/// What a machine reads of a step.
[[nodiscard]] std::string moment_json(const TrainFacts& facts, const TrainMoment& moment);

[[nodiscard]] double mfu(const TrainFacts& facts, Seconds step_time);
[[nodiscard]] double hfu(const TrainFacts& facts, Seconds step_time);

}  // namespace trireme::cli
