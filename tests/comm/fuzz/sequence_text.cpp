// The text form of sequences.
#include <charconv>
#include <map>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sequence.h"

namespace trireme::fuzz {
namespace {

// Printing.

std::string to_text(const Location& location) {
  return fmt::format("{}{}", static_cast<char>(location.memory), location.offset);
}

std::string lag_text(int lag) {
  return lag == kBlocking ? "" : fmt::format("+{}", lag);
}

std::string to_text(const Side& side) {
  return to_text(side.input) + (side.layout == Side::Layout::InPlace ? "=" : to_text(side.output)) +
         lag_text(side.lag);
}

std::string sides_text(const std::vector<Side>& sides) {
  std::string text;
  for (const Side& side : sides) {
    text += (text.empty() ? "" : ",") + to_text(side);
  }
  return text;
}

std::string to_text(const Collective& call) {
  std::string text = fmt::format(
      "{} group={} dtype={} reduction={} order={} method={} values={} root={} count={}",
      to_text(call.operation), call.group, trireme::to_text(call.dtype),
      call.combiner == Collective::Combiner::User ? "user" : to_text(call.reduction),
      call.order == Order::Fixed ? "fixed" : "any", to_text(call.method),
      call.values == Collective::Values::Random ? "random" : "exact", call.root, call.count);
  if (!call.counts.empty()) {
    text += fmt::format(" counts={}", fmt::join(call.counts, "."));
  }
  return text + fmt::format(" repeat={} sides={}", call.repeat, sides_text(call.sides));
}

std::string to_text(const Message& message) {
  return fmt::format(
      "message group={} from={} to={} tag={} dtype={} count={} send={}{} receive={}{}",
      message.group, message.from, message.to, message.tag, trireme::to_text(message.dtype),
      message.count, to_text(message.sender.input), lag_text(message.sender.lag),
      to_text(message.receiver.input), lag_text(message.receiver.lag));
}

std::string to_text(const NewGroups& made) {
  std::string parts;
  for (const NewGroups::Part& part : made.parts) {
    parts += fmt::format("{}{}:{}", parts.empty() ? "" : ",", part.id, fmt::join(part.places, "."));
  }
  return fmt::format("{} parent={} parts={}",
                     made.kind == NewGroups::Kind::Split ? "split" : "subset", made.parent, parts);
}

std::string to_text(const Release& release) {
  return fmt::format("release group={}", release.group);
}

// The words for enums, in their order.
using Words = std::vector<std::string>;
const Words& checksum_words() {
  static const Words words{"off", "network", "all"};
  return words;
}
const Words& cost_words() {
  static const Words words{"none", "plain", "chatty"};
  return words;
}
const Words& skew_words() {
  static const Words words{"none", "pauses"};
  return words;
}
const Words& end_words() {
  static const Words words{"alone", "together"};
  return words;
}
template <class Enum>
const std::string& word_of(const Words& words, Enum value) {
  return words.at(static_cast<std::size_t>(value));
}

// Parsing. Every function throws Error(Input); parse_sequence adds the line.

[[noreturn]] void refuse(const std::string& problem) {
  throw Error(ErrorKind::Input, problem);
}

template <class Number>
Number to_number(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) {
    refuse(fmt::format("expected an integer, got '{}'", text));
  }
  return number;
}

std::vector<std::string_view> split_at(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) {
      return parts;
    }
    text.remove_prefix(end + 1);
  }
}

template <class Number>
std::vector<Number> to_numbers(std::string_view text) {
  std::vector<Number> numbers;
  for (const std::string_view part : split_at(text, '.')) {
    numbers.push_back(to_number<Number>(part));
  }
  return numbers;
}

/// The fields of one line: "count=3" is the field count with the value 3.
class Fields {
 public:
  explicit Fields(std::istringstream& words) {
    std::string word;
    while (words >> word) {
      const std::size_t equals = word.find('=');
      if (equals == std::string::npos ||
          !fields_.emplace(word.substr(0, equals), word.substr(equals + 1)).second) {
        refuse(fmt::format("'{}' is not a field, or is repeated", word));
      }
    }
  }
  [[nodiscard]] bool has(const std::string& field) const { return fields_.contains(field); }
  [[nodiscard]] const std::string& text(const std::string& field) const {
    const auto it = fields_.find(field);
    if (it == fields_.end()) {
      refuse(fmt::format("missing field '{}'", field));
    }
    return it->second;
  }
  template <class Number>
  [[nodiscard]] Number number(const std::string& field) const {
    return to_number<Number>(text(field));
  }
  /// The index of the word.
  [[nodiscard]] int choice(const std::string& field, const std::vector<std::string>& words) const {
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (words[i] == text(field)) {
        return static_cast<int>(i);
      }
    }
    refuse(fmt::format("unknown {} '{}'; use {}", field, text(field), fmt::join(words, " or ")));
  }

 private:
  std::map<std::string, std::string> fields_;
};

/// Takes the location at the front of the text.
Location take_location(std::string_view& text) {
  if (text.empty() || std::string_view("psn").find(text.front()) == std::string_view::npos) {
    refuse(fmt::format("expected a memory (p, s or n), got '{}'", text));
  }
  const auto memory = static_cast<Memory>(text.front());
  text.remove_prefix(1);
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const Location location{memory, to_number<int>(text.substr(0, digits))};
  text.remove_prefix(digits);
  return location;
}

int parse_lag(std::string_view text) {
  if (text.empty()) {
    return kBlocking;
  }
  if (text.front() != '+') {
    refuse(fmt::format("expected +N, got '{}'", text));
  }
  return to_number<int>(text.substr(1));
}

