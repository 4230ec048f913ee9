#include "report/compiled_plan_text.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "base/indexed_vector.h"
#include "base/json.h"
#include "report/words.h"
#include "trireme/communication.h"
#include "trireme/parallelism.h"
#include "trireme/pipeline.h"

namespace trireme::report {
namespace {

/// Larger meshes are listed by kinds of ranks.
constexpr int kMaxListedRanks = 16;

using BytesByCategory = IndexedArray<Category, double, kCategories>;

std::string_view category_text(Category category) {
  return category == Category::Optimizer ? "optimizer state" : to_text(category);
}

/// The table's view of a plan.
class PlanView {
 public:
  explicit PlanView(const ShownPlan& shown)
      : shown_(shown), listed_(listed_ranks(shown.memory)), idle_(idle_shares(plan())) {}

  [[nodiscard]] const Plan& plan() const { return shown_.compiled.plan(); }
  [[nodiscard]] const std::vector<ListedRank>& listed() const { return listed_; }
  [[nodiscard]] bool is_compiled(int rank) const {
    const auto& ranks = shown_.compiled.ranks();
    return std::ranges::find(ranks, rank) != ranks.end();
  }
  /// Whether the communication of all ranks is known.
  [[nodiscard]] bool is_complete() const {
    return std::ranges::all_of(listed_,
                               [&](const ListedRank& one) { return is_compiled(one.rank); });
  }
  [[nodiscard]] const MemoryUse& memory_of(int rank) const { return shown_.memory.at(rank); }

  /// The share of a step in which the rank waits for other pipeline stages, if a backward pass takes twice as long as a
  /// forward pass. Unknown if single ops are assigned: their stages are not equal.
  [[nodiscard]] std::optional<double> idle_of(int rank) const {
    if (!plan().ops.empty()) {
      return std::nullopt;
    }
    const std::vector<MeshAxis>& axes = plan().mesh.axes();
    const auto pipe = std::ranges::find(axes, "pipe", &MeshAxis::name);
    if (pipe == axes.end()) {
      return idle_.front();
    }
    const int stage = plan().mesh.coordinates(rank).at(pipe - axes.begin());
    return idle_.at(stage);
  }

  [[nodiscard]] std::vector<CommunicationUse> communication_of(int rank) {
    const Program& program = shown_.compiled.program(rank);
    std::map<int, RankMessages> peers;
    for (const CommunicationUse& use : trireme::communication_of(program)) {
      if (use.peer >= 0) {
        peers.try_emplace(use.peer, messages_of(use.peer));
      }
    }
    std::vector<CommunicationUse> uses = trireme::communication_of(program, peers);
    for (CommunicationUse& use : uses) {
      use.group = use.peer < 0 ? use.group : axis_between(rank, use.peer);
    }
    return uses;
  }

  /// Bytes sent in a step, by category: by all ranks or, if not all are known, by the rank shown.
  [[nodiscard]] BytesByCategory sent() {
    BytesByCategory sums{};
    const std::vector<ListedRank> senders =
        is_complete() ? listed_ : std::vector<ListedRank>{{shown_.rank, 1}};
    for (const ListedRank& one : senders) {
      for (const CommunicationUse& use : communication_of(one.rank)) {
        sums[use.carries.category] += one.stands_for * use.sent();
      }
    }
    return sums;
  }

 private:
  static std::vector<double> idle_shares(const Plan& plan) {
    const PipelineTiming timing = time_pipeline(
        table_of(plan), PipelineDurations{.forward = 1, .backward_input = 1, .backward_weight = 1});
    std::vector<double> shares;
    for (const auto& tasks : timing.tasks) {
      double busy = 0;
      for (const PipelineTiming::Span& span : tasks) {
        busy += span.end - span.start;
      }
      shares.push_back(timing.makespan > 0 ? 1 - busy / timing.makespan : 0);
    }
    return shares;
  }

  /// Ranks of a kind send the same with the same tags.
  const RankMessages& messages_of(int rank) {
    const MemoryPrediction& memory = shown_.memory;
    const int known = is_compiled(rank) ? rank : memory.kinds[memory.kind_of[rank]].first_rank;
    const auto [it, is_new] = messages_.try_emplace(known);
    if (is_new && is_compiled(known)) {
      it->second = trireme::messages_of(shown_.compiled.program(known));
    }
    return it->second;
  }

  [[nodiscard]] std::string axis_between(int a, int b) const {
    const std::vector<int> from = plan().mesh.coordinates(a);
    const std::vector<int> to = plan().mesh.coordinates(b);
    std::string names;
    for (std::size_t i = 0; i < from.size(); ++i) {
      if (from[i] != to[i]) {
        names += (names.empty() ? "" : "+") + plan().mesh.axes()[i].name;
      }
    }
    return names;
  }

