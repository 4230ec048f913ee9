#include "graph/op_cases.h"

namespace trireme::testing {
namespace {

Operand step() {
  return whole({}, 0, 100);
}

std::vector<OpCase> embedding_cases() {
  std::vector<OpCase> cases;
  for (const Shape& ids : {Shape{2, 3}, Shape{7}, Shape{}, Shape{0, 3}}) {
    std::vector<std::int64_t> dims = ids.dims();
    dims.push_back(4);
    cases.push_back({"embedding", {{{5, 4}}, whole(ids, 0, 4)}});
    cases.push_back(
        {"embedding_backward", {{Shape(dims)}, whole(ids, 0, 4)}, {{"rows", std::int64_t{5}}}});
  }
  // A shard of the table.
  const Attributes part{{"first", std::int64_t{2}}, {"whole", std::int64_t{9}}};
  Attributes backward = part;
  backward["rows"] = std::int64_t{5};
  cases.push_back({"embedding", {{{5, 4}}, whole({2, 7}, 0, 8)}, part});
  cases.push_back({"embedding_backward", {{{2, 7, 4}}, whole({2, 7}, 0, 8)}, backward});
  cases.push_back({"embedding", {{{1, 1}}, whole({3}, 0, 0)}});
  cases.push_back({"embedding", {{{3, 2}}, whole({4}, 0, 2)}, {}, DType::I64});
  return cases;
}

std::vector<OpCase> rms_norm_cases() {
  return {{"rms_norm", {{{2, 3, 6}}, {{6}}}},
          {"rms_norm", {{{0, 6}}, {{6}}}},
          {"rms_norm", {{{5, 3}}, {{3}}}, {{"epsilon", 1e-3}}},
          {"rms_norm", {{{4, 1}, 0.5, 2}, {{1}}}},
          {"rms_norm", {{{7}}, {{7}}}},
          {"rms_norm_backward", {{{2, 3, 6}}, {{2, 3, 6}}, {{6}}, statistic({2, 3}, 0.5, 2)}},
          {"rms_norm_backward", {{{0, 5}}, {{0, 5}}, {{5}}, statistic({0}, 0.5, 2)}}};
}

std::vector<OpCase> rope_cases() {
  return {{"rope", {{{2, 5, 3, 6}}}},
          {"rope", {{{1, 1, 1, 2}}}, {{"start", std::int64_t{7}}}},
          {"rope", {{{2, 3, 2, 4}}}, {{"inverse", std::int64_t{1}}, {"base", 100.0}}},
          {"rope", {{{2, 5, 5, 4}}}, {{"heads", std::int64_t{3}}, {"start", std::int64_t{2}}}},
          {"rope",
           {{{3, 4, 4, 2}}},
           {{"heads", std::int64_t{4}}, {"inverse", std::int64_t{1}}, {"base", 50.0}}},
          {"rope", {{{0, 3, 2, 4}}}},
          {"rope", {{{2, 3, 1, 0}}}}};
}

struct AttentionSizes {
  std::int64_t b, t, s, h, g, d;
};

/// Forward and backward; and two merged results.
std::vector<OpCase> attention_cases(const AttentionSizes& n, const Attributes& attributes = {}) {
  const Operand q{{n.b, n.t, n.h, n.d}};
  const Operand k{{n.b, n.s, n.g, n.d}};
  const Operand lse = statistic({n.b, n.h, n.t}, 0, 2);
  return {{"attention", {q, k, k}, attributes},
          {"attention_backward", {q, q, k, k, q, lse}, attributes},
          {"attention_merge", {q, lse, q, lse}}};
}

std::vector<OpCase> all_attention_cases() {
  const Attributes open{{"causal", std::int64_t{0}}};
  const Attributes scaled{{"scale", 0.3}};
  std::vector<OpCase> cases;
  for (const auto& some :
       {attention_cases({2, 5, 5, 4, 2, 3}), attention_cases({2, 3, 5, 3, 3, 2}, scaled),
        attention_cases({1, 3, 4, 4, 1, 2}, open), attention_cases({2, 5, 3, 2, 2, 1}, open),
        attention_cases({3, 1, 1, 1, 1, 1}), attention_cases({1, 1, 7, 6, 2, 2}),
        // Blocks of keys: the first queries see some, or all see all.
        attention_cases({2, 3, 5, 4, 2, 3}, {{"start", Numbers{1}}}),
        attention_cases({1, 4, 3, 2, 1, 2}, {{"start", Numbers{8}}, {"scale", 0.7}}),
        attention_cases({0, 3, 3, 2, 1, 2}), attention_cases({2, 0, 3, 2, 1, 2}),
        attention_cases({2, 3, 3, 0, 0, 2})}) {
    cases.insert(cases.end(), some.begin(), some.end());
  }
  return cases;
}

/// With as many keys as queries, in one tensor. Heads of 8 can be read 16 bytes at once.
std::vector<OpCase> packed_attention_cases() {
  std::vector<OpCase> cases;
  for (const AttentionSizes& n :
       {AttentionSizes{2, 5, 5, 4, 2, 8}, AttentionSizes{2, 3, 3, 3, 3, 2},
        AttentionSizes{1, 4, 4, 4, 1, 16}, AttentionSizes{3, 1, 1, 1, 1, 1},
        AttentionSizes{0, 3, 3, 2, 1, 2}, AttentionSizes{2, 0, 0, 2, 1, 2}}) {
    const Operand qkv{{n.b, n.t, n.h + 2 * n.g, n.d}};
    const Operand y{{n.b, n.t, n.h, n.d}};
    const Operand lse = statistic({n.b, n.h, n.t}, 0, 2);
    for (Attributes attributes :
         {Attributes{}, Attributes{{"scale", 0.3}}, Attributes{{"causal", std::int64_t{0}}},
          Attributes{{"start", Numbers{1}}}}) {
      attributes["heads"] = n.h;
      cases.push_back({"attention_packed", {qkv}, attributes});
      cases.push_back({"attention_packed_backward", {y, qkv, y, lse}, attributes});
    }
  }
  return cases;
}

/// Positions [B,T] of queries and new rows, and caches of S rows.
std::vector<OpCase> cache_cases() {
  std::vector<OpCase> cases;
  for (const AttentionSizes& n :
       {AttentionSizes{2, 3, 5, 4, 2, 2}, AttentionSizes{1, 1, 7, 2, 2, 4},
        AttentionSizes{3, 2, 1, 3, 1, 2}, AttentionSizes{2, 0, 3, 2, 1, 2},
        AttentionSizes{1, 2, 70, 2, 1, 6}}) {
    const Operand positions = whole({n.b, n.t}, 0, static_cast<double>(n.s - 1));
    const Operand cache{{n.b, n.s, n.g, n.d}};
    const Operand q{{n.b, n.t, n.h, n.d}};
    cases.push_back({"attention_at", {q, cache, cache, positions}});
    cases.push_back({"cache_write", {cache, {{n.b, n.t, n.g, n.d}}, positions}});
    cases.push_back({"rope_at", {q, positions}, {{"limit", n.s}}});
  }
  return cases;
}

std::vector<OpCase> softmax_cases() {
  std::vector<OpCase> cases;
  for (const Shape& shape : {Shape{2, 3, 5}, Shape{0, 4}, Shape{3, 0}, Shape{5, 1}, Shape{37}}) {
    cases.push_back({"softmax", {{shape, -3, 3}}});
    cases.push_back({"softmax_backward", {{shape}, {shape, 0, 1}}});
  }
  return cases;
}

std::vector<OpCase> cross_entropy_cases() {
  std::vector<OpCase> cases;
  for (const Shape& rows : {Shape{2, 3}, Shape{37}, Shape{}, Shape{0, 2}}) {
    std::vector<std::int64_t> dims = rows.dims();
    dims.push_back(5);
    const Operand logits{Shape(dims), -2, 2};
    const Operand top{rows, 1, 2};
    const Operand targets = whole(rows, -1, 4);
    cases.push_back({"cross_entropy_sums", {logits, targets, top}});
    cases.push_back({"cross_entropy_sums_backward",
                     {statistic(rows, -1, 1), statistic(rows, -1, 1), logits, targets, top}});
    cases.push_back(
        {"cross_entropy", {statistic(rows, 0.5, 3), statistic(rows, -1, 1), top, targets}});
    cases.push_back(
        {"cross_entropy_backward", {statistic(rows, -1, 1), statistic(rows, 0.5, 3), targets}});
  }
  // A shard of the classes.
  const Attributes part{{"first", std::int64_t{3}}, {"classes", std::int64_t{9}}};
  const Operand some{{7, 4}, -2, 2};
  cases.push_back({"cross_entropy_sums", {some, whole({7}, -1, 8), {{7}}}, part});
  cases.push_back({"cross_entropy_sums_backward",
                   {statistic({7}, -1, 1), statistic({7}, -1, 1), some, whole({7}, -1, 8), {{7}}},
                   part});
  cases.push_back({"cross_entropy_sums", {{{3, 1}}, whole({3}, -1, 0), {{3}}}, {}, DType::I64});
  return cases;
}

std::vector<OpCase> classifier_cases() {
  std::vector<OpCase> cases;
  for (const Shape& rows : {Shape{2, 3}, Shape{37}, Shape{}, Shape{0, 2}}) {
    for (const std::int64_t classes : {0, 5, 13}) {
      std::vector<std::int64_t> dims = rows.dims();
      dims.push_back(16);
      const Operand targets =
          whole(rows, -1, classes == 0 ? 15.0 : static_cast<double>(classes - 1));
      cases.push_back({"classifier",
                       {{Shape(dims), -2, 2}, targets, statistic(rows, -1, 1)},
                       {{"classes", classes}}});
    }
  }
  cases.push_back(
      {"classifier", {{{3, 7}}, whole({3}, -1, 6), statistic({3}, -1, 1)}, {}, DType::I64});
  return cases;
}

/// Products with a bias, an activation, its derivative or a sum. The last two are neither aligned nor by rows.
std::vector<OpCase> product_cases() {
  struct Shapes {
    std::string equation;
    Shape a, b, bias, y;
  };
  std::vector<OpCase> cases;
  for (const auto& [equation, a, b, bias, y] :
       {Shapes{"btc,fc->btf", {2, 3, 5}, {16, 5}, {16}, {2, 3, 16}},
        Shapes{"btc,chd->bthd", {2, 3, 8}, {8, 2, 4}, {2, 4}, {2, 3, 2, 4}},
        Shapes{"bthd,chd->btc", {2, 3, 2, 4}, {7, 2, 4}, {7}, {2, 3, 7}},
        Shapes{"ck,kn->nc", {5, 4}, {4, 3}, {5}, {3, 5}}}) {
    const Attributes attributes{{"equation", equation}};
    cases.push_back({"einsum_add", {{a}, {b}, {y}}, attributes});
    cases.push_back({"einsum_bias", {{a}, {b}, {bias}}, attributes});
    cases.push_back({"einsum_bias_add", {{a}, {b}, {bias}, {y}}, attributes});
    cases.push_back({"einsum_bias_gelu", {{a}, {b}, {bias}}, attributes});
    cases.push_back({"einsum_gelu_backward", {{a}, {b}, {y}}, attributes});
  }
  return cases;
}

std::vector<OpCase> norm_add_cases() {
  std::vector<OpCase> cases;
  for (const Shape& x : {Shape{2, 3, 16}, Shape{5, 7}, Shape{70, 40}}) {
    const std::int64_t width = x.dims().back();
    std::vector<std::int64_t> dims = x.dims();
    dims.pop_back();
    const Shape rows(dims);
    const Operand rstd = statistic(rows, 0.5, 2);
    const Operand gamma{{width}};
    cases.push_back(
        {"layer_norm_backward_add", {{x}, {x}, gamma, statistic(rows, -1, 1), rstd, {x}}});
    cases.push_back({"rms_norm_backward_add", {{x}, {x}, gamma, rstd, {x}}});
  }
  return cases;
}

std::vector<OpCase> dropout_cases() {
  const Attributes part{{"rate", 0.5},
                        {"seed", std::int64_t{7}},
                        {"offset", Numbers{1, 2}},
                        {"whole", Numbers{4, 9}}};
  std::vector<OpCase> cases;
  for (const char* op : {"dropout", "dropout_backward"}) {
    cases.push_back({op, {{{2, 3, 5}}, step()}, {{"rate", 0.4}}, DType::I64});
    cases.push_back({op, {{{3, 7}}, step()}, part, DType::I64});
    cases.push_back({op, {{{}}, step()}, {}, DType::I64});
    cases.push_back({op, {{{0, 3}}, step()}, {{"rate", 0.0}}, DType::I64});
  }
  cases.push_back({"random_normal", {step()}, {{"shape", Numbers{3, 5}}}, DType::I64});
  cases.push_back({"random_normal", {step()}, {{"shape", Numbers{0}}}, DType::I64});
  cases.push_back(
      {"random_normal",
       {step()},
       {{"shape", Numbers{}}, {"seed", std::int64_t{-3}}, {"dtype", std::string("f64")}},
       DType::I64});
  return cases;
}

/// Only to f64: from f64 it changes nothing, so that finite differences can check its gradient.
std::vector<OpCase> cast_cases() {
  const Attributes to_f64{{"to", std::string("f64")}};
  return {{"cast", {{{3, 5}}}, to_f64},
          {"cast", {{{0, 5}}}, to_f64},
          {"cast", {{{}}}, to_f64},
          {"cast", {whole({7}, -5, 5)}, to_f64}};
}

}  // namespace

std::vector<OpCase> transformer_cases() {
  std::vector<OpCase> cases;
  for (const auto& some :
       {embedding_cases(), rms_norm_cases(), rope_cases(), all_attention_cases(),
        packed_attention_cases(), cache_cases(), softmax_cases(), cross_entropy_cases(),
        classifier_cases(), product_cases(), norm_add_cases(), dropout_cases(), cast_cases()}) {
    cases.insert(cases.end(), some.begin(), some.end());
  }
  return cases;
}

}  // namespace trireme::testing
