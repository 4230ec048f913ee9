// Fits the shares of an efficiency to measured runs: the most probable ones, if their logarithms are normal around the
// given ones and so are the logarithms of the measured times around the predicted ones (Gauss-Newton; large residuals
// count linearly, after Huber).
#include <algorithm>
#include <cmath>

#include "trireme/measured_runs.h"

namespace trireme {
namespace {

constexpr int kParts = Correction::kParts;
using Vector = std::array<double, kParts>;
using Matrix = std::array<Vector, kParts>;
using Runs = std::vector<const MeasuredRun*>;

double residual(const MeasuredRun& run, const Correction& correction) {
  return std::log(predicted_cost(run, correction).seconds / run.seconds);
}

/// Solves a x = b for a symmetric positive definite a.
Vector solve(Matrix a, Vector b) {
  for (std::size_t i = 0; i < kParts; ++i) {
    for (std::size_t r = i + 1; r < kParts; ++r) {
      const double factor = a[r][i] / a[i][i];
      for (std::size_t c = i; c < kParts; ++c) {
        a[r][c] -= factor * a[i][c];
      }
      b[r] -= factor * b[i];
    }
  }
  for (std::size_t i = kParts; i-- > 0;) {
    for (std::size_t c = i + 1; c < kParts; ++c) {
      b[i] -= a[i][c] * b[c];
    }
    b[i] /= a[i][i];
  }
  return b;
}

/// How strongly a residual counts.
double huber_weight(double residual, double noise) {
  const double limit = 1.5 * noise;
  return std::abs(residual) <= limit ? 1 : limit / std::abs(residual);
}

void add_run(const MeasuredRun& run, const Correction& at, const FitOptions& options, Matrix& a,
             Vector& b) {
  constexpr double kStep = 1e-3;
  const double here = residual(run, at);
  Vector slope{};
  for (std::size_t i = 0; i < kParts; ++i) {
    Correction moved = at;
    moved.log[i] += kStep;
    slope[i] = (residual(run, moved) - here) / kStep;
  }
  const double weight = huber_weight(here, options.noise) / (options.noise * options.noise);
  for (std::size_t i = 0; i < kParts; ++i) {
    for (std::size_t j = 0; j < kParts; ++j) {
      a[i][j] += weight * slope[i] * slope[j];
    }
    b[i] -= weight * slope[i] * here;
  }
}

}  // namespace

Efficiency Correction::apply(const Efficiency& efficiency) const {
  const auto share = [](double value, double logarithm) {
    return std::min(0.98, value * std::exp(logarithm));
  };
  Efficiency e = efficiency;
  e.matmul = share(e.matmul, log[0]);
  e.matmul8 = share(e.matmul8, log[0]);
  e.matmul4 = share(e.matmul4, log[0]);
  e.depth *= std::exp(log[1]);
  e.attention = share(e.attention, log[2]);
  e.scores = share(e.scores, log[2]);
  e.memory = share(e.memory, log[3]);
  e.launch.count *= std::exp(log[4]);
  e.node_links = share(e.node_links, log[5]);
  e.network_links = share(e.network_links, log[6]);
  e.overlap = share(e.overlap, log[7]);
  e.contention = std::max(0.0, e.contention + log[8]);
  return e;
}

StepCost predicted_cost(const MeasuredRun& run, const Correction& correction) {
  const Efficiency efficiency = correction.apply(efficiency_of(run.cluster));
  return TransformerCost(run.model, run.work, run.cluster, efficiency).step(run.layout);
}

namespace {

/// How far each share may be from the given one: the standard deviations of their logarithms, relative to `freedom`. The
/// host's launches differ most between programs.
constexpr Vector kFreedom{0.75, 1, 1, 0.6, 6, 1, 1, 1, 0.5};

double prior_weight(std::size_t part, const FitOptions& options) {
  const double deviation = kFreedom[part] * options.freedom;
  return 1 / (deviation * deviation);
}

/// Minus the logarithm of the probability, but for a constant.
double penalty(const Runs& runs, const Correction& at, const FitOptions& options) {
  double sum = 0;
  for (std::size_t i = 0; i < kParts; ++i) {
    sum += 0.5 * prior_weight(i, options) * at.log[i] * at.log[i];
  }
  const double limit = 1.5 * options.noise;
  for (const MeasuredRun* run : runs) {
    const double r = std::abs(residual(*run, at));
    const double loss = r <= limit ? 0.5 * r * r : limit * (r - 0.5 * limit);
    sum += loss / (options.noise * options.noise);
  }
  return sum;
}

/// Gauss-Newton with Levenberg's damping.
Correction descend(const Runs& runs, Correction at, const FitOptions& options) {
  constexpr int kRounds = 40;
  double damping = 1e-2;
  double best = penalty(runs, at, options);
  for (int round = 0; round < kRounds && damping < 1e6; ++round) {
    Matrix a{};
    Vector b{};
    for (std::size_t i = 0; i < kParts; ++i) {
      a[i][i] = prior_weight(i, options);
      b[i] = -at.log[i] * a[i][i];
    }
    for (const MeasuredRun* run : runs) {
      add_run(*run, at, options, a, b);
    }
    for (std::size_t i = 0; i < kParts; ++i) {
      a[i][i] *= 1 + damping;
    }
    const Vector move = solve(a, b);
    Correction next = at;
    for (std::size_t i = 0; i < kParts; ++i) {
      next.log[i] += std::clamp(move[i], -1.0, 1.0);
    }
    const double value = penalty(runs, next, options);
    const bool better = value < best;
    const bool done = better && best - value < 1e-6 * best;
    damping *= better ? 0.3 : 5;
    at = better ? next : at;
    best = std::min(best, value);
    if (done) {
      break;
    }
  }
  return at;
}

/// From several starts, since a floor that no run reaches has no slope.
Correction most_probable(const Runs& runs, const FitOptions& options) {
  Correction best;
  for (const double launch : {0.0, 1.5, 3.0}) {
    Correction start;
    start.log[4] = launch;
    const Correction found = runs.empty() ? Correction{} : descend(runs, start, options);
    if (penalty(runs, found, options) < penalty(runs, best, options)) {
      best = found;
    }
  }
  return best;
}

/// Each half of the runs predicted by a fit to the other: the mean of the absolute residuals.
double cross_validated(const Runs& runs, const FitOptions& options) {
  std::array<Runs, 2> halves;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    halves[i % 2].push_back(runs[i]);
  }
  double sum = 0;
  for (std::size_t half = 0; half < 2; ++half) {
    const Correction found = most_probable(halves[1 - half], options);
    for (const MeasuredRun* run : halves[half]) {
      sum += std::abs(residual(*run, found));
    }
  }
  return sum / static_cast<double>(runs.size());
}

}  // namespace

/// Many runs may know better than the given efficiency: then they may move farther from it, if that predicts runs that
/// were left out of the fit better.
Correction fit(const std::vector<const MeasuredRun*>& runs, const FitOptions& options) {
  constexpr std::size_t kManyRuns = 40;
  constexpr double kWider = 8;
  FitOptions wide = options;
  wide.freedom *= kWider;
  const bool widen =
      runs.size() >= kManyRuns && cross_validated(runs, wide) < cross_validated(runs, options);
  return most_probable(runs, widen ? wide : options);
}

}  // namespace trireme
