// The loss of two matrix products with a function in between, trained with plain gradient descent.
#pragma once

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "on_ranks.h"
#include "trireme/training.h"

namespace trireme {

struct TwoLayers {
  Graph graph{};
  Numbers first{};
  Batches batches{};
};

inline std::vector<double> normal_numbers(std::size_t count, std::mt19937_64& random) {
  std::normal_distribution<double> normal(0, 0.5);
  std::vector<double> numbers(count);
  std::ranges::generate(numbers, [&] { return normal(random); });
  return numbers;
}

/// x[6,5] w1[5,4], relu, w2[4,3], and the squared error. Ops: einsum, relu, einsum.1, subtract, square, loss.
inline TwoLayers two_layers() {
  constexpr int kSteps = 5;
  GraphBuilder b("two_layers");
  const ValueId x = b.input("x", {DType::F64, {6, 5}});
  const ValueId y = b.input("y", {DType::F64, {6, 3}});
  const ValueId w1 = b.parameter("w1", {DType::F64, {5, 4}});
  const ValueId w2 = b.parameter("w2", {DType::F64, {4, 3}});
  const Attributes equation{{"equation", std::string("bi,ij->bj")}};
  const ValueId h = b.add1("einsum", {x, w1}, equation);
  const ValueId z = b.add1("einsum", {b.add1("relu", {h}), w2}, equation);
  const ValueId square = b.add1("square", {b.add1("subtract", {z, y})});
  const ValueId loss = b.add1("reduce_sum", {square}, {{"axes", std::vector<std::int64_t>{0, 1}}});
  b.rename(loss, "loss");
  b.output("loss", loss);
  TwoLayers made;
  made.graph = make_training_graph(b.finish(), {.optimizer = Sgd{}});
  std::mt19937_64 random(3);
  made.first = {{"w1", normal_numbers(20, random)}, {"w2", normal_numbers(12, random)}};
  for (int step = 0; step < kSteps; ++step) {
    made.batches.push_back({{"x", normal_numbers(30, random)},
                            {"y", normal_numbers(18, random)},
                            {"learning_rate", {0.05}},
                            {"step", {step + 1.0}}});
  }
  return made;
}

}  // namespace trireme
