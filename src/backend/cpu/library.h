// oneDNN: the one engine and stream of this process, and its names for our types.
#pragma once

#include <optional>

#include <dnnl.hpp>

#include "trireme/tensor.h"

namespace trireme::cpu {

[[nodiscard]] const dnnl::engine& library_engine();
[[nodiscard]] dnnl::stream& library_stream();
/// Nothing for types that it does not multiply.
[[nodiscard]] std::optional<dnnl::memory::data_type> library_type(DType dtype);

}  // namespace trireme::cpu
