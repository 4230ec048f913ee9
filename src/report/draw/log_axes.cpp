#include "report/draw/log_axes.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace trireme::report {
namespace {

constexpr int kMaxTicks = 10;

/// Every `step`th integer exponent such that base^exponent is in the range, few enough to be
/// labeled.
std::vector<int> tick_exponents(LogScale::Range range, double base) {
  constexpr double kRounding = 1e-9;
  const int first = static_cast<int>(std::ceil(std::log(range.first) / std::log(base) - kRounding));
  const int last = static_cast<int>(std::floor(std::log(range.last) / std::log(base) + kRounding));
  const int step = std::max(1, (last - first + kMaxTicks - 1) / kMaxTicks);
  std::vector<int> exponents;
  for (int exponent = first; exponent <= last; exponent += step) {
    exponents.push_back(exponent);
  }
  return exponents;
}

/// The ends of the range if it contains too few round values.
std::vector<double> at_least_two(const std::vector<double>& ticks, LogScale::Range range) {
  return ticks.size() < 2 ? std::vector{range.first, range.last} : ticks;
}

}  // namespace

LogScale::LogScale(Range values, Range coordinates)
    : values_{std::log(values.first), std::log(values.last)}, coordinates_(coordinates) {}

double LogScale::at(double value) const {
  const double part = (std::log(value) - values_.first) / (values_.last - values_.first);
  return coordinates_.first + part * (coordinates_.last - coordinates_.first);
}

std::vector<double> byte_ticks(LogScale::Range range) {
  std::vector<double> ticks;
  for (const int exponent : tick_exponents(range, 2)) {
    ticks.push_back(std::exp2(exponent));
  }
  return at_least_two(ticks, range);
}

std::vector<double> second_ticks(LogScale::Range range) {
  constexpr double kFewDecades = 300;
  const bool between = range.last / range.first < kFewDecades;
  std::vector<double> ticks;
  for (const int exponent : tick_exponents({range.first / 10, range.last}, 10)) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      const double tick = factor * std::pow(10, exponent);
      if ((factor == 1 || between) && tick >= range.first && tick <= range.last) {
        ticks.push_back(tick);
      }
    }
  }
  return at_least_two(ticks, range);
}

std::vector<double> keep_apart(std::span<const double> preferred, double distance) {
  struct Cluster {
    double sum = 0;  ///< of preferred coordinates, each minus its index times the distance
    double count = 0;
    [[nodiscard]] double middle() const { return sum / count; }
  };
  std::vector<Cluster> clusters;
  for (std::size_t k = 0; k < preferred.size(); ++k) {
    clusters.push_back({preferred[k] - static_cast<double>(k) * distance, 1});
    while (clusters.size() > 1 &&
           clusters.back().middle() < clusters[clusters.size() - 2].middle()) {
      const Cluster last = clusters.back();
      clusters.pop_back();
      clusters.back().sum += last.sum;
      clusters.back().count += last.count;
    }
  }
  std::vector<double> places;
  for (const Cluster& cluster : clusters) {
    for (int k = 0; k < static_cast<int>(cluster.count); ++k) {
      places.push_back(cluster.middle() + static_cast<double>(places.size()) * distance);
    }
  }
  return places;
}

}  // namespace trireme::report
