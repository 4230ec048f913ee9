#include "report/plan_text.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "report/words.h"

namespace trireme::report {
namespace {

std::string thousands(std::int64_t count) {
  std::string digits = fmt::format("{}", count);
  for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > 0; at -= 3) {
    digits.insert(at, ",");
  }
  return digits;
}

std::string share(double value) {
  return fmt::format("{:.1f}", 100 * value);
}

std::string schedule_text(const ParallelLayout& layout) {
  if (layout.pipe == 1) {
    return "-";
  }
  return layout.schedule == PipelineForm::Interleaved
             ? fmt::format("interleaved x{}", layout.chunks)
             : std::string(to_text(layout.schedule));
}

std::string mesh_or_one(const ParallelLayout& layout) {
  std::string text = mesh_text(layout);
  if (layout.expert > 1) {
    text += fmt::format(" (expert={})", layout.expert);
  }
  if (layout.context > 1 && layout.context_mode != Plan::Context::Gather) {
    text += fmt::format(" ({})", to_text(layout.context_mode));
  }
  return text.empty() ? "one device" : text;
}

std::vector<std::string> row(const RankedLayout& r, std::size_t number) {
  const StepCost& c = r.cost;
  return {fmt::format("{}", number),
          mesh_or_one(r.layout),
          fmt::format("{}", r.layout.microbatch),
          schedule_text(r.layout),
          fmt::format("{}", r.layout.zero),
          std::string(to_text(r.layout.recompute)),
          r.layout.bucket.count > 0 ? to_text(r.layout.bucket) : "-",
          to_text(Seconds{c.seconds}),
          share(c.mfu()),
          share(c.hfu()),
          bytes_text(c.memory_bytes()),
          share(c.bubble()),
          share(c.exposed_communication())};
}

/// The mesh, the schedule and the recomputation are text; the rest are numbers.
std::string table(const std::vector<std::vector<std::string>>& rows, const Terminal& terminal) {
  std::vector<int> widths(rows.front().size());
  for (const auto& cells : rows) {
    for (std::size_t i = 0; i < cells.size(); ++i) {
      widths[i] = std::max(widths[i], display_width(cells[i]));
    }
  }
  std::string text;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    std::string line;
    for (std::size_t i = 0; i < rows[r].size(); ++i) {
      const bool words = i == 1 || i == 3 || i == 5;
      const std::string cell =
          words ? padded(rows[r][i], widths[i]) : right_aligned(rows[r][i], widths[i]);
      line += (i == 0 ? "" : "  ") + cell;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += (r == 0 ? styled(line, Style::Bold, terminal.color) : line) + "\n";
  }
  return text;
}

std::string heading(const TransformerCost& cost) {
  const Cluster& cluster = cost.cluster();
  const Workload& work = cost.workload();
  return fmt::format("{} on {} ({} x {}), {} sequences of {} tokens per step, {}\n",
                     cost.model().model.name, cluster.name, thousands(cluster.devices()),
                     cluster.device.name, thousands(work.batch), thousands(work.length),
                     work.dtype);
}

std::string memory_text(const StepCost& cost) {
  std::string text;
  for (std::size_t i = 0; i < kCostedMemory; ++i) {
    const double bytes = cost.memory.at(i);
    if (bytes > 0) {
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ",
                          to_text(static_cast<CostedMemory>(i)), bytes_text(bytes));
    }
  }
  return text;
}

/// "10, 10, 22, 22" as "2 x 10, 2 x 22".
std::string runs_text(const std::vector<int>& values) {
  std::string text;
  for (std::size_t i = 0, next = 0; i < values.size(); i = next) {
    while (next < values.size() && values[next] == values[i]) {
      ++next;
    }
    text += fmt::format("{}{}{}", text.empty() ? "" : ", ",
                        next - i > 1 ? fmt::format("{} x ", next - i) : "", values[i]);
  }
  return text;
}

/// How the search handled heterogeneous devices.
std::string kinds_text(const TransformerCost& cost, const RankedLayout& best) {
  const Cluster& cluster = cost.cluster();
  if (!cluster.is_mixed()) {
    return {};
  }
  if (best.stage_blocks.empty()) {
    return "\nDevices differ: in the first layout, all ranks wait for the weakest of them.\n";
  }
  std::string text =
      "\nDevices differ: in the first layout, each stage has devices of one kind, and blocks in "
      "proportion:\n";
  const int stage_devices = cluster.devices() / best.layout.pipe;
  auto next = best.stage_blocks.begin();
  for (const NodeKind& kind : cluster.kinds) {
    const int stages = kind.nodes * cluster.devices_per_node / stage_devices;
    const std::vector<int> own(next, next + stages);
    next += stages;
    text += fmt::format("  {:<10} {}, {} blocks\n", kind.device.name, plural(stages, "stage"),
                        runs_text(own));
  }
  return text;
}

std::string bill_text(const Bill& bill) {
  std::string text;
  if (bill.energy) {
    text += fmt::format(", {:.4g} kWh", bill.energy->kilowatt_hours());
  }
  if (bill.dollars) {
    text += fmt::format(", {:.4g} dollars", *bill.dollars);
  }
  return text;
}

