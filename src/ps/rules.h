// The larger updates, each in a file of its own; ps_update.h registers them. Callable from any thread.
#pragma once

#include <memory>
#include <span>

namespace trireme::ps {

class UpdateRule;

/// Throw Error(Usage) if the parameters are wrong.
[[nodiscard]] std::unique_ptr<UpdateRule> make_train_rule(std::span<const float> parameters);
[[nodiscard]] std::unique_ptr<UpdateRule> make_pool_rule(std::span<const float> parameters);

}  // namespace trireme::ps
