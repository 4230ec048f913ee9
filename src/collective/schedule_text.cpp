// The text form of a Schedule. One line per transfer or rotation:
//
//   trireme schedule 1
//   operation allgather
//   algorithm ring
//   ranks 9
//   root 0
//   layout split
//   blocks 9
//   step
//   copy 0+1*9 >> 1 : 0+1*[i+7]
//   step
//   copy 0+1*9 >> 1 but 3 5 : 0+1*[i+7]
//   step
//   add 3 -> 4 : 0 2-5 1-9/4
//   end
//
// The first rotation: of 9 places, place i (rank 0+1*i) sends to place i+1 block 0 + 1*((i+7) mod 9). The second is the
// same, but places 3 and 5 send nothing. The last line is one message of block 0, blocks 2 to 5, and blocks 1, 5 and 9,
// added at the receiver.
#include <algorithm>
#include <iterator>
#include <optional>
#include <tuple>

#include <fmt/format.h>

#include "base/enum_names.h"
#include "base/line_reader.h"
#include "base/text.h"
#include "trireme/error.h"
#include "trireme/schedule.h"
#include "trireme/valid.h"

namespace trireme {
namespace {

constexpr auto kLayouts = enum_names<Layout>("split", "replicas", "pairs");
constexpr auto kActions = enum_names<Action>("copy", "add");
constexpr std::string_view kHeading = "trireme schedule 1";

void print_run(std::string& out, const BlockRun& run) {
  fmt::format_to(std::back_inserter(out), " {}", run.first);
  if (run.count > 1) {
    fmt::format_to(std::back_inserter(out), "-{}", run.first + (run.count - 1) * run.stride);
  }
  if (run.count > 1 && run.stride > 1) {
    fmt::format_to(std::back_inserter(out), "/{}", run.stride);
  }
}

void print_turn(std::string& out, const TurningRun& turning) {
  auto end = std::back_inserter(out);
  fmt::format_to(end, " {}", turning.base);
  if (turning.row_stride != 0) {
    fmt::format_to(end, "+{}*[i+{}]", turning.row_stride, turning.row_turn);
  }
  fmt::format_to(end, "+{}*[i+{}]", turning.column_stride, turning.column_turn);
  if (turning.run_count > 1) {
    fmt::format_to(end, "x{}/{}", turning.run_count, turning.run_stride);
  }
}

/// Parses the text line by line; every error names the line.
class Parser : private LineReader {
 public:
  explicit Parser(std::string_view text) : LineReader(text, "schedule") {}

  Schedule parse() {
    Schedule schedule = parse_heading();
    for (;;) {
      const std::vector<std::string_view> words = split_words(next_line());
      if (words.size() == 1 && words[0] == "step") {
        schedule.steps.emplace_back();
      } else if (words.size() == 1 && words[0] == "end") {
        break;
      } else if (schedule.steps.empty()) {
        fail("expected 'step' or 'end'");
      } else {
        parse_message(words, schedule.steps.back());
      }
    }
    finish();
    throw_first(form_problems(schedule), ErrorKind::Input, "schedule");
    return schedule;
  }

 private:
  /// Nothing but comments may follow `end`.
  void finish() {
    if (!skip_to_content().empty()) {
      fail("text after 'end'");
    }
  }

  template <class T = std::int64_t>
  [[nodiscard]] T integer(std::string_view text) const {
    const std::optional<std::int64_t> value = parse_integer(text);
    if (!value || static_cast<std::int64_t>(static_cast<T>(*value)) != *value) {
      fail(fmt::format("'{}' is not a number that fits", text.substr(0, 40)));
    }
    return static_cast<T>(*value);
  }

  /// The value of this name in an EnumNames.
  template <class Names>
  [[nodiscard]] auto value_of(std::string_view name, const Names& names) const {
    const auto value = names.find(name);
    if (!value) {
      fail(fmt::format("'{}' is neither {}", name.substr(0, 40), list_words(names.list(), "nor")));
    }
    return *value;
  }

  Schedule parse_heading() {
    if (next_line() != kHeading) {
      fail(fmt::format("expected '{}'", kHeading));
    }
    Schedule schedule;
    try {
      schedule.operation = parse_operation(field("operation"));
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::Input) {
        throw;
      }
      fail(error.what());
    }
    schedule.algorithm = field("algorithm");
    schedule.ranks = integer<Rank>(field("ranks"));
    schedule.root = integer<Rank>(field("root"));
    schedule.layout = value_of(field("layout"), kLayouts);
    schedule.blocks = integer(field("blocks"));
    return schedule;
  }

  /// ACTION FROM -> TO : RUN … or ACTION FIRST+STRIDE*COUNT >> SHIFT [but PLACE …] : TURN …
  void parse_message(const std::vector<std::string_view>& words, Step& step) const {
    const std::size_t colon = std::ranges::find(words, ":") - words.begin();
    const bool plain = words.size() > 3 && words[2] == "->" && colon == 4;
    const bool rule =
        words.size() > 3 && words[2] == ">>" && (colon == 4 || (colon > 5 && words[4] == "but"));
    if ((!plain && !rule) || colon + 1 >= words.size()) {
      fail(
          "expected 'copy|add FROM -> TO : BLOCKS' or 'copy|add FIRST+STRIDE*COUNT >> SHIFT [but "
          "PLACES] : BLOCKS'");
    }
    const Action action = value_of(words[0], kActions);
    if (plain) {
      Transfer transfer{integer<Rank>(words[1]), integer<Rank>(words[3]), action, {}};
      for (std::size_t i = 5; i < words.size(); ++i) {
        transfer.blocks.push_back(parse_run(words[i]));
      }
      step.transfers.push_back(std::move(transfer));
      return;
    }
    Rotation rotation = parse_places(words[1]);
    rotation.shift = integer<Rank>(words[3]);
    rotation.action = action;
    for (std::size_t i = 5; i < colon; ++i) {
      rotation.silent.push_back(integer<Rank>(words[i]));
    }
    for (std::size_t i = colon + 1; i < words.size(); ++i) {
      rotation.blocks.push_back(parse_turn(words[i]));
    }
    step.rotations.push_back(std::move(rotation));
  }