  const ShownPlan& shown_;
  std::vector<ListedRank> listed_;
  std::vector<double> idle_;              ///< by place in the pipeline
  std::map<int, RankMessages> messages_;  ///< by rank
};

// Text.

std::string axis_text(const CommunicationUse& use) {
  return use.peer < 0
             ? use.group
             : fmt::format("{} {} {}", use.group, use.op == "send" ? "to" : "from", use.peer);
}

std::string overlap_text(const CommunicationUse& use) {
  return use.overlapped == 0           ? "no"
         : use.overlapped == use.calls ? "yes"
                                       : fmt::format("{} of {}", use.overlapped, use.calls);
}

std::string origin_text(const CommunicationUse& use) {
  const std::string& tensor = use.carries.tensor;
  return tensor.empty() ? "-" : use.calls > 1 ? tensor + ", …" : tensor;
}

std::string communication_text(const std::vector<CommunicationUse>& uses,
                               const Terminal& terminal) {
  if (uses.empty()) {
    return "none\n";
  }
  std::string text =
      styled(fmt::format("{:<15} {:<15} {:<9} {:<15} {:>10} {:>6} {:>10}  {:<10}  {}", "op", "axis",
                         "phase", "carries", "each", "calls", "sent", "overlapped", "origin"),
             Style::Bold, terminal.color) +
      "\n";
  for (const CommunicationUse& use : uses) {
    text += fmt::format(
        "{:<15} {:<15} {:<9} {:<15} {:>10} {:>6} {:>10}  {:<10}  {}\n", use.op, axis_text(use),
        to_text(use.phase), category_text(use.carries.category), bytes_text(use.bytes), use.calls,
        use.op == "receive" ? "-" : bytes_text(use.sent()), overlap_text(use), origin_text(use));
  }
  return text;
}

std::string totals_text(const BytesByCategory& sums) {
  std::string text;
  for (const Category category : {Category::Gradient, Category::Parameter, Category::Optimizer,
                                  Category::Activation, Category::Input}) {
    const double sum = sums[category];
    if (sum > 0 || category != Category::Input) {
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", category_text(category),
                          bytes_text(sum));
    }
  }
  return text;
}

std::string rank_text(const ListedRank& one) {
  return one.stands_for == 1 ? fmt::format("{}", one.rank)
                             : fmt::format("{} and {} more", one.rank, one.stands_for - 1);
}

/// The categories that programs have; kernels' workspace is not theirs.
constexpr int kShownCategories = kCategories - 1;

std::string idle_text(const std::optional<double>& share) {
  return share ? percent(*share) : "-";
}

std::string memory_text(const PlanView& view, const Terminal& terminal) {
  std::size_t width = 4;
  for (const ListedRank& one : view.listed()) {
    width = std::max(width, rank_text(one).size());
  }
  std::string head = fmt::format("{:<{}} {:>7} {:>10}", "rank", width, "idle", "peak");
  for (int i = 0; i < kShownCategories; ++i) {
    head += fmt::format(" {:>15}", category_text(static_cast<Category>(i)));
  }
  std::string text = styled(head, Style::Bold, terminal.color) + "\n";
  for (const ListedRank& one : view.listed()) {
    const MemoryUse& use = view.memory_of(one.rank);
    text += fmt::format("{:<{}} {:>7} {:>10}", rank_text(one), width,
                        idle_text(view.idle_of(one.rank)), to_text(use.peak));
    for (std::size_t i = 0; i < kShownCategories; ++i) {
      const Bytes bytes = use.at_peak.at(i);
      text += fmt::format(" {:>15}", bytes.count == 0 ? "-" : to_text(bytes));
    }
    text += "\n";
  }
  return text;
}

std::string plan_words(const Plan& plan) {
  const std::string mesh = to_text(plan.mesh);
  const std::size_t assigned = plan.ops.size() + plan.values.size();
  return fmt::format(
      "{}, {}, {}, ZeRO {}, recomputation {}{}", mesh.empty() ? "one device" : mesh,
      plural(plan.microbatches, "micro-batch"), plan.table ? plan.table->name : plan.schedule,
      plan.zero, to_text(plan.recompute),
      assigned == 0 ? "" : ", " + plural(static_cast<std::int64_t>(assigned), "assignment"));
}

/// One line for each kind, in both views.
std::string parallelism_text(const Plan& plan, const Terminal& terminal) {
  const std::vector<Parallelism> rows = parallelism_of(plan);
  if (rows.empty()) {
    return "";
  }
  std::string text = "\n" +
                     styled(fmt::format("{:<38} {:<14} {:<14} {:<9} {}", "parallelism", "by",
                                        "divides", "ops", "what it means"),
                            Style::Bold, terminal.color) +
                     "\n";
  for (const Parallelism& row : rows) {
    text += fmt::format("{:<38} {:<14} {:<14} {:<9} {}\n", row.name, row.by, to_text(row.classic),
                        to_text(row.operators), row.why);
  }
  return text;
}

// JSON.

Json parallelism_json(const Plan& plan) {
  Json rows = Json::array();
  for (const Parallelism& row : parallelism_of(plan)) {
    rows.push_back(Json{{"name", row.name},
                        {"by", row.by},
                        {"divides", to_text(row.classic)},
                        {"ops", to_text(row.operators)}});
  }
  return rows;
}

Json communication_json(const CommunicationUse& use) {
  Json json{{"op", use.op},
            {"axis", use.group},
            {"phase", to_text(use.phase)},
            {"carries", to_text(use.carries.category)},
            {"origin", use.carries.tensor},
            {"bytes", use.bytes},
            {"calls", use.calls},
            {"overlapped", use.overlapped}};
  if (use.peer >= 0) {
    json["peer"] = use.peer;
  }
  return json;
}

Json rank_json(PlanView& view, const ListedRank& one) {
  Json json{{"rank", one.rank},
            {"stands_for", one.stands_for},
            {"idle", view.idle_of(one.rank) ? Json(*view.idle_of(one.rank)) : Json()},
            {"peak_bytes", view.memory_of(one.rank).peak.count}};
  if (view.is_compiled(one.rank)) {
    json["communication"] = Json::array();
    for (const CommunicationUse& use : view.communication_of(one.rank)) {
      json["communication"].push_back(communication_json(use));
    }
  }
  for (std::size_t i = 0; i < kCategories; ++i) {
    json["memory_bytes"][std::string(to_text(static_cast<Category>(i)))] =
        view.memory_of(one.rank).at_peak.at(i).count;
  }
  return json;
}

}  // namespace

