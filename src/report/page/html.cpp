#include "report/page/html.h"

#include <cmath>

#include <fmt/format.h>

#include "trireme/units.h"

namespace trireme::report {
namespace {

Element draw_bar(const std::vector<BarPart>& parts) {
  Element bar("svg");
  bar.set("class", "bar").set("aria-hidden", "true").set("preserveAspectRatio", "none");
  bar.set("viewBox", "0 0 100 10");
  for (const BarPart& part : parts) {
    Element rect("rect");
    rect.set("class", part.color).set("x", part.start).set("width", part.width);
    rect.set("y", 0.0).set("height", 10.0);
    bar.add(rect);
  }
  return bar;
}

Element draw_cell(const Cell& cell, bool heading) {
  Element element(heading ? "th" : "td");
  if (heading) {
    element.set("scope", "row");
  }
  if (!cell.key.empty()) {
    element.set("class", "number").set("data-key", cell.key);
    element.set("data-value", fmt::format("{}", cell.value));
  } else if (!cell.bar.empty()) {
    return element.set("class", "graph").add(draw_bar(cell.bar));
  }
  return element.add_text(cell.text.empty() ? "–" : cell.text);
}

Element draw_row(const Row& row) {
  Element element("tr");
  if (!row.css_class.empty()) {
    element.set("class", row.css_class);
  }
  for (const auto& [name, value] : row.attributes) {
    element.set(name, value);
  }
  for (std::size_t i = 0; i < row.cells.size(); ++i) {
    element.add(draw_cell(row.cells[i], i == 0));
  }
  return element;
}

Element draw_head(const std::vector<std::string>& headings) {
  Element row("tr");
  for (const std::string& heading : headings) {
    Element cell("th");
    row.add(cell.set("scope", "col").add_text(heading.empty() ? "\u00a0" : heading));
  }
  return Element("thead").add(row);
}

}  // namespace

Element html(std::string_view tag, std::string_view css_class, std::string_view text) {
  Element element(tag);
  if (!css_class.empty()) {
    element.set("class", css_class);
  }
  if (!text.empty()) {
    element.add_text(text);
  }
  return element;
}

Element panel(const PanelFrame& frame) {
  Element section = html("section", frame.wide ? "panel wide" : "panel");
  const std::string heading = fmt::format("{}-title", frame.id);
  section.set("id", frame.id).set("aria-labelledby", heading);
  section.add(html("h2", {}, frame.title).set("id", heading));
  if (!frame.about.empty()) {
    section.add(html("p", "about", frame.about));
  }
  return section;
}

Element not_recorded(std::string_view why) {
  return html("p", "missing", why);
}

Cell number_cell(std::string_view key, double value, std::string text) {
  return {.text = std::move(text), .key = std::string(key), .value = value};
}

Cell text_cell(std::string text) {
  return {.text = std::move(text)};
}

Cell bar_cell(std::vector<BarPart> parts) {
  return {.bar = std::move(parts)};
}

Element draw(const Table& table) {
  Element element("table");
  element.set("data-run", std::to_string(table.run));
  if (!table.source.empty()) {
    element.set("data-source", table.source);
  }
  element.add(html("caption", {}, table.caption)).add(draw_head(table.headings));
  Element body("tbody");
  for (const Row& row : table.rows) {
    body.add(draw_row(row));
  }
  if (!table.rows.empty()) {
    element.add(body);
  }
  Element region = html("div", "scroll");
  region.set("role", "region").set("tabindex", "0").set("aria-label", table.caption);
  return region.add(element);
}

Element folded(std::string_view summary, const Table& table) {
  return Element("details").add(html("summary", {}, summary)).add(draw(table));
}

Element legend(const std::vector<LegendEntry>& entries) {
  Element list = html("ul", "legend");
  for (const LegendEntry& entry : entries) {
    Element swatch("svg");
    swatch.set("class", "swatch").set("aria-hidden", "true").set("viewBox", "0 0 10 10");
    Element rect("rect");
    rect.set("class", entry.color).set("width", 10.0).set("height", 10.0).set("rx", 2.0);
    list.add(Element("li").add(swatch.add(rect)).add(html("span", {}, entry.text)));
  }
  return list;
}

std::string loss_text(double loss) {
  return fmt::format("{:.4f}", loss);
}

std::string seconds_text(double seconds) {
  return to_text(Seconds{seconds});
}

std::string rate_text(double units_per_second) {
  constexpr double kThousand = 1000;
  if (units_per_second >= kThousand * kThousand) {
    return fmt::format("{:.2f} M", units_per_second / kThousand / kThousand);
  }
  return units_per_second >= kThousand ? fmt::format("{:.1f} k", units_per_second / kThousand)
                                       : fmt::format("{:.1f}", units_per_second);
}

std::string share_text(double share) {
  return fmt::format("{:.1f} %", 100 * share);
}

}  // namespace trireme::report
