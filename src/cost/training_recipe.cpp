#include "trireme/training_recipe.h"

#include "base/enum_names.h"
#include "cost/word.h"

namespace trireme {
namespace {

constexpr auto kSoftware = enum_names<TrainingRecipe::Software>("megatron", "trireme");

}  // namespace

TrainingRecipe trireme_recipe(std::string_view dtype) {
  return {.software = TrainingRecipe::Software::Trireme, .gradient_bytes = word_of(dtype)};
}

std::string_view to_text(TrainingRecipe::Software software) {
  return kSoftware[software];
}

TrainingRecipe parse_recipe(std::string_view software, std::string_view dtype) {
  return kSoftware.parse("recipe", software) == TrainingRecipe::Software::Trireme
             ? trireme_recipe(dtype)
             : TrainingRecipe{};
}

}  // namespace trireme