std::vector<ListedRank> listed_ranks(const MemoryPrediction& memory) {
  std::vector<ListedRank> listed;
  if (memory.kind_of.size() <= kMaxListedRanks) {
    for (int rank = 0; rank < static_cast<int>(memory.kind_of.size()); ++rank) {
      listed.push_back({rank, 1});
    }
    return listed;
  }
  for (const MemoryPrediction::Kind& kind : memory.kinds) {
    listed.push_back({kind.first_rank, kind.ranks});
  }
  return listed;
}

std::string compiled_plan_text(const ShownPlan& shown, const Terminal& terminal) {
  PlanView view(shown);
  const Plan& plan = view.plan();
  return fmt::format("{} on {}: {}\n", shown.model, plural(plan.mesh.devices(), "rank"),
                     plan_words(plan)) +
         parallelism_text(plan, terminal) +
         fmt::format("\nCommunication of rank {} in a step\n", shown.rank) +
         communication_text(view.communication_of(shown.rank), terminal) +
         fmt::format("\nSent by {}: {}\n\n",
                     view.is_complete() ? "all ranks" : fmt::format("rank {}", shown.rank),
                     totals_text(view.sent())) +
         "Memory at the peak, and idle time in the pipeline if a backward pass takes two forward "
         "passes\n" +
         memory_text(view, terminal);
}

std::string own_memory_text(const MemoryUse& use) {
  std::string parts;
  for (std::size_t i = 0; i < kShownCategories; ++i) {
    if (use.at_peak.at(i).count > 0) {
      parts += fmt::format("{}{} {}", parts.empty() ? "" : ", ",
                           category_text(static_cast<Category>(i)), to_text(use.at_peak.at(i)));
    }
  }
  return fmt::format("\nMemory of its fullest rank under trireme train: {} ({})\n",
                     to_text(use.peak), parts);
}

std::string compiled_plan_json(const ShownPlan& shown) {
  PlanView view(shown);
  Json json{{"model", shown.model},
            {"plan", parse_json(to_text(view.plan()), "plan")},
            {"ranks", view.plan().mesh.devices()},
            {"sent_by_all_ranks", view.is_complete()}};
  json["parallelism"] = parallelism_json(view.plan());
  Json& sent = json["sent_bytes"] = Json::object();
  const BytesByCategory sums = view.sent();
  for (std::size_t i = 0; i < kCategories; ++i) {
    const auto category = static_cast<Category>(i);
    sent[std::string(to_text(category))] = sums[category];
  }
  json["by_rank"] = Json::array();
  for (const ListedRank& one : view.listed()) {
    json["by_rank"].push_back(rank_json(view, one));
  }
  return json.dump(2) + "\n";
}

}  // namespace trireme::report
