#include "report/draw/linear_scale.h"

#include <cmath>

namespace trireme::report {

std::vector<double> ticks_of(const LinearScale& scale, double about) {
  const double rough = (scale.last - scale.first) / about;
  double step = std::pow(10, std::floor(std::log10(rough)));
  step *= rough / step > 5 ? 10 : rough / step > 2 ? 5 : rough / step > 1 ? 2 : 1;
  std::vector<double> ticks;
  for (double tick = std::ceil(scale.first / step) * step; tick <= scale.last; tick += step) {
    ticks.push_back(std::abs(tick) < step / 2 ? 0 : tick);
  }
  return ticks;
}

}  // namespace trireme::report
