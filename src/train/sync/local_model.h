// LocalModel: the shards of the model that this rank has, as one vector. One thread at a time.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "train/step/trainer.h"
#include "trireme/comm.h"

namespace trireme::train {

/// Parameters in f32, in the order of the program. A 16-bit parameter is represented by its master copy.
class LocalModel {
 public:
  /// The trainer must outlive this object. Throws Error(Usage) naming a parameter that has neither f32 elements nor a
  /// master copy.
  explicit LocalModel(Trainer& trainer);

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  void read(std::span<float> model) const;
  void write(std::span<const float> model);

  /// Averages the optimizer's state over the ranks of the group; scalars, such as the loss scale, become those of its
  /// first rank. Collective.
  void average_state(Group& workers);

 private:
  struct Piece {
    std::string parameter{};
    std::string stored{};  ///< the parameter, or its master copy
    DType dtype = DType::F32;
    std::size_t elements = 0;
  };

  Trainer& trainer_;
  std::vector<Piece> pieces_;
  std::size_t size_ = 0;
};

}  // namespace trireme::train
