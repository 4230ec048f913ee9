// Optimizers, as defined in graph/ops/optimizers.cpp: one pass over parameters, gradients and state, in place if the
// program requests it. And the gradient norm for clipping, summed in blocks that do not depend on the number of
// threads.
#include <array>

#include "backend/cpu/loops/elements.h"
#include "backend/cpu/loops/families.h"
#include "backend/cpu/loops/optimizer_step.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

/// The scalar inputs of a step.
struct Scalars {
  double rate = 0;
  double step = 0;
  double g_scale = 0;
};

// Each rule: its constants, and the update of one element and its state, a and b, given the scalars.

template <class W>
struct Next {
  W p;
  W a;
  W b;
};

template <class W>
struct SgdElement {
  W rate, g_scale, decay;
  Next<W> operator()(W p, W g, W, W) const { return {p - rate * (g_scale * g + decay * p), 0, 0}; }
};
struct SgdRule {
  static constexpr int kStates = 0;
  double decay;
  explicit SgdRule(const Signature& s) : decay(s.number("decay")) {}
  template <class W>
  [[nodiscard]] SgdElement<W> element(const Scalars& x) const {
    return {static_cast<W>(x.rate), static_cast<W>(x.g_scale), static_cast<W>(decay)};
  }
};

/// p' = p - rate (of_g (d + decay p) + of_m m'): without Nesterov momentum 0 and 1, with it 1 and momentum.
template <class W>
struct MomentumElement {
  W rate, g_scale, decay, momentum, of_g, of_m;
  Next<W> operator()(W p, W g, W a, W) const {
    const W d = g_scale * g + decay * p;
    const W m = momentum * a + d;
    return {p - rate * (of_g * d + of_m * m), m, 0};
  }
};
struct MomentumRule {
  static constexpr int kStates = 1;
  double momentum, decay;
  bool nesterov;
  explicit MomentumRule(const Signature& s)
      : momentum(s.number("momentum")), decay(s.number("decay")), nesterov(s.flag("nesterov")) {}
  template <class W>
  [[nodiscard]] MomentumElement<W> element(const Scalars& x) const {
    const auto w = [](double number) { return static_cast<W>(number); };
    return {w(x.rate),   w(x.g_scale),        w(decay),
            w(momentum), w(nesterov ? 1 : 0), w(nesterov ? momentum : 1)};
  }
};

template <class W>
struct AdagradElement {
  W rate, g_scale, decay, epsilon;
  Next<W> operator()(W p, W g, W a, W) const {
    const W d = g_scale * g + decay * p;
    const W sum = a + d * d;
    return {p - rate * d / (std::sqrt(sum) + epsilon), sum, 0};
  }
};
struct AdagradRule {
  static constexpr int kStates = 1;
  double epsilon, decay;
  explicit AdagradRule(const Signature& s)
      : epsilon(s.number("epsilon")), decay(s.number("decay")) {}
  template <class W>
  [[nodiscard]] AdagradElement<W> element(const Scalars& x) const {
    const auto w = [](double number) { return static_cast<W>(number); };
    return {w(x.rate), w(x.g_scale), w(decay), w(epsilon)};
  }
};

/// The bias corrections of both moments are hoisted out of the loop.
template <class W>
struct AdamwElement {
  W g_scale, beta1, beta2, more1, more2, epsilon, keep, rate, root;
  Next<W> operator()(W p, W g, W a, W b) const {
    const W d = g_scale * g;
    const W m = beta1 * a + more1 * d;
    const W v = beta2 * b + more2 * d * d;
    return {keep * p - rate * m / (std::sqrt(v) * root + epsilon), m, v};
  }
};
struct AdamwRule {
  static constexpr int kStates = 2;
  double beta1, beta2, epsilon, decay;
  double rounds, round;
  explicit AdamwRule(const Signature& s)
      : beta1(s.number("beta1")),
        beta2(s.number("beta2")),
        epsilon(s.number("epsilon")),
        decay(s.number("decay")),
        rounds(static_cast<double>(s.integer("rounds"))),
        round(static_cast<double>(s.integer("round"))) {}
  template <class W>
  [[nodiscard]] AdamwElement<W> element(const Scalars& x) const {
    const auto w = [](double number) { return static_cast<W>(number); };
    const double count = (x.step - 1) * rounds + round + 1;
    return {w(x.g_scale),
            w(beta1),
            w(beta2),
            w(1 - beta1),
            w(1 - beta2),
            w(epsilon),
            w(1 - x.rate * decay),
            w(x.rate / (1 - std::pow(beta1, count))),
            w(1 / std::sqrt(1 - std::pow(beta2, count)))};
  }
};