/// Energy and money of a step, and of the training.
std::string bills(const TransformerCost& cost, const StepCost& best, double tokens) {
  std::string text;
  const std::string step = bill_text(bill_of(cost.cluster(), {best.seconds}));
  if (!step.empty()) {
    text += fmt::format("A step takes {}{} (devices at full power, without hosts and cooling)\n",
                        to_text(Seconds{best.seconds}), step);
  }
  if (tokens > 0) {
    const Bill all = training_bill(cost, best, tokens);
    text += fmt::format("{:.4g} tokens take {:.4g} days{}\n", tokens, all.time.count / 86400,
                        bill_text(all));
  }
  return text.empty() ? "" : "\n" + text;
}

/// Why the other plans are slower, in percent of the first plan's step time.
std::string losses(const PlanSearch& search) {
  std::string text = search.best.size() > 1 ? "\nWhy the others are slower\n" : "";
  for (std::size_t i = 1; i < search.best.size(); ++i) {
    const double slower = search.best[i].cost.seconds / search.best.front().cost.seconds - 1;
    text += fmt::format("  {:>2}  +{} %: {}\n", i + 1, share(slower), search.best[i].why);
  }
  return text;
}

std::string sent_text(const StepTraffic& sent) {
  return fmt::format("Sent by an average device: gradients {}, parameters {}, activations {}\n",
                     bytes_text(sent.gradient), bytes_text(sent.parameter),
                     bytes_text(sent.activation));
}

std::string assumptions(const TransformerCost& cost) {
  const Efficiency& e = cost.efficiency();
  const TrainingRecipe& recipe = cost.workload().recipe;
  std::string text = fmt::format(
      "\nAssumptions\n"
      "  recipe          {}: gradients of {:g} bytes, optimizer state of {:g} bytes per parameter\n"
      "  efficiency      {}\n"
      "  matrix products {} % of the peak, times K/(K+{:.0f}); attention {} %; memory {} % of its "
      "bandwidth\n"
      "  links           {} % of their bandwidth in a node, {} % between nodes\n"
      "  overlap         data-parallel communication with {} % of the backward pass; "
      "tensor-parallel\n"
      "                  communication {}\n",
      to_text(recipe.software), recipe.gradient_bytes, cost.state_bytes(),
      e.source.empty() ? "given" : e.source, share(e.matmul), e.depth, share(e.attention),
      share(e.memory), share(e.node_links), share(e.network_links), share(e.overlap),
      cost.workload().overlap_tensor ? "overlapped too" : "exposed");
  for (const Link& link : cost.cluster().links) {
    text += fmt::format("  {:<15} {} per direction and device: {}\n", link.level,
                        to_text(ByteRate{1 / link.beta.count}), link.source);
  }
  for (const std::string& note : cost.cluster().notes) {
    text += fmt::format("  note            {}\n", note);
  }
  return text;
}

}  // namespace

std::string time_parts_text(const StepCost& cost) {
  constexpr double kBar = 40;
  std::string text;
  for (int i = 0; i < kTimeParts; ++i) {
    const auto part = static_cast<TimePart>(i);
    const double portion = cost.part(part) / cost.seconds;
    if (std::abs(portion) < 0.0005) {
      continue;
    }
    std::string bar;
    for (int b = 0; b < static_cast<int>(std::lround(kBar * portion)); ++b) {
      bar += "█";
    }
    const std::string name = is_communication(part) ? fmt::format("{} communication", to_text(part))
                                                    : std::string(to_text(part));
    std::string line = fmt::format("  {:<22} {:>5} %  {}", name, share(portion), bar);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string plan_search_text(const TransformerCost& cost, const PlanSearch& search,
                             const PlanTextOptions& options) {
  std::string text = heading(cost);
  text +=
      fmt::format("searched {} layouts{} in {}; {} of them need more than {} per device\n\n",
                  thousands(search.searched), search.method == SearchMethod::Mcmc ? " by MCMC" : "",
                  to_text(Seconds{search.seconds}), thousands(search.too_large),
                  bytes_text(search.memory_limit));
  if (search.best.empty()) {
    const RankedLayout& least = *search.smallest;
    return text + fmt::format(
                      "nothing fits: the smallest layout, {} with ZeRO {}, needs {} "
                      "({}).\n{}.\n{}.\n",
                      mesh_or_one(least.layout), least.layout.zero,
                      bytes_text(least.cost.memory_bytes()), memory_text(least.cost),
                      search.largest_tensor, search.advice);
  }
  std::vector<std::vector<std::string>> rows{{"", "mesh", "micro", "schedule", "zero", "recompute",
                                              "bucket", "step", "MFU %", "HFU %", "memory",
                                              "bubble %", "comm %"}};
  for (std::size_t i = 0; i < search.best.size(); ++i) {
    rows.push_back(row(search.best[i], i + 1));
  }
  text += table(rows, options.terminal) + losses(search);
  const StepCost& best = search.best.front().cost;
  text += "\nWhere the time of the first goes, for an average device\n" + time_parts_text(best);
  text += fmt::format("\nMemory of its fullest device: {}\n", memory_text(best));
  text += kinds_text(cost, search.best.front()) + bills(cost, best, options.tokens);
  text +=
      "micro: sequences at once; comm: exposed communication; MFU counts model FLOPs over the "
      "dense peak.\n";
  return options.explain
             ? text + sent_text(cost.sent(search.best.front().layout)) + assumptions(cost)
             : text;
}

}  // namespace trireme::report
