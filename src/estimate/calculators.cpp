// Worked examples with free inputs. Each is one function: it reads its inputs, derives its results, adds the caveats.
#include "estimate/calculators.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include <fmt/format.h>

#include "estimate/durations.h"
#include "estimate/example_inputs.h"
#include "trireme/energy.h"
#include "trireme/estimate.h"

namespace trireme {
namespace {

constexpr double kGB = 1e9;

std::string time_text(double seconds) {
  return to_text(Seconds{seconds});
}

std::string count_text(double count) {
  return fmt::format("{:.0f}", count);
}

std::string rate_text(double bytes_per_second) {
  return to_text(ByteRate{bytes_per_second});
}

std::string gigabytes_text(double bytes) {
  return bytes < 100 * kGB ? fmt::format("{:.3g} GB", bytes / kGB)
                           : fmt::format("{:.0f} GB", bytes / kGB);
}

std::string times_text(double factor) {
  return fmt::format("{:.4g} times", factor);
}

/// A parameter server with one port: the master receives K gradients and sends K models sequentially.
Example server_bottleneck(const ExampleInputs& set) {
  ExampleInputReader in("server-bottleneck", set);
  const double compute = in.number({"compute", "computation of a step", 1}, time_text);
  const double workers = in.number({"workers", "workers K", 10, InputKind::Count});
  const double alpha =
      in.number({"alpha", "latency of a message", 0.8e-3, InputKind::NotNegative}, time_text);
  const double bytes = in.number({"bytes", "gradients, and model, n", 62.4e6},
                                 [](double n) { return fmt::format("{:.4g} MB", n / 1e6); });
  const double bandwidth = in.number({"bandwidth", "of the server's port, 1/β", 125e6}, rate_text);
  const double shards = in.number({"shards", "servers with a shard each", 10, InputKind::Count});
  Example e{.name = "server-bottleneck",
            .title = "A parameter server: what overlap and shards gain",
            .given = in.finish(),
            .results = {},
            .tables = {{.title = "by the number of servers",
                        .columns = {"shards", "communication", "step", "overlapped", "gain"},
                        .rows = {}}},
            .notes = {"Overlap hides at most the shorter of the two: at 1:10, 1.1 times. Shards "
                      "divide the communication itself."}};
  const double message = alpha + bytes / bandwidth;
  const double communication = 2 * workers * message;
  const auto step = [&](double s) { return compute + communication / s; };
  const auto overlapped = [&](double s) { return std::max(compute, communication / s); };
  e.results = {
      derived("message", "α + nβ", message, time_text(message)),
      derived("communication", "2K (α + nβ), one port", communication, time_text(communication)),
      derived("ratio", "communication / computation", communication / compute,
              fmt::format("1:{:.4g}", communication / compute)),
      derived("step", "Tc + 2K (α + nβ)", step(1), time_text(step(1))),
      derived("perfect overlap", "max(Tc, 2K (α + nβ))", overlapped(1), time_text(overlapped(1))),
      derived("gain of overlap", "step / overlapped", step(1) / overlapped(1),
              times_text(step(1) / overlapped(1))),
      derived("step with shards", "Tc + 2K (α + nβ) / S", step(shards), time_text(step(shards))),
      derived("gain of shards", "step / step with shards", step(1) / step(shards),
              times_text(step(1) / step(shards)))};
  for (const double s : {1.0, 2.0, 5.0, 10.0, 20.0}) {
    e.tables[0].rows.push_back({count_text(s), time_text(communication / s), time_text(step(s)),
                                time_text(overlapped(s)), times_text(step(s) / overlapped(s))});
  }
  return e;
}

double any_of(double share, double workers) {
  return 1 - std::pow(1 - share, workers);
}

double harmonic(double n) {
  constexpr double kMaxTerms = 1e6;
  if (n > kMaxTerms) {
    return std::log(n) + 0.57721566490153286;  // Euler's constant
  }
  double sum = 0;
  for (int k = 1; k <= static_cast<int>(n); ++k) {
    sum += 1.0 / k;
  }
  return sum;
}

Example stragglers(const ExampleInputs& set) {
  ExampleInputReader in("stragglers", set);
  const double share = in.number(
      {"share", "chance that a worker is slow in a step", 0.01, InputKind::Share}, percent_text);
  const double workers = in.number({"workers", "workers P", 8, InputKind::Count});
  const double slow = in.number({"slow", "of them permanently slow", 1, InputKind::CountOrZero});
  const double factor = in.number({"slowdown", "times the time of a fast one", 2}, times_text);
  Example e{.name = "stragglers",
            .title = "Stragglers: one slow worker makes all wait",
            .given = in.finish(),
            .results = {},
            .tables = {{.title = "by the number of workers",
                        .columns = {"workers", "a straggler in a step", "slowest of exponentials"},
                        .rows = {}}},
            .notes = {"With a barrier a step takes as long as its slowest worker. If times are "
                      "exponential with mean 1, that is H_P = 1 + 1/2 + … + 1/P on average.",
                      "Simulated: trireme simulate --strategies --workers 8 --slow 1x2"}};
  const double few = std::min(slow, workers);
  const double barrier = few > 0 ? 1 / std::max(1.0, factor) : 1;
  const double free = (workers - few + few / factor) / workers;
  e.results = {derived("a straggler in a step", "1 - (1 - q)^P", any_of(share, workers),
                       percent_text(any_of(share, workers))),
               derived("throughput with a barrier", "1 / slowdown", barrier, percent_text(barrier)),
               derived("throughput without waiting", "(fast + slow / slowdown) / P", free,
                       percent_text(free)),
               derived("slowest of exponentials", "H_P", harmonic(workers),
                       fmt::format("{:.4g} means", harmonic(workers)))};
  for (const double p : {8.0, 64.0, 256.0, 1024.0}) {
    e.tables[0].rows.push_back({count_text(p), fmt::format("{:.1f} %", 100 * any_of(share, p)),
                                fmt::format("{:.3f}", harmonic(p))});
  }
  return e;
}

/// Ho et al. 2013, Theorem 1.
double staleness_bound(double diameter, double lipschitz, double staleness, double workers,
                       double updates) {
  return 4 * diameter * lipschitz * std::sqrt(2 * (staleness + 1) * workers / updates);
}

Example ssp_bound(const ExampleInputs& set) {
  ExampleInputReader in("ssp-bound", set);
  const double diameter = in.number(
      {"diameter", "F: half the squared distance of any two points is at most F²", std::sqrt(2.0)});
  const double lipschitz = in.number({"lipschitz", "L: the gradients' largest norm", 1});
  const double staleness = in.number({"staleness", "s", 3, InputKind::CountOrZero});
  const double workers = in.number({"workers", "P", 4, InputKind::Count});
  const double updates =
      in.number({"updates", "T, of all workers together", 1e4, InputKind::Count});
  const double bound = staleness_bound(diameter, lipschitz, staleness, workers, updates);
  const double barrier = staleness_bound(diameter, lipschitz, 0, workers, updates);
  const double rate = diameter / (lipschitz * std::sqrt(2 * (staleness + 1) * workers));
  Example e{
      .name = "ssp-bound",
      .title = "How far from the optimum bounded staleness can stay",
      .given = in.finish(),
      .results = {derived("bound", "4FL √(2 (s + 1) P / T)", bound, fmt::format("{:.4g}", bound)),
                  derived("bound with a barrier", "the same with s = 0", barrier,
                          fmt::format("{:.4g}", barrier)),
                  derived("learning rate", "σ / √t with σ = F / (L √(2 (s + 1) P))", rate,
                          fmt::format("{:.4g} / √t", rate))},
      .tables = {{.title = "by staleness",
                  .columns = {"s", "bound", "4 times the updates"},
                  .rows = {}}},
      .notes = {"Of the mean loss over all updates less the least loss (Ho et al., NeurIPS "
                "2013). Holds for convex losses with this learning rate only.",
                "Four times the updates halve it; four times s + 1 double it."}};
  for (const double s : {0.0, 1.0, 3.0, 7.0, 15.0}) {
    const auto text = [&](double t) {
      return fmt::format("{:.4g}", staleness_bound(diameter, lipschitz, s, workers, t));
    };
    e.tables[0].rows.push_back({count_text(s), text(updates), text(4 * updates)});
  }
  return e;
}

Example strong_scaling(const ExampleInputs& set) {
  ExampleInputReader in("strong-scaling", set);
  const double compute = in.number({"compute", "computation on one worker, Tc", 33}, time_text);
  const double workers = in.number({"workers", "K", 100, InputKind::Count});
  const double bytes = in.number({"bytes", "gradients n", 0.1e9}, gigabytes_text);
  const double alpha =
      in.number({"alpha", "latency of a message", 5e-6, InputKind::NotNegative}, time_text);
  const double bandwidth = in.number({"bandwidth", "of a worker's link, 1/β", 12.5e9}, rate_text);
  const auto communication = [&](double k) {
    return 2 * (k - 1) * (alpha + bytes / k / bandwidth);
  };
  const auto step = [&](double k) { return compute / k + communication(k); };
  const auto speedup = [&](double k) { return step(1) / step(k); };
  Example e{
      .name = "strong-scaling",
      .title = "100 times the workers are not 100 times faster",
      .given = in.finish(),
      .results = {derived("communication", "ring: 2 (K - 1) (α + n/K β)", communication(workers),
                          time_text(communication(workers))),
                  derived("step", "Tc/K + Tcomm(K)", step(workers), time_text(step(workers))),
                  derived("speedup", "Tc / (Tc/K + Tcomm(K))", speedup(workers),
                          times_text(speedup(workers))),
                  derived("efficiency", "speedup / K", speedup(workers) / workers,
                          percent_text(speedup(workers) / workers))},
      .tables = {{.title = "the same batch on more workers",
                  .columns = {"workers", "computation", "communication", "speedup", "efficiency"},
                  .rows = {}}},
      .notes = {"Not overlapped. The computation shrinks with K, the communication does not: "
                "its bandwidth part tends to 2nβ, its latency part grows with K."}};
  for (const double k : {1.0, 10.0, 100.0, 1000.0}) {
    e.tables[0].rows.push_back({count_text(k), time_text(compute / k), time_text(communication(k)),
                                fmt::format("{:.1f}", speedup(k)),
                                fmt::format("{:.1f} %", 100 * speedup(k) / k)});
  }
  return e;
}

struct ZeroLevel {
  const char* what;
  const char* bytes;
  double fixed;    ///< bytes per parameter on every device
  double sharded;  ///< bytes per parameter over all devices
  double communication;
};

constexpr std::array<ZeroLevel, 4> kZeroLevels{{{"nothing sharded", "16 M", 16, 0, 1},
                                                {"optimizer state (1)", "4 M + 12 M/N", 4, 12, 1},
                                                {"and gradients (2)", "2 M + 14 M/N", 2, 14, 1},
                                                {"and parameters (3)", "16 M/N", 0, 16, 1.5}}};

Example zero(const ExampleInputs& set) {
  ExampleInputReader in("zero", set);
  const double parameters = in.number({"parameters", "M", 7.5e9},
                                      [](double m) { return fmt::format("{:.4g} B", m / 1e9); });
  const double devices = in.number({"devices", "N, along data", 64, InputKind::Count});
  Example e{.name = "zero",
            .title = "ZeRO: what each level keeps on a device",
            .given = in.finish(),
            .results = {},
            .tables = {{.title = "with mixed-precision Adam",
                        .columns = {"sharded", "bytes", "per device", "communication"},
                        .rows = {}}},
            .notes = {"Bytes per parameter: 2 for the parameter, 2 for the gradient, 12 for the "
                      "optimizer (master weight and two moments). Without activations.",
                      "Communication is relative to an all-reduce of the gradients, 2M bytes; "
                      "level 3 gathers the parameters twice and reduces the gradients once."}};
  for (const ZeroLevel& level : kZeroLevels) {
    const double bytes = parameters * (level.fixed + level.sharded / devices);
    e.results.push_back(derived(level.what, level.bytes, bytes, gigabytes_text(bytes)));
    e.tables[0].rows.push_back({level.what, level.bytes, gigabytes_text(bytes),
                                fmt::format("{:g} x", level.communication)});
  }
  return e;
}

Example data_capacity(const ExampleInputs& set) {
  ExampleInputReader in("dbrx", set);
  const auto terabytes = [](double bytes) { return fmt::format("{:.4g} TB", bytes / 1e12); };
  const double tokens = in.number({"tokens", "tokens of the data set", 12e12}, [](double count) {
    return fmt::format("{:.4g} T", count / 1e12);
  });
  const double bytes = in.number({"bytes", "its size", 60e12}, terabytes);
  const double server = in.number({"server", "disk of a server", 13e12}, terabytes);
  const double share = std::min(1.0, server / bytes);
  const double servers = std::ceil(bytes / server);
  return {
      .name = "dbrx",
      .title = "Does the data set fit on one server?",
      .given = in.finish(),
      .results = {derived("bytes per token", "bytes / tokens", bytes / tokens,
                          fmt::format("{:g}", bytes / tokens)),
                  derived("share that fits", "server / bytes", share,
                          fmt::format("{:.1f} %", 100 * share)),
                  derived("servers", "bytes / server, rounded up", servers, count_text(servers))},
      .tables = {},
      .notes = {}};
}

Example energy(const ExampleInputs& set) {
  ExampleInputReader in("energy", set);
  const double years = in.number({"years", "device-years of the job", 282});
  const double watts = in.number({"watts", "power of a device with its share of the rest", 1000},
                                 [](double w) { return fmt::format("{:.4g} kW", w / 1000); });
  const double devices = in.number({"devices", "that work on it", 2858, InputKind::Count});
  const double hour =
      in.number({"hour", "when supply starts, each day", 9, InputKind::NotNegative});
  const double hours = in.number({"hours", "of supply a day", 8});
  const double restart =
      in.number({"restart", "to load a checkpoint", 300, InputKind::NotNegative}, time_text);
  const Energy needed = energy_of({watts}, {years * kYear});
  const double work = years * kYear / devices;
  const double net = hours * kHour - restart;
  const int days = net > 0 ? static_cast<int>(std::min(1e6, std::ceil(work / net) + 2)) : 0;
  const WindowedRun run =
      run_in_windows({.work = {work}, .restart = {restart}}, daily_windows(hour, hours, days));
  const double end = run.finishes() ? run.runs.back().end.count : INFINITY;
  return {
      .name = "energy",
      .title = "Energy of a training run, and when a limited supply lets it finish",
      .given = in.finish(),
      .results = {derived("energy", "power x device-years", needed.kilowatt_hours(),
                          fmt::format("{:.3g} GWh", needed.kilowatt_hours() / 1e6)),
                  derived("power", "devices x power", devices * watts,
                          fmt::format("{:.4g} MW", devices * watts / 1e6)),
                  derived("without a break", "device-years / devices", work / kDay,
                          fmt::format("{:.1f} days", work / kDay)),
                  derived("in the supply's hours", "runs only in the windows", end / kDay,
                          run.finishes() ? fmt::format("ends on day {:.0f}, {} windows",
                                                       std::floor(end / kDay) + 1, run.runs.size())
                                         : std::string("never"))},
      .tables = {},
      .notes = {"Each window but the first begins with loading a checkpoint; the library "
                "(trireme/energy.h) takes any list of windows."}};
}

constexpr std::array<Calculator, 7> kCalculators{{{"server-bottleneck", server_bottleneck},
                                                  {"stragglers", stragglers},
                                                  {"ssp-bound", ssp_bound},
                                                  {"strong-scaling", strong_scaling},
                                                  {"zero", zero},
                                                  {"dbrx", data_capacity},
                                                  {"energy", energy}}};

}  // namespace

std::span<const Calculator> calculators() {
  return kCalculators;
}

}  // namespace trireme
