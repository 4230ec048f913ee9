// The files of this folder, each of which defines the rows of one op or of a family.
#pragma once

#include <vector>

#include "trireme/op.h"

namespace trireme::ops {

[[nodiscard]] std::vector<Op> attention_ops();
[[nodiscard]] std::vector<Op> binary_ops();
[[nodiscard]] std::vector<Op> cache_ops();
[[nodiscard]] std::vector<Op> cast_ops();
[[nodiscard]] std::vector<Op> classifier_ops();
[[nodiscard]] std::vector<Op> communication_ops();
[[nodiscard]] std::vector<Op> conv_ops();
[[nodiscard]] std::vector<Op> copy_ops();
[[nodiscard]] std::vector<Op> cross_entropy_ops();
[[nodiscard]] std::vector<Op> dropout_ops();
[[nodiscard]] std::vector<Op> einsum_ops();
[[nodiscard]] std::vector<Op> embedding_ops();
[[nodiscard]] std::vector<Op> experts_ops();
[[nodiscard]] std::vector<Op> fill_ops();
[[nodiscard]] std::vector<Op> finite_ops();
[[nodiscard]] std::vector<Op> fused_ops();
[[nodiscard]] std::vector<Op> layer_norm_ops();
[[nodiscard]] std::vector<Op> muon_ops();
[[nodiscard]] std::vector<Op> norm_add_ops();
[[nodiscard]] std::vector<Op> optimizers_ops();
[[nodiscard]] std::vector<Op> orthonormal_ops();
[[nodiscard]] std::vector<Op> pack_ops();
[[nodiscard]] std::vector<Op> parts_ops();
[[nodiscard]] std::vector<Op> pool_ops();
[[nodiscard]] std::vector<Op> products_ops();
[[nodiscard]] std::vector<Op> reduce_ops();
[[nodiscard]] std::vector<Op> rms_norm_ops();
[[nodiscard]] std::vector<Op> rope_ops();
[[nodiscard]] std::vector<Op> rows_ops();
[[nodiscard]] std::vector<Op> scale_ops();
[[nodiscard]] std::vector<Op> shapes_ops();
[[nodiscard]] std::vector<Op> softmax_ops();
[[nodiscard]] std::vector<Op> top_k_ops();
[[nodiscard]] std::vector<Op> unary_ops();

}  // namespace trireme::ops
