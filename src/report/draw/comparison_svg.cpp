// Predicted time over size as a plot. Both axes are logarithmic: a latency shows as a horizontal
// line, a bandwidth as a slope, and a crossover as the point where two lines cross.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "report/draw/drawing.h"
#include "report/draw/log_axes.h"
#include "report/draw/log_plot.h"
#include "report/draw/palette.h"
#include "report/draw/svg.h"
#include "report/words.h"
#include "trireme/error.h"

namespace trireme::report {
namespace {

using simulate::AlgorithmComparison;
using simulate::ComparisonRow;
using simulate::Crossover;

using svg::Box;
using svg::Element;
using svg::Point;

/// All sizes in SVG units; one unit is a pixel on a standard display.
struct PlotGeometry {
  double margin = 28;
  double title_size = 22;
  double subtitle_size = 14;
  double title_height = 84;
  double crossover_height = 36;  ///< of a label above the plot
  double crossover_gap = 16;     ///< between labels at the same height

  double axis_width = 62;
  double axis_height = 52;
  double plot_width = 780;
  double plot_height = 460;
  double label_size = 12;
  double label_spacing = 17;
  double label_gap = 22;  ///< from the end of a line to its name

  double fastest_width = 9;  ///< of the band under the fastest lines
  double line_width = 2;
  double faded_width = 1.2;
  double dot_radius = 4;
  double dash = 12;  ///< half of the dash that represents a line with one sample
};

constexpr PlotGeometry kPlot;
constexpr std::string_view kFaded = "#b4bac4";
constexpr std::string_view kBound = "#8a919c";
constexpr std::string_view kBoundDashes = "6 5";

/// One algorithm.
struct AlgorithmCurve {
  Algorithm algorithm = Algorithm::Mst;
  std::vector<PlotSample> samples;  ///< by increasing size
  bool wins = false;                ///< fastest somewhere
  std::string color;
};

/// Interpolates linearly between the two neighboring samples, as the plot shows it.
double seconds_at(const AlgorithmCurve& curve, double bytes) {
  const auto next = std::ranges::lower_bound(curve.samples, bytes, {}, &PlotSample::bytes);
  if (next == curve.samples.begin()) {
    return next->seconds;
  }
  const PlotSample& before = *std::prev(next);
  if (next == curve.samples.end()) {
    return before.seconds;
  }
  const double part = std::log(bytes / before.bytes) / std::log(next->bytes / before.bytes);
  return before.seconds * std::pow(next->seconds / before.seconds, part);
}

std::vector<PlotSample> samples_of(const AlgorithmComparison& comparison, Algorithm algorithm) {
  std::vector<PlotSample> samples;
  for (const ComparisonRow& row : comparison.rows) {
    const auto found = std::ranges::find(row.ranking, algorithm, &Choice::algorithm);
    // A logarithmic plot cannot show 0.
    if (found != row.ranking.end() && row.bytes.count > 0 && found->predicted.count > 0) {
      samples.push_back({static_cast<double>(row.bytes.count), found->predicted.count});
    }
  }
  return samples;
}

bool is_fastest_somewhere(const AlgorithmComparison& comparison, Algorithm algorithm) {
  return std::ranges::any_of(
             comparison.crossovers,
             [&](const Crossover& crossover) { return crossover.after == algorithm; }) ||
         std::ranges::any_of(comparison.rows, [&](const ComparisonRow& row) {
           return !row.ranking.empty() && row.ranking.front().algorithm == algorithm;
         });
}

std::vector<AlgorithmCurve> make_curves(const AlgorithmComparison& comparison) {
  std::vector<AlgorithmCurve> curves;
  for (const Algorithm algorithm : all_algorithms()) {
    if (std::vector<PlotSample> samples = samples_of(comparison, algorithm); !samples.empty()) {
      curves.push_back(
          {algorithm, std::move(samples), is_fastest_somewhere(comparison, algorithm), {}});
    }
  }
  const Palette palette(std::ranges::count(curves, true, &AlgorithmCurve::wins));
  std::size_t winner = 0;
  for (AlgorithmCurve& curve : curves) {
    curve.color = curve.wins ? palette.ink(winner++) : std::string(kFaded);
  }
  return curves;
}

std::vector<PlotSample> bound_samples(const AlgorithmComparison& comparison) {
  std::vector<PlotSample> samples;
  for (const ComparisonRow& row : comparison.rows) {
    const Seconds bound =
        lower_bound(comparison.operation, comparison.ranks, {row.bytes.count}, comparison.costs);
    if (row.bytes.count > 0 && bound.count > 0) {
      samples.push_back({static_cast<double>(row.bytes.count), bound.count});
    }
  }
  return samples;
}

std::string costs_label(const CostModel& costs) {
  std::string text;
  for (const LinkLevel& level : costs.levels) {
    if (!costs.is_uniform()) {
      text += level.span > 0 ? fmt::format("within {} ranks ", level.span) : "beyond ";
    }
    text += fmt::format("α = {}, β = {}/B, ", to_text(level.alpha), to_text(level.beta));
  }
  return text + fmt::format("γ = {}/B", to_text(costs.gamma));
}

class ComparisonArtist {
 public:
  explicit ComparisonArtist(const AlgorithmComparison& comparison)
      : comparison_(comparison),
        curves_(make_curves(comparison)),
        bound_(bound_samples(comparison)),
        bytes_(find_range(&PlotSample::bytes, 1)),
        seconds_(find_range(&PlotSample::seconds, 1.25)),
        levels_(place_flip_labels()),
        plot_(place_plot(), {bytes_, seconds_}) {}

