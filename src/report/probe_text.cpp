#include "report/probe_text.h"

#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/json.h"

namespace trireme::report {
namespace {

using measure::CombineProbe;
using measure::Estimate;
using measure::HostProbe;
using measure::MemoryProbe;
using measure::MessageProbe;
using measure::WaitProbe;

std::string time_text(const Estimate& estimate) {
  return fmt::format("{:>10}  [{} to {}]", to_text(Seconds{estimate.value}),
                     to_text(Seconds{estimate.low}), to_text(Seconds{estimate.high}));
}

std::string bandwidth_text(const Estimate& per_byte) {
  const auto rate = [](double seconds) {
    return seconds > 0 ? fmt::format("{:.3g}", 1e-9 / seconds) : std::string("inf");
  };
  return fmt::format("{:>6} GB/s  [{} to {}]", rate(per_byte.value), rate(per_byte.high),
                     rate(per_byte.low));
}

std::string curve_text(std::string_view title, const std::vector<MemoryProbe>& curve) {
  std::string out = fmt::format("\n{}\n  {:>14}  {:<34} {}\n", title, "working set", "one core",
                                "all cores, each");
  for (const MemoryProbe& point : curve) {
    out += fmt::format("  {:>14}  {:<34} {}\n", to_text(point.footprint),
                       bandwidth_text(point.alone), bandwidth_text(point.together));
  }
  return out;
}

std::string messages_text(const MessageProbe& message) {
  return fmt::format("  {:<12} alpha {:<42} beta {}\n", message.transport,
                     time_text(message.fit.intercept), bandwidth_text(message.fit.slope));
}

std::string waits_text(const HostProbe& probe) {
  std::string out = "\nwaiting for all ranks, through shared memory\n";
  for (const WaitProbe& wait : probe.waits) {
    out += fmt::format("  {:>2} ranks     first {:<42} next {}\n", wait.ranks,
                       time_text(wait.first), time_text(wait.next));
  }
  return out;
}

std::string passing_text(const HostProbe& probe) {
  std::string out = "\npassing bytes from rank to rank\n";
  for (const auto& [what, rate] : {std::pair{"past caches: write", probe.stage},
                                   {"             read", probe.fetch},
                                   {"in caches: write", probe.cached_stage},
                                   {"           read", probe.cached_fetch}}) {
    out += fmt::format("  {:<18} {}\n", what, bandwidth_text(rate));
  }
  return out + messages_text(probe.peek);
}

std::string gamma_text(const HostProbe& probe) {
  std::string out = "\ngamma: combining received bytes, in the cache\n";
  for (const CombineProbe& combine : probe.combining) {
    out += fmt::format("  {:<6} {}\n", combine.dtype, bandwidth_text(combine.gamma));
  }
  return out;
}

/// "12.3", or "-" if the cost is 0.
std::string rate_or_dash(Seconds cost) {
  return cost.count > 0 ? fmt::format("{:.3g}", 1e-9 / cost.count) : "-";
}

/// Matrix products, attention, and all other kernels together.
bool is_shown(const KernelCost& cost) {
  return cost.kernel == "*" || cost.kernel.starts_with("einsum") ||
         cost.kernel.starts_with("attention") || cost.kernel == "start" ||
         cost.kernel == "background";
}

std::string setting_text(const ComputeSetting& setting) {
  std::string out = fmt::format(
      "  {} rank{} on {} thread{}\n    {:<24} {:>9} {:>10} {:>9} {:>9} {:>9} {:>8} {:>7}\n",
      setting.ranks, setting.ranks == 1 ? "" : "s", setting.threads,
      setting.threads == 1 ? "" : "s", "kernel", "GFLOP/s", "a call", "GB/s: 1st", "others",
      "results", "samples", "error");
  for (const KernelCost& cost : setting.kernels) {
    if (is_shown(cost)) {
      out += fmt::format("    {:<24} {:>9} {:>10} {:>9} {:>9} {:>9} {:>8} {:>5.1f} %\n",
                         cost.kernel == "*" ? "all others" : cost.kernel, rate_or_dash(cost.flop),
                         to_text(cost.call), rate_or_dash(cost.first), rate_or_dash(cost.others),
                         rate_or_dash(cost.results), cost.samples, 100 * cost.error);
    }
  }
  return out;
}

std::string compute_text(const ComputeCosts& costs) {
  std::string out =
      "\nkernels: a call, plus FLOPs and bytes of operands at these rates, all added\n";
  for (const ComputeSetting& setting : costs.settings) {
    out += setting_text(setting);
  }
  return out + fmt::format("  from {}; --json lists every kernel\n", costs.source);
}

Json interval_json(std::string_view what, const Estimate& estimate) {
  return {
      {"what", what}, {"value", estimate.value}, {"low", estimate.low}, {"high", estimate.high}};
}

Json intervals_json(const HostProbe& probe) {
  Json all = Json::array();
  for (const MessageProbe& message : probe.messages) {
    all.push_back(interval_json(message.transport + " alpha_seconds", message.fit.intercept));
    all.push_back(interval_json(message.transport + " beta_seconds_per_byte", message.fit.slope));
  }
  for (const WaitProbe& wait : probe.waits) {
    all.push_back(interval_json(fmt::format("{} ranks first_seconds", wait.ranks), wait.first));
    all.push_back(interval_json(fmt::format("{} ranks next_seconds", wait.ranks), wait.next));
  }
  for (const auto& [what, curve] : {std::pair{"copy", &probe.copy}, {"combine", &probe.combine}}) {
    for (const MemoryProbe& point : *curve) {
      const std::string head = fmt::format("{} {} bytes ", what, point.footprint.count);
      all.push_back(interval_json(head + "alone_seconds_per_byte", point.alone));
      all.push_back(interval_json(head + "together_seconds_per_byte", point.together));
    }
  }
  for (const CombineProbe& combine : probe.combining) {
    all.push_back(interval_json(combine.dtype + " gamma_seconds_per_byte", combine.gamma));
  }
  all.push_back(interval_json("stage_seconds_per_byte", probe.stage));
  all.push_back(interval_json("fetch_seconds_per_byte", probe.fetch));
  all.push_back(interval_json("cached_stage_seconds_per_byte", probe.cached_stage));
  all.push_back(interval_json("cached_fetch_seconds_per_byte", probe.cached_fetch));
  all.push_back(interval_json("peek alpha_seconds", probe.peek.fit.intercept));
  all.push_back(interval_json("peek beta_seconds_per_byte", probe.peek.fit.slope));
  return all;
}

}  // namespace

std::string probe_text(const Cluster& cluster, const HostProbe& probe) {
  std::string out = fmt::format("{}, {} cores of {}; 95 % confidence intervals\n", cluster.name,
                                probe.cores, cluster.device.name);
  out += "\nmessages between two ranks: alpha + n * beta\n";
  for (const MessageProbe& message : probe.messages) {
    out += messages_text(message);
  }
  out += waits_text(probe);
  out += curve_text("copying: bytes read and written a second", probe.copy);
  out += curve_text("adding two f32 vectors into a third: bytes read and written a second",
                    probe.combine);
  out += passing_text(probe) + gamma_text(probe);
  return probe.compute ? out + compute_text(*probe.compute) : out;
}

std::string probe_json(const Cluster& cluster, const HostProbe& probe) {
  Json json = Json::parse(to_text(cluster));
  json["intervals"] = intervals_json(probe);
  return json.dump(2) + "\n";
}

}  // namespace trireme::report
