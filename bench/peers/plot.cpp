#include "plot.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "report.h"

namespace peers {
namespace {

constexpr double kPanelWidth = 290;
constexpr double kPanelHeight = 190;
constexpr double kGap = 30;
constexpr double kLeft = 64;
constexpr double kTop = 74;
constexpr double kBottom = 44;

/// Ours are solid, peers are dashed if they use TCP; most color-blind readers can distinguish the
/// colors.
struct Style {
  std::string_view library;
  std::string_view colour;
  std::string_view dash;
  double width;
};
constexpr std::array kStyles{
    Style{"openmpi", "#e69f00", "", 1.5},        Style{"mpich", "#009e73", "", 1.5},
    Style{"gloo", "#999999", "", 1.5},           Style{"openmpi-tcp", "#e69f00", "4 3", 1.2},
    Style{"trireme", "#0072b2", "", 2.5},        Style{"trireme-shared", "#d55e00", "", 2.5},
    Style{"trireme-tcp", "#0072b2", "4 3", 1.8},
};

const Style& style_of(std::string_view library) {
  return *std::ranges::find(kStyles, library, &Style::library);
}

/// The decades that the times of one operation span, as powers of ten.
struct Decades {
  int low = 99;
  int high = -99;
};

Decades decades_of(const std::vector<Cell>& cells, Operation operation) {
  Decades decades;
  for (const Cell& cell : cells) {
    if (cell.operation != operation) {
      continue;
    }
    for (const auto& [library, timing] : cell.timings) {
      const double exponent = std::log10(std::max(timing.isolated, 0.01));
      decades.low = std::min(decades.low, static_cast<int>(std::floor(exponent)));
      decades.high = std::max(decades.high, static_cast<int>(std::ceil(exponent)));
    }
  }
  return decades.low < decades.high ? decades : Decades{0, 1};
}

/// "64K": space under a plot is limited.
std::string short_size(std::int64_t bytes) {
  std::string text = size_text(bytes);
  std::erase(text, ' ');
  return text.substr(0, text.find_first_of("iB"));
}

/// One small plot: its position and its mapping from values to coordinates.
class Panel {
 public:
  Panel(double x, double y, Decades decades, const std::vector<std::int64_t>& sizes)
      : x_(x), y_(y), decades_(decades), sizes_(sizes) {}

  [[nodiscard]] double x_of(std::int64_t bytes) const {
    const auto [least, most] = std::ranges::minmax(sizes_);
    const double range = std::log2(static_cast<double>(most) / static_cast<double>(least));
    const double at = std::log2(static_cast<double>(bytes) / static_cast<double>(least));
    return x_ + 8 + (range > 0 ? at / range : 0.5) * (kPanelWidth - 16);
  }
  [[nodiscard]] double y_of(double microseconds) const {
    const double at = std::log10(std::max(microseconds, 0.01)) - decades_.low;
    return y_ + kPanelHeight - at / (decades_.high - decades_.low) * kPanelHeight;
  }

  [[nodiscard]] std::string frame(bool labels_below, bool labels_left) const {
    std::string svg = fmt::format(
        "<rect x='{:.1f}' y='{:.1f}' width='{}' height='{}' fill='none' stroke='#888'/>\n", x_, y_,
        kPanelWidth, kPanelHeight);
    for (int power = decades_.low; power <= decades_.high; ++power) {
      svg += horizontal(power, labels_left);
    }
    for (const std::int64_t bytes : sizes_) {
      svg += vertical(bytes, labels_below);
    }
    return svg;
  }

  [[nodiscard]] std::string line(const std::vector<Cell>& cells, const Style& style) const {
    std::string points;
    std::string dots;
    for (const Cell& cell : cells) {
      const auto found = cell.timings.find(style.library);
      if (found == cell.timings.end()) {
        continue;
      }
      const double x = x_of(cell.bytes);
      const double y = y_of(found->second.isolated);
      points += fmt::format("{:.1f},{:.1f} ", x, y);
      dots += fmt::format(
          "<circle cx='{:.1f}' cy='{:.1f}' r='{}' fill='{}'><title>{} {}: {} us</title></circle>\n",
          x, y, style.width, style.colour, style.library, size_text(cell.bytes),
          time_text(found->second.isolated));
    }
    return fmt::format(
               "<polyline points='{}' fill='none' stroke='{}' stroke-width='{}' "
               "stroke-dasharray='{}'/>\n",
               points, style.colour, style.width, style.dash.empty() ? "none" : style.dash) +
           dots;
  }

