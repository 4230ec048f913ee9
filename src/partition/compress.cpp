// Compression as a graph transformation. The op `parts` turns the ranks along `data` into a dimension: A[p,..], of
// which each rank has its own slice, and whose sum along p is the gradient. Everything after that uses standard ops,
// and the partitioner does the rest: packed, A must be gathered (sums of codes cannot be sharded along p), and where it
// can be summed (fp16, the factors of a matrix) it is all-reduced.
#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "partition/compressible.h"
#include "trireme/error.h"
#include "trireme/op.h"
#include "trireme/partition.h"

namespace trireme {
namespace {

using partition::joined;
using partition::Numbers;
using partition::product;
using Method = Compression::Method;

constexpr const char* kAxis = partition::kCompressedAxis;

/// A gradient to compress, and its values in the output graph.
struct Packed : partition::Compressible {
  explicit Packed(Compressible gradient_to_pack) : Compressible(std::move(gradient_to_pack)) {}
  ValueId residual{};
  ValueId basis{};
  ValueId all{};                 ///< A[p,..]: gradient and residual
  std::vector<ValueId> codes{};  ///< of this rank
  std::vector<ValueId> sent{};   ///< of all ranks, or their sum
  ValueId rest{};                ///< the part of A that is not sent
  ValueId merged{};              ///< the sum of the sent gradients
};

class Compressor {
 public:
  Compressor(const Graph& graph, const Plan& plan, const DimNames& names)
      : graph_(graph),
        plan_(plan),
        names_(names),
        how_(plan.compression),
        ranks_(plan.mesh.size(kAxis)),
        builder_(graph.name()) {}

  NamedGraph run() {
    check();
    for (partition::Compressible& one : partition::compressible_gradients(graph_, plan_, names_)) {
      packed_.emplace_back(std::move(one));
    }
    add_leaves();
    add_nodes();
    for (const Output& output : graph_.outputs()) {
      builder_.output(output.name, now(output.value));
    }
    for (const Update& update : graph_.updates()) {
      builder_.update(now(update.target), now(update.value));
    }
    keep_states();
    return {.graph = builder_.finish(), .names = std::move(names_)};
  }

 private:
  void check() const {
    if (ranks_ < 2) {
      throw Error(ErrorKind::Usage,
                  fmt::format("compression {} is for gradients reduced along data, which the mesh "
                              "'{}' does not have; leave it out, or add data=2 to the mesh",
                              to_text(how_), to_text(plan_.mesh)));
    }
    for (const ValueId id : graph_.with_origin(Origin::State)) {
      if (graph_.value(id).name == "loss_scale") {
        throw Error(
            ErrorKind::Usage,
            "gradient compression carries residuals to the next step, whose loss scale may "
            "differ; use no compression, or --dtype bf16 or f32, which need no loss scaling");
      }
    }
  }

  // The graph, node by node, with compression between backward and update.

  [[nodiscard]] ValueId now(ValueId id) const { return now_.at(id); }
  [[nodiscard]] const std::string& name_of(const Packed& one) const {
    return graph_.value(one.parameter).name;
  }
  [[nodiscard]] std::vector<std::string> names_of(const Packed& one) const {
    const auto it = names_.find(name_of(one));
    return it != names_.end() ? it->second : std::vector<std::string>(one.dims.size());
  }
  [[nodiscard]] DType dtype_of(const Packed& one) const {
    return graph_.value(one.gradient).type.dtype == DType::F64 ? DType::F64 : DType::F32;
  }

  void add_leaves() {
    for (std::size_t v = 0; v < graph_.values().size(); ++v) {
      const ValueId id{static_cast<std::int32_t>(v)};
      const Value& value = graph_.value(id);
      if (value.origin == Origin::Input) {
        now_[id] = builder_.input(value.name, value.type);
      } else if (value.origin == Origin::Parameter) {
        now_[id] = builder_.parameter(value.name, value.type);
      } else if (value.origin == Origin::State) {
        now_[id] = builder_.state(value.name, value.type);
      }
    }
    for (Packed& one : packed_) {
      add_states(one);
    }
  }

