#include "backend/large_cases.h"

namespace trireme::testing {
namespace {

std::vector<OpCase> moves() {
  const Shape x{37, 70, 9};
  return {{"permute", {{x}}, {{"order", Numbers{1, 0, 2}}}},
          {"permute", {{x}}, {{"order", Numbers{2, 1, 0}}}},
          {"permute", {{x}}, {{"order", Numbers{0, 2, 1}}}},
          {"permute", {{x}}, {{"order", Numbers{1, 2, 0}}}},
          {"permute", {{{130, 131}}}, {{"order", Numbers{1, 0}}}},
          {"slice", {{x}}, {{"begin", Numbers{1, 2, 0}}, {"end", Numbers{37, 70, 9}}}},
          {"slice", {{x}}, {{"begin", Numbers{0, 0, 4}}, {"end", Numbers{37, 70, 5}}}},
          {"pad", {{x}}, {{"before", Numbers{0, 1, 2}}, {"after", Numbers{3, 0, 1}}}},
          {"concat", {{{90, 130}}, {{90, 3}}, {{90, 77}}}, {{"axis", std::int64_t{1}}}},
          {"concat", {{{190, 130}}, {{1, 130}}}, {{"axis", std::int64_t{0}}}},
          // Rows that can be moved 16 bytes at once, and a part that begins within 16 bytes.
          {"concat", {{{70, 5, 16}}, {{70, 2, 16}}, {{70, 2, 16}}}, {{"axis", std::int64_t{1}}}},
          {"concat", {{{70, 48}}, {{70, 4}}, {{70, 16}}}, {{"axis", std::int64_t{1}}}},
          {"slice", {{{70, 9, 16}}}, {{"begin", Numbers{0, 5, 0}}, {"end", Numbers{70, 7, 16}}}},
          {"slice", {{{70, 9, 16}}}, {{"begin", Numbers{1, 2, 3}}, {"end", Numbers{70, 7, 16}}}}};
}

std::vector<OpCase> choices() {
  const Attributes room{{"experts", std::int64_t{4}}, {"capacity", std::int64_t{15}}};
  const Operand slots = whole({3, 20, 2}, -1, 59);
  return {{"top_k", {{{70, 130}}}, {{"k", std::int64_t{9}}}},
          {"top_k_backward", {{{900, 3}}, whole({900, 3}, 0, 11)}, {{"size", std::int64_t{12}}}},
          {"gather_rows", {{{3, 50, 300}}, whole({3, 21}, 0, 49)}},
          {"scatter_rows", {{{3, 21, 300}}, whole({3, 21}, 0, 49)}, {{"rows", std::int64_t{50}}}},
          {"expert_slots", {whole({5, 3000, 2}, 0, 3)}, room},
          {"expert_load", {whole({5, 3000, 2}, 0, 3)}, {{"experts", std::int64_t{4}}}},
          {"expert_dispatch", {{{3, 20, 300}}, slots}, room},
          {"expert_combine", {{{4, 3, 15, 300}}, slots, {{3, 20, 2}}}},
          {"expert_combine_backward", {{{3, 20, 300}}, {{4, 3, 15, 300}}, slots, {{3, 20, 2}}}},
          {"expert_combine_backward",
           {{{4, 2500, 3}}, {{4, 4, 700, 3}}, whole({4, 2500, 1}, -1, 2799), {{4, 2500, 1}}}},
          {"select", {{{}, 1, 2}, {{30000}}, {{30000}}}}};
}

/// Rows that fit a GPU's shared memory and rows that do not, with padding; products that its library fuses.
std::vector<OpCase> fusions() {
  const Attributes linear{{"equation", std::string("btc,fc->btf")}};
  const Shape x{2, 70, 64};
  const Shape w{96, 64};
  const Shape y{2, 70, 96};
  const Attributes padded{{"classes", std::int64_t{6001}}};
  std::vector<OpCase> cases{
      {"classifier", {{{9, 6016}, -4, 4}, whole({9}, -1, 6000), statistic({9}, -1, 1)}, padded},
      {"classifier", {{{3, 6001}, -4, 4}, whole({3}, -1, 6000), statistic({3}, -1, 1)}},
      {"classifier",
       {{{2, 60032}, -4, 4}, whole({2}, 0, 59999), statistic({2}, -1, 1)},
       {{"classes", std::int64_t{60000}}}},
      {"einsum_add", {{x}, {w}, {y}}, linear},
      {"einsum_bias", {{x}, {w}, {{96}}}, linear},
      {"einsum_bias_add", {{x}, {w}, {{96}}, {y}}, linear},
      {"einsum_bias_gelu", {{x}, {w}, {{96}}}, linear},
      {"einsum_gelu_backward", {{x}, {w}, {y}}, linear}};
  for (const std::int64_t width : {768, 1600, 2056, 5001}) {
    const Shape rows{70, width};
    const Operand rstd = statistic({70}, 0.5, 2);
    cases.push_back({"layer_norm", {{rows}, {{width}}, {{width}}}});
    cases.push_back({"rms_norm", {{rows}, {{width}}}});
    cases.push_back({"layer_norm_backward_add",
                     {{rows}, {rows}, {{width}}, statistic({70}, -1, 1), rstd, {rows}}});
    cases.push_back({"rms_norm_backward_add", {{rows}, {rows}, {{width}}, rstd, {rows}}});
  }
  return cases;
}

std::vector<OpCase> packing() {
  const Operand bits = whole({3, 2, 1375}, 0, 255);
  const Operand pairs = whole({3, 2, 2750}, 0, 2);
  const Operand bytes = whole({3, 2, 11003}, -127, 127);
  const Operand scale = statistic({3, 2}, 0.5, 2);
  return {{"largest", {{{3, 11003}}}, {{"k", std::int64_t{1100}}}},
          {"largest", {{{20011}, -1e-3, 1e-3}}, {{"k", std::int64_t{3}}}},
          {"pack_signs", {{{2, 11003}}}},
          {"pack_ternary", {{{2, 11003}}}},
          {"pack_bytes", {{{2, 11003}}}},
          {"sum_signs", {bits, scale}, {{"size", std::int64_t{10999}}}, DType::U8},
          {"sum_ternary", {pairs, scale}, {{"size", std::int64_t{10999}}}, DType::U8},
          {"sum_bytes", {bytes, scale}, {}, DType::I8},
          {"parts", {{{123, 457}}}, {{"count", std::int64_t{3}}}},
          {"orthonormal", {{{700, 8}}}}};
}

std::vector<OpCase> elements() {
  const Shape x{11, 19, 100};
  const Operand step = whole({}, 0, 100);
  const Attributes part{{"rate", 0.3},
                        {"seed", std::int64_t{7}},
                        {"offset", Numbers{1, 2, 50}},
                        {"whole", Numbers{12, 30, 203}}};
  Attributes normal{{"shape", Numbers{150, 70}}};
  normal["offset"] = Numbers{3, 5};
  normal["whole"] = Numbers{160, 80};
  return {{"fused", {{x}, {{100}}}, {{"program", "add(%0,%1); gelu(t0)"}}},
          {"fused",
           {{x}, {{19, 100}}, {{}}, {x}},
           {{"program",
             "add(%0,%1); multiply(t0,%2); silu(t1); silu_backward(t1,%3); multiply(t3,t2); "
             "scale(t4) factor=0.5; add(t5,t0)"}}},
          {"fused", {{x, 0.5, 2}}, {{"program", "log(%0); sqrt_backward(%0,t0); tanh(t1)"}}},
          {"dropout", {{x}, step}, {{"rate", 0.4}}, DType::I64},
          {"dropout_backward", {{x}, step}, part, DType::I64},
          {"random_normal", {step}, normal, DType::I64},
          {"adamw",
           {{x},
            {x},
            statistic(x, -1, 1),
            statistic(x, 0, 1),
            statistic({}, 0.01, 0.1),
            whole({}, 1, 9),
            statistic({}, 0.5, 1)},
           {},
           DType::I64},
          {"sum_squares", {{{5, 11111}}}}};
}

std::vector<OpCase> rows() {
  const Operand logits{{9, 3001}, -2, 2};
  const Operand q{{2, 70, 4, 40}};
  const Operand k{{2, 70, 2, 40}};
  const Operand qkv{{2, 70, 8, 40}};
  const auto einsum = [](std::string equation, const Shape& a, const Shape& b) {
    return OpCase{"einsum", {{a}, {b}}, {{"equation", std::move(equation)}}};
  };
  return {
      // Letters that are not adjacent, or in another order.
      einsum("bhtd,hdc->btc", {2, 3, 9, 8}, {3, 8, 17}),
      einsum("akb,kcb->bca", {5, 17, 3}, {17, 9, 3}),
      einsum("xzky,kwz->zywx", {4, 3, 17, 5}, {17, 6, 3}),
      einsum("kal,lbk->ab", {7, 9, 5}, {5, 11, 7}),
      einsum("btc,btv->vc", {2, 9, 17}, {2, 9, 33}),
      einsum("eik,ekj->eji", {3, 9, 17}, {3, 17, 5}),
      einsum("k,kj->j", {17}, {17, 33}),
      einsum("ik,k->i", {33, 17}, {17}),
      {"softmax", {logits}},
      {"softmax_backward", {{{9, 3001}}, {{9, 3001}, 0, 0.001}}},
      {"cross_entropy_sums", {logits, whole({9}, -1, 3000), {{9}, 1, 2}}},
      {"cross_entropy_sums_backward",
       {statistic({9}, -1, 1), statistic({9}, -1, 1), logits, whole({9}, -1, 3000), {{9}, 1, 2}}},
      {"layer_norm", {{{70, 130}}, {{130}}, {{130}}}},
      {"layer_norm_backward",
       {{{70, 130}}, {{70, 130}}, {{130}}, statistic({70}, -1, 1), statistic({70}, 0.5, 2)}},
      {"reduce_sum", {{{3, 11111}}}, {{"axes", Numbers{1}}}},
      {"reduce_sum", {{{70, 130}}}, {{"axes", Numbers{0}}}},
      {"attention", {q, k, k}},
      {"attention", {q, k, k}, {{"start", Numbers{20}}}},
      {"attention", {q, k, k}, {{"start", Numbers{-40}}}},  // many queries see no key
      {"attention_merge", {q, statistic({2, 4, 70}, 3, 5), q, statistic({2, 4, 70}, 3, 9)}},
      {"attention_backward",
       {q, q, k, k, q, statistic({2, 4, 70}, 3, 5)},
       {{"start", Numbers{-40}}}},
      {"attention_backward", {q, q, k, k, q, statistic({2, 4, 70}, 3, 5)}},
      {"attention_packed", {qkv}, {{"heads", std::int64_t{4}}}},
      {"attention_packed", {qkv}, {{"heads", std::int64_t{4}}, {"start", Numbers{-40}}}},
      {"attention_packed_backward",
       {q, qkv, q, statistic({2, 4, 70}, 3, 5)},
       {{"heads", std::int64_t{4}}}}};
}

std::vector<OpCase> images() {
  const Attributes strided{{"stride", Numbers{2, 1}}, {"padding", Numbers{1, 2}}};
  Attributes sized = strided;
  sized["size"] = Numbers{13, 14};
  Attributes kernel = strided;
  kernel["kernel"] = Numbers{3, 5};
  const Operand x{{2, 17, 13, 14}};
  const Operand w{{33, 17, 3, 5}};
  const Operand dy{{2, 33, 7, 14}};
  return {{"conv2d", {x, w}, strided},
          {"conv2d_backward_input", {dy, w}, sized},
          {"conv2d_backward_weight", {dy, x}, kernel},
          {"max_pool", {x}, kernel},
          {"max_pool_backward", {{{2, 17, 7, 14}}, x}, kernel}};
}

}  // namespace

std::vector<OpCase> large_cases() {
  std::vector<OpCase> all;
  for (const auto& some :
       {moves(), choices(), fusions(), packing(), elements(), rows(), images()}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

}  // namespace trireme::testing
