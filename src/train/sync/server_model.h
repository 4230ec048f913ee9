// ServerModel: the layout of a model's parameters in the rows of a parameter server's table. Each row has one weight
// decay, so parameters with the same decay are adjacent. Immutable; any thread.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "train/step/trainer.h"
#include "trireme/ps_train_update.h"

namespace trireme::train {

/// How the servers apply a worker's gradients, for an optimizer of training.h.
struct ServerOptimizer {
  ps::TrainUpdate update{};
  std::vector<std::string> states{};  ///< prefixes of the optimizer's state, by slot: "m", "v"
};
[[nodiscard]] ServerOptimizer server_optimizer(const Optimizer& optimizer);

class ServerModel {
 public:
  /// Floats of a row, head included.
  static constexpr std::size_t kWidth = 1024;

  explicit ServerModel(const std::vector<TrainedParameter>& parameters);

  [[nodiscard]] std::size_t rows() const noexcept { return decays_.size(); }
  /// Of all rows.
  [[nodiscard]] std::size_t floats() const noexcept { return rows() * kWidth; }
  [[nodiscard]] std::size_t elements() const noexcept { return elements_; }

  /// Elements in the order of the parameters, into rows that all have this head; the decay is the row's own.
  void pack(std::span<const float> elements, ps::TrainHead head, std::span<float> rows) const;
  void unpack(std::span<const float> rows, std::span<float> elements) const;

 private:
  /// Contiguous elements of the model in a row.
  struct Piece {
    std::size_t from = 0;  ///< element
    std::size_t to = 0;    ///< float of the rows
    std::size_t count = 0;
  };
  void add(std::size_t from, std::size_t count, float decay);

  std::size_t elements_ = 0;
  std::size_t room_ = 0;  ///< in the last row
  std::vector<float> decays_;
  std::vector<Piece> pieces_;
};

/// The fewest updates that one of the rows has had.
[[nodiscard]] std::int64_t oldest_row(std::span<const float> rows);

}  // namespace trireme::train
