// Properties of a transformer's small ops beyond those of every op.
#include <cmath>

#include <gtest/gtest.h>

#include "expect_error.h"
#include "graph/one_node.h"
#include "trireme/error.h"

namespace trireme::testing {
namespace {

Given ids(const Shape& shape, std::vector<double> numbers) {
  return {dense(shape, std::move(numbers)), DType::I32};
}

/// The message of the error that running the op throws.
std::string run_error(const std::string& op, const std::vector<Given>& inputs,
                      const Attributes& attributes = {}) {
  return error_message(ErrorKind::Usage, [&] { (void)run_op(op, inputs, attributes); });
}

TEST(Embedding, GathersRowsAndAccumulatesTheirGradients) {
  const Dense table = dense({3, 2}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(run_op("embedding", {{table}, ids({3}, {2, 0, 2})}).front().data,
            (std::vector<double>{5, 6, 1, 2, 5, 6}));
  const Dense dy = dense({3, 2}, {1, 2, 10, 20, 100, 200});
  EXPECT_EQ(run_op("embedding_backward", {{dy}, ids({3}, {2, 0, 2})}, {{"rows", std::int64_t{3}}})
                .front()
                .data,
            (std::vector<double>{10, 20, 0, 0, 101, 202}));
}

TEST(Embedding, ReportsOutOfRangeId) {
  EXPECT_EQ(
      run_error("embedding", {{scattered({3, 2})}, ids({2}, {0, 7})}),
      "embedding(table: f64[3,2], ids: i32[2]): the id 7 is not a row of the table, which has "
      "V = 3");
  (void)run_error("embedding_backward", {{scattered({1, 2})}, ids({1}, {-1})},
                  {{"rows", std::int64_t{3}}});
}

// q . k after rope depends only on the distance of their positions, and rope preserves lengths.
TEST(Rope, ProductsDependOnlyOnDistance) {
  const Dense q = scattered({1, 1, 1, 6}, 1);
  const Dense k = scattered({1, 1, 1, 6}, 2);
  const auto at = [](const Dense& x, std::int64_t position) {
    return run_op("rope", {{x}}, {{"start", position}}).front();
  };
  const auto product = [](const Dense& a, const Dense& b) {
    double sum = 0;
    for (std::size_t i = 0; i < a.data.size(); ++i) {
      sum += a.data[i] * b.data[i];
    }
    return sum;
  };
  EXPECT_NEAR(product(at(q, 9), at(k, 4)), product(at(q, 105), at(k, 100)), kClose);
  EXPECT_GT(std::abs(product(at(q, 9), at(k, 4)) - product(at(q, 9), at(k, 5))), 1e-3);
  EXPECT_NEAR(product(at(q, 77), at(q, 77)), product(q, q), kClose);
}

// D = 4, base 100: position 1 rotates pair (0,2) by 1 and pair (1,3) by 1/10.
TEST(Rope, RotatesHalvesAgainstEachOther) {
  const Dense y =
      run_op("rope", {{dense({1, 2, 1, 4}, {1, 2, 3, 4, 1, 0, 0, 1})}}, {{"base", 100.0}}).front();
  const std::vector<double> expected{
      1, 2, 3, 4, std::cos(1.0), -std::sin(0.1), std::sin(1.0), std::cos(0.1)};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(y.data[i], expected[i], kClose) << i;
  }
}

// The purpose of Op::part: the second half alone equals the whole's second half only with start
// shifted.
TEST(Rope, SequencePartsNeedTheirOffset) {
  const Dense x = scattered({1, 6, 2, 4});
  Dense second({1, 3, 2, 4});
  std::copy(x.data.begin() + 24, x.data.end(), second.data.begin());
  const Dense whole = run_op("rope", {{x}}).front();
  const std::vector<double> expected(whole.data.begin() + 24, whole.data.end());
  EXPECT_EQ(run_op("rope", {{second}}, {{"start", std::int64_t{3}}}).front().data, expected);
  EXPECT_NE(run_op("rope", {{second}}).front().data, expected);
}

TEST(Rope, InverseUndoesRotation) {
  const Dense x = scattered({2, 5, 2, 4});
  const Dense back =
      run_op("rope", {{run_op("rope", {{x}}).front()}}, {{"inverse", std::int64_t{1}}}).front();
  for (std::size_t i = 0; i < x.data.size(); ++i) {
    EXPECT_NEAR(back.data[i], x.data[i], kClose);
  }
}

TEST(RmsNorm, NormalizesRowsToUnitMeanSquare) {
  const auto results =
      run_op("rms_norm", {{dense({1, 2}, {3, 4})}, {dense({2}, {1, 10})}}, {{"epsilon", 0.0}});
  const double rstd = 1 / std::sqrt(12.5);
  EXPECT_NEAR(results[0].data[0], 3 * rstd, kClose);
  EXPECT_NEAR(results[0].data[1], 40 * rstd, kClose);
  EXPECT_NEAR(results[1].data[0], rstd, kClose);
}

TEST(Softmax, IsStableAndSumsToOne) {
  const Dense y = run_op("softmax", {{dense({2, 2}, {1000, 1000, -1e4, 1e4})}}).front();
  EXPECT_EQ(y.data, (std::vector<double>{0.5, 0.5, 0, 1}));
}

/// The maximum of each row, and the results of cross_entropy_sums with it.
struct Sums {
  Dense top, sum, picked;
};
Sums sums_of(const Dense& logits, const Given& targets) {
  const Dense top =
      run_op("reduce_max", {{logits}}, {{"axes", std::vector<std::int64_t>{-1}}}).front();
  const auto sums = run_op("cross_entropy_sums", {{logits}, targets, {top}});
  return {top, sums[0], sums[1]};
}

TEST(CrossEntropy, MatchesLogSoftmax) {
  const Dense logits = scattered({7, 5});
  const std::vector<double> targets{0, 4, 2, -1, 1, 3, -1};
  const Sums sums = sums_of(logits, ids({7}, targets));
  const Dense losses =
      run_op("cross_entropy", {{sums.sum}, {sums.picked}, {sums.top}, ids({7}, targets)}).front();
  const Dense shares = run_op("softmax", {{logits}}).front();
  for (std::size_t r = 0; r < targets.size(); ++r) {
    const double expected =
        targets[r] < 0 ? 0 : -std::log(shares.data[5 * r + static_cast<std::size_t>(targets[r])]);
    EXPECT_NEAR(losses.data[r], expected, kClose) << r;
  }
}

TEST(CrossEntropy, BackwardIsSoftmaxMinusTarget) {
  const Dense logits = scattered({3, 4});
  const Given targets = ids({3}, {1, -1, 3});
  const Sums sums = sums_of(logits, targets);
  const auto of_sums =
      run_op("cross_entropy_backward", {{dense({3}, {2, 2, 1})}, {sums.sum}, targets});
  const Dense dlogits = run_op("cross_entropy_sums_backward",
                               {{of_sums[0]}, {of_sums[1]}, {logits}, targets, {sums.top}})
                            .front();
  const Dense shares = run_op("softmax", {{logits}}).front();
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(dlogits.data[i], 2 * (shares.data[i] - (i == 1 ? 1 : 0)), kClose);
    EXPECT_EQ(dlogits.data[4 + i], 0);
    EXPECT_NEAR(dlogits.data[8 + i], shares.data[8 + i] - (i == 3 ? 1 : 0), kClose);
  }
}

TEST(CrossEntropy, ReportsOutOfRangeTarget) {
  EXPECT_EQ(run_error("cross_entropy_sums", {{scattered({1, 3})}, ids({1}, {3}), {scattered({1})}}),
            "cross_entropy_sums(logits: f64[1,3], targets: i32[1], top: f64[1]): the target 3 is "
            "neither -1 nor below V = 3");
}

TEST(CrossEntropy, KeepsLossesInF32) {
  GraphBuilder builder("one");
  const ValueId logits = builder.input("x", {DType::BF16, {2, 3}});
  const ValueId top = builder.input("m", {DType::BF16, {2}});
  const ValueId targets = builder.input("t", {DType::I64, {2}});
  const std::vector<ValueId> sums = builder.add("cross_entropy_sums", {logits, targets, top});
  EXPECT_EQ(to_text(builder.type(sums[0])), "f32[2]");
  EXPECT_EQ(to_text(builder.type(sums[1])), "f32[2]");
  const ValueId loss = builder.add1("cross_entropy", {sums[0], sums[1], top, targets});
  EXPECT_EQ(to_text(builder.type(loss)), "f32[2]");
}

std::vector<double> cast_to(const char* type, std::vector<double> numbers) {
  const auto count = static_cast<std::int64_t>(numbers.size());
  return run_op("cast", {{dense({count}, std::move(numbers))}}, {{"to", std::string(type)}})
      .front()
      .data;
}

TEST(Cast, RoundsToTargetType) {
  EXPECT_EQ(cast_to("bf16", {1, 1.001, 257}), (std::vector<double>{1, 1, 256}));
  EXPECT_EQ(cast_to("f16", {1.0 / 3}), (std::vector<double>{0.333251953125}));
  EXPECT_EQ(cast_to("i32", {1.7, -1.7, 2.5}), (std::vector<double>{1, -1, 2}));
}

}  // namespace
}  // namespace trireme::testing
