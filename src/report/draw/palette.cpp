// Colors are computed in OKLCH (lightness, chroma, hue), where equal lightness looks equally light
// for every hue, and then converted to sRGB.
#include "report/draw/palette.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include <fmt/format.h>

namespace trireme::report {
namespace {

struct Oklch {
  double lightness = 0;  ///< 0 black … 1 white
  double chroma = 0;
  double hue = 0;  ///< degrees
};

constexpr double kFirstHue = 255;                            // blue
constexpr std::array<double, 2> kFillLightness{0.80, 0.70};  // alternating
constexpr double kFillChroma = 0.125;
constexpr double kPaleLightness = 0.985;
constexpr std::array<double, 2> kInkLightness{0.53, 0.50};
constexpr double kInkChroma = 0.14;

int channel(double linear) {
  const double c = std::clamp(linear, 0.0, 1.0);
  const double encoded = c <= 0.0031308 ? 12.92 * c : 1.055 * std::pow(c, 1 / 2.4) - 0.055;
  return static_cast<int>(std::lround(255 * encoded));
}

std::string to_hex(const Oklch& color) {
  const double angle = color.hue * std::numbers::pi / 180;
  const double a = color.chroma * std::cos(angle);
  const double b = color.chroma * std::sin(angle);
  const auto cone = [&](double of_a, double of_b) {
    return std::pow(color.lightness + of_a * a + of_b * b, 3);
  };
  const double l = cone(0.3963377774, 0.2158037573);
  const double m = cone(-0.1055613458, -0.0638541728);
  const double s = cone(-0.0894841775, -1.2914855480);
  return fmt::format("#{:02x}{:02x}{:02x}",
                     channel(4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s),
                     channel(-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s),
                     channel(-0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s));
}

}  // namespace

double Palette::hue(std::size_t index) const {
  return kFirstHue +
         360.0 * static_cast<double>(index) / static_cast<double>(std::max<std::size_t>(count_, 1));
}

std::string Palette::fill(std::size_t index, double strength) const {
  const double full = kFillLightness.at(index % 2);
  return to_hex({.lightness = kPaleLightness + strength * (full - kPaleLightness),
                 .chroma = strength * kFillChroma,
                 .hue = hue(index)});
}

std::string Palette::ink(std::size_t index) const {
  return to_hex(
      {.lightness = kInkLightness.at(index % 2), .chroma = kInkChroma, .hue = hue(index)});
}

}  // namespace trireme::report