 private:
  [[nodiscard]] std::string horizontal(int power, bool label) const {
    const double y = y_of(std::pow(10, power));
    std::string svg =
        fmt::format("<path d='M{:.1f} {:.1f}h{}' stroke='#e4e4e4'/>\n", x_, y, kPanelWidth);
    if (label) {
      const std::string text = power < 3   ? fmt::format("{:g} us", std::pow(10, power))
                               : power < 6 ? fmt::format("{:g} ms", std::pow(10, power - 3))
                                           : fmt::format("{:g} s", std::pow(10, power - 6));
      svg += fmt::format("<text x='{:.1f}' y='{:.1f}' text-anchor='end'>{}</text>\n", x_ - 6, y + 4,
                         text);
    }
    return svg;
  }
  [[nodiscard]] std::string vertical(std::int64_t bytes, bool label) const {
    const double x = x_of(bytes);
    std::string svg =
        fmt::format("<path d='M{:.1f} {:.1f}v{}' stroke='#f0f0f0'/>\n", x, y_, kPanelHeight);
    if (label) {
      svg += fmt::format("<text x='{:.1f}' y='{:.1f}' text-anchor='middle'>{}</text>\n", x,
                         y_ + kPanelHeight + 16, short_size(bytes));
    }
    return svg;
  }

  double x_;
  double y_;
  Decades decades_;
  const std::vector<std::int64_t>& sizes_;  // of the options, which outlive the panel
};

std::string legend(const GridOptions& options) {
  std::string svg;
  double x = kLeft;
  for (const Library& library : options.libraries) {
    const Style& style = style_of(library.name);
    svg += fmt::format(
        "<path d='M{:.1f} 40h26' stroke='{}' stroke-width='{}' stroke-dasharray='{}'/>\n"
        "<text x='{:.1f}' y='44'>{}</text>\n",
        x, style.colour, style.width, style.dash.empty() ? "none" : style.dash, x + 32,
        library.name);
    x += 52 + 7.0 * static_cast<double>(library.name.size());
  }
  return svg;
}

std::vector<Cell> cells_of(const std::vector<Cell>& cells, Operation operation, int ranks) {
  std::vector<Cell> result;
  std::ranges::copy_if(cells, std::back_inserter(result), [&](const Cell& cell) {
    return cell.operation == operation && cell.ranks == ranks;
  });
  std::ranges::sort(result, {}, &Cell::bytes);
  return result;
}

}  // namespace

std::string plot(const std::vector<Cell>& cells, const GridOptions& options) {
  const auto columns = static_cast<double>(options.ranks.size());
  const auto rows = static_cast<double>(options.operations.size());
  const double width = std::max(kLeft + columns * (kPanelWidth + kGap), 860.0);
  const double height = kTop + rows * (kPanelHeight + kGap) + kBottom;
  std::string svg = fmt::format(
      "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {0} {1}' width='{0}' height='{1}' "
      "font-family='sans-serif' font-size='11'>\n<rect width='100%' height='100%' fill='white'/>\n"
      "<text x='{2}' y='20' font-size='13'>Time of an isolated call over the size of the vector; "
      "{3}</text>\n{4}",
      width, height, kLeft, machine(), legend(options));
  for (std::size_t row = 0; row < options.operations.size(); ++row) {
    const Decades decades = decades_of(cells, options.operations[row]);
    for (std::size_t column = 0; column < options.ranks.size(); ++column) {
      const double x = kLeft + static_cast<double>(column) * (kPanelWidth + kGap);
      const double y = kTop + static_cast<double>(row) * (kPanelHeight + kGap);
      const Panel panel(x, y, decades, options.sizes);
      svg += panel.frame(row + 1 == options.operations.size(), column == 0);
      svg += fmt::format("<text x='{:.1f}' y='{:.1f}' font-weight='bold'>{}, {} ranks</text>\n", x,
                         y - 6, to_text(options.operations[row]), options.ranks[column]);
      for (const Library& library : options.libraries) {
        svg += panel.line(cells_of(cells, options.operations[row], options.ranks[column]),
                          style_of(library.name));
      }
    }
  }
  return svg + "</svg>\n";
}

}  // namespace peers
