#include "cli/train_memory.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/terminal.h"
#include "trireme/error.h"

namespace trireme::cli {
namespace {

/// "3.1 MiB activation, 1.2 MiB parameter, …", the most first.
std::string parts_text(const train::MemoryNeed& need) {
  std::vector<std::pair<Bytes, std::string>> parts;
  for (std::size_t c = 0; c < kCategories; ++c) {
    const auto category = static_cast<Category>(c);
    const Bytes bytes = category == Category::Workspace ? need.workspace : need.use.at_peak.at(c);
    parts.emplace_back(bytes, to_text(category));
  }
  parts.emplace_back(need.evaluation, "validation and samples");
  parts.emplace_back(Bytes{need.arena.count - need.use.peak.count}, "gaps");
  std::ranges::stable_sort(parts, std::greater<>(), [](const auto& part) { return part.first; });
  std::vector<std::string> texts;
  for (const auto& [bytes, what] : parts) {
    if (bytes.count > 0) {
      texts.push_back(fmt::format("{} {}", to_text(bytes), what));
    }
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string largest_text(const train::MemoryNeed& need) {
  std::vector<std::string> texts;
  for (const train::LargeTensor& tensor : need.largest) {
    texts.push_back(fmt::format("%{} {} {} ({})", tensor.name, to_text(tensor.type),
                                to_text(size_of(tensor.type)), tensor.origin));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

/// What a batch is counted in.
std::string_view unit_of(const train::TrainerOptions& options) {
  return std::holds_alternative<ModelConfig>(options.model) ? "token" : "example";
}

std::int64_t units_of(const train::TrainerOptions& options) {
  return options.batch.sequences *
         (std::holds_alternative<ModelConfig>(options.model) ? options.batch.length : 1);
}

std::string consequence_text(const train::TrainerOptions& from, const train::TrainerOptions& to) {
  std::vector<std::string> texts;
  if (to.batch.sequences != from.batch.sequences) {
    texts.push_back(
        fmt::format("{} {}s a step, not {}", units_of(to), unit_of(to), units_of(from)));
  }
  if (dtype_of(to.model) != dtype_of(from.model)) {
    texts.emplace_back("less precise numbers");
  }
  return texts.empty() ? "the same losses" : fmt::format("{}", fmt::join(texts, ", "));
}

std::string fix_text(const train::TrainerOptions& options, const train::MemoryFix& fix) {
  return fmt::format("\n  {} {} {} FLOPs for each {}; {}",
                     padded(options_text(options, fix.options), 38),
                     right_aligned(to_text(fix.need), 10),
                     right_aligned(fmt::format("{:+.1f} %", 100 * fix.extra_flops), 8),
                     unit_of(options), consequence_text(options, fix.options));
}

std::string fixes_text(const train::TrainerOptions& options, const AvailableMemory& available,
                       Device& device) {
  const std::vector<train::MemoryFix> fixes =
      train::find_memory_fixes(options, available.bytes, device);
  if (fixes.empty()) {
    const train::MemoryFix least = train::least_memory(options, device);
    return fmt::format(
        "\nnothing found that fits: even {} needs {}; take a smaller --model{}, or more memory",
        options_text(options, least.options), to_text(least.need),
        std::holds_alternative<ModelConfig>(options.model) ? " or --length" : "");
  }
  std::string text = "\nthese fit, the cheapest first:";
  for (const train::MemoryFix& fix : fixes) {
    text += fix_text(options, fix);
  }
  return text;
}

}  // namespace

AvailableMemory memory_for_training(std::optional<Bytes> limit) {
  return limit ? AvailableMemory{*limit, "allowed by --memory-limit"} : available_memory();
}

void require_memory(const train::TrainerOptions& options, const AvailableMemory& available,
                    Device& device) {
  const train::MemoryNeed need = train::plan_memory(options, device);
  if (need.total() <= available.bytes) {
    return;
  }
  throw Error(
      ErrorKind::System,
      fmt::format("this run needs {} of memory; {} are {}\n"
                  "memory is fullest at {}: {}\n"
                  "the largest tensors then: {}{}",
                  to_text(need.total()), to_text(available.bytes), available.reason, need.moment,
                  parts_text(need), largest_text(need), fixes_text(options, available, device)));
}

std::string options_text(const train::TrainerOptions& from, const train::TrainerOptions& to) {
  std::vector<std::string> texts;
  if (to.batch.sequences != from.batch.sequences) {
    texts.push_back(fmt::format("--batch {}", to.batch.sequences));
  }
  if (to.plan.recompute != from.plan.recompute) {
    texts.push_back(fmt::format("--recompute {}", to_text(to.plan.recompute)));
  }
  if (dtype_of(to.model) != dtype_of(from.model)) {
    texts.push_back(fmt::format("--dtype {}", to_text(dtype_of(to.model))));
  }
  return fmt::format("{}", fmt::join(texts, " "));
}

}  // namespace trireme::cli
