// `trireme probe`: measures this host and keeps the numbers for the other commands.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <system_error>

#include <fmt/format.h>
#include <unistd.h>

#include "base/json.h"
#include "cli/bench_page.h"
#include "cli/bench_plan.h"
#include "cli/commands.h"
#include "cli/files.h"
#include "cli/host_file.h"
#include "cli/probe_measure.h"
#include "trireme/cluster.h"
#include "trireme/error.h"

namespace trireme::cli {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  trireme probe                                  measure, print, keep for 'trireme bench'\n"
    "  trireme probe --quick --json | jq .host.waits\n"
    "  trireme probe --output here.cluster.json && trireme schedule allreduce --cluster "
    "here.cluster.json\n"
    "\n"
    "Times are means with their 95 % confidence intervals; a message of n bytes takes alpha + "
    "n*beta.";

struct Options {
  Rank ranks = 0;
  std::string output;
  bool json = false;
  bool quick = false;
};

/// "AMD EPYC 7B13", as the system calls it.
std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) {
      return line.substr(colon + 2);
    }
  }
  return "cpu";
}

Cluster make_cluster(const HostProbe& probe) {
  const HostCosts costs = host_costs(probe);
  const std::int64_t pages = sysconf(_SC_PHYS_PAGES);
  Cluster cluster{
      .name = host_name(),
      .devices_per_node = probe.cores,
      .device = {.name = processor_name(),
                 .memory = Bytes{pages * sysconf(_SC_PAGE_SIZE)},
                 .memory_bandwidth = ByteRate{probe.cores / costs.copy.back().together.count},
                 .source = "measured by trireme probe"},
      .gamma = costs.combining.front().gamma,
      .host = costs,
      .notes = {fmt::format("Measured with {} ranks; a device is one core.", probe.cores)}};
  if (probe.cores > 1) {
    cluster.links.push_back({.level = "host",
                             .reach = probe.cores,
                             .alpha = costs.messages.front().alpha,
                             .beta = costs.messages.front().beta,
                             .source = "measured: messages through shared memory"});
  }
  return cluster;
}

// For people.

std::string time_text(const Estimate& estimate) {
  return fmt::format("{:>10}  [{} to {}]", to_text(Seconds{estimate.value}),
                     to_text(Seconds{estimate.low}), to_text(Seconds{estimate.high}));
}

std::string rate_text(const Estimate& per_byte) {
  const auto rate = [](double seconds) {
    return seconds > 0 ? fmt::format("{:.3g}", 1e-9 / seconds) : std::string("inf");
  };
  return fmt::format("{:>6} GB/s  [{} to {}]", rate(per_byte.value), rate(per_byte.high),
                     rate(per_byte.low));
}

void print_curve(std::string_view title, const std::vector<MemoryProbe>& curve) {
  fmt::print("\n{}\n  {:>14}  {:<34} {}\n", title, "working set", "one core", "all cores, each");
  for (const MemoryProbe& point : curve) {
    fmt::print("  {:>14}  {:<34} {}\n", to_text(point.footprint), rate_text(point.alone),
               rate_text(point.together));
  }
}

void print_probe(const HostProbe& probe) {
  fmt::print("{}, {} cores of {}; 95 % confidence intervals\n", host_name(), probe.cores,
             processor_name());
  fmt::print("\nmessages between two ranks: alpha + n * beta\n");
  for (const MessageProbe& message : probe.messages) {
    fmt::print("  {:<12} alpha {:<42} beta {}\n", message.transport,
               time_text(message.fit.intercept), rate_text(message.fit.slope));
  }
  fmt::print("\nwaiting for all ranks, through shared memory\n");
  for (const WaitProbe& wait : probe.waits) {
    fmt::print("  {:>2} ranks     first {:<42} next {}\n", wait.ranks, time_text(wait.first),
               time_text(wait.next));
  }
  print_curve("copying: bytes read and written a second", probe.copy);
  print_curve("adding two f32 vectors into a third: bytes read and written a second",
              probe.combine);
  fmt::print("\npassing bytes from rank to rank\n");
  for (const auto& [what, rate] : {std::pair{"past caches: write", probe.stage},
                                   {"             read", probe.fetch},
                                   {"in caches: write", probe.cached_stage},
                                   {"           read", probe.cached_fetch}}) {
    fmt::print("  {:<18} {}\n", what, rate_text(rate));
  }
  fmt::print("  {:<12} alpha {:<42} beta {}\n", probe.peek.transport,
             time_text(probe.peek.fit.intercept), rate_text(probe.peek.fit.slope));
  fmt::print("\ngamma: combining received bytes, in the cache\n");
  for (const CombineProbe& combine : probe.combining) {
    fmt::print("  {:<6} {}\n", combine.dtype, rate_text(combine.gamma));
  }
}

// For machines: the cluster file, and the intervals beside it.

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

void print_json(const Cluster& cluster, const HostProbe& probe) {
  Json json = Json::parse(to_text(cluster));
  json["intervals"] = intervals_json(probe);
  fmt::print("{}\n", json.dump(2));
}

/// The file's folder is made for the default place only: elsewhere, a missing one is a slip.
std::string prepare_output(const Options& options) {
  if (!options.output.empty()) {
    return options.output;
  }
  std::string path = host_file_path();
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    throw Error(ErrorKind::System,
                fmt::format("cannot make the folder '{}': {}", folder.string(), error.message()));
  }
  return path;
}

void run(const Options& options) {
  const std::string path = prepare_output(options);
  const bool tell = isatty(STDERR_FILENO) != 0;
  const HostProbe probe = probe_host(
      {.ranks = options.ranks == 0 ? usable_cores() : options.ranks, .quick = options.quick},
      [&](const std::string& next) {
        if (tell) {
          fmt::print(stderr, "\r\x1b[K{} …", next);
          std::fflush(stderr);
        }
      });
  if (tell) {
    fmt::print(stderr, "\r\x1b[K");
  }
  const Cluster cluster = make_cluster(probe);
  options.json ? print_json(cluster, probe) : print_probe(probe);
  write_and_report(path, to_text(cluster));
}

}  // namespace

void add_probe_command(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "probe", "Measure messages, waiting and memory of this host, for predictions");
  command
      ->add_option("-n,--ranks", options->ranks,
                   "how many ranks work together (default: the cores)")
      ->check(CLI::Range(1, kMostBenchRanks));
  command->add_option(
      "-o,--output", options->output,
      "write the cluster file here (default: in the cache folder of the user, where "
      "the other commands find it)");
  command->add_flag("--json", options->json, "print the cluster file and the intervals");
  command->add_flag("--quick", options->quick, "smaller sizes only; a second or two");
  command->footer(kExamples);
  command->callback([options] { run(*options); });
}

}  // namespace trireme::cli
