#include "report/draw/glyphs.h"

#include <algorithm>
#include <set>

namespace trireme::report {
namespace {

using svg::Element;
using svg::Point;

constexpr double kPalest = 0.2;  // the strength of a single contribution of very many
constexpr double kSpentOpacity = 0.35;
constexpr double kSmallCell = 14;
constexpr double kCapital = 0.36;  // half the height of a capital letter, by font size

/// The tip is at `tip`, pointing down.
Element draw_head(Point tip, std::string_view color) {
  const double half = 0.5 * kSizes.arrow_head;
  const double top = tip.y - kSizes.arrow_head;
  svg::PathData triangle;
  triangle.move(tip).line({tip.x - half, top}).line({tip.x + half, top}).close();
  return svg::shape(triangle, color);
}

Element draw_plus(Point center, std::string_view color) {
  const double arm = 0.6 * kSizes.plus_radius;
  const svg::Stroke white{.color = "#ffffff", .width = kSizes.arrow_width};
  Element plus = svg::group("plus");
  plus.add(svg::circle(center, kSizes.plus_radius, color));
  plus.add(svg::segment({center.x - arm, center.y}, {center.x + arm, center.y}, white));
  plus.add(svg::segment({center.x, center.y - arm}, {center.x, center.y + arm}, white));
  return plus;
}

}  // namespace

BlockColors::BlockColors(const Schedule& schedule)
    : blocks_per_hue_(schedule.layout == Layout::Pairs ? schedule.ranks : 1),
      palette_(schedule.blocks / blocks_per_hue_) {}

std::size_t BlockColors::hue(Block block) const {
  return block / blocks_per_hue_;
}

std::string BlockColors::fill(Block block, double strength) const {
  return palette_.fill(hue(block), strength);
}

std::string BlockColors::ink(std::span<const BlockRun> blocks) const {
  std::set<std::size_t> hues;
  for_each_block(blocks, [&](Block block) { hues.insert(hue(block)); });
  return hues.size() == 1 ? palette_.ink(*hues.begin()) : std::string(kMixed);
}

CellStyle cell_style(const CellState& state, const BlockColors& colors, Block block) {
  CellStyle look;
  if (state.contributors == 0) {
    return look;
  }
  look.fill = colors.fill(block, kPalest + (1 - kPalest) * std::min(1.0, state.share));
  look.rim = "#7b828d";
  if (state.finished) {
    look.rim = kInk;
    look.rim_width = 2;
  } else if (state.spent) {
    look.dashes = "2 2";
    look.opacity = kSpentOpacity;
  }
  return look;
}

Element draw_cell(const svg::Box& box, const CellStyle& look, std::string_view label) {
  Element cell = svg::group("cell");
  if (look.opacity < 1) {
    cell.set("opacity", look.opacity);
  }
  Element body = svg::rectangle(box, look.fill);
  const double thinner = box.width < kSmallCell ? 0.6 : 1;
  body.set("stroke", look.rim).set("stroke-width", thinner * look.rim_width);
  if (!look.dashes.empty()) {
    body.set("stroke-dasharray", look.dashes);
  }
  cell.add(body);
  if (!label.empty() && svg::text_width(label, kSizes.label_size) <= box.width) {
    const Point middle{box.x + box.width / 2,
                       box.y + box.height / 2 + kCapital * kSizes.label_size};
    cell.add(svg::words(middle, label, {.size = kSizes.label_size, .anchor = "middle"}));
  }
  return cell;
}

Element draw_arrow(const Arrow& arrow, std::string_view color) {
  const bool combine = arrow.action == Action::Combine;
  const Point head_top{arrow.to.x, arrow.to.y - kSizes.arrow_head};
  const Point end{head_top.x, head_top.y - (combine ? kSizes.plus_radius : 0)};
  const double pull = 0.55 * (end.y - arrow.bend);
  const Point bend{arrow.from.x, arrow.bend};
  svg::PathData line;
  line.move(arrow.from).line(bend);
  line.curve({bend.x, bend.y + pull}, {end.x, end.y - pull}, end);
  Element drawn = svg::group(combine ? "combine" : "copy");
  drawn.add(svg::outline(line, {.color = color, .width = kSizes.arrow_width}));
  drawn.add(draw_head(arrow.to, color));
  return combine ? drawn.add(draw_plus(end, color)) : drawn;
}

}  // namespace trireme::report
