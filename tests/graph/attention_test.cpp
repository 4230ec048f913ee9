// Properties of attention beyond those of every op: its mask, its shared heads, how it shards, and its work counts.
#include <cmath>
#include <limits>
#include <numeric>

#include <gtest/gtest.h>

#include "graph/one_node.h"
#include "trireme/error.h"
#include "trireme/op.h"

namespace trireme::testing {
namespace {

void expect_near(const Dense& a, const Dense& b) {
  ASSERT_EQ(a.shape, b.shape);
  for (std::size_t i = 0; i < a.data.size(); ++i) {
    ASSERT_NEAR(a.data[i], b.data[i], kClose) << "at " << i;
  }
}

/// Indices of one dimension, in the given order: heads {1,3} of [B,T,4,D].
Dense pick(const Dense& from, int axis, const std::vector<std::int64_t>& indices) {
  std::vector<std::int64_t> dims = from.shape.dims();
  dims[axis] = static_cast<std::int64_t>(indices.size());
  Dense to{Shape(dims)};
  const std::int64_t inner = from.shape.strides()[axis];
  const std::int64_t size = from.shape.dim(axis);
  for (std::size_t i = 0; i < to.data.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    const std::int64_t outer = at / inner / static_cast<std::int64_t>(indices.size());
    const std::int64_t index = indices[static_cast<std::size_t>(at / inner) % indices.size()];
    to.data[i] = from.data[(outer * size + index) * inner + at % inner];
  }
  return to;
}

Dense sum(Dense a, const Dense& b) {
  for (std::size_t i = 0; i < a.data.size(); ++i) {
    a.data[i] += b.data[i];
  }
  return a;
}

TEST(Attention, SingleKeyReturnsItsValue) {
  const Dense q = scattered({1, 1, 2, 3});
  const Dense v = scattered({1, 1, 2, 3}, 1);
  const auto results = run_op("attention", {{q}, {scattered({1, 1, 2, 3}, 2)}, {v}});
  expect_near(results[0], v);
}

// D = 1, q = 1, scale 1: weights 1/4 and 3/4 for keys 0 and ln 3.
TEST(Attention, WeightsValuesBySoftmaxOfScores) {
  const Dense k = dense({1, 2, 1, 1}, {0, std::log(3.0)});
  const auto results =
      run_op("attention", {{dense({1, 1, 1, 1}, {1})}, {k}, {dense({1, 2, 1, 1}, {4, 8})}},
             {{"scale", 1.0}});
  EXPECT_NEAR(results[0].data[0], 7, kClose);
  EXPECT_NEAR(results[1].data[0], std::log(4.0), kClose);
}

// Query t sees keys s <= t + (S - T): a masked key has no influence, any other has.
TEST(Attention, CausalMaskAlignsWithLastKey) {
  for (const auto& [t_size, s_size] :
       {std::pair<std::int64_t, std::int64_t>{4, 4}, {2, 5}, {1, 3}, {5, 2}}) {
    const Dense q = scattered({1, t_size, 1, 2});
    const Dense k = scattered({1, s_size, 1, 2}, 1);
    const Dense v = scattered({1, s_size, 1, 2}, 2);
    const Dense before = run_op("attention", {{q}, {k}, {v}}).front();
    for (std::int64_t s = 0; s < s_size; ++s) {
      Dense moved = v;
      moved.data[2 * s] += 1;
      const Dense after = run_op("attention", {{q}, {k}, {moved}}).front();
      for (std::int64_t t = 0; t < t_size; ++t) {
        const auto at = static_cast<std::size_t>(2 * t);
        EXPECT_EQ(after.data[at] != before.data[at], s <= t + s_size - t_size)
            << "T=" << t_size << " S=" << s_size << " t=" << t << " s=" << s;
      }
    }
  }
}

TEST(Attention, QueryWithoutVisibleKeysIsZero) {
  const Dense q = scattered({1, 3, 1, 2});
  const Dense k = scattered({1, 1, 1, 2}, 1);
  const auto results = run_op("attention", {{q}, {k}, {k}});
  EXPECT_EQ(results[0].data[0], 0);
  EXPECT_EQ(results[0].data[3], 0);
  EXPECT_EQ(results[1].data[0], -std::numeric_limits<double>::infinity());
  const auto gradients =
      run_op("attention_backward", {{q}, {q}, {k}, {k}, {results[0]}, {results[1]}});
  for (const Dense& gradient : gradients) {
    for (const double element : gradient.data) {
      EXPECT_TRUE(std::isfinite(element));
    }
  }
}

TEST(Attention, SharedHeadsMatchRepeatedHeads) {
  const std::vector<std::int64_t> repeat{0, 0, 0, 1, 1, 1};
  const Dense q = scattered({2, 4, 6, 3});
  const Dense k = scattered({2, 5, 2, 3}, 1);
  const Dense v = scattered({2, 5, 2, 3}, 2);
  const auto shared = run_op("attention", {{q}, {k}, {v}});
  const auto repeated = run_op("attention", {{q}, {pick(k, 2, repeat)}, {pick(v, 2, repeat)}});
  expect_near(shared[0], repeated[0]);
  expect_near(shared[1], repeated[1]);
}

/// The inputs of attention_backward for the forward's, with any dy.
std::vector<Given> backward_inputs(const Dense& q, const Dense& k, const Dense& v) {
  const auto forward = run_op("attention", {{q}, {k}, {v}});
  return {{scattered(q.shape, 9)}, {q}, {k}, {v}, {forward[0]}, {forward[1]}};
}

/// The same with some heads of q, and of k and v.
std::vector<Given> with_heads(const std::vector<Given>& all, const std::vector<std::int64_t>& of_q,
                              const std::vector<std::int64_t>& of_k) {
  return {{pick(all[0].value, 2, of_q)}, {pick(all[1].value, 2, of_q)},
          {pick(all[2].value, 2, of_k)}, {pick(all[3].value, 2, of_k)},
          {pick(all[4].value, 2, of_q)}, {pick(all[5].value, 1, of_q)}};
}

// Heads sharded over devices. H = 4 runs over [G,r] = [2,2]; sharding G gives the heads {0,1} with key head 0 to one
// device, {2,3} with key head 1 to the other.
TEST(Attention, SplitsByGroups) {
  const std::vector<Given> all = backward_inputs(
      scattered({2, 3, 4, 2}), scattered({2, 3, 2, 2}, 1), scattered({2, 3, 2, 2}, 2));
  const auto whole = run_op("attention_backward", all);
  for (const std::int64_t group : {0, 1}) {
    const std::vector<std::int64_t> heads{2 * group, 2 * group + 1};
    const auto part = run_op("attention_backward", with_heads(all, heads, {group}));
    expect_near(part[0], pick(whole[0], 2, heads));
    expect_near(part[1], pick(whole[1], 2, {group}));
    expect_near(part[2], pick(whole[2], 2, {group}));
    const auto forward = run_op("attention", {{pick(all[1].value, 2, heads)},
                                              {pick(all[2].value, 2, {group})},
                                              {pick(all[3].value, 2, {group})}});
    expect_near(forward[0], pick(all[4].value, 2, heads));
    expect_near(forward[1], pick(all[5].value, 1, heads));
  }
}

// Sharding r gives each device one head of every group and all keys; dk and dv are then partial sums, because r appears
// in neither.
TEST(Attention, SplitsWithinGroups) {
  const std::vector<Given> all = backward_inputs(
      scattered({2, 3, 4, 2}), scattered({2, 3, 2, 2}, 1), scattered({2, 3, 2, 2}, 2));
  const auto whole = run_op("attention_backward", all);
  const auto even = run_op("attention_backward", with_heads(all, {0, 2}, {0, 1}));
  const auto odd = run_op("attention_backward", with_heads(all, {1, 3}, {0, 1}));
  expect_near(even[0], pick(whole[0], 2, {0, 2}));
  expect_near(odd[0], pick(whole[0], 2, {1, 3}));
  expect_near(sum(even[1], odd[1]), whole[1]);
  expect_near(sum(even[2], odd[2]), whole[2]);
}

/// Attention to the keys of one block, of `length` starting at `begin`.
std::vector<Dense> block_of_keys(const std::vector<Given>& qkv, std::int64_t begin,
                                 std::int64_t length) {
  std::vector<std::int64_t> keys(length);
  std::iota(keys.begin(), keys.end(), begin);
  const std::int64_t start = qkv[1].value.shape.dim(1) - qkv[0].value.shape.dim(1) - begin;
  return run_op("attention", {qkv[0], {pick(qkv[1].value, 1, keys)}, {pick(qkv[2].value, 1, keys)}},
                {{"start", std::vector<std::int64_t>{start}}});
}

// Queries that see no key of a block take nothing from it, whichever comes first.
TEST(Attention, MergedKeyBlocksMatchFullAttention) {
  const std::vector<Given> qkv{
      {scattered({2, 5, 4, 3})}, {scattered({2, 7, 2, 3}, 1)}, {scattered({2, 7, 2, 3}, 2)}};
  const auto whole = run_op("attention", qkv);
  for (const std::int64_t cut : {0, 1, 3, 6, 7}) {
    const auto first = block_of_keys(qkv, 0, cut);
    const auto second = block_of_keys(qkv, cut, 7 - cut);
    for (const bool turned : {false, true}) {
      const auto& a = turned ? second : first;
      const auto& b = turned ? first : second;
      const auto merged = run_op("attention_merge", {{a[0]}, {a[1]}, {b[0]}, {b[1]}});
      expect_near(merged[0], whole[0]);
      expect_near(merged[1], whole[1]);
    }
  }
}

TEST(Attention, MergingEmptyWithEmptyIsEmpty) {
  const double nothing = -std::numeric_limits<double>::infinity();
  const Dense y{Shape{1, 1, 1, 2}};
  const auto merged = run_op(
      "attention_merge", {{y}, {dense({1, 1, 1}, {nothing})}, {y}, {dense({1, 1, 1}, {nothing})}});
  EXPECT_EQ(merged[0].data, y.data);
  EXPECT_EQ(merged[1].data[0], nothing);
}

struct Counts {
  std::int64_t t, s;
  std::int64_t causal = 1;
};

Work work_for(const Counts& n) {
  GraphBuilder builder("one");
  const ValueId q = builder.input("q", {DType::BF16, {2, n.t, 4, 8}});
  const ValueId k = builder.input("k", {DType::BF16, {2, n.s, 2, 8}});
  (void)builder.add("attention", {q, k, k}, {{"causal", n.causal}});
  const Graph graph = builder.finish();
  return work_of(graph, graph.nodes().front());
}

/// Masked pairs, counted one by one.
double hidden_share(const Counts& n) {
  double hidden = 0;
  for (std::int64_t t = 0; t < n.t; ++t) {
    for (std::int64_t s = 0; s < n.s; ++s) {
      hidden += s > t + n.s - n.t ? 1 : 0;
    }
  }
  return hidden / static_cast<double>(n.t * n.s);
}

// 4 s h for each token and layer, h = heads x head size; a causal mask saves half of it.
TEST(Attention, DeductsMaskedWork) {
  EXPECT_EQ(work_for({16, 16}).products, 4.0 * 2 * 16 * 16 * (4 * 8));
  EXPECT_DOUBLE_EQ(work_for({16, 16}).causal, 15.0 / 32);
  EXPECT_EQ(work_for({16, 16, 0}).causal, 0);
  EXPECT_EQ(work_for({0, 16}).causal, 0);
  for (const Counts n : {Counts{5, 5}, {3, 7}, {7, 3}, {1, 9}, {9, 1}}) {
    EXPECT_DOUBLE_EQ(work_for(n).causal, hidden_share(n)) << n.t << " x " << n.s;
  }
}

TEST(Attention, AccumulatesInF32) {
  GraphBuilder builder("one");
  const ValueId q = builder.input("q", {DType::BF16, {2, 3, 4, 8}});
  EXPECT_EQ(to_text(builder.type(builder.add("attention", {q, q, q})[1])), "f32[2,4,3]");
}

TEST(Attention, RejectsIndivisibleHeads) {
  const Dense q = scattered({1, 2, 4, 2});
  const Dense k = scattered({1, 2, 3, 2});
  EXPECT_THROW((void)run_op("attention", {{q}, {k}, {k}}), Error);
}

}  // namespace
}  // namespace trireme::testing
