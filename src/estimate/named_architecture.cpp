#include "trireme/named_architecture.h"

#include <variant>

#include "trireme/load_model.h"

namespace trireme {

/// Experts get the capacity of the presets, since reserving room for every token in every expert would waste memory in
/// training.
Architecture named_architecture(const std::string& model) {
  if (!is_model_path(model)) {
    return architecture(model);
  }
  Architecture a;
  a.model = std::get<ModelConfig>(load_model_file(model).config);
  a.model.capacity_factor =
      a.model.capacity_factor == 0 ? ModelConfig{}.capacity_factor : a.model.capacity_factor;
  return a;
}

}  // namespace trireme
