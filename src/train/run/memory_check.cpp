#include "train/run/memory_check.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "train/step/memory_fixes.h"
#include "trireme/error.h"

namespace trireme::train {
namespace {

std::string largest_text(const MemoryNeed& need) {
  std::vector<std::string> texts;
  for (const LargeTensor& tensor : need.largest) {
    texts.push_back(fmt::format("%{} {} {} ({})", tensor.name, to_text(tensor.type),
                                to_text(size_of(tensor.type)), tensor.origin));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

/// "89.42 MiB"; "89.42 MiB (93763492 B)" where that would look like `other`, which it is not.
std::string text_apart(Bytes bytes, Bytes other) {
  const std::string text = to_text(bytes);
  return bytes == other || text != to_text(other) ? text
                                                  : fmt::format("{} ({} B)", text, bytes.count);
}

/// The unit of a batch.
std::string_view unit_of(const TrainerOptions& options) {
  return std::holds_alternative<ModelConfig>(options.model) ? "token" : "example";
}

std::int64_t units_of(const TrainerOptions& options) {
  return options.batch.sequences *
         (std::holds_alternative<ModelConfig>(options.model) ? options.batch.length : 1);
}

std::string consequence_text(const TrainerOptions& from, const TrainerOptions& to) {
  std::vector<std::string> texts;
  if (to.batch.sequences != from.batch.sequences) {
    texts.push_back(
        fmt::format("{} {}s a step, not {}", units_of(to), unit_of(to), units_of(from)));
  }
  if (dtype_of(to.model) != dtype_of(from.model)) {
    texts.emplace_back("lower precision");
  }
  if (to.training.master_weights != from.training.master_weights) {
    texts.emplace_back("updates in lower precision");
  }
  if (to.plan.zero == 3 && from.plan.zero != 3) {
    texts.emplace_back("50 % more bytes between ranks");
  }
  return texts.empty() ? "the same losses" : fmt::format("{}", fmt::join(texts, ", "));
}

std::string fix_text(const TrainerOptions& options, const MemoryFix& fix) {
  return fmt::format("\n  {:<38} {:>10} {:>+6.1f} % FLOPs for each {}; {}",
                     options_text(options, fix.options), to_text(fix.need), 100 * fix.extra_flops,
                     unit_of(options), consequence_text(options, fix.options));
}

std::string fixes_text(const TrainerOptions& options, const AvailableMemory& available,
                       Device& device, int rank) {
  const std::vector<MemoryFix> fixes = find_memory_fixes(options, available.bytes, device, rank);
  if (fixes.empty()) {
    const MemoryFix least = least_memory(options, device, rank);
    return fmt::format(
        "\nno options fit: even {} needs {}; use a smaller --model{}, or more memory",
        options_text(options, least.options), text_apart(least.need, available.bytes),
        std::holds_alternative<ModelConfig>(options.model) ? " or --length" : "");
  }
  std::string text = fmt::format("\noptions that fit{}, cheapest first:",
                                 options.plan.mesh.devices() > 1 ? " on this rank" : "");
  for (const MemoryFix& fix : fixes) {
    text += fix_text(options, fix);
  }
  return text;
}

/// Gathers a number from every rank.
std::vector<std::int64_t> all_of(World& world, std::int64_t mine) {
  std::vector<std::int64_t> all(world.size());
  world.all().run(allgather<std::int64_t>(std::span(&mine, 1), all));
  return all;
}

/// This rank's share of the machine's memory: all it needs, or a share in proportion to the needs of the machine's
/// ranks.
AvailableMemory share_of(const AvailableMemory& machine, Bytes need, World& world) {
  const std::vector<std::int64_t> needs = all_of(world, need.count);
  double together = 0;
  for (const std::vector<Rank>& host : world.hosts()) {
    const bool here = std::ranges::find(host, world.rank()) != host.end();
    for (const Rank rank : host) {
      together += here ? static_cast<double>(needs[rank]) : 0;
    }
  }
  if (together <= static_cast<double>(machine.bytes.count)) {
    return {.bytes = need, .reason = machine.reason};
  }
  const double share = static_cast<double>(machine.bytes.count) / together;
  return {.bytes = {static_cast<std::int64_t>(share * static_cast<double>(need.count))},
          .reason = fmt::format("its share of the {} {}", to_text(machine.bytes), machine.reason)};
}

}  // namespace

AvailableMemory memory_for_training(std::optional<Bytes> limit) {
  return limit ? AvailableMemory{*limit, "allowed by --memory-limit"} : available_memory();
}

AvailableMemory memory_for_training(std::optional<Bytes> limit, const Device& device) {
  const std::optional<Bytes> free = device.free_memory();
  return free && !limit ? AvailableMemory{*free, fmt::format("free on {}", device.name())}
                        : memory_for_training(limit);
}

void require_memory(const TrainerOptions& options, const MemoryNeed& need,
                    const AvailableMemory& available, Device& device, int rank) {
  if (need.total() <= available.bytes) {
    return;
  }
  throw Error(ErrorKind::System,
              fmt::format("this run needs {} of memory{}; {} is {}\n"
                          "memory peaks at {}: {}\n"
                          "the largest tensors at that point: {}{}",
                          text_apart(need.total(), available.bytes),
                          options.plan.mesh.devices() > 1 ? fmt::format(" on rank {}", rank) : "",
                          text_apart(available.bytes, need.total()), available.reason, need.moment,
                          to_text(memory_parts(need)), largest_text(need),
                          fixes_text(options, available, device, rank)));
}

bool has_memory(const TrainerOptions& options, const MemoryNeed& need, std::optional<Bytes> limit,
                Device& device, Ranks& ranks) {
  World& world = *ranks.world();
  AvailableMemory available = memory_for_training(limit, device);
  if (!limit && !device.free_memory()) {
    available = share_of(available, need.total(), world);
  }
  const std::vector<std::int64_t> lacking =
      all_of(world, need.total() > available.bytes ? need.total().count : 0);
  const auto worst = std::ranges::max_element(lacking);
  if (*worst > 0 && world.rank() == worst - lacking.begin()) {
    require_memory(options, need, available, device, ranks.rank_in_worker());
  }
  return *worst == 0;
}

LargestNeed largest_need(const MemoryNeed& mine, Ranks& ranks) {
  if (ranks.world() == nullptr) {
    return {.rank = 0, .need = mine};
  }
  World& world = *ranks.world();
  const std::vector<std::int64_t> totals = all_of(world, mine.total().count);
  const auto rank = static_cast<int>(std::ranges::max_element(totals) - totals.begin());
  MemoryNeed need = mine;
  std::vector<Bytes*> sizes{&need.arena,      &need.workspace,       &need.update,
                            &need.evaluation, &need.synchronization, &need.use.peak};
  for (Bytes& size : need.use.at_peak) {
    sizes.push_back(&size);
  }
  std::vector<std::int64_t> counts;
  counts.reserve(sizes.size());
  for (const Bytes* size : sizes) {
    counts.push_back(size->count);
  }
  world.all().run(broadcast<std::int64_t>(counts, rank));
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    sizes[i]->count = counts[i];
  }
  return {.rank = rank, .need = need};
}

std::vector<MemoryPart> memory_parts(const MemoryNeed& need) {
  std::vector<MemoryPart> parts;
  for (std::size_t c = 0; c < kCategories; ++c) {
    const auto category = static_cast<Category>(c);
    parts.push_back({std::string(to_text(category)),
                     category == Category::Workspace ? need.workspace : need.use.at_peak.at(c)});
  }
  parts.push_back({"gaps", {need.arena.count - need.use.peak.count}});
  if (need.update.count > 0) {
    parts.push_back({"update", need.update});
  }
  parts.push_back({"evaluation", need.evaluation});
  if (need.synchronization.count > 0) {
    parts.push_back({"synchronization", need.synchronization});
  }
  return parts;
}

std::string options_text(const TrainerOptions& from, const TrainerOptions& to) {
  std::vector<std::string> texts;
  if (to.batch.sequences != from.batch.sequences) {
    texts.push_back(fmt::format("--batch {}", to.batch.sequences * to.workers));
  }
  if (to.plan.microbatches != from.plan.microbatches) {
    texts.push_back(fmt::format("--microbatches {}", to.plan.microbatches));
  }
  if (to.plan.zero != from.plan.zero) {
    texts.push_back(fmt::format("--zero {}", to.plan.zero));
  }
  if (to.plan.recompute != from.plan.recompute) {
    texts.push_back(fmt::format("--recompute {}", to_text(to.plan.recompute)));
  }
  if (dtype_of(to.model) != dtype_of(from.model)) {
    texts.push_back(fmt::format("--dtype {}", to_text(dtype_of(to.model))));
  }
  if (to.training.master_weights != from.training.master_weights) {
    texts.emplace_back("--master none");
  }
  return fmt::format("{}", fmt::join(texts, " "));
}

}  // namespace trireme::train
