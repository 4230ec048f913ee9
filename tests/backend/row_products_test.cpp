// Row-invariant matrix products: equal to the others within rounding, and each row as if it were alone.
#include <algorithm>
#include <memory>
#include <random>
#include <tuple>

#include <gtest/gtest.h>

#include "trireme/cpu_device.h"
#include "trireme/execution.h"
#include "trireme/graph.h"
#include "trireme/program.h"

namespace trireme {
namespace {

/// y = a w^T or a w, for rows of a.
struct Product {
  std::int64_t rows = 1;
  std::int64_t summed = 1;
  std::int64_t columns = 1;
  bool transposed = false;
};

std::vector<float> drawn(std::int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> values(static_cast<std::size_t>(count));
  std::ranges::generate(values,
                        [&] { return std::uniform_real_distribution<float>(-1, 1)(random); });
  return values;
}

std::vector<float> multiply(const Product& p, const std::vector<float>& a,
                            const std::vector<float>& w, bool row_invariant) {
  GraphBuilder builder("product");
  const ValueId left = builder.input("a", {DType::F32, {p.rows, p.summed}});
  const ValueId right = builder.input(
      "w", {DType::F32, p.transposed ? Shape{p.columns, p.summed} : Shape{p.summed, p.columns}});
  builder.output(
      "y", builder.add1("einsum", {left, right},
                        {{"equation", std::string(p.transposed ? "rk,ck->rc" : "rk,kc->rc")}}));
  CpuOptions options;
  options.threads = 2;
  options.pinned = false;
  options.row_invariant = row_invariant;
  const std::unique_ptr<Device> device = make_cpu_device(options);
  Execution execution(make_program(builder.finish()), *device);
  execution.write("a", std::as_bytes(std::span(a)));
  execution.write("w", std::as_bytes(std::span(w)));
  execution.run();
  std::vector<float> y(static_cast<std::size_t>(p.rows * p.columns));
  execution.read("y", std::as_writable_bytes(std::span(y)));
  return y;
}

TEST(RowInvariantProduct, ComputesEachRowIndependently) {
  for (const bool transposed : {false, true}) {
    for (const auto& [rows, summed, columns] : {std::tuple(7, 37, 5), std::tuple(3, 1, 4),
                                                std::tuple(33, 130, 2500), std::tuple(2, 64, 1)}) {
      const Product p{rows, summed, columns, transposed};
      const std::vector<float> a = drawn(p.rows * p.summed, 1);
      const std::vector<float> w = drawn(p.summed * p.columns, 2);
      const std::vector<float> y = multiply(p, a, w, true);
      const std::vector<float> library = multiply(p, a, w, false);
      for (std::size_t i = 0; i < y.size(); ++i) {
        ASSERT_NEAR(y[i], library[i], 1e-4) << rows << " " << summed << " " << columns;
      }
      for (const std::int64_t row : {std::int64_t{0}, p.rows / 2, p.rows - 1}) {
        const std::vector<float> own(a.begin() + row * p.summed, a.begin() + (row + 1) * p.summed);
        const std::vector<float> alone =
            multiply({1, p.summed, p.columns, transposed}, own, w, true);
        EXPECT_TRUE(std::equal(alone.begin(), alone.end(), y.begin() + row * p.columns));
      }
    }
  }
}

}  // namespace
}  // namespace trireme