  /// 3, 2-5 or 1-9/4
  [[nodiscard]] BlockRun parse_run(std::string_view word) const {
    const std::vector<std::string_view> halves = split(word, '/');
    const std::vector<std::string_view> ends = split(halves[0], '-');
    if (halves.size() > 2 || ends.size() > 2 || (halves.size() == 2 && ends.size() != 2)) {
      fail(fmt::format("invalid run of blocks '{}'; write 3, 2-5 or 1-9/4", word.substr(0, 40)));
    }
    BlockRun run{integer(ends[0]), 1, 1};
    if (ends.size() == 2) {
      run.stride = halves.size() == 2 ? integer(halves[1]) : 1;
      const Block last = integer(ends[1]);
      if (run.stride < 1 || last <= run.first || (last - run.first) % run.stride != 0) {
        fail(
            fmt::format("'{}' does not step from its first block to its last", word.substr(0, 40)));
      }
      run.count = (last - run.first) / run.stride + 1;
    }
    return run;
  }

  /// FIRST+STRIDE*COUNT
  [[nodiscard]] Rotation parse_places(std::string_view word) const {
    const std::size_t plus = word.find('+');
    const std::size_t times = word.find('*');
    if (plus == std::string_view::npos || times == std::string_view::npos || times < plus) {
      fail(fmt::format("'{}' is not FIRST+STRIDE*COUNT", word.substr(0, 40)));
    }
    Rotation rotation;
    rotation.first = integer<Rank>(word.substr(0, plus));
    rotation.stride = integer<Rank>(word.substr(plus + 1, times - plus - 1));
    rotation.count = integer<Rank>(word.substr(times + 1));
    return rotation;
  }

  /// "STRIDE*[i+TURN]"
  [[nodiscard]] std::pair<Block, Rank> parse_term(std::string_view term) const {
    const std::size_t open = term.find("*[i+");
    if (open == std::string_view::npos || term.back() != ']') {
      fail(fmt::format("'{}' is not STRIDE*[i+TURN]", term.substr(0, 40)));
    }
    return {integer(term.substr(0, open)),
            integer<Rank>(term.substr(open + 4, term.size() - open - 5))};
  }

  /// BASE[+ROW*[i+TURN]]+COLUMN*[i+TURN][xCOUNT/STRIDE]
  [[nodiscard]] TurningRun parse_turn(std::string_view word) const {
    TurningRun turning;
    if (const std::size_t run = word.rfind(']') + 1; run != 0 && run < word.size()) {
      const std::size_t slash = word.find('/', run);
      if (word[run] != 'x' || slash == std::string_view::npos) {
        fail(fmt::format("'{}' does not end in xCOUNT/STRIDE", word.substr(0, 40)));
      }
      turning.run_count = integer(word.substr(run + 1, slash - run - 1));
      turning.run_stride = integer(word.substr(slash + 1));
      word = word.substr(0, run);
    }
    const std::size_t base = word.find('+');
    const std::size_t between = word.find("]+");
    if (base == std::string_view::npos) {
      fail(fmt::format("'{}' is not BASE+STRIDE*[i+TURN]", word.substr(0, 40)));
    }
    turning.base = integer(word.substr(0, base));
    std::string_view column = word.substr(base + 1);
    if (between != std::string_view::npos && between > base) {
      std::tie(turning.row_stride, turning.row_turn) =
          parse_term(word.substr(base + 1, between - base));
      column = word.substr(between + 2);
    }
    std::tie(turning.column_stride, turning.column_turn) = parse_term(column);
    return turning;
  }
};

}  // namespace

std::string_view to_text(Layout layout) {
  return kLayouts[layout];
}
std::string_view to_text(Action action) {
  return kActions[action];
}

std::string to_text(const Schedule& schedule) {
  std::string out =
      fmt::format("{}\noperation {}\nalgorithm {}\nranks {}\nroot {}\nlayout {}\nblocks {}\n",
                  kHeading, to_text(schedule.operation), schedule.algorithm, schedule.ranks,
                  schedule.root, to_text(schedule.layout), schedule.blocks);
  auto end = std::back_inserter(out);
  for (const Step& step : schedule.steps) {
    out += "step\n";
    for (const Transfer& transfer : step.transfers) {
      fmt::format_to(end, "{} {} -> {} :", to_text(transfer.action), transfer.from, transfer.to);
      for (const BlockRun& run : transfer.blocks) {
        print_run(out, run);
      }
      out += '\n';
    }
    for (const Rotation& rotation : step.rotations) {
      fmt::format_to(end, "{} {}+{}*{} >> {}", to_text(rotation.action), rotation.first,
                     rotation.stride, rotation.count, rotation.shift);
      if (!rotation.silent.empty()) {
        fmt::format_to(end, " but {}", fmt::join(rotation.silent, " "));
      }
      out += " :";
      for (const TurningRun& turning : rotation.blocks) {
        print_turn(out, turning);
      }
      out += '\n';
    }
  }
  return out + "end\n";
}

Schedule parse_schedule(std::string_view text) {
  return Parser(text).parse();
}

}  // namespace trireme
