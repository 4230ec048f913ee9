// The text form of a graph.
//
//   graph NAME {
//     input %x: f32[2,3]            (or parameter, state)
//     %y: f32[2,3], %z: f32[2] = op(%x, %w) attribute=1 other="text" @backward @block(3)
//     update %w <- %y
//     output loss = %z
//   }
//
// Attributes with their default value are omitted. '#' begins a comment.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/text.h"
#include "trireme/error.h"
#include "trireme/graph.h"
#include "trireme/op.h"

namespace trireme {
namespace {

/// The text of a double that parses back as the same double, and never as an integer.
std::string number_text(double value) {
  std::string text = fmt::format("{}", value);
  const bool looks_whole = text.find_first_not_of("-0123456789") == std::string::npos;
  return looks_whole ? text + ".0" : text;
}

std::string attribute_text(const Attribute& attribute) {
  struct Printer {
    std::string operator()(std::int64_t value) const { return fmt::format("{}", value); }
    std::string operator()(double value) const { return number_text(value); }
    std::string operator()(const std::string& value) const { return fmt::format("\"{}\"", value); }
    std::string operator()(const std::vector<std::int64_t>& value) const {
      return fmt::format("[{}]", fmt::join(value, ","));
    }
  };
  return std::visit(Printer{}, attribute);
}

std::string node_text(const Graph& graph, const Node& node) {
  std::vector<std::string> results;
  for (const ValueId output : node.outputs) {
    const Value& value = graph.value(output);
    results.push_back(fmt::format("%{}: {}", value.name, to_text(value.type)));
  }
  std::vector<std::string> inputs;
  for (const ValueId input : node.inputs) {
    inputs.push_back("%" + graph.value(input).name);
  }
  std::string text =
      fmt::format("{} = {}({})", fmt::join(results, ", "), node.op->name, fmt::join(inputs, ", "));
  for (const AttributeRow& row : node.op->attributes) {
    const Attribute& value = node.attributes.find(row.name)->second;
    if (!row.has_default || value != row.example) {
      text += fmt::format(" {}={}", row.name, attribute_text(value));
    }
  }
  if (node.phase != Phase::Forward) {
    text += fmt::format(" @{}", to_text(node.phase));
  }
  if (node.block >= 0) {
    text += fmt::format(" @block({})", node.block);
  }
  return text;
}

/// Reads one line from its front.
class Cursor {
 public:
  Cursor(std::string_view line, int number) : rest_(trim(line)), number_(number) {}

  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorKind::Input, fmt::format("graph, line {}: {}", number_, what));
  }
  [[nodiscard]] bool at_end() {
    rest_ = trim(rest_);
    return rest_.empty();
  }
  [[nodiscard]] bool try_take(std::string_view token) {
    rest_ = trim(rest_);
    if (!rest_.starts_with(token)) {
      return false;
    }
    rest_.remove_prefix(token.size());
    return true;
  }
  void take(std::string_view token) {
    if (!try_take(token)) {
      fail(fmt::format("expected '{}' before '{}'", token, rest_.substr(0, 20)));
    }
  }
  /// A run of characters that are not in `ends`.
  std::string_view until(std::string_view ends) {
    rest_ = trim(rest_);
    const std::string_view word = rest_.substr(0, rest_.find_first_of(ends));
    if (word.empty()) {
      fail(fmt::format("expected a word before '{}'", rest_.substr(0, 20)));
    }
    rest_.remove_prefix(word.size());
    return trim(word);
  }
  std::string value_name() {
    take("%");
    return std::string(until(" \t,:)=<"));
  }
  TensorType type() {
    const std::string_view text = rest_.substr(0, rest_.find(']') + 1);
    if (text.empty()) {
      fail("expected a type, as f32[2,3]");
    }
    rest_.remove_prefix(text.size());
    try {
      return parse_type(trim(text));
    } catch (const Error& error) {
      fail(error.what());
    }
  }
  Attribute attribute() {
    if (try_take("\"")) {
      const std::size_t end = rest_.find('"');
      if (end == std::string_view::npos) {
        fail("a string does not end");
      }
      std::string text(rest_.substr(0, end));
      rest_.remove_prefix(end + 1);
      return text;
    }
    if (try_take("[")) {
      return list();
    }
    const std::string_view word = until(" \t");
    if (const auto whole = parse_integer(word)) {
      return *whole;
    }
    return number(word);
  }
  [[nodiscard]] int line() const { return number_; }