  [[nodiscard]] std::string draw() const {
    Element canvas("g");
    canvas.add(draw_title()).add(draw_axes());
    canvas.add(draw_flip_lines()).add(draw_fastest()).add(draw_curves());
    canvas.add(draw_names()).add(draw_crossovers());
    return svg::write({width(), plot_.bottom() + kPlot.axis_height + kPlot.margin, title()},
                      canvas);
  }

 private:
  using Range = LogScale::Range;

  [[nodiscard]] std::string title() const {
    return fmt::format("{} · {} · predicted time by size", to_text(comparison_.operation),
                       plural(comparison_.ranks, "rank"));
  }

  /// Of all lines, with some margin.
  [[nodiscard]] Range find_range(double PlotSample::*value, double room) const {
    std::vector<double> values;
    for (const AlgorithmCurve& curve : curves_) {
      std::ranges::transform(curve.samples, std::back_inserter(values), value);
    }
    std::ranges::transform(bound_, std::back_inserter(values), value);
    if (values.empty()) {
      throw Error(ErrorKind::Usage,
                  fmt::format("there is nothing to plot: {} over {} takes no time at these sizes; "
                              "compare more ranks (--ranks) or larger sizes",
                              to_text(comparison_.operation), plural(comparison_.ranks, "rank")));
    }
    return range_of(values, room);
  }

  // Where things are.

  [[nodiscard]] double crossover_x(const Crossover& crossover) const {
    const LogScale x(bytes_, {plot_left(), plot_left() + kPlot.plot_width});
    return x.at(static_cast<double>(crossover.bytes.count));
  }

  [[nodiscard]] static double plot_left() { return kPlot.margin + kPlot.axis_width; }

  [[nodiscard]] static std::string crossover_text(const Crossover& crossover) {
    return fmt::format("{} → {}", to_text(crossover.before), to_text(crossover.after));
  }

  [[nodiscard]] static double crossover_width(const Crossover& crossover) {
    return std::max(svg::text_width(crossover_text(crossover), kPlot.label_size),
                    svg::text_width(to_text(crossover.bytes), kPlot.label_size));
  }

  /// How high above the plot each crossover's label is, in lines of labels. From right to left, so that
  /// no label overlaps a marker.
  [[nodiscard]] std::vector<int> place_flip_labels() const {
    std::vector<int> levels(comparison_.crossovers.size());
    std::vector<double> taken_from;  // by level: where the leftmost label begins
    for (std::size_t k = levels.size(); k-- > 0;) {
      const Crossover& crossover = comparison_.crossovers[k];
      const double right =
          crossover_x(crossover) + crossover_width(crossover) + kPlot.crossover_gap;
      const auto free =
          std::ranges::find_if(taken_from, [&](double left) { return right <= left; });
      levels[k] = static_cast<int>(free - taken_from.begin());
      if (free == taken_from.end()) {
        taken_from.emplace_back();
      }
      taken_from[levels[k]] = crossover_x(crossover);
    }
    return levels;
  }