  void add_states(Packed& one) {
    const std::string residual = fmt::format("{}{}", kResidual, name_of(one));
    one.residual = builder_.state(residual, {dtype_of(one), Shape(joined({ranks_}, one.dims))});
    std::vector<std::string> dims = names_of(one);
    dims.insert(dims.begin(), "parts");
    names_[residual] = std::move(dims);
    if (how_.method == Method::Power) {
      const std::int64_t b = product(one.dims) / one.rows();
      one.basis = builder_.state(fmt::format("{}{}", kBasis, name_of(one)),
                                 {dtype_of(one), {b, std::int64_t{how_.rank}}});
    }
  }

  void add_nodes() {
    bool done = false;
    for (const Node& node : graph_.nodes()) {
      if (node.phase == Phase::Update && !done) {
        compress();
        done = true;
      }
      std::vector<ValueId> inputs;
      inputs.reserve(node.inputs.size());
      for (const ValueId input : node.inputs) {
        inputs.push_back(now(input));
      }
      builder_.set_phase(node.phase);
      builder_.set_block(node.block);
      const std::vector<ValueId> outputs = builder_.add(node.op->name, inputs, node.attributes);
      for (std::size_t k = 0; k < outputs.size(); ++k) {
        now_[node.outputs[k]] = outputs[k];
        builder_.rename(outputs[k], graph_.value(node.outputs[k]).name);
      }
    }
  }

  /// Processes all gradients round by round: communication overlaps with preparing the next, and small all-reduces
  /// share buckets.
  void compress() {
    builder_.set_phase(Phase::Update);
    for_each([&](Packed& one) { pack(one); });
    if (how_.method == Method::Power) {
      for_each([&](Packed& one) { multiply_back(one); });
    }
    for_each([&](Packed& one) { unpack(one); });
    for (const Packed& one : packed_) {
      now_[one.gradient] = one.merged;
    }
  }
  template <class F>
  void for_each(F f) {
    for (Packed& one : packed_) {
      builder_.set_block(one.block);
      f(one);
    }
  }

  void keep_states() {
    builder_.set_phase(Phase::Update);
    const ValueId finite = now(graph_.output("finite"));
    for_each([&](const Packed& one) {
      builder_.update(one.residual, builder_.add1("select", {finite, one.rest, one.residual}));
      if (one.basis.valid()) {
        builder_.update(one.basis, builder_.add1("select", {finite, one.sent[1], one.basis}));
      }
    });
  }

  // Methods.

  void pack(Packed& one) {
    const ValueId mine = builder_.add1("parts", {now(one.gradient)},
                                       {{"count", ranks_}, {"axis", std::string(kAxis)}});
    one.all = builder_.add1("add", {in(dtype_of(one), mine), one.residual});
    switch (how_.method) {
      case Method::TopK: {
        const auto n = static_cast<double>(row_length(one));
        const std::int64_t k = std::max<std::int64_t>(1, std::llround(how_.share * n));
        gather(one, builder_.add("largest", {to_rows(one, one.all)}, {{"k", k}}));
        return;
      }
      case Method::Sign:
        gather(one, builder_.add("pack_signs", {to_rows(one, one.all)}));
        return;
      case Method::Ternary:
        gather(one, builder_.add("pack_ternary", {to_rows(one, one.all)}));
        return;
      case Method::Int8:
        gather(one, builder_.add("pack_bytes", {to_rows(one, one.all)}));
        return;
      case Method::Fp16:
        one.codes = {in(DType::F16, one.all)};
        one.sent = {exchanged(one, sum_of_parts(one.codes[0]), names_of(one))};
        return;
      case Method::Power:
        multiply(one);
        return;
      case Method::None:
        return;
    }
  }

