#include <algorithm>
#include <array>
#include <iterator>

#include "base/check.h"
#include "graph/op.h"
#include "graph/ops/families.h"

namespace trireme {
namespace {

using Family = std::vector<Op> (*)();
constexpr std::array kFamilies{
    Family{ops::attention_ops},     Family{ops::binary_ops},      Family{ops::cast_ops},
    Family{ops::communication_ops}, Family{ops::conv_ops},        Family{ops::copy_ops},
    Family{ops::cross_entropy_ops}, Family{ops::dropout_ops},     Family{ops::einsum_ops},
    Family{ops::embedding_ops},     Family{ops::experts_ops},     Family{ops::fill_ops},
    Family{ops::finite_ops},        Family{ops::fused_ops},       Family{ops::layer_norm_ops},
    Family{ops::optimizers_ops},    Family{ops::orthonormal_ops}, Family{ops::pack_ops},
    Family{ops::parts_ops},         Family{ops::pool_ops},        Family{ops::reduce_ops},
    Family{ops::rms_norm_ops},      Family{ops::rope_ops},        Family{ops::rows_ops},
    Family{ops::scale_ops},         Family{ops::shapes_ops},      Family{ops::softmax_ops},
    Family{ops::top_k_ops},         Family{ops::unary_ops},
};

std::vector<Op> make_rows() {
  std::vector<Op> rows;
  for (const Family family : kFamilies) {
    std::vector<Op> some = family();
    rows.insert(rows.end(), std::make_move_iterator(some.begin()),
                std::make_move_iterator(some.end()));
  }
  std::ranges::sort(rows, {}, &Op::name);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Op& op = rows[i];
    const bool complete = op.infer != nullptr && op.factors != nullptr && op.work != nullptr &&
                          op.reference != nullptr && !op.outputs.empty();
    TRIREME_CHECK(complete, std::string(op.name));
    TRIREME_CHECK(i == 0 || rows[i - 1].name != op.name, std::string(op.name));
  }
  return rows;
}

const std::vector<Op>& rows() {
  static const std::vector<Op> all = make_rows();
  return all;
}

}  // namespace

const Op* find_op(std::string_view name) {
  const auto it = std::ranges::lower_bound(rows(), name, {}, &Op::name);
  return it != rows().end() && it->name == name ? &*it : nullptr;
}

const std::vector<const Op*>& all_ops() {
  static const std::vector<const Op*> pointers = [] {
    std::vector<const Op*> all;
    for (const Op& op : rows()) {
      all.push_back(&op);
    }
    return all;
  }();
  return pointers;
}

}  // namespace trireme
