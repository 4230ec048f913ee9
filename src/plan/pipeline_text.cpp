// The text form of pipeline tables: a heading, where the stages are, and a line for each rank.
//
//   trireme pipeline 1
//   name gpipe
//   ranks 2
//   stages 2
//   microbatches 2
//   weights single
//   place 0 1
//   rank 0: F0.0 F0.1 B0.1 B0.0 U0.1
//   rank 1: F1.0 F1.1 B1.1 B1.0 U1.1
//   end
#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/enum_names.h"
#include "base/json_text.h"
#include "base/line_reader.h"
#include "base/text.h"
#include "trireme/error.h"
#include "trireme/message.h"
#include "trireme/pipeline.h"

namespace trireme {
namespace {

constexpr std::string_view kHeading = "trireme pipeline 1";
constexpr auto kLetters = enum_names<PipelineWork>("F", "B", "I", "W", "U");
constexpr auto kWeights = enum_names<WeightVersions>("single", "newest", "previous");

/// Parses the text line by line; every error names the line.
class Parser : private LineReader {
 public:
  explicit Parser(std::string_view text) : LineReader(text, "pipeline") {}

  PipelineTable parse() {
    PipelineTable table = parse_heading();
    std::string_view line = next_line();
    while (line != "end") {
      const std::vector<std::string_view> words = split_words(line);
      if (words[0] == "place" && table.tasks.empty()) {
        table.placement.push_back(parse_place(words, table));
      } else if (words[0] == "rank") {
        parse_rank(words, table);
      } else {
        fail("expected 'rank …' or 'end'");
      }
      line = next_line();
    }
    if (std::ssize(table.tasks) != table.ranks) {
      fail(fmt::format("expected 'rank {}: …' before 'end'", table.tasks.size()));
    }
    if (!skip_to_content().empty()) {
      fail("text after 'end'");
    }
    return table;
  }

 private:
  PipelineTable parse_heading() {
    if (next_line() != kHeading) {
      fail(fmt::format("expected '{}'", kHeading));
    }
    PipelineTable table;
    table.name = field("name");
    if (!is_utf8(table.name)) {
      fail("the name is not UTF-8");
    }
    table.ranks = integer(field("ranks"), 1, kMaxPipelineRanks);
    table.stages = integer(field("stages"), 1, kMaxPipelineStages);
    table.microbatches = integer(field("microbatches"), 1, kMaxMicrobatches);
    table.weights = weights(field("weights"));
    if (std::cmp_greater(std::int64_t{table.stages} * table.microbatches, kMaxPipelineTasks)) {
      fail(fmt::format("{} stages times {} micro-batches are more than {}", table.stages,
                       table.microbatches, kMaxPipelineTasks));
    }
    table.placement.push_back(parse_place(split_words(next_line()), table));
    return table;
  }

  [[nodiscard]] int integer(std::string_view text, int least, int most) const {
    const std::optional<std::int64_t> value = parse_integer(text);
    if (!value || *value < least || *value > most) {
      fail(fmt::format("{} is not a number from {} to {}", in_quotes(text), least, most));
    }
    return static_cast<int>(*value);
  }

  [[nodiscard]] WeightVersions weights(std::string_view word) const {
    const std::optional<WeightVersions> found = kWeights.find(word);
    if (!found) {
      fail(fmt::format("{} is neither {}", in_quotes(word), list_words(kWeights.list(), "nor")));
    }
    return *found;
  }

  /// "place 0 1 2 3": the ranks of a copy's stages.
  std::vector<int> parse_place(const std::vector<std::string_view>& words,
                               PipelineTable& table) const {
    if (words[0] != "place" || std::ssize(words) != table.stages + 1) {
      fail(fmt::format("expected 'place' and the ranks of {} stages", table.stages));
    }
    std::vector<int> ranks;
    for (std::size_t i = 1; i < words.size(); ++i) {
      ranks.push_back(integer(words[i], 0, table.ranks - 1));
    }
    table.copies = static_cast<int>(table.placement.size()) + 1;
    if (table.copies > table.ranks) {
      fail("more copies of the model than ranks");
    }
    return ranks;
  }

  /// "rank 0: F0.0 B0.0 U0.0"
  void parse_rank(const std::vector<std::string_view>& words, PipelineTable& table) {
    const std::size_t rank = table.tasks.size();
    if (words.size() < 2 || words[1] != fmt::format("{}:", rank) ||
        std::cmp_greater_equal(rank, table.ranks)) {
      fail(std::cmp_less(rank, table.ranks) ? fmt::format("expected 'rank {}: …'", rank)
                                            : fmt::format("there are only {} ranks", table.ranks));
    }
    std::vector<PipelineTask>& tasks = table.tasks.emplace_back();
    tasks.reserve(words.size() - 2);
    for (std::size_t i = 2; i < words.size(); ++i) {
      tasks.push_back(parse_task(words[i], table));
    }
  }

  [[nodiscard]] PipelineTask parse_task(std::string_view word, const PipelineTable& table) const {
    const std::optional<PipelineWork> work = kLetters.find(word.substr(0, 1));
    const std::size_t dot = word.find('.');
    const std::size_t slash = std::min(word.find('/'), word.size());
    if (!work || dot == std::string_view::npos || dot > slash) {
      fail(fmt::format("invalid task {}; write it like F2.0: F, B, I, W or U, stage, micro-batch",
                       in_quotes(word)));
    }
    PipelineTask task;
    task.work = *work;
    task.stage = integer(word.substr(1, dot - 1), 0, table.stages - 1);
    task.microbatch = integer(word.substr(dot + 1, slash - dot - 1), 0, table.microbatches - 1);
    if (slash < word.size()) {
      task.copy = integer(word.substr(slash + 1), 0, table.copies - 1);
    }
    return task;
  }
};

}  // namespace

std::string_view to_text(PipelineWork work) {
  static constexpr auto kNames = enum_names<PipelineWork>("forward", "backward", "backward-input",
                                                          "backward-weight", "update");
  return kNames[work];
}

std::string to_text(const PipelineTask& task) {
  std::string text = fmt::format("{}{}.{}", kLetters[task.work], task.stage, task.microbatch);
  return task.copy == 0 ? text : fmt::format("{}/{}", text, task.copy);
}

std::string to_text(const PipelineTable& table) {
  std::string out = fmt::format("{}\nname {}\nranks {}\nstages {}\nmicrobatches {}\nweights {}\n",
                                kHeading, table.name, table.ranks, table.stages, table.microbatches,
                                to_text(table.weights));
  for (const std::vector<int>& ranks : table.placement) {
    out += fmt::format("place {}\n", fmt::join(ranks, " "));
  }
  for (std::size_t rank = 0; rank < table.tasks.size(); ++rank) {
    out += fmt::format("rank {}:", rank);
    for (const PipelineTask& task : table.tasks[rank]) {
      out += ' ' + to_text(task);
    }
    out += '\n';
  }
  return out + "end\n";
}

std::string_view to_text(WeightVersions weights) {
  return kWeights[weights];
}

PipelineTable parse_pipeline(std::string_view text) {
  return Parser(text).parse();
}

}  // namespace trireme