  void unpack(Packed& one) {
    const std::int64_t n = row_length(one);
    switch (how_.method) {
      case Method::TopK:
        finish_rows(one, "top_k_backward", {{"size", n}}, one.codes, side_by_side(one));
        return;
      case Method::Sign:
        finish_rows(one, "sum_signs", {{"size", n}}, alone(one), one.sent);
        return;
      case Method::Ternary:
        finish_rows(one, "sum_ternary", {{"size", n}}, alone(one), one.sent);
        return;
      case Method::Int8:
        finish_rows(one, "sum_bytes", {}, alone(one), one.sent);
        return;
      case Method::Fp16:
        one.rest = builder_.add1("subtract", {one.all, in(dtype_of(one), one.codes[0])});
        one.merged = in(dtype_of(one), one.sent[0]);
        return;
      case Method::Power:
        finish_product(one);
        return;
      case Method::None:
        return;
    }
  }

  /// Named values get this placement as soon as they are computed.
  ValueId exchanged(const Packed& one, ValueId x, const std::vector<std::string>& dims) {
    builder_.rename(x, fmt::format("sent/{}", name_of(one)));
    names_[builder_.graph().value(x).name] = dims;
    return x;
  }
  /// All ranks get all codes [p, c.., n]; each keeps its own.
  void gather(Packed& one, const std::vector<ValueId>& codes) {
    one.codes = codes;
    for (const ValueId code : codes) {
      std::vector<std::string> dims{""};
      for (std::size_t d = 0; d < one.dims.size(); ++d) {
        if (one.shards[d] > 1) {
          dims.push_back(names_of(one)[d]);
        }
      }
      dims.resize(builder_.shape(code).dims().size());
      one.sent.push_back(exchanged(one, builder_.add1("copy", {code}), dims));
    }
  }

  ValueId in(DType dtype, ValueId x) {
    return builder_.type(x).dtype == dtype
               ? x
               : builder_.add1("cast", {x}, {{"to", std::string(to_text(dtype))}});
  }
  ValueId reshape(ValueId x, const Numbers& shape) {
    return builder_.shape(x).dims() == shape ? x
                                             : builder_.add1("reshape", {x}, {{"shape", shape}});
  }
  ValueId sum_of_parts(ValueId x) {
    return builder_.add1("reduce_sum", {x}, {{"axes", Numbers{0}}});
  }

  // Rows: A[p,..] as [p, c.., n], where the c index the shards into which other axes split the dimensions. Each such
  // shard is then a separate row, packed independently. With c = 2 for the second dimension, [p, 6, 8] -> [p, 6, 2, 4]
  // -> [p, 2, 6, 4] -> [p, 2, 24].

  struct Layout {
    Numbers split{};   ///< dimensions, with sharded ones split in two
    Numbers order{};   ///< of these, the c first
    Numbers counts{};  ///< c..
    Numbers inside{};  ///< the rest
  };
  static Layout layout_of(const Packed& one) {
    Layout layout;
    Numbers later;
    for (std::size_t d = 0; d < one.dims.size(); ++d) {
      if (one.shards[d] > 1) {
        layout.order.push_back(static_cast<std::int64_t>(layout.split.size()));
        layout.split.push_back(one.shards[d]);
        layout.counts.push_back(one.shards[d]);
      }
      later.push_back(static_cast<std::int64_t>(layout.split.size()));
      layout.split.push_back(one.dims[d] / one.shards[d]);
      layout.inside.push_back(one.dims[d] / one.shards[d]);
    }
    layout.order = joined(std::move(layout.order), later);
    return layout;
  }
  static std::int64_t row_length(const Packed& one) {
    return product(one.dims) / product(one.shards);
  }

  ValueId permute(ValueId x, Numbers order, std::size_t before) {
    for (std::int64_t& d : order) {
      d += static_cast<std::int64_t>(before);
    }
    for (std::size_t d = before; d-- > 0;) {
      order.insert(order.begin(), static_cast<std::int64_t>(d));
    }
    return std::ranges::is_sorted(order) ? x : builder_.add1("permute", {x}, {{"order", order}});
  }

  ValueId to_rows(const Packed& one, ValueId x) {
    const Layout layout = layout_of(one);
    const ValueId split = reshape(x, joined({ranks_}, layout.split));
    return reshape(permute(split, layout.order, 1),
                   joined(joined({ranks_}, layout.counts), {row_length(one)}));
  }

