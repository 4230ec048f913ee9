#include "graph/op_cases.h"

namespace trireme::testing {
namespace {

OpCase reshape(const Shape& x, Numbers shape) {
  return {"reshape", {{x}}, {{"shape", std::move(shape)}}};
}

OpCase permute(const Shape& x, Numbers order) {
  return {"permute", {{x}}, {{"order", std::move(order)}}};
}

OpCase slice(const Shape& x, Numbers begin, Numbers end) {
  return {"slice", {{x}}, {{"begin", std::move(begin)}, {"end", std::move(end)}}};
}

OpCase pad(const Shape& x, Numbers before, Numbers after) {
  return {"pad", {{x}}, {{"before", std::move(before)}, {"after", std::move(after)}}};
}

std::vector<OpCase> shape_cases() {
  const auto axis = [](std::int64_t a) { return Attributes{{"axis", a}}; };
  return {
      reshape({2, 3, 8}, {2, 3, 2, 4}),
      reshape({2, 3, 2, 4}, {6, 8}),
      reshape({2, 6}, {4, 3}),
      reshape({5, 2, 3}, {5, 3, 2}),
      reshape({4, 6, 10, 7}, {4, 4, 15, 7}),
      reshape({1, 7, 1}, {7}),
      reshape({1, 1}, {}),
      reshape({0, 3}, {5, 0}),
      permute({2, 3, 5}, {2, 0, 1}),
      permute({2, 3, 4, 5}, {0, 2, 1, 3}),
      permute({0, 3}, {1, 0}),
      permute({}, {}),
      slice({2, 5, 3}, {0, 1, 0}, {2, 4, 3}),
      slice({7}, {6}, {7}),
      slice({4, 3}, {2, 0}, {2, 3}),
      slice({0, 3}, {0, 0}, {0, 3}),
      pad({2, 3, 5}, {0, 1, 0}, {0, 2, 0}),
      pad({0, 3}, {1, 0}, {1, 0}),
      pad({3, 1}, {0, 4}, {0, 0}),
      {"concat", {{{2, 3, 5}}, {{2, 1, 5}}, {{2, 0, 5}}, {{2, 4, 5}}}, axis(1)},
      {"concat", {{{2, 3}}, {{2, 7}}}, axis(-1)},
      {"concat", {{{5}}}, axis(0)},
  };
}

/// The attributes of windows, and additional ones.
Attributes windows(Numbers stride, Numbers padding, Attributes more = {}) {
  more["stride"] = std::move(stride);
  more["padding"] = std::move(padding);
  return more;
}

std::vector<OpCase> convolution_cases() {
  const auto size = [](std::int64_t h, std::int64_t w) {
    return Attributes{{"size", Numbers{h, w}}};
  };
  const auto kernel = [](std::int64_t h, std::int64_t w) {
    return Attributes{{"kernel", Numbers{h, w}}};
  };
  return {
      {"conv2d", {{{2, 3, 5, 4}}, {{4, 3, 3, 2}}}},
      {"conv2d", {{{2, 2, 5, 7}}, {{3, 2, 3, 3}}}, windows({2, 3}, {1, 1})},
      {"conv2d", {{{1, 2, 4, 4}}, {{2, 2, 1, 1}}}, windows({2, 2}, {0, 0})},
      {"conv2d", {{{1, 1, 1, 1}}, {{1, 1, 3, 3}}}, windows({1, 1}, {1, 1})},
      {"conv2d", {{{0, 2, 4, 4}}, {{3, 2, 2, 2}}}},
      {"conv2d", {{{2, 0, 4, 4}}, {{3, 0, 2, 2}}}},
      {"conv2d_backward_input",
       {{{2, 4, 3, 3}}, {{4, 3, 3, 2}}},
       windows({1, 1}, {0, 0}, size(5, 4))},
      {"conv2d_backward_input",
       {{{2, 3, 3, 3}}, {{3, 2, 3, 3}}},
       windows({2, 3}, {1, 1}, size(6, 8))},
      {"conv2d_backward_input", {{{0, 3, 3, 3}}, {{3, 2, 2, 2}}}, size(4, 4)},
      {"conv2d_backward_weight", {{{2, 4, 3, 3}}, {{2, 3, 5, 4}}}, kernel(3, 2)},
      {"conv2d_backward_weight",
       {{{2, 3, 3, 3}}, {{2, 2, 6, 8}}},
       windows({2, 3}, {1, 1}, kernel(3, 3))},
      {"conv2d_backward_weight", {{{0, 3, 3, 3}}, {{0, 2, 4, 4}}}, kernel(2, 2)},
  };
}

std::vector<OpCase> pool_cases() {
  const Attributes two{{"kernel", Numbers{2, 2}}};
  const Attributes odd{{"kernel", Numbers{3, 2}}};
  const Attributes plain = windows({2, 2}, {0, 0}, two);
  const Attributes padded = windows({2, 1}, {1, 1}, odd);
  std::vector<OpCase> cases;
  for (const char* op : {"max_pool", "avg_pool"}) {
    cases.push_back({op, {{{2, 3, 4, 6}}}, plain});
    cases.push_back({op, {{{2, 2, 5, 3}}}, padded});
    cases.push_back({op, {{{1, 1, 1, 1}}}, padded});
    cases.push_back({op, {{{0, 2, 4, 4}}}, two});
  }
  cases.push_back({"max_pool_backward", {{{2, 3, 2, 3}}, {{2, 3, 4, 6}}}, plain});
  cases.push_back({"max_pool_backward", {{{2, 2, 3, 4}}, {{2, 2, 5, 3}}}, padded});
  Attributes sized = plain;
  sized["size"] = Numbers{5, 6};
  cases.push_back({"avg_pool_backward", {{{2, 3, 2, 3}}}, sized});
  sized = padded;
  sized["size"] = Numbers{5, 3};
  cases.push_back({"avg_pool_backward", {{{2, 2, 3, 4}}}, sized});
  return cases;
}

std::vector<OpCase> choice_cases() {
  const auto k = [](std::int64_t n) { return Attributes{{"k", n}}; };
  const auto size = [](std::int64_t n) { return Attributes{{"size", n}}; };
  const auto rows = [](std::int64_t n) { return Attributes{{"rows", n}}; };
  return {
      {"top_k", {{{3, 5}}}},
      {"top_k", {{{2, 3, 7}}}, k(3)},
      {"top_k", {{{4}}}, k(4)},
      {"top_k", {{{0, 3}}}, k(1)},
      {"top_k_backward", {{{3, 2}}, whole({3, 2}, 0, 4)}, size(5)},
      {"top_k_backward", {{{2, 3, 1}}, whole({2, 3, 1}, 0, 6)}, size(7)},
      {"gather_rows", {{{2, 5, 3}}, whole({2, 3}, 0, 4)}},
      {"gather_rows", {{{3, 1, 2}}, whole({3, 4}, 0, 0)}},
      {"gather_rows", {{{2, 5, 3}}, whole({2, 0}, 0, 4)}},
      {"scatter_rows", {{{2, 3, 4}}, whole({2, 3}, 0, 4)}, rows(5)},
      {"scatter_rows", {{{2, 4, 1}}, whole({2, 4}, 0, 0)}, rows(1)},
      {"scatter_rows", {{{2, 0, 3}}, whole({2, 0}, 0, 4)}, rows(5)},
  };
}

std::vector<OpCase> expert_cases() {
  const Attributes three{{"experts", std::int64_t{3}}};
  const auto room = [](std::int64_t experts, std::int64_t capacity) {
    return Attributes{{"experts", experts}, {"capacity", capacity}};
  };
  return {
      {"expert_slots", {whole({3, 7, 2}, 0, 2)}, room(3, 3)},
      {"expert_slots", {whole({1, 5, 1}, 0, 0)}, room(1, 5)},
      {"expert_slots", {whole({2, 0, 2}, 0, 2)}, room(3, 2)},
      {"expert_slots", {whole({0, 4, 2}, 0, 2)}, room(3, 2)},
      {"expert_load", {whole({3, 7, 2}, 0, 2)}, three},
      {"expert_load", {whole({1, 5, 1}, 0, 2)}, three},
      {"expert_load", {whole({0, 7, 2}, 0, 2)}, three},
      {"expert_dispatch", {{{2, 5, 4}}, whole({2, 5, 2}, -1, 8)}, room(3, 3)},
      {"expert_dispatch", {{{3, 7, 5}}, whole({3, 7, 3}, -1, 9)}, room(5, 2)},
      {"expert_dispatch", {{{1, 4, 3}}, whole({1, 4, 1}, -1, -1)}, room(2, 0)},
      {"expert_dispatch", {{{2, 0, 4}}, whole({2, 0, 2}, -1, 8)}, room(3, 3)},
      {"expert_dispatch", {{{0, 5, 4}}, whole({0, 5, 2}, -1, 8)}, room(3, 3)},
      {"expert_combine", {{{3, 2, 3, 4}}, whole({2, 5, 2}, -1, 8), {{2, 5, 2}}}},
      {"expert_combine", {{{5, 3, 2, 5}}, whole({3, 7, 3}, -1, 9), {{3, 7, 3}}}},
      {"expert_combine", {{{1, 1, 2, 1}}, whole({1, 3, 1}, -1, 1), {{1, 3, 1}}}},
      {"expert_combine", {{{3, 2, 3, 4}}, whole({2, 0, 2}, -1, 8), {{2, 0, 2}}}},
      {"expert_combine", {{{3, 0, 3, 4}}, whole({0, 5, 2}, -1, 8), {{0, 5, 2}}}},
      {"expert_combine_backward",
       {{{2, 5, 4}}, {{3, 2, 3, 4}}, whole({2, 5, 2}, -1, 8), {{2, 5, 2}}}},
      {"expert_combine_backward",
       {{{3, 7, 5}}, {{5, 3, 2, 5}}, whole({3, 7, 3}, -1, 9), {{3, 7, 3}}}},
      {"expert_combine_backward",
       {{{1, 3, 1}}, {{1, 1, 2, 1}}, whole({1, 3, 1}, -1, 1), {{1, 3, 1}}}},
      {"expert_combine_backward",
       {{{2, 0, 4}}, {{3, 2, 3, 4}}, whole({2, 0, 2}, -1, 8), {{2, 0, 2}}}},
      {"expert_combine_backward",
       {{{0, 5, 4}}, {{3, 0, 3, 4}}, whole({0, 5, 2}, -1, 8), {{0, 5, 2}}}},
  };
}

std::vector<OpCase> finite_cases() {
  return {
      {"select", {{{}, 1, 2}, {{3, 4}}, {{3, 4}}}},
      {"select", {{{}, 0, 0}, {{5}}, {{5}}}},
      {"select", {{{}, 1, 2}, {{0, 3}}, {{0, 3}}}},
  };
}

}  // namespace

std::vector<OpCase> structure_cases() {
  std::vector<OpCase> cases;
  for (const auto& more : {shape_cases(), convolution_cases(), pool_cases(), choice_cases(),
                           expert_cases(), finite_cases()}) {
    cases.insert(cases.end(), more.begin(), more.end());
  }
  return cases;
}

}  // namespace trireme::testing
