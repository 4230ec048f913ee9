// The files of this folder, each of which defines the rows of one op or a family of ops. Each has its own namespace, so
// that all can use the same names: infer, factors, work, gradient, reference.
#pragma once

#include <vector>

#include "trireme/op.h"

namespace trireme::ops {

// clang-format off
namespace attention { [[nodiscard]] std::vector<Op> rows(); }
namespace attention_packed { [[nodiscard]] std::vector<Op> rows(); }
namespace binary { [[nodiscard]] std::vector<Op> rows(); }
namespace cache { [[nodiscard]] std::vector<Op> rows(); }
namespace cast { [[nodiscard]] std::vector<Op> rows(); }
namespace classifier { [[nodiscard]] std::vector<Op> rows(); }
namespace communication { [[nodiscard]] std::vector<Op> rows(); }
namespace conv { [[nodiscard]] std::vector<Op> rows(); }
namespace copy { [[nodiscard]] std::vector<Op> rows(); }
namespace cross_entropy { [[nodiscard]] std::vector<Op> rows(); }
namespace dropout { [[nodiscard]] std::vector<Op> rows(); }
namespace einsum { [[nodiscard]] std::vector<Op> rows(); }
namespace embedding { [[nodiscard]] std::vector<Op> rows(); }
namespace experts { [[nodiscard]] std::vector<Op> rows(); }
namespace fill { [[nodiscard]] std::vector<Op> rows(); }
namespace finite { [[nodiscard]] std::vector<Op> rows(); }
namespace fused { [[nodiscard]] std::vector<Op> rows(); }
namespace layer_norm { [[nodiscard]] std::vector<Op> rows(); }
namespace muon_step { [[nodiscard]] std::vector<Op> rows(); }  // trireme::muon is graph/muon.h
namespace norm_add { [[nodiscard]] std::vector<Op> rows(); }
namespace optimizers { [[nodiscard]] std::vector<Op> rows(); }
namespace orthonormal { [[nodiscard]] std::vector<Op> rows(); }
namespace pack { [[nodiscard]] std::vector<Op> rows(); }
namespace parts { [[nodiscard]] std::vector<Op> rows(); }
namespace pool { [[nodiscard]] std::vector<Op> rows(); }
namespace products { [[nodiscard]] std::vector<Op> rows(); }
namespace reduce { [[nodiscard]] std::vector<Op> rows(); }
namespace rms_norm { [[nodiscard]] std::vector<Op> rows(); }
namespace rope { [[nodiscard]] std::vector<Op> rows(); }
namespace rows { [[nodiscard]] std::vector<Op> rows(); }
namespace scale { [[nodiscard]] std::vector<Op> rows(); }
namespace shapes { [[nodiscard]] std::vector<Op> rows(); }
namespace softmax { [[nodiscard]] std::vector<Op> rows(); }
namespace top_k { [[nodiscard]] std::vector<Op> rows(); }
namespace unary { [[nodiscard]] std::vector<Op> rows(); }
// clang-format on

}  // namespace trireme::ops
