// A strict parser for the small part of XML that our pictures use. Throws std::runtime_error on
// anything that is not well formed: open tags, unquoted or duplicate attributes, bare & and <, more
// than one root.
#pragma once

#include <algorithm>
#include <cctype>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::report {

struct XmlNode {
  std::string tag;
  std::map<std::string, std::string> attributes;
  std::vector<XmlNode> children;
  std::string text;  ///< directly inside, not that of children

  [[nodiscard]] std::string get(const std::string& attribute) const {
    const auto found = attributes.find(attribute);
    return found == attributes.end() ? "" : found->second;
  }

  /// This node and all its descendants that satisfy the predicate, in document order. The pointers
  /// live as long as this node.
  [[nodiscard]] std::vector<const XmlNode*> find_if(
      const std::function<bool(const XmlNode&)>& test) const {
    std::vector<const XmlNode*> found;
    if (test(*this)) {
      found.push_back(this);
    }
    for (const XmlNode& child : children) {
      for (const XmlNode* node : child.find_if(test)) {
        found.push_back(node);
      }
    }
    return found;
  }
  [[nodiscard]] std::vector<const XmlNode*> with_class(const std::string& css_class) const {
    return find_if([&](const XmlNode& node) { return node.get("class") == css_class; });
  }
  [[nodiscard]] std::vector<const XmlNode*> with_text(const std::string& words) const {
    return find_if([&](const XmlNode& node) { return node.text == words; });
  }
};

class XmlReader {
 public:
  explicit XmlReader(std::string_view text) : rest_(text) {}

  XmlNode read() {
    constexpr std::string_view kProlog = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
    expect(kProlog);
    XmlNode root = element();
    skip_spaces();
    if (!rest_.empty()) {
      fail("something after the root");
    }
    return root;
  }

 private:
  [[noreturn]] void fail(const std::string& why) const {
    throw std::runtime_error(why + " at: " + std::string(rest_.substr(0, 60)));
  }

  bool take(std::string_view prefix) {
    const bool there = rest_.starts_with(prefix);
    rest_.remove_prefix(there ? prefix.size() : 0);
    return there;
  }

  void expect(std::string_view prefix) {
    if (!take(prefix)) {
      fail("no " + std::string(prefix));
    }
  }

  void skip_spaces() {
    while (take(" ") || take("\n")) {
    }
  }

  std::string name() {
    const auto is_letter = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-';
    };
    const auto length = static_cast<std::size_t>(
        std::find_if_not(rest_.begin(), rest_.end(), is_letter) - rest_.begin());
    if (length == 0) {
      fail("no name");
    }
    std::string found(rest_.substr(0, length));
    rest_.remove_prefix(length);
    return found;
  }

  /// Up to but excluding the given character.
  std::string characters(char end) {
    std::string out;
    while (!rest_.empty() && rest_.front() != end) {
      if (rest_.front() == '&') {
        out += entity();
        continue;
      }
      if (rest_.front() == '<' || static_cast<unsigned char>(rest_.front()) < 0x20) {
        fail("a bare character");
      }
      out += rest_.front();
      rest_.remove_prefix(1);
    }
    return out;
  }

  char entity() {
    if (take("&amp;")) {
      return '&';
    }
    if (take("&lt;")) {
      return '<';
    }
    if (take("&gt;")) {
      return '>';
    }
    if (take("&quot;")) {
      return '"';
    }
    fail("a bare &");
  }

  void attribute(XmlNode& node) {
    const std::string key = name();
    expect("=\"");
    if (!node.attributes.emplace(key, characters('"')).second) {
      fail("attribute " + key + " twice");
    }
    expect("\"");
  }

  XmlNode element() {
    expect("<");
    XmlNode node;
    node.tag = name();
    skip_spaces();
    while (!rest_.starts_with("/>") && !rest_.starts_with(">")) {
      attribute(node);
      skip_spaces();
    }
    if (take("/>")) {
      return node;
    }
    expect(">");
    while (!rest_.starts_with("</")) {
      if (rest_.empty()) {
        fail("no end of " + node.tag);
      }
      if (rest_.starts_with("<")) {
        node.children.push_back(element());
      } else {
        node.text += characters('<');
      }
    }
    expect("</" + node.tag + ">");
    return node;
  }

  std::string_view rest_;
};

}  // namespace trireme::report
