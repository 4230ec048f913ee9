// Random small graphs under random plans, each compared with one device. A failing case is minimized, and its graph and
// plan are printed as the two files that reproduce it.
#include <cmath>
#include <optional>
#include <random>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "on_ranks.h"
#include "trireme/error.h"
#include "trireme/program_set.h"
#include "trireme/recompute.h"
#include "trireme/training.h"

namespace trireme {
namespace {

constexpr double kFuzzTolerance = 1e-9;
constexpr int kFuzzSteps = 2;

struct Size {
  int layers = 1;
  int batch = 2;
  int length = 2;
  int width = 2;
};

struct FuzzCase {
  std::uint64_t seed = 0;
  Size size{};
  Plan plan{};
};

using Random = std::mt19937_64;

/// The outcome if the schedule would deadlock.
const std::string kRefused = "refused";

int draw(Random& random, int least, int most) {
  return std::uniform_int_distribution<int>(least, most)(random);
}

/// A graph of a few layers over x[batch, length, width], and names that an axis may or may not shard.
class RandomGraph {
 public:
  RandomGraph(std::uint64_t seed, const Size& size) : random_(seed), size_(size), b_("fuzz") {}

  Graph run() {
    ValueId x = b_.input("x", {DType::F64, {size_.batch, size_.length, size_.width}});
    names_["x"] = {"batch", "sequence", "width"};
    x = b_.add1("tanh", {b_.add1("add", {x, parameter({size_.width}, {any_name()})})});
    for (int layer = 0; layer < size_.layers; ++layer) {
      b_.set_block(layer);
      x = add_layer(x);
    }
    b_.set_block(-1);
    const ValueId squares = b_.add1("square", {x});
    std::vector<std::int64_t> axes{0, 1, 2};
    const ValueId sum = b_.add1("reduce_sum", {squares}, {{"axes", axes}});
    b_.output("loss", b_.add1("scale", {sum}, {{"factor", 1.0 / (size_.batch * size_.length)}}));
    Graph forward = b_.finish();
    TrainingOptions options;
    options.clip_limit = 0.7;
    if (draw(random_, 0, 1) == 0) {
      options.optimizer = Momentum{};
    } else {
      AdamW adam;
      adam.epsilon = 0.01;  // otherwise a gradient that is 0 up to rounding makes a full-size step
      options.optimizer = adam;
    }
    return make_training_graph(std::move(forward), options);
  }

  [[nodiscard]] const DimNames& names() const { return names_; }

 private:
  std::string any_name() {
    static const std::vector<std::string> some{"hidden", "heads", "width", "width", "experts"};
    return some[static_cast<std::size_t>(draw(random_, 0, static_cast<int>(some.size()) - 1))];
  }
  ValueId parameter(const Shape& shape, std::vector<std::string> names) {
    const std::string name = fmt::format("p{}", count_++);
    if (!names.empty()) {
      names_[name] = std::move(names);
    }
    return b_.parameter(name, {DType::F64, shape});
  }
  ValueId einsum(const char* equation, ValueId a, ValueId b) {
    return b_.add1("einsum", {a, b}, {{"equation", std::string(equation)}});
  }

