// Updates: what a parameter server does with a pushed gradient. The built-in ones are "add", "sgd", "momentum",
// "adagrad", "adamw", "max", "l1", "train" and "pool"; a program that hosts servers can register its own. Updates are
// C++ code of the server's program; nothing executable ever arrives over the network, only a name and numbers.
//
// An UpdateRule is immutable and may be called from any thread; a registry belongs to one thread until it is shared const.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::ps {

/// Consecutive keys of a table and the gradient pushed for them. With K keys of `width` floats, `values` and `gradient`
/// have K * width floats and `state` has K * state_per_key(width).
struct UpdateRun {
  std::size_t width = 1;
  std::span<float> values;
  std::span<float> state;  ///< zeros at first
  std::span<const float> gradient;
};

/// Must be deterministic: every replica of a key applies the same pushes in the same order and has to reach the same
/// bits.
class UpdateRule {
 public:
  UpdateRule() = default;
  virtual ~UpdateRule() = default;
  UpdateRule(const UpdateRule&) = delete;
  UpdateRule& operator=(const UpdateRule&) = delete;

  /// Floats of state that the update keeps for each key.
  [[nodiscard]] virtual std::size_t state_per_key(std::size_t width) const = 0;
  virtual void apply(const UpdateRun& run) const = 0;
};

/// Makes an UpdateRule from its parameters. Throws Error(Usage) if they are wrong.
using UpdateFactory = std::function<std::unique_ptr<UpdateRule>(std::span<const float> parameters)>;

/// The updates that a server knows, by name.
class UpdateRegistry {
 public:
  /// Knows the built-in updates:
  ///
  ///   add                                            w += g
  ///   sgd       rate                                 w -= rate g
  ///   momentum  rate, momentum                       m = momentum m + g; w -= rate m
  ///   adagrad   rate, epsilon                        a += g²; w -= rate g / (√a + epsilon)
  ///   adamw     rate, β1, β2, epsilon, weight decay  Loshchilov and Hutter, 2019
  ///   max                                            w = max(w, g)
  ///   l1        rate, lambda                         v = w - rate g; w = sign(v) max(|v| - rate lambda, 0)
  ///   train     see ps_train_update.h                an optimizer's step with the gradients of several workers
  ///   pool      see ps_pool.h                        hands out parts of the data
  UpdateRegistry();

  /// Throws Error(Usage) if the name is taken.
  void add(const std::string& name, UpdateFactory factory);
  /// Throws Error(Usage) if the name is unknown or the parameters are wrong.
  [[nodiscard]] std::unique_ptr<UpdateRule> make(std::string_view name,
                                                 std::span<const float> parameters) const;
  [[nodiscard]] std::vector<std::string> names() const;

 private:
  std::map<std::string, UpdateFactory, std::less<>> factories_;
};

}  // namespace trireme::ps