  [[nodiscard]] Box place_plot() const {
    const int lines = levels_.empty() ? 0 : *std::ranges::max_element(levels_) + 1;
    return {plot_left(), kPlot.margin + kPlot.title_height + lines * kPlot.crossover_height,
            kPlot.plot_width, kPlot.plot_height};
  }

  [[nodiscard]] double width() const {
    double names = svg::text_width("lower bound", kPlot.label_size);
    for (const AlgorithmCurve& curve : curves_) {
      names = std::max(names, svg::text_width(to_text(curve.algorithm), kPlot.label_size));
    }
    double right = plot_.right() + kPlot.label_gap + names;
    for (const Crossover& crossover : comparison_.crossovers) {
      right = std::max(right, crossover_x(crossover) + crossover_width(crossover));
    }
    return right + kPlot.margin;
  }

  /// A single sample becomes a dash.
  [[nodiscard]] svg::PathData trace(std::span<const PlotSample> samples) const {
    if (samples.size() != 1) {
      return plot_.trace(samples);
    }
    const Point at = plot_.place(samples.front());
    svg::PathData path;
    return path.move({at.x - kPlot.dash, at.y}).line({at.x + kPlot.dash, at.y});
  }

  // Drawing.

  [[nodiscard]] Element draw_title() const {
    const PlotGeometry& g = kPlot;
    const double base = g.margin + g.title_size;
    const svg::TextStyle quiet{.size = g.subtitle_size, .color = kQuiet};
    Element head = svg::group("title");
    head.add(svg::words({g.margin, base}, title(), {.size = g.title_size, .weight = "bold"}));
    return head.add(svg::words(
        {g.margin, base + 1.7 * g.subtitle_size},
        costs_label(comparison_.costs) + " · band: fastest · gray: never fastest", quiet));
  }

  [[nodiscard]] Element draw_axes() const {
    Element axes = plot_.draw_axes();
    axes.add(svg::words({plot_left() + kPlot.plot_width / 2, plot_.bottom() + 44},
                        "size of the vector", {.size = kPlot.label_size + 1, .anchor = "middle"}));
    return axes;
  }

  [[nodiscard]] const AlgorithmCurve* find_curve(Algorithm algorithm) const {
    const auto found = std::ranges::find(curves_, algorithm, &AlgorithmCurve::algorithm);
    return found == curves_.end() ? nullptr : &*found;
  }

  /// A band along the lower edge of all lines, in pieces from crossover to crossover.
  [[nodiscard]] Element draw_fastest() const {
    Element band = svg::group("fastest");
    const AlgorithmCurve* winner = first_winner();
    double from = bytes_.first;
    for (const Crossover& crossover : comparison_.crossovers) {
      const auto to = static_cast<double>(crossover.bytes.count);
      add_piece(winner, {from, to}, band);
      winner = find_curve(crossover.after);
      from = to;
    }
    add_piece(winner, {from, bytes_.last}, band);
    return band;
  }

  [[nodiscard]] const AlgorithmCurve* first_winner() const {
    for (const ComparisonRow& row : comparison_.rows) {
      if (row.bytes.count > 0 && !row.ranking.empty()) {
        return find_curve(row.ranking.front().algorithm);
      }
    }
    return nullptr;
  }

  void add_piece(const AlgorithmCurve* curve, Range range, Element& band) const {
    if (curve == nullptr) {
      return;
    }
    std::vector<PlotSample> samples{{range.first, seconds_at(*curve, range.first)}};
    for (const PlotSample& sample : curve->samples) {
      if (sample.bytes > range.first && sample.bytes < range.last) {
        samples.push_back(sample);
      }
    }
    samples.push_back({range.last, seconds_at(*curve, range.last)});
    Element piece =
        svg::outline(trace(samples), {.color = curve->color, .width = kPlot.fastest_width});
    piece.set("opacity", 0.3).set("stroke-linejoin", "round");
    band.add(piece);
  }