Side parse_side(std::string_view text) {
  Side side;
  side.input = take_location(text);
  if (text.starts_with('=')) {
    side.layout = Side::Layout::InPlace;
    text.remove_prefix(1);
  } else {
    side.output = take_location(text);
  }
  side.lag = parse_lag(text);
  return side;
}

Side parse_message_side(std::string_view text) {
  Side side;
  side.input = take_location(text);
  side.lag = parse_lag(text);
  return side;
}

Collective parse_collective(Operation operation, const Fields& fields) {
  Collective call{.group = fields.number<int>("group"),
                  .operation = operation,
                  .dtype = parse_dtype(fields.text("dtype")),
                  .root = fields.number<Rank>("root"),
                  .count = fields.number<std::int64_t>("count"),
                  .repeat = fields.number<int>("repeat")};
  if (fields.text("reduction") == "user") {
    call.combiner = Collective::Combiner::User;
  } else {
    call.reduction = parse_reduction(fields.text("reduction"));
  }
  call.order = static_cast<Order>(fields.choice("order", {"any", "fixed"}));
  call.values = static_cast<Collective::Values>(fields.choice("values", {"exact", "random"}));
  call.method = parse_method(fields.text("method"));
  if (fields.has("counts")) {
    call.counts = to_numbers<std::int64_t>(fields.text("counts"));
  }
  for (const std::string_view side : split_at(fields.text("sides"), ',')) {
    call.sides.push_back(parse_side(side));
  }
  return call;
}

Message parse_message(const Fields& fields) {
  return {.group = fields.number<int>("group"),
          .from = fields.number<Rank>("from"),
          .to = fields.number<Rank>("to"),
          .tag = fields.number<std::int32_t>("tag"),
          .dtype = parse_dtype(fields.text("dtype")),
          .count = fields.number<std::int64_t>("count"),
          .sender = parse_message_side(fields.text("send")),
          .receiver = parse_message_side(fields.text("receive"))};
}

NewGroups parse_groups(NewGroups::Kind kind, const Fields& fields) {
  NewGroups made{.kind = kind, .parent = fields.number<int>("parent"), .parts = {}};
  for (const std::string_view part : split_at(fields.text("parts"), ',')) {
    const std::vector<std::string_view> halves = split_at(part, ':');
    if (halves.size() != 2) {
      refuse(fmt::format("expected ID:PLACES, got '{}'", part));
    }
    made.parts.push_back({to_number<int>(halves[0]), to_numbers<Rank>(halves[1])});
  }
  return made;
}

Step parse_step(std::uint64_t key, const std::string& what, const Fields& fields) {
  if (what == "message") {
    return {key, parse_message(fields)};
  }
  if (what == "split" || what == "subset") {
    const auto kind = what == "split" ? NewGroups::Kind::Split : NewGroups::Kind::Subset;
    return {key, parse_groups(kind, fields)};
  }
  if (what == "release") {
    return {key, Release{fields.number<int>("group")}};
  }
  return {key, parse_collective(parse_operation(what), fields)};
}

void parse_world(const Fields& fields, Sequence& sequence) {
  sequence.transport = parse_fuzz_transport(fields.text("transport"));
  sequence.ranks = fields.number<Rank>("ranks");
  sequence.hosts = to_numbers<int>(fields.text("hosts"));
  sequence.checksums =
      static_cast<WorldOptions::Checksums>(fields.choice("checksums", checksum_words()));
  sequence.connections = fields.number<int>("connections");
  sequence.costs = static_cast<Sequence::Costs>(fields.choice("costs", cost_words()));
  sequence.skew = static_cast<Sequence::Skew>(fields.choice("skew", skew_words()));
  sequence.end = static_cast<Sequence::End>(fields.choice("end", end_words()));
}

void parse_line(const std::string& line, Sequence& sequence) {
  std::istringstream words(line);
  std::string first;
  if (!(words >> first) || first.starts_with('#')) {
    return;
  }
  if (first == "world") {
    parse_world(Fields(words), sequence);
    return;
  }
  std::string what;
  words >> what;
  sequence.steps.push_back(parse_step(to_number<std::uint64_t>(first), what, Fields(words)));
}

}  // namespace

std::string to_text(const Step& step) {
  return fmt::format("{} {}", step.key,
                     std::visit([](const auto& action) { return to_text(action); }, step.action));
}

std::string to_text(const Sequence& sequence) {
  std::string text = fmt::format(
      "world transport={} ranks={} hosts={} checksums={} connections={} costs={} skew={} end={}\n",
      to_text(sequence.transport), sequence.ranks, fmt::join(sequence.hosts, "."),
      word_of(checksum_words(), sequence.checksums), sequence.connections,
      word_of(cost_words(), sequence.costs), word_of(skew_words(), sequence.skew),
      word_of(end_words(), sequence.end));
  for (const Step& step : sequence.steps) {
    text += to_text(step) + "\n";
  }
  return text;
}

Sequence parse_sequence(std::string_view text) {
  Sequence sequence;
  std::istringstream lines{std::string(text)};
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    try {
      parse_line(line, sequence);
    } catch (const Error& error) {
      throw Error(ErrorKind::Input, fmt::format("line {}: {}", number, error.what()));
    }
  }
  const std::string problem = find_illegal(sequence);
  if (!problem.empty()) {
    throw Error(ErrorKind::Input, problem);
  }
  return sequence;
}

}  // namespace trireme::fuzz