 private:
  Attribute list() {
    std::vector<std::int64_t> numbers;
    while (!try_take("]")) {
      const auto number = parse_integer(until(",] \t"));
      if (!number) {
        fail("a list holds integers");
      }
      numbers.push_back(*number);
      (void)try_take(",");
    }
    return numbers;
  }
  Attribute number(std::string_view word) {
    double value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || end != word.data() + word.size()) {
      fail(fmt::format("expected a number, found '{}'", word));
    }
    return value;
  }

  std::string_view rest_;
  int number_;
};

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Graph run() {
    int number = 0;
    for (std::string_view line : split(text_, '\n')) {
      ++number;
      line = trim(line.substr(0, line.find('#')));
      if (!line.empty()) {
        Cursor cursor(line, number);
        read_line(cursor);
      }
    }
    if (!closed_) {
      throw Error(ErrorKind::Input, "graph: the text ends before its closing '}'");
    }
    Graph graph = builder_->finish();
    require_valid(graph, ErrorKind::Input);
    return graph;
  }

 private:
  void read_line(Cursor& c) {
    if (closed_) {
      c.fail("there is text after the closing '}'");
    }
    if (!builder_) {
      c.take("graph ");
      builder_.emplace(std::string(c.until(" {")));
      c.take("{");
    } else if (c.try_take("}")) {
      closed_ = true;
    } else {
      try {
        read_statement(c);
      } catch (const Error& error) {
        if (error.kind() == ErrorKind::Input) {
          throw;
        }
        c.fail(error.what());
      }
    }
    if (!c.at_end()) {
      c.fail("there is more than belongs here");
    }
  }

  void read_statement(Cursor& c) {
    if (c.try_take("input ")) {
      read_leaf(c, Origin::Input);
    } else if (c.try_take("parameter ")) {
      read_leaf(c, Origin::Parameter);
    } else if (c.try_take("state ")) {
      read_leaf(c, Origin::State);
    } else if (c.try_take("update ")) {
      const ValueId target = named(c, c.value_name());
      c.take("<-");
      builder_->update(target, named(c, c.value_name()));
    } else if (c.try_take("output ")) {
      const std::string name(c.until(" =\t"));
      c.take("=");
      builder_->output(name, named(c, c.value_name()));
    } else {
      read_node(c);
    }
  }

  void read_leaf(Cursor& c, Origin origin) {
    const std::string name = c.value_name();
    c.take(":");
    const TensorType type = c.type();
    const ValueId id = origin == Origin::Input       ? builder_->input(name, type)
                       : origin == Origin::Parameter ? builder_->parameter(name, type)
                                                     : builder_->state(name, type);
    define(c, name, id);
  }

  void define(Cursor& c, const std::string& name, ValueId id) {
    if (!names_.emplace(name, id).second) {
      c.fail(fmt::format("%{} is there already", name));
    }
  }

  ValueId named(Cursor& c, const std::string& name) {
    const auto it = names_.find(name);
    if (it == names_.end()) {
      c.fail(fmt::format("nothing above is called %{}", name));
    }
    return it->second;
  }

  struct Result {
    std::string name;
    TensorType type;
  };

  void read_node(Cursor& c) {
    std::vector<Result> results;
    do {
      std::string name = c.value_name();
      c.take(":");
      results.push_back({std::move(name), c.type()});
    } while (c.try_take(","));
    c.take("=");
    const std::string op(c.until("( \t"));
    c.take("(");
    std::vector<ValueId> inputs;
    while (!c.try_take(")")) {
      inputs.push_back(named(c, c.value_name()));
      (void)c.try_take(",");
    }
    const Attributes attributes = read_attributes(c);
    const std::vector<ValueId> outputs = builder_->add(op, std::move(inputs), attributes);
    if (outputs.size() != results.size()) {
      c.fail(fmt::format("{} has {} results, not {}", op, outputs.size(), results.size()));
    }
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      if (builder_->type(outputs[k]) != results[k].type) {
        c.fail(fmt::format("%{} is {}, but {} gives {}", results[k].name, to_text(results[k].type),
                           op, to_text(builder_->type(outputs[k]))));
      }
      builder_->rename(outputs[k], results[k].name);
      define(c, results[k].name, outputs[k]);
    }
  }

  /// Attributes, and the marks after them, which are set on the builder.
  Attributes read_attributes(Cursor& c) {
    Attributes attributes;
    builder_->set_phase(Phase::Forward);
    builder_->set_block(-1);
    while (!c.at_end()) {
      if (c.try_take("@block(")) {
        const auto block = parse_integer(c.until(")"));
        if (!block || *block < 0) {
          c.fail("a block has a number");
        }
        c.take(")");
        builder_->set_block(static_cast<std::int32_t>(*block));
      } else if (c.try_take("@")) {
        builder_->set_phase(parse_phase(c));
      } else {
        const std::string name(c.until("= \t"));
        c.take("=");
        attributes[name] = c.attribute();
      }
    }
    return attributes;
  }

  static Phase parse_phase(Cursor& c) {
    const std::string_view word = c.until(" \t");
    for (const Phase phase : {Phase::Recompute, Phase::Backward, Phase::Update}) {
      if (word == to_text(phase)) {
        return phase;
      }
    }
    c.fail(fmt::format("unknown '@{}'; use @recompute, @backward, @update or @block(N)", word));
  }

  std::string_view text_;
  std::optional<GraphBuilder> builder_;
  std::map<std::string, ValueId> names_;
  bool closed_ = false;
};

}  // namespace

std::string to_text(const Graph& graph) {
  std::string text = fmt::format("graph {} {{\n", graph.name());
  for (const Origin origin : {Origin::Input, Origin::Parameter, Origin::State}) {
    for (const ValueId id : graph.with_origin(origin)) {
      const Value& value = graph.value(id);
      text += fmt::format("  {} %{}: {}\n", to_text(origin), value.name, to_text(value.type));
    }
  }
  for (const Node& node : graph.nodes()) {
    text += fmt::format("  {}\n", node_text(graph, node));
  }
  for (const Update& update : graph.updates()) {
    text += fmt::format("  update %{} <- %{}\n", graph.value(update.target).name,
                        graph.value(update.value).name);
  }
  for (const Output& output : graph.outputs()) {
    text += fmt::format("  output {} = %{}\n", output.name, graph.value(output.value).name);
  }
  return text + "}\n";
}

Graph parse_graph(std::string_view text) {
  return Parser(text).run();
}

}  // namespace trireme