template <class W>
struct LionElement {
  W g_scale, beta1, beta2, more1, more2, keep, rate;
  Next<W> operator()(W p, W g, W a, W) const {
    const W d = g_scale * g;
    const W along = beta1 * a + more1 * d;
    const W sign = along > 0 ? W{1} : along < 0 ? W{-1} : W{0};
    return {keep * p - rate * sign, beta2 * a + more2 * d, 0};
  }
};
struct LionRule {
  static constexpr int kStates = 1;
  double beta1, beta2, decay;
  explicit LionRule(const Signature& s)
      : beta1(s.number("beta1")), beta2(s.number("beta2")), decay(s.number("decay")) {}
  template <class W>
  [[nodiscard]] LionElement<W> element(const Scalars& x) const {
    const auto w = [](double number) { return static_cast<W>(number); };
    return {w(x.g_scale),          w(beta1), w(beta2), w(1 - beta1), w(1 - beta2),
            w(1 - x.rate * decay), w(x.rate)};
  }
};

/// Elements [begin, end). kStates pointers of each kind are used.
template <int kStates, class P, class G, class Element>
void update(const Element& rule, const KernelMemory& memory, std::int64_t begin, std::int64_t end) {
  using W = Wide<P>;
  const Element element = rule;  // a local copy, so that it cannot alias the outputs
  const P* p = input<P>(memory, 0);
  const G* g = input<G>(memory, 1);
  P* new_p = output<P>(memory, 0);
  const W* a = kStates > 0 ? input<W>(memory, 2) : nullptr;
  const W* b = kStates > 1 ? input<W>(memory, 3) : nullptr;
  W* new_a = kStates > 0 ? output<W>(memory, 1) : nullptr;
  W* new_b = kStates > 1 ? output<W>(memory, 2) : nullptr;
#pragma omp simd
  for (std::int64_t i = begin; i < end; ++i) {
    const Next<W> next = element(load(p[i]), static_cast<W>(load(g[i])), kStates > 0 ? a[i] : W{0},
                                 kStates > 1 ? b[i] : W{0});
    store(new_p[i], next.p);
    if constexpr (kStates > 0) {
      new_a[i] = next.a;
    }
    if constexpr (kStates > 1) {
      new_b[i] = next.b;
    }
  }
}

template <class Rule, class P, class G>
std::unique_ptr<PreparedKernel> step_of(const KernelRequest& request) {
  using W = Wide<P>;
  const Rule rule(signature_of(request));
  const std::int64_t n = request.inputs[0].shape.element_count();
  const std::size_t last = request.inputs.size() - 1;
  const bool counts = request.op->inputs[last - 1] == "step";
  const std::size_t rate = counts ? last - 2 : last - 1;
  const std::array<DType, 2> types{request.inputs[rate].dtype, request.inputs[last].dtype};
  return kernel([=](const KernelMemory& memory) {
    const Scalars scalars{
        .rate = scalar(memory, rate, types[0]),
        .step = counts ? static_cast<double>(*input<std::int64_t>(memory, last - 1)) : 0,
        .g_scale = scalar(memory, last, types[1])};
    if (keeps_old<P>(memory, scalars.g_scale, n, Rule::kStates)) {
      return;
    }
    const auto element = rule.template element<W>(scalars);
    parallel(n, kSerial, [&](std::int64_t begin, std::int64_t end) {
      update<Rule::kStates, P, G>(element, memory, begin, end);
    });
  });
}

template <class Rule>
std::unique_ptr<PreparedKernel> step(const KernelRequest& request) {
  return for_parameter(request,
                       [&]<class P, class G>(P, G) { return step_of<Rule, P, G>(request); });
}

constexpr std::int64_t kBlock = 16384;

