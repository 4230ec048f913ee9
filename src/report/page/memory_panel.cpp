// Memory by category over the traced step, for each rank.
#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "report/draw/linear_scale.h"
#include "report/page/panels.h"
#include "report/page/traced_step.h"

namespace trireme::report {
namespace {

constexpr double kMemoryWidth = 480;
constexpr double kMemoryHeight = 190;
constexpr double kMemoryLeft = 66;
constexpr double kMemoryRight = 12;
constexpr double kMemoryTop = 10;
constexpr double kMemoryBottom = 30;
constexpr std::size_t kMostPictures = 8;
constexpr double kMebibyte = 1024 * 1024;

/// Always the same for a category, in the order in which they are stacked.
struct CategoryColor {
  std::string_view category;
  std::string_view color;
};
constexpr std::array<CategoryColor, 7> kStack{{{"parameter", "m1"},
                                               {"optimizer", "m2"},
                                               {"gradient", "m3"},
                                               {"activation", "m4"},
                                               {"communication", "m5"},
                                               {"workspace", "m6"},
                                               {"input", "m7"}}};

/// The bytes of a category; 0 if the rank has none.
double bytes_of(const MemoryCourse& course, const MemoryMoment& moment, std::string_view category) {
  const auto found = std::ranges::find(course.categories, category);
  return found == course.categories.end() ? 0 : moment.bytes.at(found - course.categories.begin());
}

struct Axes {
  LinearScale x;  ///< seconds
  LinearScale y;  ///< MiB
};

/// The area of a category, stacked on the ones below, as steps.
Element draw_layer(const MemoryCourse& course, std::size_t layer, const Axes& axes) {
  std::vector<svg::Point> top;
  std::vector<svg::Point> bottom;
  for (std::size_t i = 0; i < course.moments.size(); ++i) {
    const MemoryMoment& moment = course.moments[i];
    double below = 0;
    for (std::size_t k = 0; k < layer; ++k) {
      below += bytes_of(course, moment, kStack.at(k).category);
    }
    const double above = below + bytes_of(course, moment, kStack.at(layer).category);
    const double from = axes.x.at(moment.time);
    const double to =
        axes.x.at(i + 1 < course.moments.size() ? course.moments[i + 1].time : axes.x.last);
    for (const double x : {from, to}) {
      top.push_back({x, axes.y.at(above / kMebibyte)});
      bottom.push_back({x, axes.y.at(below / kMebibyte)});
    }
  }
  svg::PathData path;
  path.move(top.front());
  std::ranges::for_each(top, [&](svg::Point point) { path.line(point); });
  std::for_each(bottom.rbegin(), bottom.rend(), [&](svg::Point point) { path.line(point); });
  Element element("path");
  return element.set("d", path.close().text()).set("class", kStack.at(layer).color);
}

Element label(svg::Point at, std::string_view css_class, std::string_view text) {
  Element element("text");
  element.set("x", at.x).set("y", at.y).set("class", css_class);
  return element.add_text(text);
}

Element draw_axes(const Axes& axes) {
  Element group("g");
  for (const double tick : ticks_of(axes.y, 3)) {
    Element line("line");
    line.set("x1", kMemoryLeft).set("x2", kMemoryWidth - kMemoryRight).set("class", "grid");
    line.set("y1", axes.y.at(tick)).set("y2", axes.y.at(tick));
    group.add(line).add(
        label({kMemoryLeft - 8, axes.y.at(tick) + 4}, "y-label", fmt::format("{:g} MiB", tick)));
  }
  for (const double tick : ticks_of(axes.x, 5)) {
    group.add(label({axes.x.at(tick), kMemoryHeight - 8}, "x-label", to_text(Seconds{tick})));
  }
  return group;
}

Element draw_course(const std::string& rank, const MemoryCourse& course, const Axes& axes) {
  Element picture("svg");
  picture.set("class", "chart stack").set("role", "img");
  picture.set("viewBox", fmt::format("0 0 {} {}", kMemoryWidth, kMemoryHeight));
  const MemoryMoment& peak = course.peak();
  picture.set("aria-label", fmt::format("Memory of {} over the step; its peak of {} is at {}", rank,
                                        to_text(Bytes{static_cast<std::int64_t>(peak.total())}),
                                        to_text(Seconds{peak.time})));
  picture.add(draw_axes(axes));
  for (std::size_t layer = 0; layer < kStack.size(); ++layer) {
    const bool used = std::ranges::any_of(course.moments, [&](const MemoryMoment& moment) {
      return bytes_of(course, moment, kStack.at(layer).category) > 0;
    });
    if (used) {
      picture.add(draw_layer(course, layer, axes));
    }
  }
  return html("figure").add(html("figcaption", {}, rank)).add(picture);
}

Row row_of(const std::string& rank, const MemoryCourse& course) {
  const MemoryMoment& peak = course.peak();
  const auto cell = [](std::string_view key, double bytes) {
    return number_cell(key, bytes, to_text(Bytes{static_cast<std::int64_t>(bytes)}));
  };
  Row row{.cells = {text_cell(rank), cell("total", peak.total())},
          .attributes = {{"data-rank", rank}}};
  for (const CategoryColor& one : kStack) {
    row.cells.push_back(cell(one.category, bytes_of(course, peak, one.category)));
  }
  row.cells.push_back(number_cell("time", peak.time, to_text(Seconds{peak.time})));
  return row;
}

/// At most one moment, the fullest, in each of many short stretches of the step.
MemoryCourse thinned_course(const MemoryCourse& course, double end) {
  constexpr double kStretches = 200;
  MemoryCourse kept{.categories = course.categories};
  double stretch = -1;
  for (const MemoryMoment& moment : course.moments) {
    const double now = std::floor(kStretches * moment.time / end);
    if (now > stretch) {
      kept.moments.push_back(moment);
      stretch = now;
    } else if (moment.total() > kept.moments.back().total()) {
      kept.moments.back().bytes = moment.bytes;
    }
  }
  return kept;
}

struct RankCourse {
  std::string rank{};
  MemoryCourse course{};
};

std::vector<RankCourse> courses_of(const Trace& trace) {
  std::vector<RankCourse> courses;
  for (const TracedRank& rank : traced_ranks(trace)) {
    if (MemoryCourse course = memory_of(rank); !course.moments.empty()) {
      courses.push_back({rank.name, std::move(course)});
    }
  }
  return courses;
}

Element draw_pictures(const std::vector<RankCourse>& courses, double end) {
  double highest = 1;  // byte
  for (const RankCourse& one : courses) {
    highest = std::max(highest, one.course.peak().total());
  }
  const Axes axes{
      .x = {.first = 0, .last = end, .from = kMemoryLeft, .to = kMemoryWidth - kMemoryRight},
      .y = {.first = 0,
            .last = 1.05 * highest / kMebibyte,
            .from = kMemoryHeight - kMemoryBottom,
            .to = kMemoryTop}};
  Element pictures = html("div", "multiples");
  for (std::size_t i = 0; i < std::min(courses.size(), kMostPictures); ++i) {
    pictures.add(draw_course(courses[i].rank, thinned_course(courses[i].course, end), axes));
  }
  return pictures;
}

Element draw_memory(std::size_t number, const RunRecord& run) {
  if (!run.trace) {
    return not_recorded(kNoTrace);
  }
  const std::vector<RankCourse> courses = courses_of(*run.trace);
  if (courses.empty()) {
    return not_recorded("Not recorded: this trace.json has no memory counters.");
  }
  Table table{.caption = "Memory at the peak of each rank, by category",
              .headings = {"rank", "all"},
              .source = "trace.json",
              .run = number};
  std::vector<LegendEntry> entries;
  for (const CategoryColor& one : kStack) {
    table.headings.emplace_back(one.category);
    entries.push_back({one.color, std::string(one.category)});
  }
  table.headings.emplace_back("at");
  for (const RankCourse& one : courses) {
    table.rows.push_back(row_of(one.rank, one.course));
  }
  Element element = html("div");
  element.add(legend(entries)).add(draw_pictures(courses, end_of(*run.trace).count));
  if (courses.size() > kMostPictures) {
    element.add(html("p", "about",
                     fmt::format("The first {} of {} ranks are drawn; the table has "
                                 "all of them.",
                                 kMostPictures, courses.size())));
  }
  return element.add(draw(table));
}

}  // namespace

Element memory_panel(Runs runs) {
  Element element = panel({.id = "memory",
                           .title = "Memory over the step",
                           .about = "What each rank's buffers hold while the traced step runs, "
                                    "without the kernels' scratch space and evaluation.",
                           .wide = true});
  add_each(element, runs, draw_memory);
  return element;
}

}  // namespace trireme::report
