#include <algorithm>
#include <array>
#include <deque>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/mutex.h"
#include "graph/ops/families.h"
#include "trireme/error.h"
#include "trireme/op.h"

namespace trireme {
namespace {

using Family = std::vector<Op> (*)();
constexpr std::array kFamilies{
    Family{ops::attention::rows},     Family{ops::attention_packed::rows},
    Family{ops::binary::rows},        Family{ops::cache::rows},
    Family{ops::cast::rows},          Family{ops::classifier::rows},
    Family{ops::communication::rows}, Family{ops::conv::rows},
    Family{ops::copy::rows},          Family{ops::cross_entropy::rows},
    Family{ops::dropout::rows},       Family{ops::einsum::rows},
    Family{ops::embedding::rows},     Family{ops::experts::rows},
    Family{ops::fill::rows},          Family{ops::finite::rows},
    Family{ops::fused::rows},         Family{ops::layer_norm::rows},
    Family{ops::muon_step::rows},     Family{ops::norm_add::rows},
    Family{ops::optimizers::rows},    Family{ops::orthonormal::rows},
    Family{ops::pack::rows},          Family{ops::parts::rows},
    Family{ops::pool::rows},          Family{ops::products::rows},
    Family{ops::reduce::rows},        Family{ops::rms_norm::rows},
    Family{ops::rope::rows},          Family{ops::rows::rows},
    Family{ops::scale::rows},         Family{ops::shapes::rows},
    Family{ops::softmax::rows},       Family{ops::top_k::rows},
    Family{ops::unary::rows},
};

/// Whether the row has all that every op needs.
bool is_complete(const Op& op) {
  return !op.name.empty() && op.infer != nullptr && op.factors != nullptr && op.work != nullptr &&
         op.reference != nullptr && !op.outputs.empty();
}

std::vector<Op> make_rows() {
  std::vector<Op> rows;
  for (const Family family : kFamilies) {
    std::vector<Op> some = family();
    rows.insert(rows.end(), std::make_move_iterator(some.begin()),
                std::make_move_iterator(some.end()));
  }
  std::ranges::sort(rows, {}, &Op::name);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    TRIREME_CHECK(is_complete(rows[i]), std::string(rows[i].name));
    TRIREME_CHECK(i == 0 || rows[i - 1].name != rows[i].name, std::string(rows[i].name));
  }
  return rows;
}

const std::vector<Op>& rows() {
  static const std::vector<Op> all = make_rows();
  return all;
}

const Op* find_built_in(std::string_view name) {
  const auto it = std::ranges::lower_bound(rows(), name, {}, &Op::name);
  return it != rows().end() && it->name == name ? &*it : nullptr;
}

/// Ops registered by the program.
class RegisteredOps {
 public:
  [[nodiscard]] const Op* find(std::string_view name) {
    MutexLock lock(mutex_);
    const auto it = std::ranges::find(ops_, name, &Op::name);
    return it == ops_.end() ? nullptr : &*it;
  }
  const Op& add(Op op) {
    MutexLock lock(mutex_);
    return ops_.emplace_back(std::move(op));
  }

 private:
  Mutex mutex_;
  std::deque<Op> ops_ TRIREME_GUARDED_BY(mutex_);  ///< stable addresses
};

RegisteredOps& registered_ops() {
  static RegisteredOps ops;
  return ops;
}

}  // namespace

const Op* find_op(std::string_view name) {
  const Op* built_in = find_built_in(name);
  return built_in != nullptr ? built_in : registered_ops().find(name);
}

bool is_built_in(const Op& op) {
  return find_built_in(op.name) == &op;
}

const Op& register_op(Op op) {
  if (!is_complete(op)) {
    throw Error(ErrorKind::Usage,
                fmt::format("op '{}' is incomplete: it needs a name, outputs, infer, factors, work "
                            "and reference",
                            op.name));
  }
  if (find_op(op.name) != nullptr) {
    throw Error(ErrorKind::Usage, fmt::format("there is an op '{}' already", op.name));
  }
  return registered_ops().add(std::move(op));
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