  [[nodiscard]] Element draw_curves() const {
    Element lines = svg::group("curves");
    Element bound = svg::outline(
        trace(bound_), {.color = kBound, .width = kPlot.faded_width, .dashes = kBoundDashes});
    lines.add(bound.set("class", "bound"));
    for (const bool wins : {false, true}) {
      for (const AlgorithmCurve& curve : curves_) {
        if (curve.wins == wins) {
          Element line = svg::outline(
              trace(curve.samples),
              {.color = curve.color, .width = wins ? kPlot.line_width : kPlot.faded_width});
          lines.add(line.set("class", "algorithm").set("data-name", to_text(curve.algorithm)));
        }
      }
    }
    return lines;
  }

  struct Name {
    std::string_view text;
    double y = 0;
    std::string_view color;
    std::string_view weight;
  };

  /// At the right ends of the lines, moved apart if they would overlap.
  [[nodiscard]] Element draw_names() const {
    std::vector<Name> names;
    if (!bound_.empty()) {
      names.push_back({"lower bound", plot_.place(bound_.back()).y, kBound, "normal"});
    }
    for (const AlgorithmCurve& curve : curves_) {
      names.push_back({to_text(curve.algorithm), plot_.place(curve.samples.back()).y,
                       curve.wins ? curve.color : kQuiet, curve.wins ? "bold" : "normal"});
    }
    std::ranges::stable_sort(names, {}, &Name::y);
    std::vector<double> preferred;
    std::ranges::transform(names, std::back_inserter(preferred), &Name::y);
    const std::vector<double> places = keep_apart(preferred, kPlot.label_spacing);
    Element drawn = svg::group("names");
    for (std::size_t k = 0; k < names.size(); ++k) {
      drawn.add(draw_name(names[k], places[k]));
    }
    return drawn;
  }

  [[nodiscard]] Element draw_name(const Name& line, double y) const {
    const double right = plot_.right();
    Element drawn = svg::group("name");
    drawn.add(svg::segment({right + 2, line.y}, {right + kPlot.label_gap - 4, y},
                           {.color = line.color, .width = 0.8}));
    return drawn.add(
        svg::words({right + kPlot.label_gap, y + 4}, line.text,
                   {.size = kPlot.label_size, .color = line.color, .weight = line.weight}));
  }

  [[nodiscard]] double crossover_label_top(std::size_t k) const {
    return plot_.top() - (levels_[k] + 1) * kPlot.crossover_height;
  }

  [[nodiscard]] Element draw_flip_lines() const {
    Element lines = svg::group("crossover-lines");
    for (std::size_t k = 0; k < comparison_.crossovers.size(); ++k) {
      const double x = crossover_x(comparison_.crossovers[k]);
      lines.add(svg::segment({x, crossover_label_top(k)}, {x, plot_.bottom()},
                             {.color = kQuiet, .width = 1, .dashes = "2 3"}));
    }
    return lines;
  }

  [[nodiscard]] Element draw_crossovers() const {
    Element crossovers("g");
    for (std::size_t k = 0; k < comparison_.crossovers.size(); ++k) {
      const Crossover& crossover = comparison_.crossovers[k];
      const double x = crossover_x(crossover);
      const double base = crossover_label_top(k) + kPlot.label_size;
      Element drawn = svg::group("crossover");
      drawn.add(svg::words({x + 6, base}, to_text(crossover.bytes),
                           {.size = kPlot.label_size, .weight = "bold"}));
      drawn.add(
          svg::words({x + 6, base + 15}, crossover_text(crossover), {.size = kPlot.label_size}));
      if (const AlgorithmCurve* after = find_curve(crossover.after)) {
        const auto bytes = static_cast<double>(crossover.bytes.count);
        const Point at = plot_.place({bytes, seconds_at(*after, bytes)});
        Element dot = svg::circle(at, kPlot.dot_radius, "#ffffff");
        drawn.add(dot.set("stroke", kInk).set("stroke-width", 1.6));
      }
      crossovers.add(drawn);
    }
    return crossovers;
  }

  const AlgorithmComparison& comparison_;
  std::vector<AlgorithmCurve> curves_;
  std::vector<PlotSample> bound_;
  Range bytes_;
  Range seconds_;
  std::vector<int> levels_;
  LogPlot plot_;
};

}  // namespace

std::string comparison_svg(const AlgorithmComparison& comparison) {
  return ComparisonArtist(comparison).draw();
}

}  // namespace trireme::report
