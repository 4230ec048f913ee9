#include "report/estimate_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "base/indexed_vector.h"
#include "report/words.h"

namespace trireme::report {
namespace {

constexpr double kDay = 86400;

/// "124.4 M", "7.166 T": four significant digits, powers of 1000. Parameters count in billions.
std::string scaled(double number, const char* giga = " G") {
  const std::array<const char*, 8> prefixes{"", " k", " M", giga, " T", " P", " E", " Z"};
  std::size_t prefix = 0;
  while (std::abs(number) >= 999.95 && prefix + 1 < prefixes.size()) {
    number /= 1000;
    ++prefix;
  }
  if (prefix == 0 && number == std::floor(number)) {
    return fmt::format("{:.0f}", number);
  }
  const int decimals = number < 9.9995 ? 3 : number < 99.995 ? 2 : 1;
  return fmt::format("{:.{}f}{}", number, decimals, prefixes.at(prefix));
}

std::string percent(const std::optional<double>& share) {
  return share ? report::percent(*share) : kUnknown;
}

/// A bar with a resolution of an eighth of a character.
std::string bar(double share) {
  static constexpr std::array<const char*, 8> kParts{"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  constexpr double kWidth = 24;
  const auto eighths = static_cast<std::size_t>(std::lround(share * kWidth * 8));
  std::string out;
  for (std::size_t i = 0; i < eighths / 8; ++i) {
    out += "█";
  }
  return out + kParts.at(eighths % 8);
}

std::string mode_text(RecomputeMode mode) {
  return fmt::format("{} recomputation", mode == RecomputeMode::None ? "no" : to_text(mode));
}

class Text {
 public:
  Text(const EstimateReport& report, const EstimateTextOptions& look) : r_(report), look_(look) {}

  std::string run() {
    head();
    parameters();
    forward();
    training();
    memory();
    roofline();
    utilization();
    whole_run();
    return out_;
  }

 private:
  struct Part {
    const char* name;
    double amount;
    std::string note{};
  };

  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    std::string text = fmt::format(format, std::forward<Args>(args)...);
    text.erase(text.find_last_not_of(' ') + 1);
    out_ += text + "\n";
  }

  void title(std::string_view text, std::string_view remark = {}) {
    out_ += "\n" + styled(text, Style::Bold, look_.terminal.color);
    out_ += remark.empty() ? "" : "  " + styled(remark, Style::Dim, look_.terminal.color);
    out_ += "\n";
  }

  [[nodiscard]] const ModelConfig& model() const { return r_.request.architecture.model; }

  void head() {
    const ModelConfig& c = model();
    const Architecture& a = r_.request.architecture;
    const BatchShape& batch = r_.request.step.batch;
    out_ += styled(c.name, Style::Bold, look_.terminal.color);
    line(": {} layers of width {}, {} heads of {}{}, hidden {}, vocabulary {}", c.layers, c.width,
         c.heads, c.head_width, c.key_heads == c.heads ? "" : fmt::format(" ({} KV)", c.key_heads),
         c.hidden, c.vocabulary);
    if (a.is_mixture()) {
      line("  {} experts of {} in {} of the layers, {} for each token{}", c.experts,
           a.hidden_of_expert(), a.mixture_blocks(), c.experts_per_token,
           c.shared_experts > 0 ? fmt::format(" and {} shared", c.shared_experts) : "");
    }
    if (c.depth_capacity > 0) {
      line("  one layer in {} works on {} of {} tokens", c.depth_every,
           c.picked_tokens(batch.length), batch.length);
    }
    line("  {} of {} tokens a step on {} {}, {}", plural(batch.sequences, "sequence"), batch.length,
         r_.request.devices == 1 ? "one" : fmt::format("each of {}", r_.request.devices),
         r_.request.device.name, r_.request.peak_type);
  }

  /// Amounts with their shares; omits those that are 0.
  void parts(const std::vector<Part>& all, double total, const char* giga = " G") {
    for (const Part& part : all) {
      if (part.amount > 0) {
        line("  {:<14}{:>10} {:>8}  {}{}", part.name, scaled(part.amount, giga),
             percent(part.amount / total), padded(bar(part.amount / total), 26), part.note);
      }
    }
    line("  {:<14}{:>10}", "total", scaled(total, giga));
  }

  void parameters() {
    const ParameterCount& p = r_.parameters;
    title("Parameters");
    const auto real = [](std::int64_t count) { return static_cast<double>(count); };
    parts({{"embedding", real(p.embedding), model().tied ? "also the output layer" : ""},
           {"attention", real(p.attention)},
           {"feed-forward", real(p.feed_forward),
            r_.request.architecture.model.shared_experts > 0 ? "with shared experts" : ""},
           {"experts", real(p.experts)},
           {"routers", real(p.routers)},
           {"norms", real(p.norms)},
           {"head", real(p.head)}},
          real(p.total()), " B");
    if (p.experts > 0) {
      line("  {:<14}{:>10} {:>8}  what one token passes", "active", scaled(real(p.active()), " B"),
           percent(real(p.active()) / real(p.total())));
    }
  }

  void forward() {
    const TokenFlops& f = r_.forward;
    const ModelConfig& c = model();
    const bool all = c.depth_capacity == 0;  // all tokens go through all blocks
    const bool plain = all && c.heads == c.key_heads && c.heads * c.head_width == c.width;
    const bool usual = all && c.family == Family::Gpt2 && c.hidden == 4 * c.width && c.experts == 1;
    title("FLOPs of a token, forward",
          "2 per multiply-add, no mask; h width, L layers, s tokens, vocabulary V");
    parts({{"projections", f.projections, plain ? "8h²L" : ""},
           {"attention", f.attention, plain ? "4shL" : ""},
           {"feed-forward", f.feed_forward, usual ? "16h²L" : ""},
           {"routers", f.routers},
           {"logits", f.logits, "2hV"}},
          f.total());
  }

  void training() {
    title("FLOPs of training", fmt::format("a step is {:.0f} tokens on a device", r_.tokens));
    line("  {:<10}{:>11}{:>11}", "", "per token", "per step");
    const auto row = [&](const char* name, double step, const std::string& note) {
      line("  {:<10}{:>11}{:>11}  {}", name, scaled(step / r_.tokens), scaled(step), note);
    };
    row("model", r_.tokens * r_.training.model, "3 forwards: what MFU counts");
    row("causal", r_.tokens * r_.training.causal, "the same, attention halved for the mask");
    row("hardware", r_.hardware_flops(),
        fmt::format("{}, {}: what HFU counts", mode_text(r_.request.step.recompute),
                    r_.graph ? "as the graph executes" : "by the formula"));
    row("6N", r_.tokens * r_.training.six_n, "rule of thumb, N = active parameters");
  }

  [[nodiscard]] std::string fits(double bytes) const {
    if (!r_.request.device.memory) {
      return "the device's memory is unknown";
    }
    const auto has = static_cast<double>(r_.request.device.memory->count);
    const std::string memory = to_text(*r_.request.device.memory);
    const bool color = look_.terminal.color;
    return bytes <= has
               ? fmt::format("{}, {} of {}", styled("fits", Style::Good, color),
                             percent(bytes / has), memory)
               : fmt::format("{}, {:.3g} times {}", styled("does not fit", Style::Bad, color),
                             bytes / has, memory);
  }

  void memory() {
    if (!r_.graph) {
      recipes();
      return;
    }
    title("Memory of a device",
          fmt::format("at the fullest moment of a step; {}, {}", r_.request.optimizer,
                      mode_text(r_.request.step.recompute)));
    const MemoryUse& use = r_.graph->memory;
    const auto total = static_cast<double>(use.peak.count);
    static constexpr std::array<std::pair<const char*, Category>, 6> kParts{
        {{"parameters", Category::Parameter},
         {"gradients", Category::Gradient},
         {"optimizer", Category::Optimizer},
         {"activations", Category::Activation},
         {"workspace", Category::Workspace},
         {"inputs", Category::Input}}};
    for (const auto& [name, category] : kParts) {
      const Bytes bytes = use.at_peak.at(position_of(category));
      if (category == Category::Workspace && bytes.count == 0) {
        continue;
      }
      const double share = static_cast<double>(bytes.count) / total;
      line("  {:<14}{:>10} {:>8}  {}", name, to_text(bytes), percent(share),
           padded(bar(share), 26));
    }
    line("  {:<14}{:>10}           {}", "peak", to_text(use.peak), fits(total));
    line("  {} of activations are kept for the backward pass", to_text(r_.graph->kept));
  }

  /// If there is no graph to plan.
  void recipes() {
    title("Memory of a device",
          "by bytes for each parameter; without a graph activations are unknown");
    for (const MemoryRecipe& recipe : memory_recipes()) {
      const double bytes = recipe.total() * static_cast<double>(r_.parameters.total());
      line("  {:<24}{:>4.3g} bytes {:>10}  {}", recipe.name, recipe.total(),
           to_text(Bytes{static_cast<std::int64_t>(bytes)}), fits(bytes));
    }
  }

  void roofline() {
    if (!r_.graph) {
      return;
    }
    const std::optional<ByteRate>& memory = r_.request.device.memory_bandwidth;
    title(fmt::format("Roofline of {}", r_.request.device.name),
          fmt::format("peak {} ({}, dense), memory {}", r_.peak ? to_text(*r_.peak) : kUnknown,
                      r_.request.peak_type, memory ? to_text(*memory) : kUnknown));
    if (r_.roofline) {
      line("  above {:.0f} FLOP/byte an op is compute-bound, below memory-bound",
           r_.roofline->ridge());
    } else {
      line("  a rate is unknown, so no times are shown");
    }
    ops();
    if (r_.best) {
      at_best("at best", *r_.best, "every op at its bound, in sequence");
      at_best("fused", *r_.best_fused, "and element-wise ops in one pass");
    }
  }

  void at_best(const char* name, Seconds time, const char* note) {
    line("  {:<10}{:>10} a step, MFU {:>6}, HFU {:>6}  {}", name, to_text(time),
         percent(r_.mfu(time)), percent(r_.hfu(time)), note);
  }

  /// The slowest first; without times those that move the most bytes.
  [[nodiscard]] std::vector<TimedKind> kinds() const {
    if (r_.roofline) {
      return timed_kinds(*r_.graph, *r_.roofline);
    }
    std::vector<TimedKind> untimed;
    for (const OpKind& kind : r_.graph->kinds) {
      untimed.push_back({.kind = &kind});
    }
    return untimed;
  }

  void ops() {
    line("  {:<28}{:>6}{:>10}{:>11}{:>11}{:>10}{:>8}  {}", "op", "nodes", "FLOPs", "bytes",
         "FLOP/byte", "time", "share", "bound by");
    const std::vector<TimedKind> all = kinds();
    const auto shown = std::min(all.size(), static_cast<std::size_t>(look_.ops));
    for (std::size_t i = 0; i < shown; ++i) {
      op(*all[i].kind, all[i].time, bound_text(*all[i].kind));
    }
    if (shown == all.size()) {
      return;
    }
    OpKind rest{.name = fmt::format("{} other kinds", all.size() - shown)};
    Seconds time{};
    for (std::size_t i = shown; i < all.size(); ++i) {
      rest.nodes += all[i].kind->nodes;
      rest.flops += all[i].kind->flops;
      rest.bytes += all[i].kind->bytes;
      time.count += all[i].time.count;
    }
    op(rest, time, "");
  }

  [[nodiscard]] std::string bound_text(const OpKind& kind) const {
    if (!r_.roofline) {
      return kUnknown;
    }
    const bool computing = r_.roofline->bound(kind.flops, kind.bytes) == Bound::Compute;
    return styled(computing ? "compute" : "memory", computing ? Style::Good : Style::Bad,
                  look_.terminal.color);
  }

  void op(const OpKind& kind, Seconds time, const std::string& bound) {
    line("  {:<28}{:>6}{:>10}{:>11}{:>11.4g}{:>10}{:>8}  {}", kind.name, kind.nodes,
         scaled(kind.flops), to_text(Bytes{static_cast<std::int64_t>(kind.bytes)}),
         kind.intensity(), r_.best ? to_text(time) : "-",
         r_.best ? percent(time.count / r_.best->count) : "-", bound);
  }

  void utilization() {
    if (!r_.request.step_time) {
      return;
    }
    const Seconds time = *r_.request.step_time;
    title(fmt::format("Utilization, a step in {}", to_text(time)),
          fmt::format("peak {}, {} dense", r_.peak ? to_text(*r_.peak) : kUnknown,
                      r_.request.peak_type));
    line("  {:<14}{:>10}  model FLOPs; causal {}", "MFU", percent(r_.mfu(time)),
         percent(r_.causal_mfu(time)));
    line("  {:<14}{:>10}  executed FLOPs", "HFU", percent(r_.hfu(time)));
    line("  {:<14}{:>10}  tokens/s on {}", "throughput",
         scaled(r_.tokens * r_.request.devices / time.count), plural(r_.request.devices, "device"));
    if (r_.best) {
      line("  {:<14}{:>10}  of the time at the roofline", "step",
           fmt::format("{:.2f} x", time.count / r_.best->count));
    }
    verdict(r_.mfu(time));
  }

  void verdict(const std::optional<double>& mfu) {
    const std::optional<TypicalMfu> typical = typical_mfu(r_.request.device.name);
    if (!mfu || !typical) {
      line("  {:<14}no figures for {}", "typical?", r_.request.device.name);
      return;
    }
    const bool low = *mfu < typical->low;
    const bool high = *mfu > typical->high;
    line("  {:<14}{} of {}: {}", "typical?",
         styled(*mfu > 1 ? "impossible, above the peak"
                : low    ? "below what is typical"
                : high   ? "above what is typical"
                         : "yes, typical",
                low || *mfu > 1 ? Style::Bad : Style::Good, look_.terminal.color),
         r_.request.device.name, typical->note);
  }

  void whole_run() {
    if (!r_.request.run_tokens) {
      return;
    }
    const double flops = *r_.request.run_tokens * r_.training.model;
    title(fmt::format("A run of {} tokens", scaled(*r_.request.run_tokens)));
    line("  {:<14}{:>10}  tokens x model FLOPs", "FLOPs", fmt::format("{:.3e}", flops));
    const std::optional<double> share = r_.run_mfu();
    if (!r_.peak || !share) {
      line("  {:<14}{:>10}  {}", "time", kUnknown,
           r_.peak ? "give --mfu or --step-time" : "the peak is unknown");
      return;
    }
    const double seconds = run_time(flops, *r_.peak, *share, r_.request.devices).count;
    line("  {:<14}{:>10}  at {} MFU on {} {}", "days", fmt::format("{:.4g}", seconds / kDay),
         percent(*share), r_.request.devices, r_.request.device.name);
    line("  {:<14}{:>10}", "device-hours", scaled(seconds / 3600 * r_.request.devices));
  }

  const EstimateReport& r_;
  const EstimateTextOptions& look_;
  std::string out_;
};

}  // namespace

std::string estimate_text(const EstimateReport& report, const EstimateTextOptions& look) {
  return Text(report, look).run();
}

}  // namespace trireme::report