  ValueId add_layer(ValueId x) {
    const std::int64_t c = size_.width;
    switch (draw(random_, 0, 6)) {
      case 0: {  // two products and a residual
        const std::int64_t f = draw(random_, 1, 6);
        const std::string sharded = any_name();
        const ValueId h = einsum("btc,cf->btf", x, parameter({c, f}, {"width", sharded}));
        const ValueId y =
            einsum("btf,fc->btc", b_.add1("gelu", {h}),
                   parameter({f, c}, {draw(random_, 0, 3) == 0 ? any_name() : sharded, "width"}));
        return b_.add1("add", {x, y});
      }
      case 1:
        return b_.add("layer_norm", {x, parameter({c}, {any_name()}), parameter({c}, {})})[0];
      case 2:
        return b_.add1("tanh", {b_.add1("add", {x, parameter({c}, {any_name()})})});
      case 3: {  // heads
        const std::int64_t h = draw(random_, 1, 4);
        const std::int64_t d = draw(random_, 1, 3);
        const std::string sharded = draw(random_, 0, 4) == 0 ? "width" : "heads";
        const ValueId w = parameter({c, h, d}, {"width", sharded, "head"});
        const ValueId q = einsum("btc,chd->bthd", x, w);
        const ValueId k =
            einsum("btc,chd->bthd", x, parameter({c, h, d}, {"width", sharded, "head"}));
        const ValueId y = b_.add("attention", {q, k, k})[0];
        return b_.add1("add", {x, einsum("bthd,hdc->btc", y,
                                         parameter({h, d, c}, {sharded, "head", "width"}))});
      }
      case 4: {  // rows of all positions
        const std::vector<std::int64_t> flat{std::int64_t{size_.batch} * size_.length, c};
        const ValueId rows = b_.add1("reshape", {x}, {{"shape", flat}});
        const ValueId y = einsum("nc,ce->ne", rows, parameter({c, c}, {any_name(), any_name()}));
        return b_.add1("reshape", {y}, {{"shape", b_.shape(x).dims()}});
      }
      case 5: {  // one value per sequence, for all of its positions
        const ValueId sum = b_.add1("reduce_sum", {x}, {{"axes", std::vector<std::int64_t>{1}}});
        const ValueId gate = b_.add1(
            "sigmoid", {einsum("bc,ce->be", sum, parameter({c, c}, {"width", any_name()}))});
        const ValueId wide =
            b_.add1("broadcast", {gate},
                    {{"shape", b_.shape(x).dims()}, {"axes", std::vector<std::int64_t>{1}}});
        return b_.add1("multiply", {x, wide});
      }
      default:
        return b_.add1("multiply", {x, b_.add1("softmax", {x})});
    }
  }

