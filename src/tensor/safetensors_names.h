// How the safetensors format names element types. Callable from any thread.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "trireme/tensor.h"

namespace trireme {

inline constexpr std::string_view kMetadataName = "__metadata__";

inline constexpr std::array<std::pair<std::string_view, DType>, 8> kSafetensorsNames{
    {{"F32", DType::F32},
     {"F64", DType::F64},
     {"F16", DType::F16},
     {"BF16", DType::BF16},
     {"I8", DType::I8},
     {"U8", DType::U8},
     {"I32", DType::I32},
     {"I64", DType::I64}}};

[[nodiscard]] inline std::optional<DType> safetensors_dtype(std::string_view name) {
  const auto* at =
      std::ranges::find(kSafetensorsNames, name, [](const auto& p) { return p.first; });
  return at == kSafetensorsNames.end() ? std::nullopt : std::optional(at->second);
}

[[nodiscard]] inline std::string_view safetensors_name(DType dtype) {
  return std::ranges::find(kSafetensorsNames, dtype, [](const auto& p) { return p.second; })->first;
}

}  // namespace trireme
