#include "graph/op_cases.h"

namespace trireme::testing {
namespace {

const Operand kRate = statistic({}, 0.01, 0.1);
const Operand kScale = statistic({}, 0.5, 1);
const Operand kSkip = statistic({}, 0, 0);

OpCase rounded(OpCase one, std::string to) {
  one.op = "adamw_rounded";
  one.attributes["to"] = std::move(to);
  return one;
}

OpCase adamw(const Shape& shape, const Operand& scale, const Attributes& attributes) {
  const Operand step{{}, 1, 9, 0, Operand::Kind::Whole};
  return {"adamw",
          {{shape}, {shape}, statistic(shape, -1, 1), statistic(shape, 0, 1), kRate, step, scale},
          attributes,
          DType::I64};
}

std::vector<OpCase> norm_cases() {
  return {{"sum_squares", {{{3, 4}}}},
          {"sum_squares", {{{0, 4}}}},
          {"sum_squares", {{{}}}},
          {"sum_squares", {{{3, 11111}}}},
          {"clip_scale", {statistic({}, 0.1, 0.2)}},
          {"clip_scale",
           {statistic({}, 3, 9), statistic({}, 3, 9), statistic({}, 3, 9)},
           {{"limit", 0.5}}}};
}

/// After a finite step, after one that was not finite, and where the scale grows.
std::vector<OpCase> scale_cases() {
  const Operand loss = statistic({}, 1, 2);
  std::vector<OpCase> cases;
  for (const Operand& finite : {statistic({}, 1, 1), statistic({}, 0, 0)}) {
    for (const std::int64_t interval : {1, 2000}) {
      cases.push_back({"next_loss_scale",
                       {statistic({}, 100, 200), statistic({}, 3, 9), finite, loss},
                       {{"interval", interval}, {"most", 256.0}}});
    }
  }
  return cases;
}

OpCase muon(const Shape& shape, const Operand& scale, std::int64_t batch, std::int64_t rows) {
  return {"muon",
          {{shape}, {shape}, statistic(shape, -1, 1), kRate, scale},
          {{"batch", batch}, {"rows", rows}, {"decay", 0.1}}};
}

/// Wide, tall and square, several matrices, rows and columns of several dimensions, none, and a skipped step.
std::vector<OpCase> muon_cases() {
  return {muon({3, 7}, kScale, 0, 1),    muon({9, 4}, kScale, 0, 1),
          muon({5, 5}, kSkip, 0, 1),     muon({2, 3, 4}, kScale, 1, 1),
          muon({2, 3, 4}, kScale, 0, 2), muon({4, 2, 3}, kScale, 0, 1),
          muon({0, 3}, kScale, 0, 1),    muon({40, 33}, kScale, 0, 1)};
}

}  // namespace

std::vector<OpCase> optimizer_cases() {
  std::vector<OpCase> cases = norm_cases();
  for (OpCase& one : scale_cases()) {
    cases.push_back(std::move(one));
  }
  for (const Shape& shape : {Shape{3, 4}, Shape{0, 2}, Shape{}, Shape{37}}) {
    for (const Operand& scale : {kScale, kSkip}) {
      cases.push_back({"sgd", {{shape}, {shape}, kRate, scale}, {{"decay", 0.1}}});
      cases.push_back({"momentum", {{shape}, {shape}, statistic(shape, -1, 1), kRate, scale}});
      cases.push_back({"adagrad", {{shape}, {shape}, statistic(shape, 0, 1), kRate, scale}});
      cases.push_back({"lion", {{shape}, {shape}, statistic(shape, -1, 1), kRate, scale}});
      cases.push_back(adamw(shape, scale, {}));
      cases.push_back(rounded(adamw(shape, scale, {}), "bf16"));
    }
  }
  for (OpCase& one : muon_cases()) {
    cases.push_back(std::move(one));
  }
  // Gradients in f32, whatever the parameter's type; and of a master copy.
  cases.push_back({"sgd", {{{9}}, statistic({9}, -1, 1), kRate, kScale}});
  cases.push_back({"sgd", {statistic({9}, -1, 1), {{9}}, kRate, kScale}});
  OpCase master = adamw({9}, kScale, {});
  master.inputs[0] = statistic({9}, -1, 1);
  cases.push_back(rounded(master, "f16"));
  cases.push_back(rounded(master, "f32"));
  cases.push_back(std::move(master));
  OpCase wide = adamw({9}, kScale, {});
  wide.inputs[1] = statistic({9}, -1, 1);
  cases.push_back(std::move(wide));
  cases.push_back({"momentum",
                   {{{5}}, {{5}}, statistic({5}, -1, 1), kRate, kScale},
                   {{"momentum", 0.5}, {"decay", 0.1}, {"nesterov", std::int64_t{1}}}});
  cases.push_back(adamw({2, 3}, kScale, {{"beta1", 0.8}, {"beta2", 0.9}, {"decay", 0.0}}));
  cases.push_back(adamw({2, 3}, kScale, {{"rounds", std::int64_t{4}}, {"round", std::int64_t{2}}}));
  return cases;
}

}  // namespace trireme::testing
