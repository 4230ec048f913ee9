#include "report/draw/svg.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include <fmt/format.h>

#include "base/check.h"
#include "base/json_text.h"

namespace trireme::report::svg {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

/// At most two decimals, no trailing zeros, no "-0".
std::string number_text(double number) {
  TRIREME_CHECK(std::isfinite(number), "a coordinate of a picture is not a number");
  std::string text = fmt::format("{:.2f}", number);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') {
    text.pop_back();
  }
  return text == "-0" ? "0" : text;
}

/// The character escaped for XML: entities for special characters, U+FFFD for control characters.
std::string_view escaped_character(std::string_view character) {
  switch (character.front()) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '"':
      return "&quot;";
    default:
      return static_cast<unsigned char>(character.front()) < 0x20 ? kReplacement : character;
  }
}

void append_escaped(std::string& out, std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    out += length == 0 ? kReplacement : escaped_character(text.substr(0, length));
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
}

}  // namespace

Element& Element::set(std::string_view attribute, std::string_view text) {
  fmt::format_to(std::back_inserter(attributes_), " {}=\"", attribute);
  append_escaped(attributes_, text);
  attributes_ += '"';
  return *this;
}

Element& Element::set(std::string_view attribute, double number) {
  return set(attribute, number_text(number));
}

Element& Element::add(const Element& child) {
  content_ += child.text();
  return *this;
}

Element& Element::add_text(std::string_view text) {
  append_escaped(content_, text);
  return *this;
}

std::string Element::text() const {
  // A line break inside the tag keeps long files readable without adding text to the picture.
  if (content_.empty()) {
    return fmt::format("<{}{}\n/>", tag_, attributes_);
  }
  return fmt::format("<{0}{1}\n>{2}</{0}>", tag_, attributes_, content_);
}

PathData& PathData::put(char command, Point point) {
  text_ += command;
  text_ += number_text(point.x) + ' ' + number_text(point.y);
  return *this;
}

PathData& PathData::move(Point to) {
  return put('M', to);
}

PathData& PathData::line(Point to) {
  return put('L', to);
}

PathData& PathData::curve(Point out, Point in, Point to) {
  return put('C', out).put(' ', in).put(' ', to);
}

PathData& PathData::close() {
  text_ += 'Z';
  return *this;
}

Element group(std::string_view css_class) {
  Element element("g");
  element.set("class", css_class);
  return element;
}

Element rectangle(const Box& box, std::string_view fill) {
  Element element("rect");
  element.set("x", box.x).set("y", box.y).set("width", box.width).set("height", box.height);
  element.set("fill", fill);
  return element;
}

Element segment(Point from, Point to, const Stroke& stroke) {
  return outline(PathData().move(from).line(to), stroke);
}

Element outline(const PathData& data, const Stroke& stroke) {
  Element element("path");
  element.set("d", data.text()).set("fill", "none");
  element.set("stroke", stroke.color).set("stroke-width", stroke.width);
  if (!stroke.dashes.empty()) {
    element.set("stroke-dasharray", stroke.dashes);
  }
  return element;
}

Element shape(const PathData& data, std::string_view fill) {
  Element element("path");
  element.set("d", data.text()).set("fill", fill);
  return element;
}

Element circle(Point center, double radius, std::string_view fill) {
  Element element("circle");
  element.set("cx", center.x).set("cy", center.y).set("r", radius).set("fill", fill);
  return element;
}

Element words(Point at, std::string_view text, const TextStyle& style) {
  Element element("text");
  element.set("x", at.x).set("y", at.y).set("font-size", style.size).set("fill", style.color);
  if (style.anchor != "start") {
    element.set("text-anchor", style.anchor);
  }
  if (style.weight != "normal") {
    element.set("font-weight", style.weight);
  }
  if (style.halo > 0) {
    element.set("stroke", "#ffffff").set("stroke-width", style.halo);
    element.set("stroke-linejoin", "round").set("paint-order", "stroke");
  }
  return element.add_text(text);
}

Element tooltip(std::string_view text) {
  return Element("title").add_text(text);
}

double text_width(std::string_view text, double size) {
  constexpr double kWidthOfACharacter = 0.6;
  // Bytes 10xxxxxx continue a character.
  const auto characters =
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) >> 6) != 2; });
  return static_cast<double>(characters) * size * kWidthOfACharacter;
}

std::string write(const Document& document, const Element& content) {
  Element root("svg");
  root.set("xmlns", "http://www.w3.org/2000/svg").set("role", "img");
  root.set("width", document.width).set("height", document.height);
  root.set("viewBox",
           fmt::format("0 0 {} {}", number_text(document.width), number_text(document.height)));
  root.set("font-family", "Helvetica, Arial, sans-serif");
  root.add(tooltip(document.title));
  root.add(rectangle({0, 0, document.width, document.height}, "#ffffff"));
  root.add(content);
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n" + root.text() + "\n";
}

}  // namespace trireme::report::svg
