// Reads a report page as a program would: its panels, and the numbers in the attributes of its cells.
#pragma once

#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "report/xml_tree.h"

namespace trireme::report {

/// A number on the page, with where it says that it is from.
struct PageNumber {
  std::string source{};                      ///< a file of the run: "metrics.jsonl"
  std::string run{};                         ///< "0"
  std::string panel{};                       ///< "loss"
  std::map<std::string, std::string> row{};  ///< attributes of its row: {"data-step", "3"}
  std::string key{};
  double value = 0;
  std::string text{};  ///< as people see it
};

/// The panels: what is inside <main>, which must be well formed.
inline XmlNode panels_of(const std::string& page) {
  const std::size_t begin = page.find("<main");
  const std::string end = "</main>";
  const std::size_t last = page.find(end);
  if (begin == std::string::npos || last == std::string::npos) {
    throw std::runtime_error("the page has no <main>");
  }
  return XmlReader("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n" +
                   page.substr(begin, last + end.size() - begin))
      .read();
}

inline std::string text_of(const XmlNode& node) {
  std::string text = node.text;
  for (const XmlNode& child : node.children) {
    text += text_of(child);
  }
  return text;
}

class PageNumbers {
 public:
  explicit PageNumbers(const XmlNode& root) { visit(root, {}); }
  [[nodiscard]] const std::vector<PageNumber>& all() const { return all_; }

 private:
  void visit(const XmlNode& node, PageNumber around) {
    if (node.tag == "section") {
      around.panel = node.get("id");
    }
    if (!node.get("data-source").empty()) {
      around.source = node.get("data-source");
      around.run = node.get("data-run");
    }
    if (node.tag == "tr") {
      around.row = node.attributes;
    }
    if (node.attributes.contains("data-value")) {
      PageNumber number = around;
      number.row.insert(node.attributes.begin(), node.attributes.end());
      number.key = node.get("data-key");
      number.value = std::stod(node.get("data-value"));
      number.text = node.text;
      all_.push_back(number);
    }
    for (const XmlNode& child : node.children) {
      visit(child, around);
    }
  }

  std::vector<PageNumber> all_;
};

}  // namespace trireme::report
