// A minimal SVG writer: elements with escaped text, the few shapes that our pictures need, and an
// estimate of text width. Plain values; any thread.
#pragma once

#include <string>
#include <string_view>

namespace trireme::report::svg {

struct Point {
  double x = 0;
  double y = 0;
};

struct Box {
  double x = 0;
  double y = 0;
  double width = 0;
  double height = 0;
};

/// One element: attributes, then text and children in the order in which they were added.
class Element {
 public:
  explicit Element(std::string_view tag) : tag_(tag) {}

  /// Sets an attribute that is not set yet. The text is escaped; a number gets at most two decimals
  /// and must be finite.
  Element& set(std::string_view attribute, std::string_view text);
  Element& set(std::string_view attribute, double number);
  Element& add(const Element& child);
  Element& add_text(std::string_view text);

  [[nodiscard]] bool empty() const { return content_.empty(); }
  [[nodiscard]] std::string text() const;

 private:
  std::string tag_;
  std::string attributes_;
  std::string content_;
};

/// The "d" of a path, piece by piece.
class PathData {
 public:
  PathData& move(Point to);
  PathData& line(Point to);
  PathData& curve(Point out, Point in, Point to);  ///< cubic, with its two control points
  PathData& close();
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  PathData& put(char command, Point point);
  std::string text_;
};

struct Stroke {
  std::string_view color;
  double width = 1;
  std::string_view dashes = {};  ///< as in stroke-dasharray; empty: solid
};

struct TextStyle {
  double size = 12;
  std::string_view color = "#1b1f24";
  /// Which part of the text is at the point: start, middle or end.
  std::string_view anchor = "start";
  std::string_view weight = "normal";
  double halo = 0;  ///< width of a white rim that keeps the text readable on top of lines
};

[[nodiscard]] Element group(std::string_view css_class);
[[nodiscard]] Element rectangle(const Box& box, std::string_view fill);
[[nodiscard]] Element segment(Point from, Point to, const Stroke& stroke);
/// A line without a fill.
[[nodiscard]] Element outline(const PathData& data, const Stroke& stroke);
/// A closed shape without a stroke.
[[nodiscard]] Element shape(const PathData& data, std::string_view fill);
[[nodiscard]] Element circle(Point center, double radius, std::string_view fill);
/// One line of text; the point is on its baseline.
[[nodiscard]] Element words(Point at, std::string_view text, const TextStyle& style);
/// The text that a browser shows when the pointer is over the parent.
[[nodiscard]] Element tooltip(std::string_view text);

/// A conservative estimate, for the common sans-serif fonts.
[[nodiscard]] double text_width(std::string_view text, double size);

/// A whole file: white background, the title for screen readers, then the content.
struct Document {
  double width = 0;
  double height = 0;
  std::string_view title;
};
[[nodiscard]] std::string write(const Document& document, const Element& content);

}  // namespace trireme::report::svg
