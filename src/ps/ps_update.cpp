#include "trireme/ps_update.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "ps/rules.h"
#include "trireme/error.h"
#include "trireme/message.h"

namespace trireme::ps {
namespace {

class Add final : public UpdateRule {
 public:
  [[nodiscard]] std::size_t state_per_key(std::size_t /*width*/) const override { return 0; }
  void apply(const UpdateRun& run) const override {
    float* const values = run.values.data();
    const float* const gradient = run.gradient.data();
    for (std::size_t i = 0; i < run.values.size(); ++i) {
      values[i] += gradient[i];
    }
  }
};

class Sgd final : public UpdateRule {
 public:
  explicit Sgd(std::span<const float> p) : rate_(p[0]) {}
  [[nodiscard]] std::size_t state_per_key(std::size_t /*width*/) const override { return 0; }
  void apply(const UpdateRun& run) const override {
    for (std::size_t i = 0; i < run.values.size(); ++i) {
      run.values[i] -= rate_ * run.gradient[i];
    }
  }

 private:
  float rate_;
};

class Momentum final : public UpdateRule {
 public:
  explicit Momentum(std::span<const float> p) : rate_(p[0]), momentum_(p[1]) {}
  [[nodiscard]] std::size_t state_per_key(std::size_t width) const override { return width; }
  void apply(const UpdateRun& run) const override {
    for (std::size_t i = 0; i < run.values.size(); ++i) {
      run.state[i] = momentum_ * run.state[i] + run.gradient[i];
      run.values[i] -= rate_ * run.state[i];
    }
  }

 private:
  float rate_;
  float momentum_;
};

class Adagrad final : public UpdateRule {
 public:
  explicit Adagrad(std::span<const float> p) : rate_(p[0]), epsilon_(p[1]) {}
  [[nodiscard]] std::size_t state_per_key(std::size_t width) const override { return width; }
  void apply(const UpdateRun& run) const override {
    for (std::size_t i = 0; i < run.values.size(); ++i) {
      const float g = run.gradient[i];
      run.state[i] += g * g;
      run.values[i] -= rate_ * g / (std::sqrt(run.state[i]) + epsilon_);
    }
  }

 private:
  float rate_;
  float epsilon_;
};

/// State of a key: first moments, second moments, number of steps.
class AdamW final : public UpdateRule {
 public:
  explicit AdamW(std::span<const float> p)
      : rate_(p[0]), beta1_(p[1]), beta2_(p[2]), epsilon_(p[3]), decay_(p[4]) {}
  [[nodiscard]] std::size_t state_per_key(std::size_t width) const override {
    return 2 * width + 1;
  }
  void apply(const UpdateRun& run) const override {
    const std::size_t stride = state_per_key(run.width);
    for (std::size_t key = 0; key * run.width < run.values.size(); ++key) {
      step(run.values.subspan(key * run.width, run.width), run.state.subspan(key * stride, stride),
           run.gradient.subspan(key * run.width, run.width));
    }
  }

 private:
  void step(std::span<float> values, std::span<float> state, std::span<const float> g) const {
    const std::size_t width = values.size();
    const std::span<float> m = state.first(width);
    const std::span<float> v = state.subspan(width, width);
    const float t = state.back() += 1;
    const float unbias1 = 1 - std::pow(beta1_, t);
    const float unbias2 = 1 - std::pow(beta2_, t);
    for (std::size_t i = 0; i < width; ++i) {
      m[i] = beta1_ * m[i] + (1 - beta1_) * g[i];
      v[i] = beta2_ * v[i] + (1 - beta2_) * g[i] * g[i];
      const float adaptive = m[i] / unbias1 / (std::sqrt(v[i] / unbias2) + epsilon_);
      values[i] -= rate_ * (adaptive + decay_ * values[i]);
    }
  }

  float rate_;
  float beta1_;
  float beta2_;
  float epsilon_;
  float decay_;
};

class Max final : public UpdateRule {
 public:
  [[nodiscard]] std::size_t state_per_key(std::size_t /*width*/) const override { return 0; }
  void apply(const UpdateRun& run) const override {
    for (std::size_t i = 0; i < run.values.size(); ++i) {
      run.values[i] = std::max(run.values[i], run.gradient[i]);
    }
  }
};

/// A proximal gradient step: soft thresholding makes small weights exactly zero.
class L1 final : public UpdateRule {
 public:
  explicit L1(std::span<const float> p) : rate_(p[0]), threshold_(p[0] * p[1]) {}
  [[nodiscard]] std::size_t state_per_key(std::size_t /*width*/) const override { return 0; }
  void apply(const UpdateRun& run) const override {
    for (std::size_t i = 0; i < run.values.size(); ++i) {
      const float v = run.values[i] - rate_ * run.gradient[i];
      run.values[i] = std::copysign(std::max(std::fabs(v) - threshold_, 0.0F), v);
    }
  }

 private:
  float rate_;
  float threshold_;
};

void require_parameters(std::string_view name, std::span<const float> given, std::size_t expected) {
  require(given.size() == expected,
          fmt::format("update '{}' takes {} parameters, not {}", name, expected, given.size()));
  require(std::ranges::all_of(given, [](float p) { return std::isfinite(p); }),
          fmt::format("update '{}': a parameter is not finite", name));
}

template <class T>
UpdateFactory plain(std::string name) {
  return
      [name = std::move(name)](std::span<const float> parameters) -> std::unique_ptr<UpdateRule> {
        require_parameters(name, parameters, 0);
        return std::make_unique<T>();
      };
}

template <class T>
UpdateFactory with_parameters(std::string name, std::size_t count) {
  return [name = std::move(name),
          count](std::span<const float> parameters) -> std::unique_ptr<UpdateRule> {
    require_parameters(name, parameters, count);
    return std::make_unique<T>(parameters);
  };
}

}  // namespace

UpdateRegistry::UpdateRegistry() {
  add("add", plain<Add>("add"));
  add("max", plain<Max>("max"));
  add("sgd", with_parameters<Sgd>("sgd", 1));
  add("momentum", with_parameters<Momentum>("momentum", 2));
  add("adagrad", with_parameters<Adagrad>("adagrad", 2));
  add("adamw", with_parameters<AdamW>("adamw", 5));
  add("l1", with_parameters<L1>("l1", 2));
  add("train", make_train_rule);
  add("pool", make_pool_rule);
}

void UpdateRegistry::add(const std::string& name, UpdateFactory factory) {
  require(factories_.emplace(name, std::move(factory)).second,
          fmt::format("update '{}' is already registered", name));
}

std::unique_ptr<UpdateRule> UpdateRegistry::make(std::string_view name,
                                                 std::span<const float> parameters) const {
  const auto found = factories_.find(name);
  if (found == factories_.end()) {
    throw Error(ErrorKind::Usage, unknown_name("update", name, names()));
  }
  return found->second(parameters);
}

std::vector<std::string> UpdateRegistry::names() const {
  std::vector<std::string> names;
  for (const auto& [name, factory] : factories_) {
    names.push_back(name);
  }
  return names;
}

}  // namespace trireme::ps