  Random random_;
  Size size_;
  GraphBuilder b_;
  DimNames names_;
  int count_ = 0;
};

FuzzCase random_case(std::uint64_t seed) {
  Random random(seed);
  FuzzCase c;
  c.seed = seed;
  c.size = {.layers = draw(random, 1, 5),
            .batch = draw(random, 1, 6),
            .length = draw(random, 1, 5),
            .width = draw(random, 1, 6)};
  std::vector<MeshAxis> axes;
  int devices = 1;
  for (const char* axis : {"data", "context", "tensor", "expert", "pipe"}) {
    const int size = draw(random, 0, 2) == 0 ? draw(random, 2, 3) : 1;
    const bool possible = std::string_view(axis) != "pipe" || size <= c.size.layers;
    if (size > 1 && possible && devices * size <= 8) {
      axes.push_back({axis, size});
      devices *= size;
    }
  }
  std::ranges::shuffle(axes, random);
  c.plan.mesh = Mesh(axes);
  c.plan.microbatches = draw(random, 0, 2) == 0 ? draw(random, 1, std::min(4, c.size.batch)) : 1;
  c.plan.zero = draw(random, 0, 3);
  c.plan.sequence = c.size.layers > 0 && draw(random, 0, 4) == 0;
  const std::vector<std::string> schedules{"naive", "gpipe", "1f1b", "zb-h1", "chimera"};
  const bool in_pairs = c.plan.microbatches > 1 && c.plan.mesh.size("pipe") % 2 == 0;
  c.plan.schedule = schedules[static_cast<std::size_t>(draw(random, 0, in_pairs ? 4 : 3))];
  c.plan.context = draw(random, 0, 1) == 0 ? Plan::Context::Gather : Plan::Context::Ring;
  c.plan.recompute.mode = static_cast<RecomputeMode>(draw(random, 0, 2));
  return c;
}

/// A case in which half of the ops and values, of all phases, are assigned at random.
FuzzCase random_assignments(std::uint64_t seed) {
  FuzzCase c = random_case(seed);
  Random random(seed + 2);
  std::vector<MeshAxis> axes{{"pipe", draw(random, 2, 3)}};
  std::ranges::copy_if(c.plan.mesh.axes(), std::back_inserter(axes), [&](const MeshAxis& axis) {
    return axis.name != "pipe" && axes.size() < 2;
  });
  c.plan.mesh = Mesh(axes);
  c.plan.schedule = draw(random, 0, 2) == 0 ? "1f1b" : "gpipe";
  c.plan.microbatches = c.plan.schedule == "gpipe" ? c.plan.microbatches : 1;
  const Graph graph = recompute_by(RandomGraph(c.seed, c.size).run(), c.plan.recompute);
  std::set<ValueId> updated;
  for (const Update& update : graph.updates()) {
    updated.insert(update.value);
  }
  for (const Node& node : graph.nodes()) {
    const bool updates =
        std::ranges::any_of(node.outputs, [&](ValueId output) { return updated.contains(output); });
    if (!updates && draw(random, 0, 1) == 0) {
      c.plan.ops.push_back({.selector = graph.value(node.outputs.front()).name,
                            .location = {.index = draw(random, 0, axes[0].size - 1)}});
    }
  }
  for (const Value& value : graph.values()) {
    ValueAssignment row{.selector = value.name, .location = {}, .axes = {}};
    if (value.origin == Origin::Parameter && draw(random, 0, 1) == 0) {
      row.location = PipeLocation{.index = draw(random, 0, axes[0].size - 1)};
    }
    if (axes.size() > 1 && draw(random, 0, 1) == 0) {
      const int dimension = draw(random, -1, value.type.shape.rank() - 1);
      row.axes.push_back({.axis = axes[1].name,
                          .sharded = dimension < 0 ? std::nullopt : std::optional(dimension)});
    }
    if (row.location || !row.axes.empty()) {
      c.plan.values.push_back(std::move(row));
    }
  }
  return c;
}

/// A few ops assigned at random, under a schedule that may not be able to run them.
FuzzCase random_schedule(std::uint64_t seed) {
  FuzzCase c = random_assignments(seed);
  Random random(seed + 3);
  const std::vector<std::string> schedules{"1f1b", "zb-h1", "chimera", "gpipe"};
  c.plan.mesh = parse_mesh("pipe=2");
  c.plan.schedule = schedules[static_cast<std::size_t>(draw(random, 0, 3))];
  c.size.batch = std::max(c.size.batch, 2);
  c.plan.microbatches = draw(random, 2, c.size.batch);
  const int kept = draw(random, 1, 4);
  std::ranges::shuffle(c.plan.ops, random);
  c.plan.ops.resize(std::min<std::size_t>(c.plan.ops.size(), static_cast<std::size_t>(kept)));
  for (OpAssignment& row : c.plan.ops) {
    row.location.index = draw(random, 0, 1);
  }
  c.plan.values.clear();
  return c;
}

/// Why the plan and one device disagree; nothing if they agree.
std::optional<std::string> problem_of(const FuzzCase& c, std::string* files = nullptr) {
  RandomGraph generator(c.seed, c.size);
  const Graph graph = generator.run();
  if (files != nullptr) {
    *files = to_text(graph) + "\n" + to_text(c.plan);
  }
  Random random(c.seed + 1);
  std::normal_distribution<double> normal(0, 0.5);
  const auto numbers_for = [&](const Value& value) {
    std::vector<double> numbers(static_cast<std::size_t>(value.type.shape.element_count()));
    std::ranges::generate(numbers, [&] { return normal(random); });
    return numbers;
  };
  Numbers first;
  for (const ValueId id : graph.with_origin(Origin::Parameter)) {
    first[graph.value(id).name] = numbers_for(graph.value(id));
  }
  Batches batches;
  for (int step = 0; step < kFuzzSteps; ++step) {
    batches.push_back({{"x", numbers_for(graph.value(graph.find("x")))},
                       {"learning_rate", {0.05}},
                       {"step", {step + 1.0}}});
  }
  const Trained one = train_alone(graph, first, batches);
  Trained many;
  try {
    if (parse_plan(to_text(c.plan)) != c.plan) {
      return "the plan does not parse back";
    }
    const std::vector<std::string> wrong =
        problems(programs_of(graph, c.plan, generator.names()), groups_of(c.plan.mesh));
    if (!wrong.empty()) {
      return fmt::format("programs: {}", wrong.front());
    }
    many = train_on_ranks(graph, c.plan, generator.names(), first, batches);
  } catch (const std::exception& error) {
    const bool refused = std::string_view(error.what()).find("cannot run") != std::string::npos;
    return refused ? kRefused : fmt::format("thrown: {}", error.what());
  }
  for (std::size_t i = 0; i < one.losses.size(); ++i) {
    if (!(std::abs(one.losses[i] - many.losses[i]) <=
          kFuzzTolerance * (1 + std::abs(one.losses[i])))) {
      return fmt::format("loss {} of step {}, not {}", many.losses[i], i, one.losses[i]);
    }
  }
  for (const auto& [name, numbers] : one.kept) {
    const auto found = many.kept.find(name);
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      if (found == many.kept.end() || !(std::abs(numbers[i] - found->second[i]) <=
                                        kFuzzTolerance * (1 + std::abs(numbers[i])))) {
        return fmt::format("{} differs at {}", name, i);
      }
    }
  }
  return std::nullopt;
}

/// The case without one of its assignments; without many of them first.
void drop_assignments(const FuzzCase& c, std::vector<FuzzCase>& cases) {
  const auto without = [&](auto rows) {
    const std::size_t count = (c.plan.*rows).size();
    for (std::size_t size = std::max<std::size_t>(count / 2, 1); count > 0; size /= 2) {
      for (std::size_t i = 0; i + size <= count; i += size) {
        FuzzCase tried = c;
        auto& some = tried.plan.*rows;
        const auto from = some.begin() + static_cast<std::ptrdiff_t>(i);
        some.erase(from, from + static_cast<std::ptrdiff_t>(size));
        cases.push_back(std::move(tried));
      }
      if (size == 1) {
        break;
      }
    }
  };
  without(&Plan::ops);
  without(&Plan::values);
}

/// Slightly smaller cases.
std::vector<FuzzCase> smaller(const FuzzCase& c) {
  std::vector<FuzzCase> cases;
  const auto with = [&](auto change) {
    FuzzCase tried = c;
    change(tried);
    cases.push_back(std::move(tried));
  };
  if (!c.plan.ops.empty() || !c.plan.values.empty()) {  // names belong to this graph
    drop_assignments(c, cases);
    return cases;
  }
  for (int Size::*field : {&Size::layers, &Size::batch, &Size::length, &Size::width}) {
    if (c.size.*field > (field == &Size::batch ? c.plan.microbatches : 1)) {
      with([&](FuzzCase& tried) { --(tried.size.*field); });
    }
  }
  for (std::size_t a = 0; a < c.plan.mesh.axes().size(); ++a) {
    with([&](FuzzCase& tried) {
      std::vector<MeshAxis> axes = c.plan.mesh.axes();
      axes.erase(axes.begin() + static_cast<std::ptrdiff_t>(a));
      tried.plan.mesh = Mesh(axes);
    });
  }
  if (c.plan.microbatches > 1) {
    with([](FuzzCase& tried) { --tried.plan.microbatches; });
  }
  if (c.plan.zero > 0) {
    with([](FuzzCase& tried) { --tried.plan.zero; });
  }
  if (c.plan.sequence) {
    with([](FuzzCase& tried) { tried.plan.sequence = false; });
  }
  if (c.plan.recompute.any()) {
    with([](FuzzCase& tried) { tried.plan.recompute = {}; });
  }
  return cases;
}

std::string shrink(FuzzCase c) {
  bool again = true;
  while (again) {
    again = false;
    for (const FuzzCase& tried : smaller(c)) {
      if (problem_of(tried)) {
        c = tried;
        again = true;
        break;
      }
    }
  }
  std::string files;
  const std::optional<std::string> problem = problem_of(c, &files);
  return fmt::format("seed {}: {}\n{}", c.seed, problem.value_or("gone"), files);
}

void run_cases(FuzzCase (*make)(std::uint64_t), std::uint64_t first, std::uint64_t count) {
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const FuzzCase c = make(seed);
    if (problem_of(c)) {
      FAIL() << shrink(c);
    }
  }
}

TEST(PlanFuzz, RandomPlansOfRandomGraphsAgree) {
  run_cases(random_case, 1, 300);
}

TEST(PlanFuzz, RandomAssignmentsOfRandomGraphsAgree) {
  run_cases(random_assignments, 1, 150);
}

TEST(PlanFuzz, RandomAssignmentsRunUnderScheduleOrAreRejected) {
  int refused = 0;
  int ran = 0;
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    const std::optional<std::string> problem = problem_of(random_schedule(seed));
    ASSERT_TRUE(!problem || *problem == kRefused) << "seed " << seed << ": " << *problem;
    ++(problem ? refused : ran);
  }
  EXPECT_GT(refused, 10);
  EXPECT_GT(ran, 50);
}

TEST(LongPlanFuzz, RandomPlansOfRandomGraphsAgree) {
  run_cases(random_case, 1000, 5000);
}

TEST(LongPlanFuzz, RandomAssignmentsOfRandomGraphsAgree) {
  run_cases(random_assignments, 1000, 3000);
}

}  // namespace
}  // namespace trireme
