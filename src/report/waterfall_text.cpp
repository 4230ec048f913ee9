#include "report/waterfall_text.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

namespace trireme::report {
namespace {

struct WaterfallLine {
  std::string_view name;
  double share = 0;
  std::string_view block = "▒";
};

std::string_view communication_name(const Waterfall& w) {
  return w.messages == 0      ? "exposed communication: collectives"
         : w.collectives == 0 ? "exposed communication: messages"
                              : "exposed communication";
}

/// From the top down: each line starts where the one above it ended.
std::vector<WaterfallLine> waterfall_lines(const Waterfall& w) {
  return {{communication_name(w), w.exposed_communication()},
          {"gaps between kernels", w.gaps},
          {"memory-bound kernels", w.memory_bound},
          {w.products < 0 ? "matrix products above measured peak" : "matrix products below peak",
           w.products},
          {w.attention < 0 ? "attention above measured peak" : "attention below peak", w.attention},
          {"recomputation", w.recomputation()},
          {"MFU", w.mfu, "█"}};
}

/// Blocks between two shares of the peak, on a line where 1 is kCells wide. Rounded edges make the bars abut.
std::string bar_between(double a, double b, std::string_view block) {
  constexpr double kCells = 28;
  const auto cell = [&](double share) {
    return static_cast<int>(std::lround(kCells * std::clamp(share, 0.0, 1.0)));
  };
  const int from = cell(std::min(a, b));
  const int to = cell(std::max(a, b));
  std::string text(from < to ? from : 0, ' ');
  for (int i = from; i < to; ++i) {
    text += block;
  }
  return text;
}

}  // namespace

std::string waterfall_text(const Waterfall& w, std::string_view whose) {
  constexpr double kShown = 0.0005;  // 0.1 % when rounded
  constexpr int kNameColumns = 36;
  std::string text = fmt::format("  where the peak went in step {}{}{}:\n", w.step,
                                 whose.empty() ? "" : ", ", whose);
  double left = 1;
  for (const WaterfallLine& line : waterfall_lines(w)) {
    const double below = left - line.share;
    if (std::abs(line.share) >= kShown) {
      const std::string bar = bar_between(below, left, line.block);
      text += fmt::format("    {:5.1f} %  {:<{}}{}\n", 100 * line.share, line.name,
                          bar.empty() ? 0 : kNameColumns, bar);
    }
    left = below;
  }
  return text;
}

}  // namespace trireme::report
