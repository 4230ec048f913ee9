#include "graph/op_cases.h"

namespace trireme::testing {
namespace {

OpCase einsum(std::string equation, const Shape& a, const Shape& b) {
  return {"einsum", {{a}, {b}}, {{"equation", std::move(equation)}}};
}

std::vector<OpCase> unary_cases() {
  std::vector<OpCase> cases;
  for (const char* op : {"exp", "gelu", "relu", "sigmoid", "silu", "softplus", "square", "tanh"}) {
    for (const Shape& shape : {Shape{2, 3}, Shape{0, 3}, Shape{}, Shape{37}}) {
      cases.push_back({op, {{shape, -3, 3, 0.01}}});
      cases.push_back({std::string(op) + "_backward", {{shape, -3, 3, 0.01}, {shape}}});
    }
  }
  for (const char* op : {"log", "sqrt"}) {
    cases.push_back({op, {{{5, 3}, 0.5, 3}}});
    cases.push_back({std::string(op) + "_backward", {{{5, 3}, 0.5, 3}, {{5, 3}}}});
  }
  return cases;
}

std::vector<OpCase> binary_cases() {
  std::vector<OpCase> cases;
  for (const char* op : {"add", "subtract", "multiply", "divide", "maximum", "minimum"}) {
    for (const Shape& b : {Shape{2, 3, 5}, Shape{3, 5}, Shape{5}, Shape{}}) {
      cases.push_back({op, {{{2, 3, 5}}, {b, -2, 2, 0.5}}});
    }
    cases.push_back({op, {{{0, 4}}, {{4}, -2, 2, 0.5}}});
    cases.push_back({op, {{{3, 0, 4}}, {{0, 4}, -2, 2, 0.5}}});
  }
  return cases;
}

}  // namespace

std::vector<OpCase> basic_cases() {
  std::vector<OpCase> cases{
      einsum("ik,kj->ij", {3, 5}, {5, 2}),
      einsum("btk,kn->btn", {2, 3, 4}, {4, 5}),
      einsum("btk,btn->kn", {2, 3, 4}, {2, 3, 5}),
      einsum("btc,chd->bthd", {1, 3, 4}, {4, 2, 2}),
      einsum("egpc,ecf->egpf", {2, 3, 3, 4}, {2, 4, 3}),
      einsum("egpc,egpf->ecf", {2, 3, 3, 4}, {2, 3, 3, 5}),
      einsum("ik,jk->ij", {0, 3}, {4, 3}),
      einsum("ik,kj->ij", {2, 0}, {0, 3}),
      einsum("k,k->", {7}, {7}),
      {"layer_norm", {{{2, 3, 6}}, {{6}}, {{6}}}},
      {"layer_norm", {{{0, 6}}, {{6}}, {{6}}}},
      {"layer_norm", {{{5, 3}}, {{3}}, {{3}}}, {{"epsilon", 1e-3}}},
      {"layer_norm_backward",
       {{{2, 3, 6}}, {{2, 3, 6}}, {{6}}, statistic({2, 3}, -1, 1), statistic({2, 3}, 0.5, 2)}},
      {"reduce_sum", {{{2, 3, 4}}}, {{"axes", Numbers{0, 2}}}},
      {"reduce_sum", {{{2, 3, 4}}}, {{"axes", Numbers{-1}}}},
      {"reduce_sum", {{{3, 0}}}, {{"axes", Numbers{1}}}},
      {"reduce_max", {{{2, 3, 4}}}, {{"axes", Numbers{1}}}},
      {"broadcast", {{{3}}}, {{"shape", Numbers{2, 3, 4}}, {"axes", Numbers{0, 2}}}},
      {"copy", {{{3, 4}}}},
      {"wait", {whole({0}, 0, 1), whole({0}, 0, 1)}},
      {"scale", {{{3, 4}}}, {{"factor", -2.5}}},
      {"fill", {}, {{"value", 1.5}, {"shape", Numbers{2, 3}}}},
  };
  for (const auto& more : {unary_cases(), binary_cases()}) {
    cases.insert(cases.end(), more.begin(), more.end());
  }
  return cases;
}

}  // namespace trireme::testing
