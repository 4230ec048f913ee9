// The update "train": a training optimizer on the servers. Workers push gradients and pull parameters; the servers keep
// the optimizer's state.
//
// A row (the vector of one key) is a head of kTrainHead floats followed by a block of parameters. The head of a pushed
// row says what to do with it. The head of a pulled row is its number of updates.
//
// With Aggregation::Mean the servers collect the gradients of all workers, add them in the order of the workers, and
// update once with their mean: the result does not depend on the order of arrival, so it has the bits of a serial run.
// With Aggregation::None each gradient is applied on arrival, with a learning rate that is scaled to its share of the batch:
// by 1/K with K workers for SGD and momentum, by 1/√K for AdamW.
//
// Values; callable from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::ps {

inline constexpr const char* kTrainUpdate = "train";
/// Floats at the begin of a row.
inline constexpr std::size_t kTrainHead = 8;
/// Heads are floats: numbers in them stay below this.
inline constexpr std::int64_t kMaxTrainNumber = std::int64_t{1} << 24;

/// The head of a pushed row.
struct TrainHead {
  enum class Operation : std::uint8_t {
    Gradient,  ///< the block is a worker's gradient
    Assign,    ///< the block replaces the parameters, which have had `count` updates
    Exchange,  ///< swaps parameters and a part of the state, so that a client can read and write it
    /// The worker has died. Undoes an exchange that it may have left. With Aggregation::Mean its gradients are ignored from
    /// now on, and the mean is that of the other workers' gradients.
    Leave,
  } operation = Operation::Gradient;
  int worker = 0;  ///< from 0
  /// Gradient: which part of the data it is from. Tickets of a worker increase; one that is not higher than the last is
  /// ignored, so a gradient that two clients compute is applied once.
  std::int64_t ticket = 0;
  float rate = 0;  ///< Gradient; Leave: of the update that waits for nobody else
  float decay = 0;
  std::int64_t count = 0;  ///< Assign
  int slot = 0;            ///< Exchange: 0 or 1, of the optimizer's state

  void write(std::span<float> row) const;
};
[[nodiscard]] std::string_view to_text(TrainHead::Operation operation);

/// How many updates a pulled row has had.
[[nodiscard]] std::int64_t update_count(std::span<const float> row);

enum class Aggregation : std::uint8_t { None, Mean };
[[nodiscard]] std::string_view to_text(Aggregation aggregation);

/// The parameters of the update.
struct TrainUpdate {
  enum class Optimizer : std::uint8_t { Sgd, Momentum, Adagrad, AdamW } optimizer = Optimizer::Sgd;
  int workers = 1;
  Aggregation aggregation = Aggregation::Mean;
  float momentum = 0.9F;  ///< Momentum
  bool nesterov = false;
  float beta1 = 0.9F;  ///< AdamW
  float beta2 = 0.999F;
  float epsilon = 1e-8F;  ///< Adagrad and AdamW
};
[[nodiscard]] std::string_view to_text(TrainUpdate::Optimizer optimizer);

/// Tensors of state that the optimizer keeps: 0 to 2.
[[nodiscard]] int slot_count(TrainUpdate::Optimizer optimizer);
/// For TableSpec::parameters.
[[nodiscard]] std::vector<float> to_parameters(const TrainUpdate& update);

}  // namespace trireme::ps
