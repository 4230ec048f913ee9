#include "report/compiled_plan_text.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/json.h"
#include "report/words.h"
#include "trireme/communication.h"
#include "trireme/pipeline.h"

namespace trireme::report {
namespace {

std::string bytes_text(double bytes) {
  return to_text(Bytes{static_cast<std::int64_t>(bytes)});
}

/// By what is carried, over all ranks.
std::array<double, kCategories> sent_by_category(const CompiledPlan& compiled) {
  std::array<double, kCategories> sums{};
  for (const Program& program : compiled.programs()) {
    for (const CommunicationUse& use : communication_of(program)) {
      sums.at(static_cast<std::size_t>(use.carries)) += use.sent();
    }
  }
  return sums;
}

/// The idle share of each pipeline rank, if a backward pass takes twice as long as a forward pass.
std::vector<double> idle_shares(const Plan& plan) {
  const PipelineTable table = table_of(plan);
  const PipelineTiming timing = time_pipeline(
      table, PipelineDurations{.forward = 1, .backward_input = 1, .backward_weight = 1});
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

std::string communication_text(const Program& program, const Terminal& terminal) {
  std::string text =
      styled(fmt::format("{:<15} {:<14} {:<9} {:<10} {:>12} {:>6} {:>12}  {}", "op", "axis",
                         "phase", "carries", "each", "calls", "sent", "overlapped"),
             Style::Bold, terminal.color) +
      "\n";
  for (const CommunicationUse& use : communication_of(program)) {
    text += fmt::format(
        "{:<15} {:<14} {:<9} {:<10} {:>12} {:>6} {:>12}  {}\n", use.op,
        use.group.empty() ? "-" : use.group, to_text(use.phase), to_text(use.carries),
        bytes_text(use.bytes), use.calls, bytes_text(use.sent()),
        use.overlapped == 0           ? "no"
        : use.overlapped == use.calls ? "yes"
                                      : fmt::format("{} of {}", use.overlapped, use.calls));
  }
  return text;
}

std::string totals_text(const CompiledPlan& compiled) {
  std::string text;
  const auto sums = sent_by_category(compiled);
  for (int i = 0; i < kCategories; ++i) {
    const double sum = sums.at(static_cast<std::size_t>(i));
    if (sum > 0) {
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", to_text(static_cast<Category>(i)),
                          bytes_text(sum));
    }
  }
  return text.empty() ? "nothing" : text;
}

std::string memory_text(const CompiledPlan& compiled, const Terminal& terminal) {
  std::string head = fmt::format("{:>4} {:>11}", "rank", "peak");
  for (int i = 0; i < kCategories; ++i) {
    head += fmt::format(" {:>13}", to_text(static_cast<Category>(i)));
  }
  std::string text = styled(head, Style::Bold, terminal.color) + "\n";
  int rank = 0;
  for (const Program& program : compiled.programs()) {
    const MemoryUse use = memory_use(program);
    text += fmt::format("{:>4} {:>11}", rank++, to_text(use.peak));
    for (const Bytes bytes : use.at_peak) {
      text += fmt::format(" {:>13}", bytes.count == 0 ? "-" : to_text(bytes));
    }
    text += "\n";
  }
  return text;
}

std::string idle_text(const Plan& plan) {
  if (!plan.ops.empty()) {  // not equal stages
    return "\nIdle time depends on the assigned ops; trireme simulate predicts it.\n";
  }
  const std::vector<double> shares = idle_shares(plan);
  if (shares.size() < 2) {
    return "";
  }
  std::string text =
      "\nIdle share of each pipeline rank, if a backward pass takes two forward passes: ";
  for (std::size_t i = 0; i < shares.size(); ++i) {
    text += (i == 0 ? "" : ", ") + percent(shares[i]);
  }
  return text + "\n";
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

}  // namespace

std::string compiled_plan_text(const CompiledPlan& compiled,
                               const CompiledPlanTextOptions& options) {
  const Plan& plan = compiled.plan();
  return fmt::format("{} on {}: {}\n\nCommunication of rank {} in a step\n", options.model,
                     plural(plan.mesh.devices(), "rank"), plan_words(plan), options.rank) +
         communication_text(compiled.program(options.rank), options.terminal) +
         fmt::format("\nSent by all ranks, by what it carries: {}\n\nMemory at the peak\n",
                     totals_text(compiled)) +
         memory_text(compiled, options.terminal) + idle_text(plan);
}

std::string compiled_plan_json(const CompiledPlan& compiled, const std::string& model) {
  Json json{{"model", model},
            {"plan", parse_json(to_text(compiled.plan()), "plan")},
            {"ranks", compiled.plan().mesh.devices()}};
  Json& sent = json["sent_bytes"] = Json::object();
  const auto sums = sent_by_category(compiled);
  for (int i = 0; i < kCategories; ++i) {
    sent[std::string(to_text(static_cast<Category>(i)))] = sums.at(static_cast<std::size_t>(i));
  }
  json["by_rank"] = Json::array();
  for (const Program& program : compiled.programs()) {
    Json rank{{"communication", Json::array()}};
    for (const CommunicationUse& use : communication_of(program)) {
      rank["communication"].push_back({{"op", use.op},
                                       {"axis", use.group},
                                       {"phase", to_text(use.phase)},
                                       {"carries", to_text(use.carries)},
                                       {"bytes", use.bytes},
                                       {"calls", use.calls},
                                       {"overlapped", use.overlapped},
                                       {"example", use.example}});
    }
    const MemoryUse memory = memory_use(program);
    rank["peak_bytes"] = memory.peak.count;
    for (int i = 0; i < kCategories; ++i) {
      rank["memory_bytes"][std::string(to_text(static_cast<Category>(i)))] =
          memory.at_peak.at(static_cast<std::size_t>(i)).count;
    }
    json["by_rank"].push_back(std::move(rank));
  }
  if (compiled.plan().ops.empty()) {
    json["idle_of_pipeline_ranks"] = idle_shares(compiled.plan());
  }
  return json.dump(2) + "\n";
}

}  // namespace trireme::report