  /// [before.., c.., n] as [before.., ..].
  ValueId from_rows(const Packed& one, ValueId x, const Numbers& before) {
    const Layout layout = layout_of(one);
    Numbers inverse(layout.order.size());
    for (std::size_t d = 0; d < inverse.size(); ++d) {
      inverse[layout.order[d]] = static_cast<std::int64_t>(d);
    }
    const ValueId apart = reshape(x, joined(before, joined(layout.counts, layout.inside)));
    return reshape(permute(apart, inverse, before.size()), joined(before, one.dims));
  }

  void finish_rows(Packed& one, std::string_view op, const Attributes& attributes,
                   const std::vector<ValueId>& own, const std::vector<ValueId>& all) {
    const ValueId sent = builder_.add1(op, own, attributes);
    one.rest = builder_.add1("subtract", {one.all, from_rows(one, sent, {ranks_})});
    one.merged = from_rows(one, builder_.add1(op, all, attributes), {});
  }

  /// The codes of each rank as a sum of one.
  std::vector<ValueId> alone(const Packed& one) {
    std::vector<ValueId> own;
    for (const ValueId code : one.codes) {
      own.push_back(reshape(code, joined({1}, builder_.shape(code).dims())));
    }
    return own;
  }

  /// [p, c.., k] as [c.., p k]: the elements of all ranks, added up where they coincide.
  std::vector<ValueId> side_by_side(const Packed& one) {
    std::vector<ValueId> all;
    for (const ValueId code : one.sent) {
      const Numbers dims = builder_.shape(code).dims();
      const Numbers counts(dims.begin() + 1, dims.end() - 1);
      Numbers order;
      for (std::size_t d = 0; d < counts.size(); ++d) {
        order.push_back(static_cast<std::int64_t>(d) + 1);
      }
      order = joined(std::move(order), {0, static_cast<std::int64_t>(counts.size()) + 1});
      all.push_back(reshape(permute(code, order, 0), joined(counts, {ranks_ * dims.back()})));
    }
    return all;
  }

  // Power: A[p,a,b]. From the basis Q[b,r], orthonormalized, P = the sum of A Q, orthonormalized too; A_i is then sent
  // as P (A_i^T P)^T, and the sum of the right factors is the next basis.

  ValueId einsum(const char* equation, ValueId x, ValueId y) {
    return builder_.add1("einsum", {x, y}, {{"equation", std::string(equation)}});
  }
  ValueId matrices(const Packed& one) {
    const std::int64_t a = one.rows();
    return reshape(one.all, {ranks_, a, product(one.dims) / a});
  }

  void multiply(Packed& one) {
    const ValueId basis = builder_.add1("orthonormal", {one.basis});
    const ValueId left = sum_of_parts(einsum("pab,br->par", matrices(one), basis));
    one.sent = {exchanged(one, left, {"", ""})};
  }
  void multiply_back(Packed& one) {
    const ValueId left = builder_.add1("orthonormal", {one.sent[0]});
    const ValueId own = einsum("pab,ar->pbr", matrices(one), left);
    one.codes = {left, own};
    one.sent.push_back(exchanged(one, sum_of_parts(own), {"", ""}));
  }
  void finish_product(Packed& one) {
    const ValueId sent = einsum("ar,pbr->pab", one.codes[0], one.codes[1]);
    one.rest = builder_.add1("subtract", {one.all, reshape(sent, joined({ranks_}, one.dims))});
    one.merged = reshape(einsum("ar,br->ab", one.codes[0], one.sent[1]), one.dims);
  }

  const Graph& graph_;
  const Plan& plan_;
  DimNames names_;
  Compression how_;
  std::int64_t ranks_;
  GraphBuilder builder_;
  std::vector<Packed> packed_;
  std::map<ValueId, ValueId> now_;
};

}  // namespace

NamedGraph compress_gradients(const Graph& graph, const Plan& plan, const DimNames& names) {
  if (!plan.compression.any()) {
    return {.graph = graph, .names = names};
  }
  return Compressor(graph, plan, names).run();
}

}  // namespace trireme
