// A router scores all tokens of a sequence, and the top K go through the block; the others skip it on the residual
// connection, bitwise unchanged (Raposo et al., Mixture-of-Depths, 2024).
//
//   score[t] = w . x[t]                          [B,T]
//   y[t]     = x[t] + sigmoid(score[t]) f(x)[t]  for the K largest scores, else x[t]
//
// f sees only the picked tokens, in the order of the sequence, so that a causal mask among them is causal in the
// sequence. The router learns through the gate. The choice of tokens also depends on later ones: such a model is causal
// except for which tokens it picks.
#include "model/depths.h"

namespace trireme {
namespace {

/// Sorts rows of integers, as a top-k of their negatives. In f32, which represents the positions of 16 million tokens
/// exactly.
ValueId sorted(Layers& layers, ValueId indices) {
  GraphBuilder& b = layers.builder();
  const std::int64_t count = b.shape(indices).dim(1);
  const Attributes negate{{"factor", -1.0}};
  const ValueId negative = b.add1("scale", {layers.cast(indices, DType::F32)}, negate);
  const ValueId descending = b.add("top_k", {negative}, {{"k", count}})[0];
  return layers.cast(b.add1("scale", {descending}, negate), DType::I32);
}

}  // namespace

PickedTokens pick_tokens(Layers& layers, ValueId x, const std::string& at, std::int64_t count) {
  GraphBuilder& b = layers.builder();
  const Shape shape = b.shape(x);
  const ValueId router =
      layers.weight(at + ".depth_router.weight", {layers.config().width}, kDeviation);
  const ValueId scores = layers.einsum("btc,c->bt", x, router);
  PickedTokens picked;
  picked.indices = sorted(layers, b.add("top_k", {scores}, {{"k", count}})[1]);
  picked.rows = b.add1("gather_rows", {x, picked.indices});
  const ValueId columns = b.add1(
      "reshape", {scores}, {{"shape", std::vector<std::int64_t>{shape.dim(0), shape.dim(1), 1}}});
  picked.gates = b.add1("sigmoid", {b.add1("gather_rows", {columns, picked.indices})});
  return picked;
}

ValueId add_to_picked(Layers& layers, ValueId x, const PickedTokens& picked, ValueId computed) {
  GraphBuilder& b = layers.builder();
  const Shape rows = b.shape(computed);
  const ValueId gates = b.add1("reshape", {picked.gates},
                               {{"shape", std::vector<std::int64_t>{rows.dim(0), rows.dim(1)}}});
  const ValueId repeated = b.add1("broadcast", {gates},
                                  {{"shape", rows.dims()}, {"axes", std::vector<std::int64_t>{2}}});
  const ValueId gated = b.add1("multiply", {computed, repeated});
  const ValueId back =
      b.add1("scatter_rows", {gated, picked.indices}, {{"rows", b.shape(x).dim(1)}});
  return b.add1("add", {x, back});
}

}  // namespace trireme
