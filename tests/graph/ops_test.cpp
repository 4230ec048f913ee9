// The invariants of every op's row, over the table of cases.
#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "graph/op_cases.h"

namespace trireme::testing {
namespace {

constexpr double kTolerance = 1e-9;

Signature signature_in(const Graph& graph) {
  return signature_of(graph, graph.nodes().front());
}

void expect_close(const Dense& a, const Dense& b, const std::string& what) {
  ASSERT_EQ(a.shape, b.shape) << what;
  for (std::size_t i = 0; i < a.data.size(); ++i) {
    ASSERT_NEAR(a.data[i], b.data[i], kTolerance * (1 + std::abs(b.data[i])))
        << what << " at " << i;
  }
}

/// The slice of a tensor with the given range of the dimensions that run over this factor.
Dense slice(const Dense& whole, const Factors::Dims& dims, std::int32_t factor, std::int64_t begin,
            std::int64_t length) {
  std::vector<std::int64_t> shape = whole.shape.dims();
  std::vector<bool> cut(shape.size(), false);
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] == std::vector{factor}) {
      cut[d] = true;
      shape[d] = length;
    }
  }
  Dense part{Shape(shape)};
  const std::vector<std::int64_t> strides = whole.shape.strides();
  for (std::size_t i = 0; i < part.data.size(); ++i) {
    auto rest = static_cast<std::int64_t>(i);
    std::int64_t from = 0;
    for (std::size_t d = shape.size(); d-- > 0;) {
      from += (rest % shape[d] + (cut[d] ? begin : 0)) * strides[d];
      rest /= shape[d];
    }
    part.data[i] = whole.data[from];
  }
  return part;
}

bool stands_in(const Factors::Dims& dims, std::int32_t factor) {
  return std::ranges::any_of(
      dims, [&](const auto& dim) { return std::ranges::find(dim, factor) != dim.end(); });
}

TEST(Ops, EveryOpHasTestCase) {
  std::set<std::string, std::less<>> covered;
  for (const OpCase& c : op_cases()) {
    covered.insert(c.op);
  }
  for (const Op* op : all_ops()) {
    EXPECT_TRUE(op->communicates || covered.contains(op->name))
        << op->name << " has no case in tests/graph/op_cases_*";
  }
}

TEST(Ops, HaveShortSummaries) {
  for (const Op* op : all_ops()) {
    EXPECT_FALSE(op->summary.empty()) << op->name;
    EXPECT_LE(op->summary.size(), 80U) << op->name;
  }
}

TEST(Ops, TextRoundTrips) {
  for (const OpCase& c : op_cases()) {
    const Graph graph = graph_of(c, DType::F32);
    EXPECT_EQ(parse_graph(to_text(graph)), graph) << describe(c);
  }
}

TEST(Ops, ReferencesReturnFiniteNumbers) {
  for (const OpCase& c : op_cases()) {
    const Graph graph = graph_of(c, DType::F64);
    for (const Dense& result : evaluate(signature_in(graph), draw_inputs(c))) {
      for (const double element : result.data) {
        ASSERT_TRUE(std::isfinite(element)) << describe(c);
      }
    }
  }
}

TEST(Ops, WorkIsCounted) {
  for (const OpCase& c : op_cases()) {
    const Graph graph = graph_of(c, DType::F32);
    const Work work = work_of(graph, graph.nodes().front());
    EXPECT_GE(work.bytes, 0) << describe(c);
    EXPECT_GE(work.products + work.others, 0) << describe(c);
    EXPECT_LE(work.causal, 1) << describe(c);
  }
}

TEST(Ops, FactorsMatchDimensionSizes) {
  for (const OpCase& c : op_cases()) {
    const Graph graph = graph_of(c, DType::F64);
    const Signature s = signature_in(graph);
    const Factors factors = s.op->factors(s);
    const std::vector<TensorType> results = s.op->infer(s);
    ASSERT_EQ(factors.inputs.size(), s.inputs.size()) << describe(c);
    ASSERT_EQ(factors.outputs.size(), results.size()) << describe(c);
    const auto check = [&](const Factors::Dims& dims, const Shape& shape) {
      ASSERT_EQ(static_cast<int>(dims.size()), shape.rank()) << describe(c);
      for (int d = 0; d < shape.rank(); ++d) {
        std::int64_t size = 1;
        for (const std::int32_t factor : dims[d]) {
          size *= factors.factors.at(factor).size;
        }
        EXPECT_EQ(size, shape.dim(d)) << describe(c);
      }
    };
    for (std::size_t k = 0; k < s.inputs.size(); ++k) {
      check(factors.inputs[k], s.shape(k));
    }
    for (std::size_t k = 0; k < results.size(); ++k) {
      check(factors.outputs[k], results[k].shape);
    }
  }
}

double put_together(Factor::Split split, double a, double b) {
  switch (split) {
    case Factor::Split::Maximum:
      return std::max(a, b);
    default:
      return a + b;
  }
}

/// The merged results without the factor, of two parts taken in turn.
std::vector<Dense> merge(const Signature& s, const Factors& factors, std::int32_t factor,
                         const std::vector<std::vector<Dense>>& parts) {
  Signature merging{.op = &op_named(s.op->merge), .inputs = {}, .attributes = nullptr};
  const Attributes none;
  merging.attributes = &none;
  const std::vector<TensorType> types = s.op->infer(s);
  std::vector<Dense> inputs;
  for (const std::vector<Dense>& part : parts) {
    for (std::size_t k = 0; k < part.size(); ++k) {
      if (!stands_in(factors.outputs[k], factor)) {
        merging.inputs.push_back(types[k]);
        inputs.push_back(part[k]);
      }
    }
  }
  return evaluate(merging, inputs);
}