template <class T>
double squares_of_block(const T* x, std::int64_t n) {
  constexpr std::int64_t kLanes = 64;
  using W = Wide<T>;
  W lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
#pragma omp simd
    for (std::int64_t k = 0; k < kLanes; ++k) {
      const W element = load(x[i + k]);
      lanes[k] += element * element;
    }
  }
  double sum = 0;
  for (; i < n; ++i) {
    const auto element = static_cast<double>(load(x[i]));
    sum += element * element;
  }
  for (const W lane : lanes) {
    sum += static_cast<double>(lane);
  }
  return sum;
}

std::unique_ptr<PreparedKernel> sum_squares(const KernelRequest& request) {
  const std::int64_t n = request.inputs[0].shape.element_count();
  const std::int64_t blocks = (n + kBlock - 1) / kBlock;
  return for_float(request.inputs[0].dtype, [&]<class T>(T) {
    return kernel(
        [=](const KernelMemory& memory) {
          const T* x = input<T>(memory, 0);
          auto* sums = reinterpret_cast<double*>(memory.workspace);
          parallel(blocks, 1, [=](std::int64_t begin, std::int64_t end) {
            for (std::int64_t b = begin; b < end; ++b) {
              sums[b] = squares_of_block(x + b * kBlock, std::min(kBlock, n - b * kBlock));
            }
          });
          double sum = 0;
          for (std::int64_t b = 0; b < blocks; ++b) {
            sum += sums[b];
          }
          *output<Wide<T>>(memory, 0) = static_cast<Wide<T>>(sum);
        },
        Bytes{blocks * static_cast<std::int64_t>(sizeof(double))});
  });
}

std::unique_ptr<PreparedKernel> clip_scale(const KernelRequest& request) {
  const double limit = signature_of(request).number("limit");
  std::vector<DType> types;
  for (const TensorType& sum : request.inputs) {
    types.push_back(sum.dtype);
  }
  const auto clip = [&]<class T>(T) {
    return kernel([=](const KernelMemory& memory) {
      double sum = 0;
      for (std::size_t k = 0; k < types.size(); ++k) {
        sum += scalar(memory, k, types[k]);
      }
      const double norm = std::sqrt(sum);
      const bool finite = std::isfinite(norm);
      *output<T>(memory, 0) = finite ? static_cast<T>(std::min(1.0, limit / norm)) : T{0};
      *output<T>(memory, 1) = static_cast<T>(norm);
      *output<T>(memory, 2) = finite ? T{1} : T{0};
    });
  };
  return request.outputs[0].dtype == DType::F64 ? clip(double{}) : clip(float{});
}

/// As defined in graph/ops/finite.cpp.
std::unique_ptr<PreparedKernel> next_loss_scale(const KernelRequest& request) {
  const Signature s = signature_of(request);
  const auto interval = static_cast<double>(s.integer("interval"));
  const double least = s.number("least");
  const double most = s.number("most");
  const auto next = [&]<class T>(T) {
    return kernel([=](const KernelMemory& memory) {
      const double scale = *input<T>(memory, 0);
      const double before = *input<T>(memory, 1);
      const bool finite = *input<T>(memory, 2) != 0;
      const bool grows = finite && before + 1 >= interval;
      const double lower = std::max(least, scale / 2);
      const bool lowered = !finite && std::isfinite(*input<T>(memory, 3)) && lower < scale;
      const double higher = std::max(scale, std::min(most, scale * 2));
      *output<T>(memory, 0) = static_cast<T>(lowered ? lower : grows ? higher : scale);
      *output<T>(memory, 1) = static_cast<T>(lowered || grows ? 0 : finite ? before + 1 : before);
      *output<T>(memory, 2) = lowered ? T{1} : T{0};
    });
  };
  return request.inputs[0].dtype == DType::F64 ? next(double{}) : next(float{});
}

}  // namespace

std::vector<KernelRow> optimizer_kernels() {
  return {{"adagrad", step<AdagradRule>},       {"adamw", step<AdamwRule>},
          {"clip_scale", clip_scale},           {"lion", step<LionRule>},
          {"momentum", step<MomentumRule>},     {"muon", muon_step},
          {"next_loss_scale", next_loss_scale}, {"sgd", step<SgdRule>},
          {"sum_squares", sum_squares}};
}

}  // namespace trireme::cpu::TRIREME_ISA