/// Splits one factor in two, computes the op on both parts, and combines the results as the factors specify:
/// concatenated where the factor appears; added (or the larger, or the smaller), or by the merging op, where it does
/// not.
void check_split(const OpCase& c, const Graph& graph, std::int32_t factor) {
  const Signature whole = signature_in(graph);
  const Factors factors = whole.op->factors(whole);
  const Factor& row = factors.factors[factor];
  const std::vector<Dense> inputs = draw_inputs(c);
  const std::vector<Dense> expected = evaluate(whole, inputs);
  const std::int64_t cut = row.size / 2;
  std::vector<std::vector<Dense>> parts;
  for (const auto& [begin, length] : {std::pair{std::int64_t{0}, cut}, {cut, row.size - cut}}) {
    std::vector<IndexRange> ranges;
    for (const Factor& each : factors.factors) {
      ranges.push_back({0, each.size});
    }
    ranges[factor] = {begin, length};
    Signature part = whole;
    Attributes attributes = *whole.attributes;
    if (whole.op->part != nullptr) {
      attributes = whole.op->part(whole, ranges);
      part.attributes = &attributes;
    }
    std::vector<Dense> mine;
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      mine.push_back(slice(inputs[k], factors.inputs[k], factor, begin, length));
      part.inputs[k].shape = mine.back().shape;
    }
    parts.push_back(evaluate(part, mine));
  }
  std::vector<Dense> merged;
  if (row.split == Factor::Split::InTurn) {
    merged = merge(whole, factors, factor, parts);
  }
  std::size_t next = 0;
  for (std::size_t k = 0; k < expected.size(); ++k) {
    const std::string what = fmt::format("{}factor {}, result {}", describe(c), factor, k);
    if (stands_in(factors.outputs[k], factor)) {
      expect_close(parts[0][k], slice(expected[k], factors.outputs[k], factor, 0, cut), what);
      expect_close(parts[1][k], slice(expected[k], factors.outputs[k], factor, cut, row.size - cut),
                   what);
      continue;
    }
    if (!merged.empty()) {
      expect_close(merged[next++], expected[k], what);
      continue;
    }
    Dense together = parts[0][k];
    for (std::size_t i = 0; i < together.data.size(); ++i) {
      together.data[i] = put_together(row.split, together.data[i], parts[1][k].data[i]);
    }
    expect_close(together, expected[k], what);
  }
}

/// Not for dimensions that run over several factors: a part of an inner one is not contiguous.
bool can_be_tried(const Factors& factors, std::int32_t factor) {
  const auto alone = [&](const Factors::Dims& dims) {
    return std::ranges::all_of(dims, [&](const auto& dim) {
      return dim.size() <= 1 || std::ranges::find(dim, factor) == dim.end();
    });
  };
  return std::ranges::all_of(factors.inputs, alone) && std::ranges::all_of(factors.outputs, alone);
}

TEST(Ops, PartsOfSplitFactorMatchWhole) {
  int tried = 0;
  for (const OpCase& c : op_cases()) {
    const Graph graph = graph_of(c, DType::F64);
    const Signature s = signature_in(graph);
    const Factors factors = s.op->factors(s);
    for (std::size_t f = 0; f < factors.factors.size(); ++f) {
      const Factor& row = factors.factors[f];
      if (row.split != Factor::Split::Never && row.size >= 2 &&
          can_be_tried(factors, static_cast<std::int32_t>(f))) {
        check_split(c, graph, static_cast<std::int32_t>(f));
        ++tried;
      }
    }
  }
  EXPECT_GT(tried, 50);
}

/// Linear::Joint: op(x + y) = op(x) + op(y), all inputs together. Linear::Each: one input at a time.
TEST(Ops, LinearOpsAreLinear) {
  for (const OpCase& c : op_cases()) {
    const Graph graph = graph_of(c, DType::F64);
    const Signature s = signature_in(graph);
    if (s.op->linear == Linear::No) {
      continue;
    }
    const std::vector<Dense> x = draw_inputs(c, 1);
    const std::vector<Dense> y = draw_inputs(c, 2);
    const std::size_t turns = s.op->linear == Linear::Each ? x.size() : 1;
    for (std::size_t turn = 0; turn < turns; ++turn) {
      if (s.op->linear == Linear::Each && !is_float(s.inputs[turn].dtype)) {
        continue;  // integers are never partial
      }
      std::vector<Dense> other = x;
      std::vector<Dense> both = x;
      for (std::size_t k = 0; k < x.size(); ++k) {
        const bool real = is_float(s.inputs[k].dtype);
        if (real && (s.op->linear == Linear::Joint || k == turn)) {
          other[k] = y[k];
          for (std::size_t i = 0; i < both[k].data.size(); ++i) {
            both[k].data[i] += y[k].data[i];
          }
        }
      }
      const Dense a = evaluate(s, x).front();
      const Dense b = evaluate(s, other).front();
      Dense sum = a;
      for (std::size_t i = 0; i < sum.data.size(); ++i) {
        sum.data[i] += b.data[i];
      }
      expect_close(evaluate(s, both).front(), sum, describe(c));
    }
  }
}

}  // namespace
}  // namespace trireme::testing
